"""Figures of arrays and of jitted functions in a notebook: what they ask the kernel for."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.test_comparisons import looked_at

pytestmark = pytest.mark.browser

START = """import numpy as np, pellucid as pl, pellucid.numpy as jnp
mesh = pl.sharding.Mesh(np.array(pl.devices()).reshape(2, 4), ("data", "model"))"""


def test_slices_and_parts_of_arrays(lab: Lab) -> None:
    cube = "cube = jnp.arange(4 * 16 * 32.0).reshape(4, 16, 32)\ncube"
    split = (
        "split = pl.device_put(cube, pl.NamedSharding(mesh, pl.P(None, 'data', 'model')))\nsplit"
    )
    lab.open_notebook("values.ipynb", [START, cube, split, "del cube"])
    shown = lab.output_of(1).first
    caption = shown.locator("figcaption")
    expect(caption).to_have_text("at [0, :, :]")
    shown.get_by_label("Index along dimension 0").fill("3")
    expect(caption).to_have_text("at [3, :, :]")
    shown.get_by_role("img", name="Heat map").hover(position={"x": 2, "y": 2})
    expect(shown.locator("output")).to_have_text("[3, 0, 0] 1536")
    shown.get_by_label("Dimension drawn down").select_option("0")
    expect(caption).to_have_text("at [:, 0, :]")
    expect(shown.get_by_label("Index along dimension 1")).to_be_visible()

    placed = lab.output_of(2).first
    placed.get_by_role("button", name="Values", exact=True).click()
    expect(placed.get_by_role("table", name="Parts").locator("tbody tr")).to_have_count(8)
    placed.get_by_role("button", name="Show the values on device 5").click()
    part = placed.locator(".pl-values-part").first
    expect(part).to_contain_text("device 5: [0:4, 8:16, 8:16]")
    expect(part).to_contain_text("values 264 to 2031")
    looked_at(lab, "array_slices")
    lab.page.set_viewport_size({"width": 1280, "height": 800})
    lab.evaluate_in_kernel("split.delete()")
    placed.get_by_role("button", name="Values", exact=True).click()
    placed.get_by_role("button", name="Values", exact=True).click()
    expect(placed).to_contain_text("The array was deleted or donated")


def test_a_jitted_function_is_a_card_with_its_programs(lab: Lab) -> None:
    layer = """@pl.jit
def layer(x, scale=2.0):
    return jnp.sin(x) * scale

layer"""
    lab.open_notebook(
        "card.ipynb", [START, layer, "y = layer(jnp.ones(3)), layer(jnp.ones(4))\nlayer"]
    )
    expect(lab.output_of(1).first).to_contain_text("Not called yet")
    card = lab.output_of(2).filter(has_text="layer(x, scale=2.0)")
    expect(card).to_contain_text("2 programs")
    expect(card).to_contain_text("x was f32[3], is f32[4]")
    looked_at(lab, "function_card")
    lab.page.set_viewport_size({"width": 1280, "height": 800})
    card.get_by_role("button", name=re.compile(r"Open Jaxpr of layer\(x: f32\[3\]")).click()
    expect(lab.page.locator(".pellucid-tab")).to_contain_text("sin")
    expect(lab.page.locator(".lm-TabBar-tabLabel", has_text="Jaxpr · layer")).to_be_visible()
