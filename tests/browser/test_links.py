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


def scroll_to(lab: Lab, cell: int) -> None:
    """Brings a cell into sight; those far from it are taken out of the page."""
    lab.page.evaluate(
        "cell => window.jupyterapp.shell.currentWidget.content.scrollToItem(cell)", cell
    )


def test_views_and_the_lines_of_cells_point_at_each_other(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1800, "height": 1000})
    # The links outlive a notebook that was closed.
    lab.open_notebook("closed.ipynb", ["1 + 1"])
    figures = [figure for figure, _ in VIEWS.values()]
    lab.open_notebook("links.ipynb", [START, LAYER, SECOND, *figures])
    pointed = lab.page.locator(".pellucid-pointed-line")
    for cell, (view, (_, equation)) in enumerate(VIEWS.items(), start=3):
        output = lab.output_of(cell)
        scroll_to(lab, cell)
        output.locator(".pl-line").filter(has_text=equation).first.hover()
        expect(pointed.filter(has_text="y = jnp.sin(x)")).to_have_count(1)
        lab.page.mouse.move(5, 5)
        expect(pointed).to_have_count(0)
        # One fusion of the lens has both operations.
        other = "nothing else" if view == "lens" else "sin"
        for line, lit, dark in (("y = jnp.sin", "sin", "2.0"), ("return y", "mul", other)):
            scroll_to(lab, 1)
            cell_line(lab, line).click()
            scroll_to(lab, cell)
            linked = output.locator(".pl-linked")
            expect(linked.filter(has_text=lit).first).to_be_attached()
            expect(linked.filter(has_text=dark)).to_have_count(0)
        lab.screenshots(f"links_{view}")
