"""The side bar's panels and the links between views and cells, in JupyterLab."""

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

PROGRAMS, DEVICES = "pellucid:show-programs", "pellucid:show-devices"
START = """import numpy as np, pellucid as pl, pellucid.numpy as jnp
mesh = pl.sharding.Mesh(np.array(pl.devices()).reshape(2, 4), ("data", "model"))
weights = pl.device_put(jnp.ones((1024, 512)), pl.NamedSharding(mesh, pl.P("data", "model")))"""
LAYER = """@pl.jit
def layer(x):
    y = jnp.sin(x)
    return y * 2

layer(jnp.ones(3)); layer(jnp.ones(4))"""


def panel(lab: Lab, command: str) -> Locator:
    lab.command(command)
    found = lab.page.locator(f"#{command.replace(':show', '')}")
    expect(found).to_be_visible()
    return found


def test_programs_and_devices_of_the_notebook_in_front(lab: Lab) -> None:
    lab.open_notebook("panels.ipynb", [START, LAYER])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("layer")
    expect(programs).to_contain_text("2 programs")
    expect(programs).to_contain_text("called in In[2], line 6")
    expect(programs).to_contain_text("f32[3]")
    lab.screenshots("programs")
    programs.get_by_role("button", name="Open program of layer(f32[4])").click()
    tab = lab.page.locator(".pellucid-tab")
    expect(tab).to_contain_text("sin")
    lab.screenshots("explorer_tab")

    devices = panel(lab, DEVICES)
    expect(devices).to_contain_text("8 devices")
    row = devices.get_by_role("row").filter(has_text="weights")
    expect(row).to_contain_text("f32[1024,512]")
    expect(row).to_contain_text("P('data', 'model') on 8 devices")
    lab.screenshots("devices")
    row.get_by_role("button", name="Free weights").click()
    row.get_by_role("button", name="Really free weights").click()
    expect(devices.get_by_role("row").filter(has_text="weights")).to_have_count(0)


def test_a_panel_follows_its_kernel(lab: Lab) -> None:
    lab.open_notebook("first.ipynb", ["1 + 1"])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("has not used pellucid yet")
    lab.screenshots("programs_empty")
    lab.open_notebook("second.ipynb", [START, LAYER])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("layer")
    lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(programs).to_contain_text("has not used pellucid yet")
    lab.wait_for_kernel()
    lab.run_all()
    expect(programs).to_contain_text("layer")
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    expect(programs).to_contain_text("Open a notebook")


def test_a_kernel_without_pellucid_says_how_to_load_it(lab: Lab) -> None:
    lab.open_notebook("plain.ipynb", ["1 + 1"], kernel="python3")
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("%load_ext pellucid_kernel")


def test_an_equation_lights_up_its_line_in_the_cell(lab: Lab) -> None:
    lab.open_notebook("links.ipynb", [START, LAYER, "pl.viz.program(layer)(jnp.ones(3))"])
    output = lab.output_of(2)
    expect(output).to_contain_text("sin")
    output.locator(".pl-line").filter(has_text="sin").first.hover()
    pointed = lab.page.locator(".pellucid-pointed-line")
    expect(pointed.filter(has_text="y = jnp.sin(x)")).to_have_count(1)
    lab.screenshot("cell_lines")
    lab.page.locator(".jp-CodeCell").nth(1).locator(".cm-line").filter(has_text="return y").click()
    expect(output.locator(".pl-linked").filter(has_text="mul")).to_have_count(1)
    expect(output.locator(".pl-linked").filter(has_text="sin")).to_have_count(0)


def test_a_function_shows_where_its_intermediates_lie(lab: Lab) -> None:
    dense = "def dense(x, w):\n    h = jnp.tanh(x @ w)\n    return jnp.sort(h, axis=1).sum()"
    lab.open_notebook("sharded.ipynb", [START, dense, "pl.viz.sharding(dense)(weights, weights.T)"])
    output = lab.output_of(2).first
    expect(output).to_contain_text("of the compiled program")
    exchange = output.locator(".pl-line").filter(has_text="all-gather over data").first
    exchange.hover()
    expect(output.locator(".pl-sharded-left > .pl-array-status")).to_contain_text("all-gather")
    expect(output.locator(".pl-line-amber").first).to_be_visible()
    lab.screenshots("sharded_function")
    output.locator(".pl-line").filter(has_text="tanh").first.click()
    pointed = lab.page.locator(".pellucid-pointed-line")
    expect(pointed.filter(has_text="h = jnp.tanh(x @ w)")).to_have_count(1)
    expect(output.locator(".pl-why")).to_contain_text("argument `x`")


def test_an_error_is_drawn_with_the_lines_of_the_user_only(lab: Lab) -> None:
    lab.open_notebook(
        "error.ipynb", [START, "def f(a, b):\n    return a @ b\n\nf(weights, jnp.ones((3, 2)))"]
    )
    output = lab.output_of(1).first
    expect(output).to_contain_text("ShapeError")
    expect(output).to_contain_text("return a @ b")
    expect(output).to_contain_text("argument 0: f32[1024,512]")
    expect(output.locator("pre", has_text="products.py")).to_be_hidden()
    output.get_by_text("The whole traceback").click()
    expect(output.locator("pre", has_text="products.py")).to_be_visible()
    lab.screenshots("error")


def test_facts_and_shardings_are_drawn(lab: Lab) -> None:
    lab.open_notebook(
        "facts.ipynb",
        [START, LAYER, "mesh", "weights", "pl.viz.misses()", "pl.viz.compiled(layer)(jnp.ones(3))",
         "pl.viz.memory()", "pl.viz.lens(layer)(jnp.ones(3))"],
    )  # fmt: skip
    for cell, text in [(2, "8 devices"), (3, "256 KiB"), (4, "first call"), (5, "arguments"),
                       (6, "weights"), (7, "StableHLO")]:  # fmt: skip
        expect(lab.output_of(cell).first).to_contain_text(text)
        lab.output_of(cell).first.scroll_into_view_if_needed()
        lab.screenshots(f"facts_{cell}")
