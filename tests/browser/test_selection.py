"""Clicks select and never lead away; links with the names of lines do, and back."""

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.test_panels import LAYER, START

pytestmark = pytest.mark.browser

SCROLLED = "document.querySelector('.jp-WindowedPanel-outer').scrollTop"


def test_a_click_selects_and_only_a_link_leads_to_the_line_and_back(lab: Lab) -> None:
    cells = [START, LAYER, *["1"] * 12, "pl.viz.program(layer)(jnp.ones(3))"]
    lab.open_notebook("selection.ipynb", cells)
    output = lab.output_of(14)
    output.scroll_into_view_if_needed()
    expect(output).to_contain_text("sin")
    lab.page.wait_for_timeout(300)
    before = lab.page.evaluate(SCROLLED)
    assert before > 0

    output.locator(".pl-line").filter(has_text="sin").first.click()
    lab.page.mouse.move(5, 5)
    lab.page.wait_for_timeout(300)
    assert lab.page.evaluate(SCROLLED) == before

    link = output.locator(".pl-trail").get_by_role("button", name="In[2], line 3")
    link.click()
    selected = lab.page.locator(".pellucid-selected-line.pellucid-innermost-line")
    expect(selected).to_be_in_viewport()
    expect(selected).to_contain_text("y = jnp.sin(x)")
    callers = lab.page.locator(".pellucid-caller-line")
    expect(callers).to_contain_text("layer(jnp.ones(3)); layer(jnp.ones(4))")
    lab.screenshots("selection_line")
    lab.page.get_by_role("button", name="Back to layer").click()
    expect(output.locator(".pl-graph-canvas")).to_be_in_viewport()
    expect(lab.page.locator(".pellucid-way-back")).to_have_count(0)

    lab.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel
            .setSource('# changed\\n@pl.jit\\ndef layer(x):\\n    return x')"""
    )
    output.locator(".pl-line").filter(has_text="sin").first.click(modifiers=["Control"])
    expect(output.locator(".pl-trail")).to_contain_text("edited since")
    note = lab.page.locator(".pellucid-edited-note")
    expect(note).to_have_text("edited since; it was: y = jnp.sin(x)")
    expect(note).to_be_in_viewport()
    expect(selected).to_have_count(0)
    lab.screenshots("selection_edited")
