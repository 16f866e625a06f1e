"""Failures around a view or a panel, in JupyterLab: nothing is lost, nothing runs, and there is a message."""

from typing import Any

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.test_notebook import PROGRAM
from tests.browser.test_panels import DEVICES, LAYER, PROGRAMS, START, panel
from tests.introspect import sample_records

pytestmark = pytest.mark.browser

VIEW = "pl.viz.program(layer)(jnp.ones(3))"
NOTHING = "Nothing to show yet"
HOSTILE = "<img src=x onerror='window.__hostile=1'>"


def pointed_lines(lab: Lab) -> Locator:
    return lab.page.locator(".pellucid-pointed-line")


def stored(*outputs: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook of a kernel that is installed nowhere."""
    cells = [
        nbformat.v4.new_code_cell("1", outputs=[output], execution_count=1) for output in outputs
    ]
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={"kernelspec": {"name": "absent", "display_name": "Absent", "language": "python"}},
    )


def sample(name: str) -> dict[str, Any]:
    make: Any = sample_records.SAMPLES[name]
    return make().to_dict()


def program_output(record: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", {PROGRAM: record, "text/plain": "plain <b>"})


def open_without_kernel(lab: Lab, name: str, notebook: nbformat.NotebookNode) -> None:
    lab.open_stored_notebook(name, notebook)
    lab.page.locator(".jp-Dialog").get_by_role("button", name="No Kernel").click()


def test_a_kernel_dies_and_comes_back(lab: Lab) -> None:
    lab.open_notebook("dead.ipynb", [START, LAYER, VIEW])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("layer")
    lab.evaluate_in_kernel("import os; os.kill(os.getpid(), 9)")
    expect(programs).to_contain_text(NOTHING)
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()
    expect(lab.output_of(2)).to_contain_text("sin")
    lab.wait_for_kernel()
    lab.run_all()
    expect(programs).to_contain_text("layer")


def test_a_closed_comm_is_opened_again_with_the_extension(lab: Lab) -> None:
    lab.open_notebook("closed.ipynb", [START, LAYER])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("layer")
    lab.evaluate_in_kernel("%unload_ext pellucid_kernel")
    expect(programs).to_contain_text("does not know pellucid")
    lab.evaluate_in_kernel("%load_ext pellucid_kernel")
    expect(programs).to_contain_text("layer")


def test_a_plain_kernel_gets_views_and_panels_by_an_extension(lab: Lab) -> None:
    lab.open_notebook(
        "extension.ipynb", ["%load_ext pellucid_kernel", START, LAYER, VIEW], kernel="python3"
    )
    expect(lab.output_of(3)).to_contain_class("pellucid-program")
    expect(panel(lab, PROGRAMS)).to_contain_text("layer")


def test_the_panels_follow_the_notebook_in_front(lab: Lab) -> None:
    lab.open_notebook("one.ipynb", [START, LAYER])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("layer")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(each) for each in (START, LAYER.replace("layer", "other"))]
    )
    nbformat.write(notebook, lab.server.root / "two.ipynb")
    lab.command("docmanager:open", path="two.ipynb", kernel={"name": "pellucid"})
    lab.wait_for_kernel()
    expect(programs).to_contain_text(NOTHING)
    lab.run_all()
    expect(programs).to_contain_text("other")
    expect(programs).not_to_contain_text("layer")
    lab.command("docmanager:open", path="one.ipynb")
    expect(programs).to_contain_text("layer")
    expect(programs).not_to_contain_text("other")


def test_a_tab_outlives_the_output_that_it_came_from(lab: Lab) -> None:
    lab.open_notebook("cleared.ipynb", [START, LAYER, VIEW])
    lab.page.get_by_role("button", name="Open in a tab").click()
    tab = lab.page.locator(".pellucid-tab")
    expect(tab).to_contain_text("sin")
    lab.command("notebook:clear-all-cell-outputs")
    expect(lab.output_of(2)).to_have_count(0)
    tab.get_by_role("tab", name="Text").click()
    tab.locator(".pl-line").filter(has_text="sin").first.hover()
    expect(pointed_lines(lab).filter(has_text="y = jnp.sin(x)")).to_have_count(1)


def test_links_survive_renumbering_and_end_with_an_edit(lab: Lab) -> None:
    lab.open_notebook("again.ipynb", [START, LAYER, VIEW])
    lab.run_all()
    expect(lab.page.locator(".jp-CodeCell .jp-InputPrompt").nth(2)).to_contain_text("[6]")
    equation = lab.output_of(2).locator(".pl-line").filter(has_text="sin").first
    equation.hover()
    expect(pointed_lines(lab).filter(has_text="y = jnp.sin(x)")).to_have_count(1)
    lab.page.locator(".jp-CodeCell").nth(1).locator(".cm-line").first.click()
    lab.page.keyboard.press("Home")
    lab.page.keyboard.type("# one line more\n")
    lab.page.mouse.move(5, 5)
    equation.hover()
    expect(pointed_lines(lab)).to_have_count(0)


@pytest.mark.parametrize("size", [(2560, 1440), (420, 320)], ids=["huge", "tiny"])
def test_a_window_of_any_size(lab: Lab, size: tuple[int, int]) -> None:
    lab.page.set_viewport_size({"width": size[0], "height": size[1]})
    lab.open_notebook("size.ipynb", [START, LAYER, VIEW])
    expect(lab.output_of(2)).to_contain_text("sin")
    devices = panel(lab, DEVICES)
    root = devices.locator(".pl-panel")
    assert root.evaluate("each => each.scrollWidth <= each.clientWidth")
    lab.screenshot(f"window_{size[0]}")


def test_a_program_without_equations(lab: Lab) -> None:
    lab.open_notebook(
        "nothing.ipynb",
        [START, "pl.viz.program(lambda x: x)(1.0)", "pl.viz.lens(lambda x: x)(1.0)",
         "pl.viz.diff(lambda x: x, lambda x: x)(1.0)", "pl.viz.ladder(lambda x: x)(1.0)"],
    )  # fmt: skip
    for cell in (1, 2, 3, 4):
        expect(lab.output_of(cell).locator(".pl-root")).to_be_visible()
        expect(lab.output_of(cell).get_by_role("alert")).to_have_count(0)
    expect(lab.output_of(1)).to_contain_text("no equations")


def test_records_that_cannot_be_drawn_leave_their_text(lab: Lab) -> None:
    good = sample("mlp")
    old, broken, torn = good | {"schema_version": -1}, good | {"equations": None}, "no record"
    outputs = [program_output(record) for record in (old, broken, torn, good)]
    open_without_kernel(lab, "broken.ipynb", stored(*outputs))
    for cell, reason in [(0, "run the cell again"), (1, "can’t be shown"), (2, "no JSON")]:
        expect(lab.output_of(cell).get_by_role("alert")).to_contain_text(reason)
        expect(lab.output_of(cell)).to_contain_text("plain <b>")
    expect(lab.output_of(3)).to_contain_text("tanh")
    lab.screenshots("records_that_cannot_be_drawn")


def test_hostile_names_run_nothing(lab: Lab) -> None:
    record = sample("hostile")
    open_without_kernel(lab, "hostile.ipynb", stored(program_output(record)))
    expect(lab.output_of(0).locator("canvas").first).to_be_visible()
    lab.page.get_by_role("button", name="Open in a tab").click()
    expect(lab.page.locator(".pellucid-tab canvas").first).to_be_visible()
    define = f"""def f(x): return x * 2
f.__name__ = f.__qualname__ = {HOSTILE!r}
jitted = pl.jit(f)
held = {{{HOSTILE!r}: jitted(jnp.ones(3))}}"""
    fail = f"raise pl.introspect.errors.PellucidError({HOSTILE!r})"
    lab.open_notebook("hostile_names.ipynb", [START, define, fail])
    expect(panel(lab, PROGRAMS)).to_contain_text(HOSTILE)
    expect(panel(lab, DEVICES)).to_contain_text(HOSTILE)
    expect(lab.output_of(2).first).to_contain_text(HOSTILE)
    assert lab.page.evaluate("window.__hostile") is None
