"""Figures of several programs in a notebook: diff, lens and ladder."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

START = """import pellucid as pl, pellucid.numpy as jnp
x, weights = jnp.ones((32, 64)), [jnp.ones((64, 64))] * 3"""
PLAIN = """def block(x, w):
    return jnp.tanh(x @ w) + x

def encoder(x, weights):
    for w in weights:
        x = block(x, w)
    return (x**2).sum()"""
WRAPPED = """@pl.checkpoint
def saving(x, w):
    return jnp.tanh(x @ w) + x

def saving_encoder(x, weights):
    for w in weights:
        x = saving(x, w)
    return (x**2).sum()"""


STEP = """@pl.jit
def inner(z):
    return jnp.tanh(z @ z) * 2.0

def outer(x):
    unused = jnp.cos(x)
    return (inner(x) + jnp.sin(x)).sum()

square = jnp.ones((64, 64))"""


def test_passes_and_transformations_step_by_step(lab: Lab) -> None:
    lab.open_notebook(
        "passes.ipynb",
        [START, STEP, "pl.viz.passes(outer)(square)", "pl.viz.ladder(outer)(square)",
         "pl.viz.lens(outer)(square)"],
    )  # fmt: skip
    passes = lab.output_of(2).first
    first, second = (passes.get_by_label(f"Stage of pane {n}") for n in (1, 2))
    expect(first.locator("option:checked")).to_have_text("as written")
    expect(second.locator("option:checked")).to_have_text("remove dead equations")
    expect(passes.locator(".pl-column").nth(1).locator("h3")).to_contain_text("−1")
    second.select_option(label="call-inliner")
    expect(first.locator("option:checked")).to_have_text("HLO")
    expect(passes.locator(".pl-column").nth(1).locator(".pl-line-new").first).to_be_visible()
    ladder = lab.output_of(3).first
    ladder.get_by_label("Stage of pane 2").select_option(label="transpose")
    expect(ladder.get_by_label("Stage of pane 1").locator("option:checked")).to_have_text(
        "linearize"
    )
    ladder.get_by_label("Stage of pane 2").select_option(label="vmap")
    expect(ladder.get_by_label("Stage of pane 1").locator("option:checked")).to_have_text(
        "as written"
    )
    lens = lab.output_of(4).first
    lens.get_by_label("Stage of pane 1").select_option(label="jaxpr")
    expect(lens.locator(".pl-line").filter(has_text="sin x")).to_have_text(
        re.compile(r"\w+:f32\[64,64\] = sin x$")
    )
    expect(
        lens.locator(".pl-column").nth(1).locator(".pl-line").filter(has_text="ROOT").first
    ).to_have_text(re.compile(r"ROOT \S+ = .*\w[\w-]*\("))
    for cell, name in [(2, "passes"), (3, "ladder_sources"), (4, "lens_operations")]:
        lab.output_of(cell).first.scroll_into_view_if_needed()
        lab.screenshots(name)
    looked_at(lab, "passes")


def looked_at(lab: Lab, name: str) -> None:
    """Pictures in both themes, at three widths of the page."""
    lab.command("application:toggle-left-area")
    for width in (420, 900, 1600):
        lab.page.set_viewport_size({"width": width, "height": 900})
        lab.screenshots(f"{name}_{width}")


def test_a_diff_matches_through_checkpoint(lab: Lab) -> None:
    diff = "pl.viz.diff(encoder, saving_encoder)(x, weights)"
    gradients = "pl.viz.diff(pl.grad(encoder), pl.grad(saving_encoder))(x, weights)"
    lab.open_notebook("diff.ipynb", [START, PLAIN, WRAPPED, diff, gradients])
    shown = lab.output_of(3).first
    expect(shown).to_contain_text("3 wrapped in checkpoint")
    expect(shown).to_contain_text("11 equal")
    titles = shown.locator(".pl-diff-titles h3")
    expect(titles.nth(0)).to_contain_text("before: encoder · In[2], line 2")
    expect(titles.nth(1)).to_contain_text("after: saving_encoder · In[3], line")
    shown.locator(".pl-column").nth(1).locator(".pl-line").first.click()
    expect(shown).to_contain_text(
        "The equations under it are wrapped in checkpoint on this side only"
    )
    expect(lab.output_of(4).first).to_contain_text("peak memory (estimate)")
    looked_at(lab, "diff_wrapped")
    # Where there is no room for two sides they are one listing.
    lab.page.set_viewport_size({"width": 420, "height": 900})
    listing = shown.locator(".pl-column:visible")
    expect(listing).to_have_count(1)
    expect(listing.locator(".pl-line-changed .pl-gutter").first).to_contain_text("+")
