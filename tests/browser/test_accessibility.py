"""Views without a mouse and without eyes: the keyboard reaches every control, and each of them has a name and a role."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pellucid_viz.render.html import view_page
from tests.introspect import sample_records

pytestmark = pytest.mark.browser

VIEWS = [*sample_records.OF_EACH_KIND, "mesh"]

STILL = {
    "gradient", "finding", "unequal_runs", "array_values_parts", "profile_comparison", "memory", "miss", "misses",
}  # fmt: skip
"""Views of the samples that have nothing to operate outside of a notebook."""

# Views stand in a shadow root, which `document` doesn't look into.
VIEW = """
  const view = [...document.querySelectorAll('*')].find(each => each.shadowRoot !== null).shadowRoot;
  const seen = each => each.checkVisibility({ visibilityProperty: true }) && each.closest('.pl-offscreen') === null;
"""
CONTROLS = (
    "() => {"
    + VIEW
    + """
  const named = each => (each.getAttribute('aria-label')
    ?? (each.labels?.length ? each.labels[0].textContent : null)
    ?? (each.matches('select, input, canvas') ? each.title : each.textContent || each.title) ?? '').trim();
  const all = view.querySelectorAll('button, select, input, a[href], summary, canvas, svg, [tabindex]');
  return [...all].filter(seen).map(each => ({
    what: each.outerHTML.slice(0, 100), isPicture: each.matches('canvas, svg'), role: each.getAttribute('role'), name: named(each),
    isReached: each.tabIndex >= 0 && !each.disabled, isHidden: each.closest('[aria-hidden=true]') !== null,
  }));
}"""
)
FOCUSED = (
    "() => {"
    + VIEW
    + """
  window.reached ??= new Set();
  window.reached.add(view.activeElement);
  return view.activeElement !== null;
}"""
)
UNREACHED = (
    "() => {"
    + VIEW
    + """
  const all = view.querySelectorAll('button, select, input, a[href], summary, [tabindex="0"]');
  return [...all].filter(each => seen(each) && each.tabIndex >= 0 && !each.disabled && !window.reached.has(each))
    .map(each => each.outerHTML.slice(0, 100));
}"""
)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1200, "height": 800}) as context:
        yield context.new_page()


def show(page: Page, folder: Path, sample: str) -> None:
    path = folder / "page.html"
    record = sample_records.SAMPLES[sample]().to_dict()
    path.write_text(view_page(record, html.escape("text"), title=sample), encoding="utf-8")
    page.goto(path.as_uri())
    expect(page.locator(".pl-root")).to_be_visible()


@pytest.mark.parametrize("sample", VIEWS)
def test_every_control_has_a_name_and_every_picture_a_role(
    page: Page, tmp_path: Path, sample: str
) -> None:
    show(page, tmp_path, sample)
    controls = page.evaluate(CONTROLS)
    shown = [each for each in controls if not each["isHidden"]]
    assert any(each["isReached"] for each in shown) or sample in STILL
    nameless = [
        each["what"]
        for each in shown
        if (each["isReached"] or each["isPicture"]) and not each["name"]
    ]
    assert nameless == []
    assert [each["what"] for each in shown if each["isPicture"] and each["role"] is None] == []


@pytest.mark.parametrize("sample", VIEWS)
def test_the_keyboard_reaches_everything(page: Page, tmp_path: Path, sample: str) -> None:
    show(page, tmp_path, sample)
    page.evaluate(FOCUSED)
    for _ in range(400):
        page.keyboard.press("Tab")
        if not page.evaluate(FOCUSED):  # behind the last control
            break
    assert page.evaluate(UNREACHED) == []
