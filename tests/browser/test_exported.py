"""A notebook that was saved and exported: small, with its figures drawn where scripts run, and readable where none do."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import OUTPUT
from tests.browser.four_programs import FIGURES, PROGRAMS

pytestmark = pytest.mark.browser

MEGABYTE = 1_000_000
PLACES = list(FIGURES)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook with the fourteen figures, as it is saved."""
    cells = [nbformat.v4.new_code_cell(source) for source in (PROGRAMS, *FIGURES.values())]
    kernel = {"name": "pellucid", "display_name": "Pellucid", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    NotebookClient(notebook, timeout=120, kernel_name="pellucid").execute()
    path = tmp_path_factory.mktemp("saved") / "figures.ipynb"
    nbformat.write(notebook, path)
    return path


@pytest.fixture(scope="module")
def exported(notebook: Path) -> dict[str, Path]:
    """The notebook as HTML by theme."""
    paths = {}
    for theme in ("light", "dark"):
        text, _ = HTMLExporter(theme=theme).from_filename(str(notebook))
        paths[theme] = notebook.with_name(f"{theme}.html")
        paths[theme].write_text(text, encoding="utf-8")
    return paths


@pytest.fixture
def pages(browser: Browser) -> Iterator[list[Page]]:
    """Pages that a test opened, which are closed after it."""
    opened: list[Page] = []
    yield opened
    for page in opened:
        page.context.close()


def opened(
    browser: Browser, path: Path, pages: list[Page], *, width: int = 1100, scripts: bool = True
) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=scripts, offline=True
    )
    page = context.new_page()
    pages.append(page)
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    return page


def test_fourteen_figures_take_less_than_one_and_a_half_megabytes(notebook: Path) -> None:
    assert notebook.stat().st_size <= 1.5 * MEGABYTE
    assert notebook.read_text(encoding="utf-8").count('pellucid-viewer\\">') == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_export_is_interactive_without_a_kernel(
    browser: Browser, exported: dict[str, Path], pages: list[Page], theme: str
) -> None:
    page = opened(browser, exported[theme], pages)
    views = page.locator(".pellucid-view")
    expect(views).to_have_count(len(FIGURES))
    for place in (PLACES.index("step"), PLACES.index("long"), PLACES.index("step_sharding")):
        view = views.nth(place)
        view.scroll_into_view_if_needed()
        expect(view.locator(".pl-root")).to_have_attribute("data-theme", theme)
        expect(view.locator(".pellucid-static")).to_be_hidden()
        page.wait_for_timeout(500)  # layouts come from a worker
        page.screenshot(path=OUTPUT / f"exported_{PLACES[place]}_{theme}.png")
    ring = views.nth(PLACES.index("ring_sharding"))
    expect(ring.locator("[title*='(varying)']").first).to_be_attached()
    gradient = views.nth(PLACES.index("rnn_gradient"))
    expect(gradient.get_by_role("treeitem").filter(has_text="d(w['h'])")).to_have_count(1)
    assert views.nth(PLACES.index("memory")).locator(".pl-root").count() == 0


@pytest.mark.parametrize("width", [420, 1100])
def test_without_scripts_programs_are_collapsed_and_drawn(
    browser: Browser, exported: dict[str, Path], pages: list[Page], width: int
) -> None:
    page = opened(browser, exported["light"], pages, width=width, scripts=False)
    views = page.locator(".pellucid-view")
    long = views.nth(PLACES.index("long"))
    expect(long.get_by_role("img", name="outermost level")).to_be_visible()
    expect(long).to_contain_text("15,000 equations")
    expect(long).to_contain_text("block0 … block24 × 25")
    box = long.bounding_box()
    assert box is not None
    assert box["height"] < 600
    step = views.nth(PLACES.index("step"))
    expect(step).to_contain_text("logits = x @ params")
    step.scroll_into_view_if_needed()
    page.screenshot(path=OUTPUT / f"static_step_{width}.png")
    sharding = views.nth(PLACES.index("step_sharding"))
    expect(sharding).to_contain_text("mesh data=2, model=4")
    sharding.scroll_into_view_if_needed()
    page.screenshot(path=OUTPUT / f"static_sharding_{width}.png")
