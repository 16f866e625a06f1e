"""Links between views and the lines of cells, both ways, in JupyterLab."""

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.test_panels import LAYER, START

pytestmark = pytest.mark.browser

SECOND = LAYER.replace("layer", "second").replace("y * 2", "jnp.exp(y)")
VIEWS = {
    "program": ("pl.viz.program(layer)(jnp.ones(3))", "sin"),
    "lens": ("pl.viz.lens(layer)(jnp.ones(3))", "jnp.sin"),
    "ladder": ("pl.viz.ladder(layer, ['jvp'])(jnp.ones(3))", "sin"),
    "diff": ("pl.viz.diff(layer, second)(jnp.ones(3))", "sin"),
}


def cell_line(lab: Lab, text: str) -> Locator:
    return lab.page.locator(".jp-CodeCell").nth(1).locator(".cm-line").filter(has_text=text)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_and_the_lines_of_cells_point_at_each_other(lab: Lab, view: str) -> None:
    show, equation = VIEWS[view]
    lab.page.set_viewport_size({"width": 1800, "height": 1000})
    lab.open_notebook(f"{view}.ipynb", [START, LAYER, SECOND, show])
    output = lab.output_of(3)
    output.scroll_into_view_if_needed()
    output.locator(".pl-line").filter(has_text=equation).first.hover()
    pointed = lab.page.locator(".pellucid-pointed-line")
    expect(pointed.filter(has_text="y = jnp.sin(x)")).to_have_count(1)
    lab.page.mouse.move(5, 5)
    expect(pointed).to_have_count(0)
    cell_line(lab, "y = jnp.sin").click()
    expect(output.locator(".pl-linked").filter(has_text="sin").first).to_be_attached()
    expect(output.locator(".pl-linked").filter(has_text="2.0")).to_have_count(0)
    cell_line(lab, "return y").click()
    expect(output.locator(".pl-linked").filter(has_text="mul").first).to_be_attached()
    lab.screenshots(f"links_{view}")
