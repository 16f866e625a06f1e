"""What does exact arithmetic cost, and how many gradients does it make equal to those of eager operations?

Rows are the transformer's training step, the gradients of `11_steady_states.py` (flat layers), and kernels that do little
else than arithmetic. Each is measured in one process: without the workaround for shifts by a maximum, as it is by default,
and with the option `exact_arithmetic`, in turns. Columns: the least time by default, the ratios of the other two to it,
and the elements of results that differ from those of eager operations, by default and exact.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import transformer
from versus import per_call

import pellucid as pl
from pellucid._machine.lowering.faults import without_workaround

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
jnp = pl.numpy


def programs() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """(name, function, arguments) of each program."""
    layered = importlib.import_module("11_steady_states")
    for name, (layer, weights, x, is_differentiated) in layered.programs(pl).items():

        def loss(weights: Any, x: Any, layer: Any = layer) -> Any:
            y = functools.reduce(lambda y, w: layer(w, y), weights, x)
            return (y * y).mean()

        yield name, pl.grad(loss) if is_differentiated else loss, (weights, x)
    x = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float32)
    yield "softmax", lambda x: pl.nn.softmax(x * 1.7), (x,)
    yield "logsumexp", lambda x: pl.nn.logsumexp(x * 1.7, axis=-1), (x,)
    yield "gradient of log_softmax", pl.grad(lambda x: pl.nn.log_softmax(x * 1.7)[:, 0].sum()), (x,)
    yield "gelu", pl.nn.gelu, (x,)
    yield "polynomial", lambda x: ((x * 0.3 + 1.1) * x - 0.7) * x + 0.2, (x,)
    yield "Adam", _adam, (x, x, x * x, x * 0.1)
    yield "differences", lambda x: x[1:] * 0.3 - x[:-1] / 3, (x,)
    step = transformer.train_step(pl)
    yield "transformer", step, (transformer.parameters(pl), transformer.tokens(pl))


def _adam(w: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 1e-3 * (m / (1 - 0.9**7)) / (jnp.sqrt(v / (1 - 0.999**7)) + 1e-8), m, v


WAYS: dict[str, Callable[[], Any]] = {
    "default": contextlib.nullcontext,
    "contracted": lambda: without_workaround("contracted-shift"),
    "exact": pl.exact_arithmetic,
}


def _differing(found: Any, expected: Any) -> int:
    pairs = zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True)
    return sum(int(np.sum(~((x == y) | (np.isnan(x) & np.isnan(y))))) for x, y in pairs)


def main(*names: str) -> None:
    print(f"{'':26} {'default':>10} {'contracted':>10} {'exact':>8}  elements that differ")
    for name, function, arguments in programs():
        if names and name not in names:
            continue
        arguments = pl.device_put(arguments)
        steps, counts = {}, {}
        for way, block in WAYS.items():
            with block():
                # Each way has a function of its own, so that programs aren't found again.
                steps[way] = pl.jit(lambda *xs, f=function: f(*xs)).lower(*arguments).compile()
                if way != "contracted":
                    counts[way] = _differing(steps[way](*arguments), function(*arguments))
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, step in steps.items():
                run = lambda step=step, xs=arguments: pl.block_until_ready(step(*xs))
                seconds[way].append(per_call(run, seconds=0.4))
        default, contracted, exact = (min(seconds[way]) for way in WAYS)
        print(
            f"{name:<26} {default * 1e3:8.3f}ms {contracted / default:10.2f} {exact / default:8.2f}"
            f"  {counts['default']} by default, {counts['exact']} exact",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
