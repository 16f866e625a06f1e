"""The widget of `what_if`: sliders, axes dropped on dimensions, refusals, the search."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

STEP = """import pellucid as pl, pellucid.numpy as jnp
mesh = pl.sharding.AbstractMesh((64, 8), ("data", "model"))
def placed(shape, *spec):
    return pl.ShapeDtypeStruct(shape, "float32", sharding=pl.NamedSharding(mesh, pl.P(*spec)))
def step(params, x):
    for layer in params["layers"]:
        x = jnp.tanh(x @ layer["up"]) @ layer["down"]
    return x.sum()
layer = {"up": placed((1024, 4096), None, "model"), "down": placed((4096, 1024), "model")}
figure = pl.viz.what_if(step)({"layers": [layer] * 3}, placed((4096, 1024), "data"))
"""
WIDGET = f"{STEP}w = figure.widget()\nw"


def test_axes_are_resized_and_dropped_and_fast_placements_found(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 1000})
    lab.open_notebook("what_if.ipynb", [WIDGET, "w.mesh, w.figure.placement.dims[-1]"])
    view = lab.output_of(0).last
    costs = view.get_by_role("table", name="Costs")
    expect(costs).to_contain_text("data=64, model=8 · 512 devices")
    collectives = view.get_by_role("table", name="Collectives")
    expect(collectives).to_contain_text("all-reduce over model")
    expect(collectives).to_contain_text("line 7")

    slider = view.get_by_role("slider", name="size of model")
    slider.focus()
    slider.press("ArrowRight")
    expect(costs).to_contain_text("data=64, model=16 · 1,024 devices")
    expect(costs).to_contain_text("data=64, model=8 · 512 devices")
    # The slider that was moved keeps the focus, so that the next key moves it on.
    expect(slider).to_be_focused()
    slider.press("ArrowLeft")
    expect(costs.get_by_text("data=64, model=8 · 512 devices")).to_have_count(1)

    x = view.get_by_role("row").filter(has=lab.page.locator("code", has_text=re.compile("^x$")))
    view.locator(".pl-mesh-axis .pl-axis-chip", has_text="model").drag_to(
        x.get_by_role("button", name="dimension 1 of x")
    )
    expect(x.get_by_role("button", name="dimension 1 of x, divided by model")).to_be_visible()
    expect(x).to_contain_text("today P('data')")
    expect(x).to_contain_text("32 KiB")
    lab.screenshot("what_if")

    view.get_by_role("button", name="Search").click()
    best = view.get_by_role("table", name="Fastest placements")
    expect(best.get_by_role("row")).to_have_count(6, timeout=30_000)
    best.get_by_role("button", name="Show").first.click()
    expect(view.locator(".pl-estimating")).to_be_hidden()

    link = collectives.get_by_role("button", name="In[1], line 7").first
    link.click()
    expect(lab.page.locator(".pellucid-way-back")).to_be_visible()

    slider = view.get_by_role("slider", name="size of data")
    slider.focus()
    slider.press("End")
    refusal = view.get_by_role("alert")
    expect(refusal).to_contain_text("what_if needs meshes of 1 to 4096 devices")


def test_a_figure_is_the_control_while_its_kernel_has_it(lab: Lab) -> None:
    lab.open_notebook("figure.ipynb", [f"{STEP}figure"])
    view = lab.output_of(0).last
    costs = view.get_by_role("table", name="Costs")
    # How arguments lie today stands there once.
    expect(costs.get_by_text("data=64, model=8 · 512 devices")).to_have_count(1)
    expect(costs).not_to_contain_text("What if")
    lab.screenshots("what_if_today")
    slider = view.get_by_role("slider", name="size of model")
    slider.focus()
    slider.press("ArrowRight")
    expect(costs).to_contain_text("data=64, model=16 · 1,024 devices")
    expect(slider).to_be_focused()
    slider.press("ArrowRight")
    expect(costs).to_contain_text("data=64, model=32 · 2,048 devices")
    view.get_by_role("button", name="Search").click()
    best = view.get_by_role("table", name="Fastest placements")
    expect(best.get_by_role("row")).to_have_count(6, timeout=30_000)
    slider = view.get_by_role("slider", name="size of data")
    slider.focus()
    slider.press("End")
    refusal = view.get_by_role("alert")
    expect(refusal).to_contain_text("what_if needs meshes of 1 to 4096 devices")
    # The thread that refused may hold the figure for a moment.
    lab.evaluate_in_kernel(
        "import builtins, weakref; builtins.kept = weakref.ref(figure)\n"
        "get_ipython().run_line_magic('reset', '-f')\n"
        "import builtins, gc, time\n"
        "while builtins.kept() is not None:\n"
        "    gc.collect(); time.sleep(0.01)"
    )
    slider.press("ArrowLeft")
    expect(refusal).to_contain_text("this figure is gone")
    expect(view.get_by_role("slider")).to_have_count(0)
    expect(view).to_contain_text("figure.change(mesh, specs)")
    lab.screenshots("what_if_without_kernel")


def test_axes_are_named_in_narrow_cells_of_both_themes(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 520, "height": 900})
    lab.open_notebook("narrow.ipynb", [f"{STEP}figure"])
    lab.command("application:toggle-left-area")
    view = lab.output_of(0).last
    costs = view.get_by_role("table", name="Costs")
    expect(costs).to_contain_text("data=64, model=8")
    view.get_by_role("button", name="Rename model").click()
    field = view.get_by_role("textbox", name="new name of model")
    field.fill("tensor")
    field.press("Enter")
    expect(costs).to_contain_text("data=64, tensor=8")
    view.get_by_role("button", name="Add an axis").click()
    field = view.get_by_role("textbox", name="name of the new axis")
    field.fill("pipe")
    field.press("Enter")
    expect(costs).to_contain_text("data=64, tensor=8, pipe=1")
    view.get_by_role("spinbutton", name="number of parts along pipe").fill("3")
    view.get_by_role("spinbutton", name="number of parts along pipe").press("Enter")
    expect(costs).to_contain_text("pipe=3 · 1,536 devices")
    root = view.locator(".pl-root")
    assert root.evaluate("each => each.scrollWidth <= each.clientWidth + 1")
    view.scroll_into_view_if_needed()
    lab.screenshots("what_if_narrow")
