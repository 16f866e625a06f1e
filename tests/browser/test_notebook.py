"""A notebook in JupyterLab with the kernel "Pellucid"."""

import nbformat
import pytest
from playwright.sync_api import expect

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis
from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

PROGRAM = "application/vnd.pellucid.program.v1+json"
SHOW_PROGRAM = """import pellucid as pl, pellucid.numpy as jnp
pl.make_jaxpr(lambda x: jnp.sin(x) * 2)(jnp.ones(3))"""


def expect_program(lab: Lab, cell: int) -> None:
    """The output of `cell` is the program, drawn by our extension and not as plain text."""
    expect(lab.output_of(cell)).to_contain_class("pellucid-program")
    expect(lab.output_of(cell)).to_contain_text("sin")
    expect(lab.output_of(cell).locator("canvas").first).to_be_visible()


def test_a_cell_runs_and_shows_its_value(lab: Lab) -> None:
    lab.open_notebook("first.ipynb", ["1 + 1", "print('from the kernel')", SHOW_PROGRAM])
    expect(lab.output_of(0).last).to_have_text("2")
    expect(lab.output_of(1)).to_have_text("from the kernel\n")
    expect_program(lab, cell=2)
    expect(lab.page.locator(".jp-KernelName").first).to_have_text("Pellucid")
    lab.screenshots("first_notebook")


def test_a_stored_program_is_shown_without_a_kernel(lab: Lab) -> None:
    record = analysis.program(pl.make_jaxpr(lambda x: jnp.sin(x) * 2)(jnp.ones(3))).to_dict()
    output = nbformat.v4.new_output("display_data", {PROGRAM: record, "text/plain": "plain"})
    cell = nbformat.v4.new_code_cell("program", outputs=[output], execution_count=1)
    # A kernel of this name is installed nowhere, so JupyterLab asks for one.
    metadata = {"kernelspec": {"name": "absent", "display_name": "Absent", "language": "python"}}
    lab.open_stored_notebook(
        "stored.ipynb", nbformat.v4.new_notebook(cells=[cell], metadata=metadata)
    )
    lab.page.locator(".jp-Dialog").get_by_role("button", name="No Kernel").click()
    expect_program(lab, cell=0)
    assert lab.server.request("GET", "kernels") == []


ARRAY = """import pellucid.numpy as jnp
x = jnp.sin(jnp.arange(20_000.0).reshape(100, 200) / 2000).at[0, 0].set(jnp.nan)
x"""


def test_an_array_as_the_last_line_shows_its_values_and_its_numbers(lab: Lab) -> None:
    lab.open_notebook("array.ipynb", [ARRAY, "jnp.arange(3)"])
    output = lab.output_of(0)
    expect(output.get_by_label("Histogram")).to_be_visible()
    expect(output).to_contain_text("values -1 to 1")
    expect(output).to_contain_text("1 NaN")
    expect(output).to_contain_text("Array([[")
    heat_map = output.get_by_label("Heat map")
    heat_map.hover(position={"x": 5, "y": 100})
    expect(output.locator("output")).to_contain_text("[90, ")
    expect(lab.output_of(1)).to_have_text("Array([0, 1, 2], dtype=int32)")
    lab.screenshots("array")


LONG_PROGRAM = """import pellucid as pl, pellucid.numpy as jnp
def long(x):
    for _ in range(40):
        x = jnp.sin(x)
    return x
pl.make_jaxpr(long)(1.0)"""

# The cell leaves the page and comes back within one frame, so that no change of its size is told.
LEAVE_AND_RETURN = """lines => {
    const output = lines.getRootNode().host.closest('.pellucid-program');
    const parent = output.parentElement;
    lines.dispatchEvent(new Event('scroll'));
    output.remove();
    return new Promise(resolve => requestAnimationFrame(() => {
        parent.append(output);
        requestAnimationFrame(() => resolve(lines.clientHeight));
    }));
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_stay_drawn_while_a_notebook_moves_their_cell(lab: Lab, theme: str) -> None:
    lab.open_notebook("moved.ipynb", [LONG_PROGRAM])
    lab.set_theme(theme)
    lines = lab.output_of(0).locator(".pl-lines:visible")
    rows = lines.locator(".pl-line")
    expect(rows.filter(has_text="sin").first).to_be_visible()
    height = lines.evaluate(LEAVE_AND_RETURN)
    assert height > 250
    assert rows.count() >= height // 19
