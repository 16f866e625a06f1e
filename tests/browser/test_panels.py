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
    panel = lab.page.locator(f"#{command.replace(':show', '')}")
    expect(panel).to_be_visible()
    return panel


def test_programs_and_devices_of_the_notebook_in_front(lab: Lab) -> None:
    lab.open_notebook("panels.ipynb", [START, LAYER])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("layer")
    expect(programs).to_contain_text("2 programs")
    expect(programs).to_contain_text("called in In[2], line 6")
    expect(programs).to_contain_text("f32[3]")
    lab.screenshots("programs")
    programs.get_by_role("button", name="Open Jaxpr of layer(x: f32[4])").click()
    tab = lab.page.locator(".pellucid-tab")
    expect(tab).to_contain_text("sin")
    tab.get_by_label("Colour by cost").select_option("flops")
    tab.get_by_role("tab", name="Text").click()
    tab.locator(".pl-line").filter(has_text="sin").first.click()
    tab.get_by_role("tab", name="Graph").click()
    for view, text in [("StableHLO", "stablehlo"), ("HLO", "fusion"), ("Sharding", "peak"), ("Memory", "arguments")]:  # fmt: skip
        programs.get_by_role("button", name=f"Open {view} of layer(x: f32[4])").click()
        shown = lab.page.locator(".pellucid-tab:visible")
        expect(shown).to_have_count(1)
        expect(shown).to_contain_text(text)
    titles = lab.page.locator(".lm-DockPanel-tabBar").nth(1).locator(".lm-TabBar-tabLabel")
    views = ("Jaxpr", "StableHLO", "HLO", "Sharding", "Memory")
    expect(titles).to_have_text([f"{view} · layer" for view in views])
    lab.screenshots("explorer_tabs")
    titles.first.click()
    expect(lab.page.locator(".pellucid-tab:visible").get_by_label("Colour by cost")).to_have_value(
        "flops"
    )
    expect(lab.page.locator(".pellucid-tab:visible .pl-minimap")).to_be_hidden()
    chosen = lab.page.locator(".pellucid-tab:visible [role=treeitem][aria-selected=true]")
    expect(chosen).to_contain_text("sin")
    # What viewers compile isn't the user's.
    expect(programs).to_contain_text("2 programs")
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
    expect(programs).to_contain_text("Nothing to show yet")
    lab.screenshots("programs_empty")
    lab.open_notebook("second.ipynb", [START, LAYER])
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("layer")
    lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(programs).to_contain_text("Nothing to show yet")
    lab.wait_for_kernel()
    lab.run_all()
    expect(programs).to_contain_text("layer")
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    expect(programs).to_contain_text("Open a notebook")


def test_a_kernel_without_pellucid_says_how_to_load_it(lab: Lab) -> None:
    lab.open_notebook("plain.ipynb", ["1 + 1"], kernel="python3")
    programs = panel(lab, PROGRAMS)
    expect(programs).to_contain_text("%load_ext pellucid_kernel")


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
    selected = lab.page.locator(".pellucid-selected-line")
    expect(selected.filter(has_text="h = jnp.tanh(x @ w)")).to_have_count(1)
    expect(output.locator(".pl-why")).to_contain_text("argument `x`")


def test_an_error_is_drawn_once_with_the_lines_of_the_user_only(lab: Lab) -> None:
    lab.open_notebook(
        "error.ipynb",
        [START, "def f(a, b):\n    return a @ b\n\nf(weights, jnp.ones((3, 2)))",
         "pl.tree.map(lambda a, b: a, {'w': 1, 'b': (2, 3)}, {'w': 1, 'b': (2, 3, 4)})", "1 / 0"],
        may_fail=True,
    )  # fmt: skip
    output = lab.output_of(1)
    expect(output.first).to_contain_text("ShapeError")
    expect(output.first).to_contain_text("return a @ b")
    expect(output.first).to_contain_text("a: f32[1024,512]")
    # Jupyter's own message is in the notebook for front ends that draw nothing, and out of sight here.
    expect(output).to_have_count(2)
    expect(output.nth(1)).to_be_hidden()
    expect(output.locator("pre", has_text="products.py")).to_be_hidden()
    output.get_by_text("The whole traceback").click()
    expect(output.locator("pre", has_text="products.py")).to_be_visible()
    lab.screenshots("error")
    output.first.get_by_role("button", name="In[2], line 2").click()
    line = lab.page.locator(".cm-line", has_text="return a @ b")
    expect(line).to_contain_text("Back to ShapeError")
    difference = lab.output_of(2).get_by_role("row").filter(has_text="b")
    expect(difference.locator(".pl-error-word")).to_have_text(["3", "2"])
    expect(lab.output_of(3)).to_be_visible()
    expect(lab.output_of(3)).to_contain_text("ZeroDivisionError")
    lab.output_of(2).first.scroll_into_view_if_needed()
    lab.screenshots("error_tree")


def test_facts_and_shardings_are_drawn(lab: Lab) -> None:
    lab.open_notebook(
        "facts.ipynb",
        [START, LAYER, "mesh", "weights", "pl.viz.misses()", "pl.viz.compiled(layer)(jnp.ones(3))",
         "pl.viz.memory()", "pl.viz.lens(layer)(jnp.ones(3))"],
    )  # fmt: skip
    for cell, text in [(2, "8 cpu devices"), (3, "256 KiB"), (4, "first call"), (5, "arguments"),
                       (6, "weights"), (7, "optimized HLO")]:  # fmt: skip
        expect(lab.output_of(cell).first).to_contain_text(text)
        lab.output_of(cell).first.scroll_into_view_if_needed()
        lab.screenshots(f"facts_{cell}")


LONG = """def long(x):
    for i in range(1000):
        x = pl.lax.cond(x.sum() > i, lambda y: jnp.sort(y) @ y * i, lambda y: jnp.sort(-y) @ y, x) + x
    return x
pl.jit(long)(jnp.ones((8, 8)))"""


def test_a_long_compilation_is_seen_and_interrupted(lab: Lab) -> None:
    lab.open_notebook("long.ipynb", [START, LAYER, LONG], run=False)
    programs = panel(lab, PROGRAMS)
    lab.start("notebook:run-all-cells")
    below = lab.page.locator(".jp-CodeCell").nth(2).locator(".pellucid-busy")
    status = below.get_by_role("status")
    expect(status).to_contain_text("Compiling long", timeout=60_000)
    expect(status).to_contain_text("equations · called in In[3], line 5")
    expect(status).to_contain_text("The loop in In[3], line 2 is unrolled: 1,000 iterations")
    assert float(status.locator(".pl-progress-time").inner_text().split()[0]) > 0.3
    expect(programs.get_by_role("status")).to_contain_text("Compiling long")
    lab.screenshots("compiling")
    lab.page.set_viewport_size({"width": 420, "height": 800})
    lab.command("application:toggle-left-area")
    lab.screenshots("compiling_420")
    below.get_by_role("button", name="Interrupt").click()
    expect(lab.output_of(2).filter(has_text="KeyboardInterrupt").first).to_be_visible()
    expect(below).to_have_count(0)
    lab.page.set_viewport_size({"width": 1280, "height": 800})
    programs = panel(lab, PROGRAMS)
    expect(programs.get_by_role("status")).to_be_hidden()
    lab.screenshots("interrupted")


ENDLESS = """endless = pl.jit(lambda x: pl.lax.while_loop(lambda y: True, lambda y: jnp.sin(y @ y), x))
y = endless(jnp.ones((200, 200)))
y.block_until_ready()"""


def test_a_running_program_is_seen_and_left(lab: Lab) -> None:
    lab.open_notebook("running.ipynb", [START, LAYER, ENDLESS], run=False)
    lab.start("notebook:run-all-cells")
    below = lab.page.locator(".jp-CodeCell").nth(2).locator(".pellucid-busy")
    status = below.get_by_role("status")
    expect(status).to_contain_text("Waiting for f32[200,200]", timeout=60_000)
    expect(status).to_contain_text("on cpu 0 · needed in In[3], line 3")
    lab.screenshots("waiting")
    below.get_by_role("button", name="Interrupt").click()
    error = lab.output_of(2).filter(has_text="KeyboardInterrupt")
    expect(error.first).to_contain_text("The device is not interrupted")
    expect(status).to_contain_text("Still computing f32[200,200]")
    expect(status).to_contain_text("until the kernel is restarted")
    expect(below.get_by_role("button", name="Interrupt")).to_be_hidden()
    lab.screenshots("left_running")


# What runs in C takes some seconds, and ignores interrupts.
IN_C = """import hashlib
endless = pl.jit(lambda x: pl.lax.while_loop(lambda y: True, lambda y: jnp.sin(y @ y), x))
y = endless(jnp.ones((200, 200)))
hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000_000)"""


def test_an_interrupt_that_has_to_wait_is_answered(lab: Lab) -> None:
    lab.open_notebook("in_c.ipynb", [START, LAYER, IN_C], run=False)
    lab.start("notebook:run-all-cells")
    below = lab.page.locator(".jp-CodeCell").nth(2).locator(".pellucid-busy")
    status = below.get_by_role("status")
    expect(status).to_contain_text("Computing f32[200,200]", timeout=60_000)
    expect(status).to_contain_text("on cpu 0 · while In[3], line 4 runs")
    lab.screenshots("busy")
    below.get_by_role("button", name="Interrupt").click()
    told = lab.output_of(2).filter(has_text="The interrupt has to wait")
    expect(told).to_contain_text("In[3], line 4 runs code of C")
    expect(told).to_contain_text("cpu 0 still computes f32[200,200]")
    lab.screenshots("interrupt_waits")


def test_a_cell_says_why_it_compiled_again(lab: Lab) -> None:
    lab.open_notebook("again.ipynb", [START, LAYER, "for n in (5, 6, 7): y = layer(jnp.ones(n))"])
    for cell, text in [(1, "x was f32[3], is f32[4]"), (2, "3 times, the last time because")]:
        note = lab.output_of(cell).filter(has=lab.page.locator(".pl-recompiled"))
        expect(note).to_have_count(1)
        expect(note).to_contain_text("layer compiled again")
        expect(note).to_contain_text(text)
        expect(note.get_by_text("Open in a tab")).to_have_count(0)
    lab.screenshots("compiled_again")
    lab.page.set_viewport_size({"width": 420, "height": 800})
    lab.command("application:toggle-left-area")
    lab.screenshots("compiled_again_420")


def test_meshes_of_variables_are_drawn_and_opened(lab: Lab) -> None:
    lab.open_notebook("meshes.ipynb", [START])
    devices = panel(lab, DEVICES)
    drawn = devices.get_by_role("img", name="Mesh mesh: data=2, model=4")
    expect(drawn.locator(".pl-square")).to_have_text(list("01234567"))
    expect(devices.get_by_role("img", name="Process 0 drives 8 devices")).to_be_visible()
    devices.get_by_role("button", name="Open mesh mesh").click()
    expect(lab.page.locator(".pellucid-tab")).to_contain_text("8 cpu devices")
    lab.screenshots("mesh_tab")


def test_panels_work_by_keyboard_and_have_names(lab: Lab) -> None:
    lab.open_notebook("keyboard.ipynb", [START, LAYER])
    for command, first in [(PROGRAMS, "layer"), (DEVICES, "Open")]:
        shown = panel(lab, command)
        expect(shown.get_by_role("region")).to_have_count(1)
        assert shown.locator("button:visible").evaluate_all(
            "all => all.every(each => (each.getAttribute('aria-label') ?? each.textContent).trim() !== '')"
        )
        shown.locator("summary:visible, button:visible").first.focus()
        expect(shown.locator(":focus")).to_contain_text(first)
    shown = panel(lab, PROGRAMS)
    shown.locator("summary").first.focus()
    lab.page.keyboard.press("Tab")
    expect(shown.locator(":focus")).to_contain_text("traced")
    expect(shown.get_by_role("tooltip")).to_have_count(1)
    for _ in range(3):
        lab.page.keyboard.press("Tab")
    expect(shown.get_by_role("tooltip")).to_have_count(0)
    expect(shown.get_by_role("button", name="Open Jaxpr of layer(x: f32[4])")).to_be_focused()
    lab.page.keyboard.press("Enter")
    expect(lab.page.locator(".pellucid-tab")).to_contain_text("sin")


def test_settings_say_where_views_open_and_what_they_show(lab: Lab) -> None:
    with lab.settings(openIn="tab-after", colorBy="flops", outputHeight=300):
        lab.open_notebook("settings.ipynb", [START, LAYER, "pl.viz.program(layer)(jnp.ones(3))"])
    place = lab.output_of(2).locator(".pl-root")
    expect(place).to_be_visible()
    assert place.evaluate("each => each.clientHeight") <= 300
    panel(lab, PROGRAMS).get_by_role("button", name="Open Jaxpr of layer(x: f32[4])").click()
    expect(lab.page.locator(".pellucid-tab").get_by_label("Colour by cost")).to_have_value("flops")
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_hidden()


def test_the_launcher_starts_a_notebook_with_a_number_of_devices(lab: Lab) -> None:
    lab.open_notebook("launcher.ipynb", ["1 + 1"])
    lab.command("launcher:create")
    lab.page.locator(".jp-LauncherCard", has_text="Pellucid, N devices").click()
    dialog = lab.page.locator(".jp-Dialog")
    dialog.locator("input").fill("12")
    dialog.get_by_role("button", name="Create").click()
    expect(lab.page.locator(".jp-CodeCell:visible").first).to_contain_text("%pellucid devices 12")
    lab.wait_for_kernel()
    lab.evaluate_in_cell("%pellucid devices")
    expect(lab.page.locator(".jp-OutputArea-output:visible")).to_have_text("12")


MANY_ARGUMENTS = """@pl.jit
def dense(params, x):
    return sum(x * each for each in params.values())
_ = dense({name: jnp.ones(4) for name in "abcdefgh"}, jnp.ones(4))"""


def test_words_of_the_panel_explain_themselves_and_arguments_have_names(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 900, "height": 800})
    lab.open_notebook("words.ipynb", [START, MANY_ARGUMENTS])
    lab.command("pellucid:show-programs")
    programs = panel(lab, PROGRAMS)
    expect(programs.get_by_role("heading", name="1 jitted function")).to_be_visible()
    arguments = programs.locator(".pl-arguments")
    expect(arguments.locator("summary")).to_contain_text("params['a']: f32[4]")
    expect(arguments.locator("summary")).to_contain_text("and 5 more")
    arguments.locator("summary").click()
    expect(arguments).to_contain_text("x: f32[4]")
    word = programs.locator(".pl-term", has_text="traced").first
    word.hover()
    note = word.get_by_role("tooltip")
    expect(note).to_contain_text("ran once with abstract values")
    box = note.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 900
    lab.screenshot("panel_words")
    expect(note).to_contain_text("skips this")
    lab.page.mouse.move(600, 700)
    expect(note).to_have_count(0)
