"""JupyterLab's own debugger in jitted functions: breakpoints in the gutter, steps both ways, values on the graph."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser
expect.set_options(timeout=20_000)

DEFINE = """import pellucid as pl, pellucid.numpy as jnp
from pellucid import lax

def layer(w, c):
    h = c * w
    return jnp.tanh(h)

def loss(ws, x):
    y = jnp.sqrt(x)
    def body(c, w):
        c = layer(w, c)
        return c + 1, c.sum()
    out, sums = lax.scan(body, y, ws)
    return out.mean() + sums.sum()

def total(ws, xs):
    return pl.vmap(loss, (None, 0))(ws, xs).sum()

batched = pl.jit(pl.grad(total, argnums=1))
ws, xs = jnp.arange(20.0) / 20, jnp.arange(8.0).reshape(2, 4)"""
CALL = "value = batched(ws, xs)\nprint(value.tolist())"
MUL, TANH, SQRT, LAYER, BODY, SCAN, RETURN = 5, 6, 9, 11, 12, 13, 14
LONG = """import pellucid as pl, pellucid.numpy as jnp

@pl.jit
def long(x):
    for _ in range(1000):
        y = jnp.sin(x)
        x = y * 1.01
    return x"""
INNER = 6
KERNEL_HAS_BEGUN = """name => [...window.jupyterapp.shell.widgets('main')].some(({ context }) =>
    context?.path === name && context.sessionContext.session?.kernel?.status === 'idle')"""
# Of the side bar, to pixels.
WIDEN = """width => {
    const panel = document.querySelector('#jp-main-split-panel');
    const handle = [...panel.querySelectorAll(':scope > .lm-SplitPanel-handle')]
        .filter(each => !each.classList.contains('lm-mod-hidden')).at(-1);
    const at = handle.getBoundingClientRect(), y = at.top + at.height / 2;
    const side = document.querySelector('#jp-right-stack').getBoundingClientRect();
    const send = (type, target, x) => target.dispatchEvent(new PointerEvent(type,
        { bubbles: true, cancelable: true, clientX: x, clientY: y, button: 0, pointerId: 1 }));
    send('pointerdown', handle, at.left + 1);
    send('pointermove', document, side.right - width);
    send('pointerup', document, side.right - width);
}"""


class Debugger:
    """The debugger of the notebook in front, with its side bar open."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        # JupyterLab carries breakpoints over to the next notebook with the same cell.
        lab.must_load = True
        self.page = lab.page
        self.frames = self.page.locator(".jp-DebuggerCallstackFrame-name")
        self.location = self.page.locator(".jp-DebuggerCallstackFrame-location").first
        self.place = self.page.locator(".pellucid-stopped-place")
        self.program = self.page.locator(".pellucid-stopped")

    def begin(self) -> None:
        """Switch the debugger on."""
        self.page.locator(".jp-DebuggerBugButton").first.click()
        self.page.locator(".jp-DebuggerCallstack").wait_for()
        self.page.locator(".jp-CodeCell .cm-breakpoint-gutter").first.wait_for(state="attached")

    def break_at(self, line: int) -> None:
        """Click beside a line of the first cell, and wait until the kernel knows the breakpoint."""
        gutter = self.page.locator(".jp-CodeCell").first.locator(".cm-breakpoint-gutter")
        gutter.locator(".cm-gutterElement").nth(line).click()
        self.program.locator("legend", has_text=re.compile(f"line {line}$")).wait_for()

    def run(self) -> None:
        """Run the second cell, without waiting for its end."""
        self.page.locator(".jp-CodeCell").nth(1).locator(".cm-content").click()
        self.lab.start("notebook:run-cell")

    def at(self, line: int) -> None:
        """Wait until the innermost frame is at a line of the first cell."""
        expect(self.location).to_contain_text(re.compile(rf":{line}\b"))

    def has_left(self, line: int) -> None:
        """Wait until the innermost frame isn't at a line of the first cell."""
        expect(self.location).not_to_contain_text(re.compile(rf":{line}\b"))

    def is_at(self, line: int) -> bool:
        """Whether the innermost frame is at a line of the first cell now."""
        return re.search(rf":{line}\b", self.location.inner_text()) is not None

    def press(self, name: str) -> None:
        """Click a button of the call stack's toolbar, by its place there."""
        self.page.locator(f"[data-jp-item-name='{name}']").last.locator("jp-button").click()

    def stack(self, *names: str | re.Pattern[str]) -> None:
        """Wait until the innermost frames have these names."""
        for i, name in enumerate(names):
            expect(self.frames.nth(i)).to_have_text(name)

    def option(self, line: int, label: str, text: str) -> None:
        """Write an option of the breakpoint at a line into its field of the section."""
        field = self.program.locator("fieldset", has_text=f"line {line}").get_by_label(label)
        field.fill(text)
        field.press("Enter")

    def draw(self, name: str) -> Locator:
        """The figure of a variable, which is drawn by a click on its name."""
        self.program.get_by_role("option", name=re.compile(rf"^{re.escape(name)} ")).click()
        return self.program.locator(".pellucid-variables-figure")

    @property
    def variables(self) -> Locator:
        """The tree of variables."""
        return self.page.locator(".jp-debuggerVariables-local")


def test_a_jitted_gradient_is_stepped_both_ways(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 900})
    lab.open_notebook("debugger.ipynb", [DEFINE, CALL])
    undebugged = lab.output_of(1).inner_text()
    assert "nan" in undebugged
    debugger = Debugger(lab)
    debugger.begin()
    lab.screenshots("debugger_idle")
    debugger.break_at(SCAN)
    debugger.run()
    debugger.stack(re.compile(r"loss \(2 lanes\)"), re.compile("total"))
    expect(debugger.draw("y").get_by_role("img", name="Heat map")).to_be_visible()
    lane = debugger.program.get_by_label("Lane of batch 0")
    lane.fill("1")
    lane.press("Enter")
    debugger.stack(re.compile(r"loss \(lane 1 of 2\)"))
    expect(debugger.variables).to_contain_text("f32[4] in [2, 2.64575]")
    expect(debugger.program.locator(".pellucid-variables-figure")).to_contain_text("f32[4]")
    lab.screenshots("debugger_lane")
    lane.fill("")
    lane.press("Enter")
    debugger.stack(re.compile(r"loss \(2 lanes\)"))
    debugger.press("step-in")
    debugger.stack(re.compile("body .*iteration 0 of 20"), re.compile("loss"))
    expect(debugger.variables).to_contain_text("f32[2,4] in [0, 2.64575]")
    expect(debugger.place).to_contain_text("before")
    lab.screenshots("debugger_stopped")
    debugger.press("step-in")
    debugger.stack("layer (2 lanes)")
    debugger.press("step-out")
    debugger.stack(re.compile("iteration 0 of 20"))
    debugger.program.get_by_label("Iteration of the loop").fill("17")
    debugger.program.get_by_label("Iteration of the loop").press("Enter")
    debugger.stack(re.compile("iteration 17 of 20"))
    debugger.press("step-over")
    debugger.at(BODY)
    debugger.press("pellucid:step-back")
    debugger.at(LAYER)
    debugger.stack(re.compile("iteration 17 of 20"))
    lab.screenshots("debugger_iteration")
    figure = debugger.draw("c")
    expect(figure).to_contain_text("f32[2,4]")
    expect(figure.get_by_role("img", name="Heat map")).to_be_visible()
    lab.screenshots("debugger_variable")
    debugger.press("pellucid:reverse-continue")
    debugger.stack(re.compile("loss"))
    debugger.at(SCAN)
    debugger.program.get_by_text("When to stop").click()
    watch = debugger.program.get_by_label("Stop before the first value for which")
    watch.fill("isnan")
    watch.press("Enter")
    debugger.press("continue")
    debugger.stack(re.compile(r"loss.*backward"))
    debugger.at(SCAN)
    debugger.press("continue")
    debugger.stack(re.compile(r"loss.*lane 0 of 2.*backward"))
    debugger.at(SQRT)
    lab.screenshots("debugger_watch")
    debugger.press("continue")
    expect(lab.output_of(1)).to_have_text(undebugged)
    expect(debugger.place).to_contain_text("No program is stopped")


STEP = """import pellucid as pl, pellucid.numpy as jnp

@pl.jit
def loss(x):
    def body(c, v):
        h = jnp.sqrt(v)
        return c + h, h
    total, roots = pl.lax.scan(body, 0.0, x)
    mean = roots.mean()
    return total * mean"""
ROOT, LOOP, MEAN = 6, 8, 9


def test_out_of_a_loop_goes_on_around_it_and_a_watch_holds_for_the_gradient_of_jitted_code(
    lab: Lab,
) -> None:
    """The gradient is taken eagerly: what is jitted runs as two programs, forward and backward."""
    call = "print(pl.grad(loss)(jnp.array([1.0, 0.0, 4.0])).tolist())"
    lab.open_notebook("gradient.ipynb", [STEP, call])
    undebugged = lab.output_of(1).inner_text()
    assert "inf" in undebugged
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(LOOP)
    debugger.run()
    debugger.at(LOOP)
    debugger.press("step-in")
    debugger.stack(re.compile("body .*iteration 0 of 3"), re.compile("loss"))
    debugger.at(ROOT)
    expect(debugger.variables).to_contain_text("v")
    debugger.press("step-out")
    debugger.at(MEAN)
    debugger.stack(re.compile("loss"))
    expect(debugger.variables).to_contain_text("roots")
    lab.screenshots("debugger_out_of_a_loop")
    debugger.program.get_by_text("When to stop").click()
    watch = debugger.program.get_by_label("Stop before the first value for which")
    watch.fill("isinf")
    watch.press("Enter")
    debugger.press("continue")
    debugger.stack(
        re.compile("loss.*backward")
    )  # the breakpoint, of which the backward pass comes by, too
    debugger.at(LOOP)
    debugger.press("continue")
    debugger.stack(re.compile("body.*backward"))
    debugger.at(ROOT)
    lab.screenshots("debugger_watch_of_a_gradient")
    debugger.press("continue")
    expect(lab.output_of(1)).to_have_text(undebugged)
    expect(debugger.place).to_contain_text("No program is stopped")


EAGER = """import pellucid as pl, pellucid.numpy as jnp

def scale(x):
    low = x.min()
    y = jnp.log(x - low)
    z = y * 0
    return z.sum()"""
LOG, ZERO, SUM = 5, 6, 7


def test_a_watch_stops_at_lines_that_run_eagerly_and_steps_go_on_in_python(lab: Lab) -> None:
    call = "x = jnp.array([[1.0, 2.0], [3.0, 5.0]])\nprint(pl.vmap(scale)(x).tolist())"
    lab.open_notebook("eager.ipynb", [EAGER, call])
    undebugged = lab.output_of(1).inner_text()
    assert "nan" in undebugged
    debugger = Debugger(lab)
    debugger.begin()
    debugger.program.get_by_text("When to stop").click()
    watch = debugger.program.get_by_label("Stop before the first value for which")
    watch.fill("isinf")
    watch.press("Enter")
    debugger.run()
    debugger.at(LOG)
    debugger.stack(re.compile("scale.*lane 0 of 2"), re.compile("module"))
    for name in ("x", "low"):
        expect(debugger.variables).to_contain_text(name)
    lab.screenshots("debugger_watch_of_an_eager_line")
    figure = debugger.draw("x")
    expect(figure).to_contain_text("f32[2,2]")
    lab.screenshots("debugger_variable_of_an_eager_line")
    debugger.press("step-over")
    debugger.at(ZERO)
    lab.screenshots("debugger_python_behind_an_eager_line")
    debugger.press("continue")
    expect(lab.output_of(1)).to_have_text(undebugged)


SHARDED = """import os
os.environ["PELLUCID_NUM_CPU_DEVICES"] = "8"
import pellucid as pl, pellucid.numpy as jnp
mesh = pl.make_mesh((4, 2), ("x", "y"), axis_types=(pl.sharding.AxisType.Auto,) * 2)

def local(a):
    s = a.sum(1, keepdims=True)
    t = pl.lax.psum(s, "y")
    return a / t

spec = pl.P("x", "y")
normalized = pl.jit(pl.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec))
a = pl.device_put(jnp.arange(64.0).reshape(8, 8) + 1, pl.NamedSharding(mesh, spec))"""
TOTAL = 9


def test_values_of_positions_are_drawn_with_their_devices(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 1200})
    lab.open_notebook("sharded.ipynb", [SHARDED, "print(normalized(a).tolist())"])
    undebugged = lab.output_of(1).inner_text()
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(TOTAL)
    debugger.run()
    debugger.stack(re.compile("local .*over 8 positions"))
    debugger.draw("t")
    debugger.program.get_by_text("Where it lies").click()
    lab.screenshots("debugger_positions")
    positions = debugger.program.get_by_label("Position whose values are shown")
    positions.select_option("position x=2, y=1 (device 5)")
    debugger.stack(re.compile(r"local .*position x=2, y=1 \(device 5\)"))
    expect(debugger.variables).to_contain_text("f32[2,4]")
    expect(debugger.program.locator(".pellucid-variables-figure")).to_contain_text("f32[2,1]")
    term = debugger.program.locator(".pl-term", has_text="Position")
    term.hover()
    expect(term.get_by_role("tooltip")).to_contain_text("One place in the mesh of a shard_map")
    term.press("Enter")
    terms = lab.page.get_by_role("dialog", name="Terms")
    expect(terms.locator("dt[aria-current]")).to_have_text("position")
    lab.screenshots("debugger_terms")
    terms.get_by_role("button", name="Close").click()
    lab.page.set_viewport_size({"width": 900, "height": 1200})
    lab.screenshots("debugger_position_narrow")
    debugger.press("continue")
    expect(lab.output_of(1)).to_have_text(undebugged)


def test_a_value_is_set_beside_its_figure(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 900})
    call = "print(pl.jit(loss)(ws, xs[0]).tolist())"
    lab.open_notebook("set.ipynb", [DEFINE, call])
    undebugged = lab.output_of(1).inner_text()
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(RETURN)
    debugger.run()
    debugger.at(RETURN)
    figure = debugger.draw("sums")
    expect(figure).to_contain_text("f32[20]")
    field = debugger.program.get_by_label("Value of sums from here on")
    field.fill("sums[:3]")
    field.press("Enter")
    expect(debugger.program.get_by_role("alert")).to_contain_text("has the type of its variable")
    lab.screenshots("debugger_set_failed")
    field.fill("jnp.full(20, 100.0)")
    field.press("Enter")
    expect(figure).to_contain_text("100 to 100")
    expect(debugger.variables).to_contain_text("in [100, 100]")
    lab.screenshots("debugger_set")
    debugger.press("continue")
    expect(lab.output_of(1)).not_to_have_text(undebugged)
    expect(lab.output_of(1)).to_contain_text("200")


def test_breakpoints_have_options_and_steps_have_keys(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 900})
    lab.open_notebook("options.ipynb", [DEFINE, CALL])
    undebugged = lab.output_of(1).inner_text()
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(LAYER)
    debugger.option(LAYER, "only if", "w > 0.8")
    debugger.break_at(BODY)
    debugger.option(BODY, "hits", "% 19")
    debugger.option(BODY, "print", "sum {c.sum().shape}")
    expect(debugger.program.locator("input[name=hitCondition]").last).to_have_value("% 19")
    budget = debugger.program.get_by_label("MiB of values that a stopped program keeps")
    expect(budget).to_have_value("1024")
    budget.fill("64")
    budget.press("Enter")
    lab.screenshots("debugger_options")
    debugger.run()
    debugger.stack(re.compile("iteration 17 of 20"))
    debugger.frames.first.click()
    for key, place in (("F10", BODY), ("Shift+F10", LAYER), ("F11", 5)):
        lab.page.keyboard.press(key)
        debugger.at(place)
    lab.page.keyboard.press("Shift+F11")
    debugger.stack(re.compile("iteration 17 of 20"))
    lab.page.keyboard.press("F9")
    debugger.stack(re.compile("iteration 18 of 20"))
    lab.page.keyboard.press("Control+F9")
    debugger.stack(re.compile("iteration 17 of 20"))
    debugger.program.get_by_text("When to stop").click()
    debugger.option(LAYER, "only if", "w > nothing")
    lab.page.keyboard.press("Escape")
    debugger.press("pellucid:reverse-continue")
    # A condition that raises stops in each run.
    debugger.stack(re.compile("iteration 16 of 20"))
    debugger.press("terminate")
    expect(lab.output_of(1).last).to_contain_text(undebugged)


def test_a_stop_outlives_a_change_of_notebook(lab: Lab) -> None:
    metadata = {"kernelspec": {"name": "pellucid", "display_name": "pellucid"}}
    other = nbformat.v4.new_notebook(metadata=metadata)
    nbformat.write(other, lab.server.root / "other.ipynb")
    lab.open_notebook("stopped.ipynb", [DEFINE, CALL])
    undebugged = lab.output_of(1).inner_text()
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(BODY)
    debugger.run()
    debugger.stack(re.compile("iteration 0 of 20"))
    tabs = lab.page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel")
    tabs.filter(has_text="stopped.ipynb").wait_for()
    lab.page.evaluate(
        "path => void window.jupyterapp.commands.execute('docmanager:open', { path })",
        "other.ipynb",
    )
    # JupyterLab may bring the stopped notebook back to the front by itself once the other one's kernel has begun.
    lab.page.wait_for_function(KERNEL_HAS_BEGUN, arg="other.ipynb")
    tabs.filter(has_text="stopped.ipynb").click()
    lab.page.wait_for_function(
        "name => window.jupyterapp.shell.currentWidget?.context?.path === name", arg="stopped.ipynb"
    )
    lab.page.locator(".jp-CodeCell .cm-content:visible").nth(1).wait_for()
    debugger.stack(re.compile("iteration 0 of 20"))
    expect(debugger.place).to_contain_text("before")
    # JupyterLab loses moves that come before it has restored the debugger's state, of which it gives no sign. A move
    # that is asked for again because it came late is made twice.
    debugger.press("pellucid:step-back")
    with contextlib.suppress(AssertionError):
        debugger.has_left(BODY)
    if debugger.is_at(BODY):
        debugger.press("pellucid:step-back")
        debugger.has_left(BODY)
    expect(debugger.location).to_contain_text(re.compile(rf":({LAYER}|{TANH}|{MUL})\b"))
    debugger.press("terminate")
    expect(lab.output_of(1)).to_have_text(undebugged)
    tabs.filter(has_text="other.ipynb").click()
    expect(debugger.place).to_contain_text("No program is stopped")
    lab.screenshots("debugger_other_notebook")


def test_an_error_is_opened_where_it_was_raised(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 900})
    failing = "with pl.debug_nans(True):\n    batched(ws, xs)"
    lab.open_notebook("failed.ipynb", [DEFINE, failing, failing], may_fail=True)
    lab.screenshots("debugger_error")
    earlier, latest = [
        lab.page.locator(".jp-CodeCell").nth(i).get_by_role("button", name="Stop here")
        for i in (1, 2)
    ]
    earlier.click()
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("another error was shown since")
    dialog.get_by_role("button").last.click()
    latest.click()
    debugger = Debugger(lab)
    debugger.stack(re.compile(r"loss.*backward"))
    debugger.at(SQRT)
    expect(debugger.place).to_contain_text("before")
    lab.screenshots("debugger_at_error")
    stop = debugger.place.inner_text()
    debugger.press("pellucid:step-back")
    expect(debugger.place).not_to_have_text(stop)
    debugger.press("continue")
    expect(debugger.place).to_contain_text("No program is stopped")


def test_a_finding_is_drawn_and_opened(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 1100})
    finding = "pl.debugger.find(pl.grad(lambda x: loss(ws, x)), pl.debugger.isnan)(xs[0])"
    lab.open_notebook("found.ipynb", [DEFINE, finding])
    output = lab.output_of(1)
    expect(output.get_by_role("table", name="The way there")).to_contain_text("loss")
    expect(output.get_by_role("region", name="operand 0")).to_be_visible()
    lab.screenshots("finding")
    output.get_by_role("button", name="Stop here").click()
    debugger = Debugger(lab)
    debugger.stack(re.compile(r"loss"))
    expect(debugger.place).to_contain_text("before")
    lab.screenshots("finding_opened")  # in the light theme, docs/gallery/the_debugger.png
    debugger.press("continue")
    expect(debugger.place).to_contain_text("No program is stopped")


DRIFT = """import itertools
import numpy as np
numbers = itertools.count()
host = lambda x: np.float32(x + 1e-6 * next(numbers))

def drifting(x):
    y = jnp.sin(x)
    z = pl.pure_callback(host, pl.ShapeDtypeStruct((), np.float32), y.sum())
    return y * z

pl.debugger.repeat(drifting, 3)(xs)"""
ROUNDED = """def rounded(x):
    y = x * 0.3
    return y - x / 7

pl.debugger.first_difference(rounded)(jnp.linspace(0.1, 3.0, 64).reshape(8, 8))"""


@pytest.mark.parametrize(
    ("name", "code", "operation"),
    [("repetition", DRIFT, "pure_callback"), ("first_difference", ROUNDED, "sub")],
)
def test_unequal_runs_are_drawn_and_opened(lab: Lab, name: str, code: str, operation: str) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 1100})
    lab.open_notebook(f"{name}.ipynb", [DEFINE, code])
    output = lab.output_of(1)
    expect(output.locator("header strong").first).to_contain_text(operation)
    expect(output.get_by_role("table", name="The way there")).to_be_visible()
    expect(output.get_by_role("region", name="operand 0")).to_be_visible()
    expect(output.get_by_role("region", name="distance")).to_be_visible()
    lab.screenshots(name)
    output.get_by_role("button", name="Stop here").click()
    debugger = Debugger(lab)
    debugger.stack(re.compile("drifting" if name == "repetition" else "rounded"))
    expect(debugger.place).to_contain_text("before")
    debugger.press("continue")
    expect(debugger.place).to_contain_text("No program is stopped")


def test_a_stop_outlives_the_page(lab: Lab) -> None:
    lab.open_notebook("reloaded.ipynb", [DEFINE, CALL])
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(BODY)
    debugger.run()
    debugger.stack(re.compile("iteration 0 of 20"))
    lab.page.reload()
    debugger.stack(re.compile("iteration 0 of 20"))
    expect(debugger.place).to_contain_text("before")
    stop = debugger.place.inner_text()
    debugger.press("pellucid:step-back")
    expect(debugger.place).not_to_have_text(stop)
    debugger.press("terminate")
    expect(debugger.place).to_contain_text("No program is stopped")


def test_a_narrow_section_follows_a_long_program(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1200, "height": 900})
    lab.open_notebook("long.ipynb", [LONG, "print(long(jnp.ones(3)).tolist())"])
    undebugged = lab.output_of(1).inner_text()
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(INNER)
    lab.page.evaluate(WIDEN, 420)
    debugger.run()
    expect(debugger.place).to_contain_text("0 of 2,000")
    debugger.program.get_by_role("tab", name="Text").click()
    debugger.press("step-over")
    # The pane that was chosen stays, as the graph isn't made anew.
    expect(debugger.place).to_contain_text("1 of 2,000")
    expect(debugger.program.get_by_role("tab", name="Text")).to_have_attribute(
        "aria-selected", "true"
    )
    debugger.program.get_by_role("tab", name="Graph").click()
    slider = debugger.program.get_by_label("Equation of the program")
    slider.fill("1999")
    expect(debugger.place).to_contain_text("1,999 of 2,000")
    lab.screenshots("debugger_long")
    debugger.frames.nth(1).click()
    lab.screenshots("debugger_long_outer")
    debugger.press("terminate")
    expect(lab.output_of(1)).to_have_text(undebugged)


def test_comparisons_and_gradients_are_drawn(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1200, "height": 1400})
    diverging = (
        "import numpy as np\n"
        "def exponential(x):\n    y = x @ x.T\n    z = jnp.tanh(y)\n    return jnp.exp(3 * z).sum()\n"
        "half = pl.debugger.diverge(exponential, a=jnp.float16, b=jnp.float32)(np.eye(4, 3, dtype=np.float32) / 3)\n"
        "half"
    )
    explained = (
        "pl.debugger.explain_grad(lambda x, y: loss(ws, x) + 0 * y.sum(), (0, 1))(xs[0], xs[1])"
    )
    lab.open_notebook("comparisons.ipynb", [DEFINE, diverging, explained])
    divergence, gradient = lab.output_of(1), lab.output_of(2)
    expect(divergence).to_contain_text("operations differ")
    chart = divergence.get_by_role("img", name="Error of each operation")
    chart.hover()
    expect(divergence.locator("output")).to_have_text(re.compile(r"^\d+ of \d+: "))
    expect(gradient.get_by_role("table", name="Gradients")).to_contain_text("NaN")
    gradient.scroll_into_view_if_needed()
    lab.screenshots("comparisons")
    lab.page.set_viewport_size({"width": 700, "height": 1400})
    lab.screenshots("comparisons_narrow")


LOOPED = """import numpy as np
def squared(x):
    def body(c, _):
        d = c * c
        return d, d.sum()
    return pl.lax.scan(body, x, None, length=6)[1]

def rooted(x):
    def body(c, _):
        d = jnp.sqrt(c - 2)
        return d * x - 0.9, d
    return pl.lax.scan(body, x, None, length=6)[1].sum()
"""


@pytest.mark.parametrize(
    ("name", "code", "iteration", "line"),
    [
        # 3 ** 16 is beyond float16.
        ("divergence", "pl.debugger.diverge(squared, a=jnp.float16, b=jnp.float32)(np.full(2, 3, np.float32))", 3, "d = c * c"),
        ("explanation", "pl.debugger.explain_grad(rooted)(2.9)", 1, "d = jnp.sqrt(c - 2)"),
    ],
)  # fmt: skip
def test_figures_open_the_iteration_where_a_fault_begins(
    lab: Lab, name: str, code: str, iteration: int, line: str
) -> None:
    lab.page.set_viewport_size({"width": 1400, "height": 1100})
    lab.open_notebook(f"{name}.ipynb", [DEFINE, LOOPED, code])
    output = lab.output_of(2)
    expect(output).to_contain_text(f"in iteration {iteration}: {line}")
    lab.screenshots(f"{name}_in_loop")
    output.get_by_role("button", name="Stop here").click()
    debugger = Debugger(lab)
    debugger.stack(re.compile(f"iteration {iteration} of 6"))
    debugger.at(1 + LOOPED.splitlines().index(f"        {line}"))
    lab.screenshots(f"{name}_in_loop_opened")
    debugger.press("continue")
    expect(debugger.place).to_contain_text("No program is stopped")


def test_a_recorded_run_opens_without_a_kernel(lab: Lab, tmp_path: Path) -> None:
    saved = tmp_path / "run.html"
    record = f"run = pl.debugger.record(batched)(ws, xs); run.save({str(saved)!r}); run"
    lab.open_notebook("recorded.ipynb", [DEFINE, record])
    page = lab.page.context.new_page()
    page.goto(saved.as_uri())
    for view in (lab.output_of(1), page.locator("body")):
        current = view.locator(".pl-recorded-current")
        expect(current).to_contain_text("return pl.vmap(loss, (None, 0))")
        view.get_by_role("button", name="Next stop").click()
        expect(current).to_contain_text("y = jnp.sqrt(x)")
        view.get_by_label("Stop of the run").fill("4")
        expect(view.locator(".pl-recorded-stack")).to_contain_text("iteration 0 of 20")
        expect(view.get_by_label("Variables")).to_contain_text("f32[2,4]")
        view.get_by_role("button", name="Stop before").click()
        expect(view.locator("output")).to_have_text(re.compile(r"^4 of \d+$"))
    page.set_viewport_size({"width": 420, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    page.screenshot(path=lab.output / "recorded_narrow.png")
    lab.screenshots("recorded")
    page.close()


KERNEL = """import numpy as np, pellucid as pl
from pellucid.experimental.pallas import BlockSpec, pallas_call

def double(x_ref, o_ref):
    y = x_ref[...] * 2
    o_ref[...] = y

block = BlockSpec((8, 8), lambda i, j: (i, j))
x = np.arange(1024., dtype=np.float32).reshape(32, 32)
doubled = pallas_call(double, x, grid=(4, 4), in_specs=[block], out_specs=block)
f = pl.jit(lambda x: doubled(x) + 1)"""
IN_KERNEL = 5


def test_a_stop_in_a_kernel_shows_its_blocks_and_goes_to_another_program(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 1000})
    lab.open_notebook("kernel.ipynb", [KERNEL, "f(x)"])
    debugger = Debugger(lab)
    debugger.begin()
    lab.page.evaluate(WIDEN, 700)
    debugger.break_at(IN_KERNEL)
    debugger.run()
    debugger.stack(re.compile(r"double \(program \(0, 0\) of grid \(4, 4\)\)"))
    debugger.program.get_by_text("Blocks of this program, in its grid").click()
    says = debugger.program.locator(".pl-grid-program")
    expect(says).to_contain_text("Program 0 of 16, (0, 0) reads x_ref[0:8, 0:8]")
    row = debugger.program.get_by_label("Position of the program along axis 0, of 4")
    row.fill("2")
    row.press("Enter")
    debugger.stack(re.compile(r"double \(program \(2, 0\) of grid \(4, 4\)\)"))
    expect(says).to_contain_text("Program 8 of 16, (2, 0) reads x_ref[16:24, 0:8]")
    expect(debugger.program.locator(".pl-grid-view canvas")).to_have_count(3)
    lab.screenshots("debugger_kernel")
    debugger.press("terminate")


DEVICES = """import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import numpy as np, pellucid as pl
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid.sharding import PartitionSpec as P

def shift(x_ref, o_ref, send_sem, recv_sem):
    me = lax.axis_index("ring")
    right = lax.rem(me + 1, 4)
    copy = tpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, right)
    copy.start()
    copy.wait()

anywhere, dma = BlockSpec(memory_space=pallas.ANY), tpu.SemaphoreType.DMA
mesh = pl.make_mesh((4,), ("ring",), axis_types=(pl.sharding.AxisType.Auto,))
x = np.arange(32, dtype=np.float32).reshape(4, 8)
shifted = pallas_call(
    shift, pl.ShapeDtypeStruct((1, 8), np.float32), in_specs=[anywhere], out_specs=anywhere,
    scratch_shapes=[dma, dma], interpret=tpu.InterpretParams())
f = pl.jit(pl.shard_map(shifted, mesh=mesh, in_specs=P("ring"), out_specs=P("ring")))"""
WAIT = 14


def test_a_stop_in_a_simulated_kernel_shows_each_device_and_what_it_waits_for(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 1000})
    lab.open_notebook("devices.ipynb", [DEVICES, "print(f(x)[:, 0].tolist())"])
    debugger = Debugger(lab)
    debugger.begin()
    lab.page.evaluate(WIDEN, 700)
    debugger.break_at(WAIT)
    debugger.run()
    debugger.stack(re.compile(r"shift \(device 0\)"))
    cores = debugger.program.get_by_role("radio")
    expect(cores).to_have_count(4)
    expect(cores.nth(0)).to_contain_text(
        "in flight: copy of `x_ref` in hbm to `o_ref` in hbm of device 1"
    )
    expect(cores.nth(0)).to_have_attribute("aria-checked", "true")
    cores.nth(2).click()
    expect(cores.nth(2)).to_have_attribute("aria-checked", "true")
    lab.screenshots("debugger_devices")
    debugger.press("step-over")
    debugger.stack(re.compile(r"shift \(device 2\)"))
    debugger.press("continue")
    debugger.stack(re.compile(r"shift \(device \d\)"))
    debugger.press("terminate")
