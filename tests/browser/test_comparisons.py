"""Figures of several programs in a notebook: diff, lens and ladder."""

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
    titles = shown.locator(".pl-column h3")
    expect(titles.nth(0)).to_contain_text("before: encoder · In[2], line 2")
    expect(titles.nth(1)).to_contain_text("after: saving_encoder · In[3], line")
    shown.locator(".pl-column").nth(1).locator(".pl-line").first.click()
    expect(shown).to_contain_text(
        "The equations under it are wrapped in checkpoint on this side only"
    )
    expect(lab.output_of(4).first).to_contain_text("peak memory (estimate)")
    looked_at(lab, "diff_wrapped")
