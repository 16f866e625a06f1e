"""Random programs of arithmetic, and the law of `exact_arithmetic`: compiled programs have the bits of eager ones.

Left out is what the option doesn't promise (docs/reproducible-arithmetic.md): products of matrices, and sums of computed elements,
which XLA may add in another order where it fuses both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp

SHAPE = 6, 8
DTYPES: list[Any] = [np.float32, np.float64, jnp.bfloat16]
UNARY: dict[str, Callable[[Any], Any]] = {
    "-x": lambda x: -x,
    "exp": lambda x: jnp.exp(jnp.minimum(x, 3)),
    "log": lambda x: jnp.log(jnp.abs(x) + 0.1),
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
    "logistic": pl.nn.sigmoid,
    "x**2": lambda x: x**2,
    "x**3": lambda x: x**3,
    "x**-2": lambda x: (jnp.abs(x) + 0.5) ** -2,
    "rsqrt": lambda x: pl.lax.rsqrt(jnp.abs(x) + 0.5),
    "1/x": lambda x: 1 / (jnp.abs(x) + 0.5),
    "0.3x": lambda x: x * 0.3,
    "x/7": lambda x: x / 7,
    "(x+0.3)+0.7": lambda x: (x + 0.3) + 0.7,
    "(0.3x)0.7": lambda x: (x * 0.3) * 0.7,
    "rows": lambda x: x[::-1],
    "roll": lambda x: jnp.roll(x, 2, 1),
    "first row": lambda x: jnp.broadcast_to(x[:1], SHAPE),
    "x-max": lambda x: x - x.max(1, keepdims=True),
    "x-min": lambda x: x.min(0) - x,
    "clip": lambda x: jnp.clip(x, -1, 1),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "x+y": lambda x, y: x + y,
    "x-y": lambda x, y: x - y,
    "xy": lambda x, y: x * y,
    "xy+x": lambda x, y: x * y + x,
    "x/y": lambda x, y: x / (jnp.abs(y) + 0.5),
    "x/sqrt(y)": lambda x, y: x / jnp.sqrt(jnp.abs(y) + 0.5),
    "x/exp(y)": lambda x, y: x / jnp.exp(jnp.clip(y, -2, 2)),
    "xx-yy": lambda x, y: x * x - y * y,
    "max": jnp.maximum,
    "where": lambda x, y: jnp.where(x > y, x * 1.7, y),
    "hypot": lambda x, y: jnp.sqrt(x * x + y * y),
    "mean of two": lambda x, y: 0.3 * x + 0.7 * y,
}
"""Functions of arrays of SHAPE, which are rounded in steps or where XLA's simplifier and LLVM would round otherwise."""


def around(name: str, f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`f` in a loop, branch, call or transformation that changes nothing about its operations."""
    scanned = lambda x, y: pl.lax.scan(lambda c, row: (c, f(x, y)), 0, jnp.arange(2))[1][1]
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "nothing": f,
        "jit": pl.jit(f),
        "checkpoint": pl.checkpoint(f),
        "scan": scanned,
        "loop": lambda x, y: pl.lax.fori_loop(0, 2, lambda i, c: jnp.clip(f(c, y), -4, 4), x),
        "cond": lambda x, y: pl.lax.cond(x[0, 0] == x[0, 0], f, lambda x, y: y, x, y),
        "vmap": lambda x, y: pl.vmap(f)(jnp.stack([x, y]), jnp.stack([y, x]))[1],
        "jvp": lambda x, y: pl.jvp(f, (x, y), (y, x))[1],
        "vjp": lambda x, y: pl.vjp(f, x, y)[0],
    }
    return ways[name]


AROUND = ["nothing", "jit", "checkpoint", "scan", "loop", "cond", "vmap", "jvp", "vjp"]


def make(seed: int) -> tuple[Callable[[Any, Any], Any], tuple[Any, Any], str]:
    """(a function of two arrays, its arguments, text), drawn by `seed`."""
    draw = np.random.default_rng(seed)
    steps: list[tuple[str, int, int]] = []
    for _ in range(draw.integers(3, 9)):
        names = [*(UNARY if draw.integers(2) else BINARY)]
        count = 2 + len(steps)
        steps.append((str(draw.choice(names)), int(draw.integers(count)), count - 1))

    def function(x: Any, y: Any) -> Any:
        values = [x, y]
        for name, i, last in steps:
            found = (
                UNARY[name](values[last])
                if name in UNARY
                else BINARY[name](values[i], values[last])
            )
            values.append(jnp.clip(found, -100, 100))
        return values[-1]

    way = str(draw.choice(AROUND))
    dtype = DTYPES[seed % len(DTYPES)]
    x, y = (jnp.asarray(draw.standard_normal(SHAPE), dtype) for _ in range(2))
    return around(way, function), (x, y), f"{way} of {' '.join(name for name, *_ in steps)}"


def problems(seed: int) -> list[str]:
    """A line if the program of `seed` has other bits compiled than eager."""
    with pl.enable_x64(DTYPES[seed % len(DTYPES)] is np.float64), pl.exact_arithmetic():
        function, arguments, text = make(seed)
        eager = np.asarray(function(*arguments))
        compiled = np.asarray(pl.jit(lambda x, y: function(x, y))(*arguments))
    differs = ~((eager == compiled) | (np.isnan(eager) & np.isnan(compiled)))
    if not differs.any():
        return []
    return [
        f"seed {seed}: {int(differs.sum())} of {differs.size} numbers of {eager.dtype} differ: {text}"
    ]
