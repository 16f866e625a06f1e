"""The same views in other front ends: Notebook 7, widgets, pages that nbconvert writes, and outputs that stand alone."""

import html
import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, expect

from pellucid_viz.render.html import VIEWER, plain_viewer, view_html
from tests.browser.lab import Lab
from tests.browser.server import running_server
from tests.browser.test_panels import LAYER, START
from tests.introspect import sample_records

pytestmark = pytest.mark.browser

VIEW = "pl.viz.program(layer)(jnp.ones(3))"


@pytest.fixture
def notebook7(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Notebook 7 in a page of its own."""
    with running_server(tmp_path, "notebook") as server:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        lab = Lab(context.new_page(), server, Path(__file__).parent / "output", path="notebooks")
        yield lab
        lab.shut_down_kernels()
        context.close()


def test_notebook_7_shows_views_and_panels(notebook7: Lab) -> None:
    notebook7.open_notebook("seven.ipynb", [START, LAYER, VIEW])
    output = notebook7.output_of(2)
    expect(output.locator("canvas").first).to_be_visible()
    output.locator(".pl-line").filter(has_text="sin").first.hover()
    pointed = notebook7.page.locator(".pellucid-pointed-line")
    expect(pointed.filter(has_text="y = jnp.sin(x)")).to_have_count(1)
    notebook7.command("pellucid:show-programs")
    expect(notebook7.page.locator("#pellucid-programs")).to_contain_text("layer")
    notebook7.page.get_by_role("button", name="Open in a tab").click()
    expect(notebook7.page.locator(".pellucid-tab")).to_contain_text("sin")
    notebook7.screenshot("notebook_7")


def test_a_widget_shows_a_new_record_and_tells_what_is_selected(lab: Lab) -> None:
    lab.open_notebook(
        "widget.ipynb",
        [START, f"{LAYER}\nw = {VIEW}.widget(height=300)\nw",
         "w.record = pl.viz.program(lambda x: jnp.cosh(x) + 1)(1.0).record.to_dict()"],
    )  # fmt: skip
    widget = lab.output_of(1).last
    line = widget.locator(".pl-line:visible").filter(has_text="cosh")
    expect(line).to_have_count(1)
    line.click()
    lab.evaluate_in_cell("w.selected")
    # The cell whose output was clicked is the active one.
    expect(lab.output_of(1).last).to_have_text("[0]")


def test_a_converted_notebook_without_scripts_has_tables_and_pictures(
    lab: Lab, browser: Browser, tmp_path: Path
) -> None:
    cells = [START, LAYER, VIEW, "pl.viz.lens(layer)(jnp.ones(3))", "weights", "pl.viz.memory()",
             "pl.viz.misses()", "weights @ weights"]  # fmt: skip
    lab.open_notebook("convert.ipynb", cells, may_fail=True)
    lab.command("docmanager:save")
    page = browser.new_page(java_script_enabled=False)
    path = tmp_path / "page.html"
    saved = nbformat.read(lab.server.root / "convert.ipynb", as_version=4)
    path.write_text(HTMLExporter().from_notebook_node(saved)[0], encoding="utf-8")
    page.goto(path.as_uri())
    outputs = page.locator(".jp-OutputArea-output")
    for text in (
        "sin x",
        "StableHLO",
        "8 devices",
        "256 KiB",
        "never called before",
        "contracted dimensions",
    ):
        expect(outputs.filter(has_text=text).first).to_be_visible()
    expect(outputs.locator("svg[aria-label='Parts and their devices']").first).to_be_visible()
    page.screenshot(path=lab.output / "converted.png", full_page=True)
    page.close()


WIDGET = """
<!DOCTYPE html><meta charset="utf-8"><div id="place"></div>
<script type="module">
  // What a host of anywidgets does: marimo, Colab, Visual Studio Code, Shiny.
  const code = new Blob([document.querySelector('#code').textContent], { type: 'text/javascript' });
  const { default: widget } = await import(URL.createObjectURL(code));
  const values = { record: JSON.parse(document.querySelector('#record').textContent), text: 'text', height: 500, selected: [] };
  const model = { get: name => values[name], set: (name, value) => { values[name] = value; }, save_changes() {}, on() {}, off() {} };
  widget.render({ model, el: document.querySelector('#place') });
</script>
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test if it complains, with no way to any network."""
    complaints: list[str] = []
    with browser.new_context(viewport={"width": 900, "height": 700}, offline=True) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
    assert complaints == []


@pytest.mark.parametrize("sample", sample_records.OF_EACH_KIND)
def test_an_output_apart_from_all_others_is_interactive(page: Page, sample: str) -> None:
    """As in Visual Studio Code, Colab, Kaggle and marimo: each output may be a frame of its own, of no origin."""
    record = sample_records.SAMPLES[sample]().to_dict()
    output = view_html(record, "<p>static</p>", viewer=plain_viewer())
    frame = f'<iframe sandbox="allow-scripts" width="880" height="640" srcdoc="{html.escape(output)}"></iframe>'
    page.set_content(f"<!DOCTYPE html>{frame}")
    inside = page.frame_locator("iframe")
    expect(inside.locator(".pl-root")).to_be_visible()
    expect(inside.get_by_text("static", exact=True)).to_be_hidden()
    expect(inside.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("sample", sample_records.OF_EACH_KIND)
def test_a_host_of_widgets_shows_every_view(page: Page, tmp_path: Path, sample: str) -> None:
    record = json.dumps(sample_records.SAMPLES[sample]().to_dict()).replace("<", "\\u003c")
    code = VIEWER.read_text(encoding="utf-8").replace("</script", "<\\/script")
    data = f'<script type="application/json" id="record">{record}</script>'
    path = tmp_path / "widget.html"
    path.write_text(
        f'{data}<script type="text/plain" id="code">{code}</script>{WIDGET}', encoding="utf-8"
    )
    page.goto(path.as_uri())
    expect(page.locator(".pl-root")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
