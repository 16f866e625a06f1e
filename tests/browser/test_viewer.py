"""The viewer in a browser, without Jupyter: what a saved page shows and does."""

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import pellucid as pl
from pellucid_viz.render.html import plain_viewer, view_html, view_page, viewer_script
from tests.browser.conftest import OUTPUT
from tests.browser.layout import layout_faults
from tests.introspect import sample_records, twelve_programs

pytestmark = pytest.mark.browser

Show = Callable[..., Page]

VIEWS = [*sample_records.OF_EACH_KIND, "mlp", "transformer", "control_flow", "empty", "nothing", "sharded_function",
         "sharded_function_4096", "sharded_unevenly"]  # fmt: skip
FITTING = [
    *sample_records.OF_EACH_KIND, "sharding_simple", "compiled_step", "diff_wrapped", "array_values", "grid_race", "runs_deadlock",
]  # fmt: skip
WINDOWS = [(1600, 1000), (900, 700), (740, 700), (620, 700), (420, 700), (304, 520), (160, 120)]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a sample in a page of its own; the test fails if the page complains or loads anything."""
    if viewer_script() is None:
        pytest.fail("The viewer is not built: run `npm run build:standalone` in lab-extension.")
    contexts, complaints = [], []

    def open_page(
        sample: str,
        *,
        size: tuple[int, int] = (1200, 760),
        scheme: str = "light",
        text: str = "text",
    ) -> Page:
        record = sample_records.SAMPLES[sample]().to_dict() if sample else {"kind": "poem"}
        path = tmp_path / "page.html"
        path.write_text(view_page(record, html.escape(text), title=sample), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        # The layout's worker comes out of the page itself, as a blob.
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url)
                if request.url != path.as_uri() and not request.url.startswith(("blob:", "data:"))
                else None
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def canvas(page: Page) -> Locator:
    return page.locator(".pl-graph-canvas")


def expect_selected(page: Page, text: str) -> None:
    expect(page.locator("[role=treeitem][aria-selected=true]")).to_contain_text(text)
    selected = canvas(page).get_attribute("aria-activedescendant")
    expect(page.locator(f"#{selected}")).to_contain_text(text)


def items(page: Page) -> Locator:
    """The boxes as a screen reader has them."""
    return page.get_by_role("treeitem")


@pytest.mark.parametrize("sample", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_drawn_in_both_themes(show: Show, sample: str, scheme: str) -> None:
    page = show(sample, scheme=scheme)
    root = page.locator(".pl-root")
    expect(root).to_have_attribute("data-theme", scheme)
    expect(page.get_by_role("alert")).to_have_count(0)
    # The text form is there for readers without scripts, not twice for the others.
    expect(page.locator(".pellucid-view > pre")).to_be_hidden()


@pytest.mark.parametrize("sample", FITTING)
def test_a_view_fits_any_window(show: Show, sample: str) -> None:
    page = show(sample)
    root = page.locator(".pl-root")
    expect(root).to_be_visible()
    for width, height in WINDOWS:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(100)  # what is observed changes in the next frames
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # A page of 420 px leaves an output of a notebook about 300 px.
        assert width < 300 or layout_faults(root) == [], f"at {width} px"


@pytest.mark.parametrize(
    ("sample", "size"),
    [
        ("train_step", (420, 700)),
        ("train_step", (900, 560)),
        ("gradient_program", (1600, 800)),
        ("transformer", (900, 560)),
        ("pattern", (900, 560)),
    ],
)
def test_a_program_opens_whole_and_readable(show: Show, sample: str, size: tuple[int, int]) -> None:
    page = show(sample, size=size)
    expect(items(page).first).to_be_attached()
    closed = page.locator("[role=treeitem]:not([aria-expanded=true])")
    operations = closed.filter(has_text=re.compile(r"equations?$| = "))
    assert 1 <= operations.count() <= 15
    if sample in ("train_step", "gradient_program"):
        expect(items(page).filter(has_text="forward").first).to_be_attached()
        expect(items(page).filter(has_text="backward").first).to_be_attached()
    if sample == "pattern":
        expect(items(page).filter(has_text="2,500")).to_have_count(1)
    # The strip with the whole drawing is there only where a part is out of sight.
    expect(page.locator(".pl-minimap")).to_be_hidden()
    page.set_viewport_size({"width": size[0] - 60, "height": size[1] - 80})
    expect(page.locator(".pl-minimap")).to_be_hidden()
    legend, drawing = page.locator(".pl-foot").bounding_box(), canvas(page).bounding_box()
    assert legend is not None
    assert drawing is not None
    assert legend["y"] >= drawing["y"] + drawing["height"]


@pytest.mark.parametrize("name", list(twelve_programs.PROGRAMS))
@pytest.mark.parametrize(("width", "scheme"), [(420, "light"), (900, "dark"), (1600, "light")])
def test_a_real_program_is_seen_whole_at_first(
    show: Show, name: str, width: int, scheme: str
) -> None:
    page = show(name, size=(width, 700), scheme=scheme)
    expect(items(page).first).to_be_attached()
    expect(page.locator(".pl-minimap")).to_be_hidden()
    expect(page.locator(".pl-busy")).to_have_count(0)
    page.screenshot(path=OUTPUT / f"first_view_{name}_{width}_{scheme}.png")


def test_the_strip_of_a_zoomed_graph_covers_nothing(show: Show) -> None:
    page = show("transformer")
    canvas(page).focus()
    for _ in range(6):
        page.keyboard.press("+")
    strip = page.locator(".pl-minimap")
    expect(strip).to_be_visible()
    place, drawing = strip.bounding_box(), canvas(page).bounding_box()
    assert place is not None
    assert drawing is not None
    assert place["x"] >= drawing["x"] + drawing["width"]
    page.keyboard.press("f")
    expect(strip).to_be_hidden()


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: pl.analysis.diff(lambda x: x + 1.0, lambda x: x * 2.0, 3.0), 260),
        (lambda: pl.analysis.program(lambda x: x + 1.0, 3.0), 300),
        (sample_records.SAMPLES["train_step"], 560),
    ],
)
def test_an_output_is_as_high_as_its_content(
    browser: Browser, tmp_path: Path, make: Callable[[], Any], most: int
) -> None:
    path = tmp_path / "fragment.html"
    path.write_text(view_html(make().to_dict(), "text", viewer=plain_viewer()), encoding="utf-8")
    with browser.new_context(viewport={"width": 900, "height": 900}) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        height = "document.querySelector('.pellucid-place').clientHeight"
        page.wait_for_function(f"most => {height} > 0 && {height} <= most", arg=most)
        assert page.evaluate(height) >= 200


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 440, 900])
def test_a_graph_is_painted_in_the_size_of_its_place(show: Show, width: int, scheme: str) -> None:
    page = show("transformer", size=(width, 620), scheme=scheme)
    expect(items(page).first).to_be_attached()
    page.keyboard.press("+")
    for _ in range(3):
        page.wait_for_timeout(50)
        painted = canvas(page).evaluate("({ width, height }) => [width, height]")
        placed = canvas(page).evaluate("each => [each.clientWidth, each.clientHeight]")
        assert painted == placed
    legend = page.locator(".pl-legend")
    assert legend.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_hostile_names_run_nothing(show: Show) -> None:
    page = show("hostile", text="<img src=x onerror='window.__hostile = 1'>")
    expect(items(page).first).to_be_attached()
    canvas(page).click(position={"x": 360, "y": 90})
    page.get_by_role("tab", name="Details").click()
    page.get_by_role("tab", name="Source").click()
    page.locator(".pl-search").fill("<script>")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert page.evaluate("window.__hostile") is None


def test_a_record_that_cannot_be_drawn_leaves_its_text(show: Show) -> None:
    page = show("", text="{ lambda ; } <b>as text</b>")
    expect(page.get_by_role("alert")).to_contain_text("does not say its version")
    expect(page.locator(".pellucid-static")).to_have_text("{ lambda ; } <b>as text</b>")


def test_a_group_opens_by_double_click_and_by_key(show: Show) -> None:
    page = show("transformer")
    attention = items(page).filter(has_text="attention, 24 equations")
    expect(attention).to_have_attribute("aria-expanded", "false")
    page.locator(".pl-search").fill("softmax")
    page.keyboard.press("Enter")
    expect(items(page).filter(has_text="reduce_max")).to_have_count(1)
    expect(attention).to_have_attribute("aria-expanded", "true")
    canvas(page).focus()
    for key in ("o", "o", "Enter"):
        page.keyboard.press(key)
    expect(attention).to_have_attribute("aria-expanded", "false")
    expect_selected(page, "attention")


def test_graph_text_and_source_point_at_each_other(show: Show) -> None:
    page = show("mlp")
    lines = page.locator(".pl-lines:visible .pl-line")
    before = canvas(page).screenshot()
    lines.filter(has_text="tanh").hover()
    page.wait_for_timeout(200)
    assert canvas(page).screenshot() != before
    page.get_by_role("tab", name="Source").click()
    page.mouse.move(5, 400)
    expect(page.locator(".pl-linked")).to_have_count(0)
    page.locator(".pl-lines:visible .pl-line").filter(has_text="hidden = jnp.tanh").click()
    expect_selected(page, "tanh")
    page.get_by_role("tab", name="Text").click()
    linked = page.locator(".pl-lines:visible .pl-linked")
    expect(linked).to_have_count(1)
    expect(linked).to_contain_text("tanh")


def test_the_wheel_scrolls_the_page_until_the_graph_is_entered(show: Show) -> None:
    page = show("mlp")
    before = canvas(page).screenshot()
    canvas(page).hover(position={"x": 30, "y": 300})
    page.mouse.wheel(0, 300)
    expect(page.locator(".pl-hint")).to_be_visible()
    expect(page.locator(".pl-hint")).to_be_hidden()
    assert canvas(page).screenshot() == before
    canvas(page).click(position={"x": 30, "y": 300})
    page.mouse.wheel(0, 300)
    page.wait_for_timeout(200)
    assert canvas(page).screenshot() != before


@pytest.mark.parametrize("sample", ["sharding_4096", "sharded_function_4096"])
def test_4096_devices_are_drawn(show: Show, sample: str) -> None:
    page = show(sample)
    expect(page.locator(".pl-mesh canvas")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_tile_tells_what_it_holds(show: Show) -> None:
    page = show("sharding_replicated")
    page.locator(".pl-tiles canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pl-array-status")).to_have_text(
        "[0:512, 0:1024]: 1 MiB, on devices 0, 2, 4, 6"
    )
    page.locator(".pl-mesh canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pl-array-status")).to_contain_text("process 0) holds [0:512,")


def test_an_exchange_leads_to_the_call_that_needs_it(show: Show) -> None:
    page = show("sharded_calls", size=(1200, 1000))
    expect(page.locator(".pl-axes")).to_contain_text("and mesh")
    expect(page.locator(".pl-overview")).to_contain_text("Estimated: ")
    table = page.get_by_role("table", name="Collectives by kind")
    page.get_by_role("button", name="kinds more").click()
    line = table.get_by_role("row").filter(has_text="all-reduce over line (mesh line=8)")
    expect(line).to_contain_text("2")
    # It begins at the exchange that moves most: what, how many bytes, which line.
    expect(page.locator(".pl-exchange h4")).to_contain_text("⇄ ")
    rows = page.locator(".pl-sharding-rows .pl-line")
    second = rows.filter(has_text="inside block").nth(1)
    second.locator(".pl-fold-sign").click()
    table.get_by_role("row").filter(has_text="all-reduce over data").first.get_by_role(
        "button"
    ).click()
    expect(page.locator(".pl-exchange h4")).to_contain_text("all-reduce over data (")
    page.get_by_role("tab", name="Graph").click()
    expect_selected(page, "dot_general")
    page.get_by_role("tab", name="Values").click()
    rows.filter(has_text="P('model', 'data')").first.click()
    expect(page.locator(".pl-value-detail")).to_contain_text("P('model', 'data')")


def test_a_constraint_that_cannot_be_met_evenly_is_an_amber_row(show: Show) -> None:
    page = show("sharded_unevenly")
    expect(page.locator("header").first).to_contain_text("1 uneven constraint")
    [row] = page.locator(".pl-line-amber").filter(has_text="pad 17 to 24").all()
    expect(row).to_contain_text("68 KiB instead of 12 KiB")
    row.hover()
    status = page.locator(".pl-sharded-left > .pl-array-status")
    expect(status).to_contain_text("pad 17 to 24")
    row.click()
    expect_selected(page, "sharding_constraint")
    page.screenshot(path=OUTPUT / "sharded_unevenly.png")


def test_a_function_says_why_its_values_lie_so_and_what_is_moved(show: Show) -> None:
    page = show("sharded_function")
    expect(page.locator("header").first).to_contain_text("2 of them resharding")
    expect(page.locator(".pl-line-amber")).to_have_count(2)
    status = page.locator(".pl-sharded-left > .pl-array-status")
    rows = page.locator(".pl-sharding-rows .pl-line")
    rows.filter(has_text="tanh").hover()
    expect(status).to_contain_text("1 MiB on each device; data: argument `x`; model: argument `w1`")
    rows.filter(has_text="transpose").click()
    expect_selected(page, "transpose")
    why = page.locator(".pl-why")
    expect(why).to_contain_text("follows dimension 0 of y₁ through transpose")
    expect(why).to_contain_text("with_sharding_constraint you wrote this")
    why.get_by_role("button").last.click()
    expect_selected(page, "sharding_constraint")
    expect(page.get_by_text("Peak memory of each device")).to_be_visible()


@pytest.mark.parametrize("width", [420, 900, 1600])
def test_the_sharding_of_values_is_a_table(show: Show, width: int) -> None:
    page = show("sharded_function", size=(width, 620))
    rows = page.locator(".pl-sharding-rows .pl-line")
    # Which line causes an exchange and how many bytes it moves stands there without a click.
    largest = page.get_by_role("table", name="Collectives by kind").locator("tbody .pl-link").first
    expect(largest).to_be_in_viewport(ratio=1)
    expect(largest).to_have_text(re.compile(r"^[\d.]+ [KM]iB at .*\d$"))
    spec = rows.filter(has_text="tanh").locator(".pl-cell-spec")
    expect(spec).to_have_attribute("title", re.compile("dimension 0 is divided over data"))
    edges = page.locator(".pl-sharding-rows .pl-cell-spec, .pl-column-names .pl-cell-spec")
    lefts = edges.evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().left)")
    assert max(lefts) - min(lefts) <= 1
    # Where a value is and why takes one click: one line says it where there is no room for the chain.
    rows.filter(has_text="tanh").click()
    status, why = page.locator(".pl-sharded-left > .pl-array-status"), page.locator(".pl-why")
    if width < 800:
        expect(status).to_contain_text("1 MiB on each device; data: argument `x`; model: argument")
        assert status.evaluate("each => each.scrollWidth <= each.clientWidth + 1")
        assert status.evaluate("each => each.scrollHeight <= each.clientHeight + 1")
    else:
        expect(page.locator(".pl-value-detail")).to_contain_text("1 MiB on each")
        expect(why).to_contain_text("argument `x`")
    before = rows.count()
    page.get_by_label("Kind of row").select_option("exchanges")
    expect(rows).to_have_count(4)
    expect(rows.filter(has_text="⇄")).to_have_count(4)
    page.get_by_label("Kind of row").select_option("all rows")
    page.get_by_label("Mesh axis").select_option("model")
    expect(page.locator(".pl-filters")).to_contain_text("rows")
    assert rows.count() < before
    rows.first.click()
    if width < 800:
        page.get_by_role("tab", name="Selected").click()
    expect(page.locator(".pl-why")).to_be_visible()
    expect(page.locator(".pl-value-detail")).to_be_visible()


def test_a_term_leads_to_the_page_of_all_terms(show: Show) -> None:
    page = show("profile_8_devices", size=(420, 700))
    word = page.locator(".pl-term", has_text="estimated")
    word.hover()
    note = word.get_by_role("tooltip")
    expect(note).to_contain_text("split among the lines by the estimated cost")
    note.get_by_role("button", name="All terms").click()
    terms = page.get_by_role("dialog", name="Terms")
    expect(terms.locator("dt[aria-current]")).to_have_text("estimated time")
    expect(terms.locator("dt[aria-current]")).to_be_in_viewport()
    terms.get_by_role("button", name="Close").click()
    expect(terms).to_have_count(0)
    word.focus()
    page.keyboard.press("Enter")
    expect(terms).to_be_visible()
    assert layout_faults(terms) == []
    page.keyboard.press("Escape")
    expect(terms).to_have_count(0)


def test_a_mesh_is_drawn_as_a_mesh(show: Show) -> None:
    page = show("mesh")
    expect(page.locator("header")).to_contain_text("data=2, model=4")
    expect(page.locator(".pl-tiles")).to_have_count(0)
    page.locator(".pl-mesh canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pl-array-status")).to_have_text("device 0 (data=0 model=0, process 0)")


@pytest.mark.parametrize("width", [420, 900, 1600])
def test_a_lens_shows_two_stages_of_choice(show: Show, width: int) -> None:
    page = show("compiled_step", size=(width, 700))
    python, hlo = page.get_by_role("region", name="Python"), page.get_by_role("region", name="HLO")
    # It begins at the function and at its entry; lines without equations are left out.
    expect(hlo.locator(".pl-line").filter(has_text="ENTRY")).to_be_in_viewport()
    expect(python.locator(".pl-line").filter(has_text="def step")).to_be_in_viewport()
    expect(python.locator(".pl-line").filter(has_text="class")).to_have_count(0)
    python.locator(".pl-line").filter(has_text="jnp.tanh").click()
    expect(hlo.locator(".pl-linked").first).to_be_in_viewport()
    page.get_by_label("Stage of pane 1").select_option("StableHLO")
    expect(python).to_have_count(0)
    stablehlo = page.get_by_role("region", name="StableHLO")
    expect(stablehlo.locator(".pl-line").filter(has_text="@main")).to_have_count(1)
    page.get_by_label("Search the lines").fill("tanh")
    page.keyboard.press("Enter")
    expect(page.locator(".pl-pane-tools .pl-search-count")).to_contain_text("1 of")
    expect(stablehlo.locator(".pl-linked").first).to_contain_text("stablehlo.tanh")
    # Details are folded, and said when pointed at.
    folded = stablehlo.locator(".pl-line").filter(has_text="dot_general").locator(".pl-t-note")
    expect(folded.first).to_have_attribute("title", re.compile("contracting_dims"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [420, 900])
def test_an_executable_is_shown_by_line_and_over_its_run(show: Show, width: int) -> None:
    page = show("compiled", size=(width, 900))
    lines = page.get_by_role("table", name="Kernels by line")
    first = lines.locator("> tbody > tr").first
    expect(first).to_contain_text(re.compile(r"\d %"))
    before = lines.locator("> tbody > tr code").all_text_contents()
    page.get_by_label("Order of lines").select_option("by number of kernels")
    assert lines.locator("> tbody > tr code").all_text_contents() != before
    first.locator("summary").click()
    expect(first.get_by_role("table", name="Kernels").get_by_role("row").nth(1)).to_be_visible()
    curve = page.get_by_role("slider")
    place = page.locator(".pl-memory-over-program")
    expect(place).to_contain_text("the peak: ")
    curve.focus()
    page.keyboard.press("ArrowLeft")
    expect(place).not_to_contain_text("the peak: ")
    expect(page.get_by_role("table", name="Values in use")).to_contain_text("argument")
    expect(page.get_by_role("table", name="Steps of compiling")).to_contain_text("trace")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_strip_between_two_stages_is_dragged(show: Show) -> None:
    page = show("ladder", size=(1000, 600))
    left = page.locator(".pl-column").first
    before = left.bounding_box()
    strip = page.locator(".pl-gap").bounding_box()
    assert before is not None
    assert strip is not None
    page.mouse.move(strip["x"] + 10, strip["y"] + 100)
    page.mouse.down()
    page.mouse.move(strip["x"] + 160, strip["y"] + 100)
    page.mouse.up()
    after = left.bounding_box()
    assert after is not None
    assert after["width"] - before["width"] == pytest.approx(150, abs=12)
    page.get_by_role("separator", name="Width of pane 1").press("ArrowLeft")
    narrower = left.bounding_box()
    assert narrower is not None
    assert narrower["width"] == pytest.approx(after["width"] - 24, abs=2)
    # A stage stands beside the one that it was made from.
    page.get_by_label("Stage of pane 2").select_option("transpose")
    expect(page.get_by_label("Stage of pane 1").locator("option:checked")).to_have_text("linearize")


def test_a_lens_lights_up_all_stages(show: Show) -> None:
    page = show("lens", size=(1700, 760))
    page.get_by_label("Number of panes").select_option("4 panes")
    column = page.get_by_role("region", name="jaxpr")
    column.locator(".pl-line").filter(has_text="tanh").hover()
    for name, text in [
        ("Python", "hidden = jnp.tanh"),
        ("StableHLO", "stablehlo.tanh"),
        ("optimized HLO", "%tanh.3"),
    ]:
        linked = page.get_by_role("region", name=name).locator(".pl-linked")
        expect(linked.first).to_contain_text(text)


def test_curves_of_a_lens_end_at_lines_below_a_long_heading(show: Show) -> None:
    page = show("lens", size=(760, 760))
    python, hlo = [page.get_by_role("region", name=each) for each in ("Python", "optimized HLO")]
    expect(hlo.locator("h3")).to_contain_text("occupancy 75%")
    heights = [each.locator("h3").evaluate("each => each.offsetHeight") for each in (python, hlo)]
    assert heights[1] > heights[0] + 10
    python.locator(".pl-line").filter(has_text="hidden = jnp.tanh").hover()
    linked = hlo.locator(".pl-linked").first
    expect(linked).to_be_visible()
    # The largest opacity in the last column of the gap, in the row where the line is, and 20 pixels above.
    there, above = page.locator(".pl-gap canvas").first.evaluate(
        """(canvas, middle) => {
          const scale = canvas.height / canvas.clientHeight;
          const row = Math.round((middle - canvas.getBoundingClientRect().top) * scale);
          const column = canvas.getContext('2d').getImageData(canvas.width - 1, 0, 1, canvas.height).data;
          const alphas = [row, row - Math.round(20 * scale)].map(y =>
            column.slice(4 * (y - 2), 4 * (y + 3)).filter((_, i) => i % 4 === 3));
          return alphas.map(each => Math.max(...each));
        }""",
        linked.evaluate(
            "each => { const r = each.getBoundingClientRect(); return r.top + r.height / 2; }"
        ),
    )
    assert there > 200
    assert above < 200


GRIDS = ["grid_1", "grid_64", "grid_4096", "grid_million", "grid_race", "grid_overlapping"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sample", GRIDS)
def test_the_grid_of_a_kernel_is_drawn(show: Show, sample: str, scheme: str) -> None:
    page = show(sample, size=(900, 900), scheme=scheme)
    expect(page.locator(".pl-grid-view canvas").first).to_be_visible()
    for picture in page.locator(".pl-grid-view canvas").all():
        painted = """each => {
          const { data } = each.getContext('2d').getImageData(0, 0, each.width, each.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }"""
        assert picture.evaluate(painted) > 1
    page.screenshot(path=OUTPUT / f"{sample}_{scheme}.png", full_page=True)


def test_a_program_of_a_grid_is_chosen_by_pointer_slider_and_keys(show: Show) -> None:
    page = show("grid_64", size=(1200, 900))
    programs, says = page.locator(".pl-grid-cells canvas"), page.locator(".pl-grid-program")
    expect(says).to_contain_text("Program 0 of 64")
    # 16 rows of 4 programs, of 20 pixels each.
    programs.hover(position={"x": 70, "y": 130})
    expect(says).to_contain_text("Program 27 of 64, (1, 2, 3) reads x_ref[16:32, 48:64]")
    page.locator(".pl-array-header").first.hover()
    expect(says).to_contain_text("Program 0 of 64")
    programs.click(position={"x": 70, "y": 130})
    programs.press("ArrowRight")
    expect(says).to_contain_text("Program 28 of 64")
    programs.press("ArrowUp")
    expect(says).to_contain_text("Program 24 of 64")
    page.get_by_role("slider").press("End")
    expect(says).to_contain_text("Program 63 of 64, (3, 3, 3)")
    # An element of the result is seen by the four programs of its sum.
    result = page.get_by_role("img", name="result o_ref")
    result.hover(position={"x": 10, "y": 10})
    expect(page.locator("output", has_text="4 programs, moved 1 ×")).to_be_visible()


RUNS = ["runs_blocks", "runs_pipeline", "runs_256_steps", "runs_deadlock", "runs_race"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sample", RUNS)
def test_the_timeline_of_a_kernel_is_drawn(show: Show, sample: str, scheme: str) -> None:
    page = show(sample, size=(900, 900), scheme=scheme)
    picture = page.locator(".pl-run-canvas canvas")
    expect(picture).to_be_visible()
    colors = """each => {
      const { data } = each.getContext('2d').getImageData(0, 0, each.width, each.height);
      return new Set(new Uint32Array(data.buffer)).size;
    }"""
    page.wait_for_function("each => each.width > 300", arg=picture.element_handle())
    assert picture.evaluate(colors) > 3
    page.screenshot(path=OUTPUT / f"{sample}_{scheme}.png", full_page=True)


def test_marks_of_a_timeline_say_their_line_and_bytes(show: Show) -> None:
    page = show("runs_gather", size=(1200, 900))
    picture, tooltip = page.locator(".pl-run-canvas canvas"), page.locator(".pl-run .pl-tooltip")
    says = page.locator(".pl-run-event")
    # The second row of device 0: its copies, of which the second goes to its neighbour.
    picture.hover(position={"x": 400, "y": 44})
    expect(tooltip).to_contain_text("device 0 sends `o_ref` in hbm to `o_ref` in hbm of device 1")
    expect(tooltip).to_contain_text("1 KiB, 2 steps")
    expect(tooltip).to_contain_text("line")
    picture.click(position={"x": 400, "y": 30})
    expect(says).to_contain_text("device 0 waits for copy of")
    expect(says.locator("code")).to_have_text("copy.wait()")
    picture.press("Escape")
    expect(says).to_contain_text("Point at a mark")


def test_a_timeline_is_zoomed_and_lit_by_line(show: Show) -> None:
    page = show("runs_gather", size=(1200, 900))
    picture, note = page.locator(".pl-run-canvas canvas"), page.get_by_role("status")
    page.get_by_role("button", name="Zoom in").click()
    expect(note).to_have_text("8.017 steps from 4.008 steps on")
    picture.press("Home")
    expect(note).to_have_text("8.017 steps from 0 steps on")
    page.get_by_role("button", name="Show all").click()
    expect(note).to_contain_text("Ctrl and the wheel zoom")
    before = picture.screenshot()
    row = page.locator("tbody tr").first
    row.press("Enter")
    expect(row).to_have_attribute("data-chosen", "")
    page.wait_for_timeout(100)
    assert picture.screenshot() != before
    row.press("Enter")
    expect(row).not_to_have_attribute("data-chosen", "")


def test_a_grid_marks_races_and_unwritten_elements_in_red(show: Show) -> None:
    page = show("grid_overlapping", size=(900, 700))
    faults = page.locator(".pl-grid-fault")
    # What the call raises, then what the figure counts.
    expect(faults.nth(0)).to_contain_text("no program writes element (64, 0)")
    expect(faults.nth(1)).to_contain_text("Race: 9 programs")
    expect(faults.nth(2)).to_contain_text("No program writes 576 elements")
    red = """each => {
      const { data } = each.getContext('2d').getImageData(0, 0, each.width, each.height);
      let count = 0;
      for (let i = 0; i < data.length; i += 4) {
        count += data[i] > 180 && data[i + 1] < 80 && data[i + 2] < 90 ? 1 : 0;
      }
      return count;
    }"""
    assert page.get_by_role("img", name="result o_ref").evaluate(red) > 500
    assert page.get_by_role("img", name="input x_ref").evaluate(red) == 0
    assert page.locator(".pl-grid-cells canvas").evaluate(red) > 500
