"""Tools work under meshes, `disable_jit` and `debug_nans`, alone and together, and say what they say without."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import debugger, viz

KINDS = pl.sharding.AxisType
W, X = np.full((4, 4), 0.1, np.float32), np.ones((8, 4), np.float32)


def loss(w: Any, x: Any) -> Any:
    h, _ = pl.lax.scan(lambda c, t: (c * 0.5 + t, c.sum()), jnp.tanh(x @ w), jnp.arange(3.0))
    return jnp.where(h > 0, jnp.log(jnp.abs(h) + 1), h).sum()


def bad(w: Any, x: Any) -> Any:
    return jnp.log(x @ w - 1).sum()


SETTINGS: dict[str, Callable[[], Any]] = {
    "Auto": lambda: pl.set_mesh(pl.make_mesh((4, 2), ("x", "y"), axis_types=(KINDS.Auto,) * 2)),
    "Explicit": lambda: pl.set_mesh(pl.make_mesh((4, 2), ("x", "y"), axis_types=(KINDS.Explicit,) * 2)),
    "disable_jit": lambda: pl.disable_jit(True),
    "debug_nans": lambda: pl.debug_nans(True),
}  # fmt: skip
TOGETHER = [
    ("Auto",), ("Explicit",), ("Auto", "disable_jit"), ("Explicit", "debug_nans"), ("Auto", "disable_jit", "debug_nans"),
    ("Explicit", "disable_jit", "debug_nans"),
]  # fmt: skip
SAYING: dict[str, Callable[[], Any]] = {
    "find": lambda: debugger.find(loss, debugger.exceeds(1.0))(W, X),
    "find NaN": lambda: debugger.find(bad, debugger.isnan)(W, X),
    "explain_grad": lambda: debugger.explain_grad(loss)(W, X),
    "diverge": lambda: debugger.diverge(loss)(W, X),
    "repeat": lambda: debugger.repeat(loss)(W, X),
    "sharding": lambda: viz.sharding(pl.device_put(X)),
    "array": lambda: viz.array(X),
}
SHOWING: dict[str, Callable[[], Any]] = {
    "record": lambda: debugger.record(bad)(W, X),
    "program": lambda: viz.program(pl.make_jaxpr(loss)(W, X)),
    "memory": lambda: viz.memory(loss)(W, X),
    "compiled": lambda: viz.compiled(loss)(W, X),
    "passes": lambda: viz.passes(loss)(W, X),
    "ladder": lambda: viz.ladder(loss)(W, X),
    "lens": lambda: viz.lens(loss)(W, X),
    "diff": lambda: viz.diff(loss, bad)(W, X),
    "what_if": lambda: viz.what_if(loss)(W, X),
}
"""What they show has the settings in it: loops written out, devices."""


@contextlib.contextmanager
def under(names: tuple[str, ...]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(SETTINGS[name]())
        yield


@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
@pytest.mark.parametrize("tool", SAYING)
def test_tools_say_what_they_say_without(tool: str, names: tuple[str, ...]) -> None:
    expected = str(SAYING[tool]()).splitlines()[0]
    with under(names):
        assert str(SAYING[tool]()).splitlines()[0] == expected


@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
@pytest.mark.parametrize("tool", SHOWING)
def test_views_are_made(tool: str, names: tuple[str, ...]) -> None:
    with under(names):
        assert len(str(SHOWING[tool]())) > 50
