"""What do masked gradients cost?

Rows are steps of training and gradients: each compiled as it is and under the option `masked_gradients`. Columns: the least time
of the plain step, and of the masked one beside it; temporary memory, likewise; the time to trace and compile both, likewise; and
how many numbers of the results differ by more than a part in 10,000 of the largest.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import models
import numpy as np
import transformer
from versus import per_call

import pellucid as pl

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
COMPILATIONS = 3
jnp = pl.numpy


def _array(*shape: int, scale: float = 0.1) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(np.float32)


def _mlp(weights: Any, x: Any) -> Any:
    for w in weights:
        x = pl.nn.relu(x @ w)
    return (x * x).mean()


def _rnn(weights: Any, xs: Any) -> Any:
    u, w = weights
    step = lambda h, x: (jnp.tanh(x @ u + h @ w), None)
    h, _ = pl.lax.scan(step, jnp.zeros((32, 128)), xs)
    return (h * h).mean()


def _ode(weights: Any, y: Any) -> Any:
    """Runge and Kutta's steps of a small network; elements that have left the unit cube stop."""
    u, w = weights
    slope = lambda y: jnp.tanh(y @ u) @ w

    def step(y: Any, _: Any) -> tuple[Any, Any]:
        a = slope(y)
        b = slope(y + 0.05 * a)
        c = slope(y + 0.05 * b)
        d = slope(y + 0.1 * c)
        moved = y + 0.1 / 6 * (a + 2 * b + 2 * c + d)
        return jnp.where(jnp.abs(y) < 1, moved, y), None

    return (pl.lax.scan(step, y, None, length=50)[0] ** 2).mean()


def _padded(weights: Any, x: Any) -> Any:
    """The mean of what a network gives for rows that are no padding."""
    valid = (jnp.arange(x.shape[0]) % 4 != 3)[:, None]
    u, w = weights
    y = pl.nn.gelu(x @ u) @ w
    return jnp.sum(jnp.where(valid, jnp.log1p(y * y), 0)) / valid.sum()


def programs() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """(name, function, arguments) of each program."""
    yield "MLP", pl.grad(_mlp), ([_array(512, 512) for _ in range(4)], _array(256, 512, scale=1))
    step = transformer.train_step(pl)
    yield "transformer", step, (transformer.parameters(pl), transformer.tokens(pl))
    for name, make in (("ViT", models.vit), ("ResNet", models.resnet)):
        parameters, loss = make(pl)
        yield name, pl.grad(loss), (parameters, models.images())
    yield "RNN scan", pl.grad(_rnn), ((_array(64, 128), _array(128, 128)), _array(64, 32, 64))
    yield "ODE scan", pl.grad(_ode), ((_array(16, 64), _array(64, 16)), _array(256, 16, scale=0.4))
    yield "padded rows", pl.grad(_padded), ((_array(512, 512), _array(512, 512)), _array(512, 512))
    wheres = lambda x: sum(
        jnp.sum(jnp.where(x > c, jnp.log(x * x + c), x)) for c in (0.1, 0.2, 0.3, 0.4)
    )
    yield "four wheres", pl.grad(wheres), (_array(1 << 20, scale=1),)


WAYS: dict[str, Callable[[], Any]] = {
    "plain": contextlib.nullcontext,
    "masked": pl.masked_gradients,
}


def _compiled(function: Callable[..., Any], arguments: Any) -> tuple[Any, float]:
    """The compiled function, and the least time of the process's CPUs that tracing and compiling took."""
    times = []
    for _ in range(COMPILATIONS):
        pl.clear_caches()
        begin = time.process_time()
        step = pl.jit(lambda *xs, f=function: f(*xs)).lower(*arguments).compile()
        times.append(time.process_time() - begin)
    return step, min(times)


def _differing(found: Any, expected: Any) -> int:
    pairs = zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True)
    return sum(int(np.sum(np.abs(x - y) > 1e-4 * np.max(np.abs(y)))) for x, y in pairs)


def main(*names: str) -> None:
    print(
        f"{'':14} {'plain':>10} {'masked':>7} {'memory':>9} {'masked':>7} {'compiled':>9} {'masked':>7}  differ"
    )
    for name, function, arguments in programs():
        if names and name not in names:
            continue
        arguments = pl.device_put(arguments)
        steps, compile_times = {}, {}
        for way, block in WAYS.items():
            with block():
                steps[way], compile_times[way] = _compiled(function, arguments)
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, step in steps.items():
                run = lambda step=step, xs=arguments: pl.block_until_ready(step(*xs))
                seconds[way].append(per_call(run, seconds=0.4))
        plain, masked = (min(seconds[way]) for way in WAYS)
        memory, masked_memory = (steps[way].memory_analysis().temp_size_in_bytes for way in WAYS)
        print(
            f"{name:<14} {plain * 1e3:8.3f}ms {masked / plain:7.2f} {memory / 1e6:7.2f}MB {masked_memory / max(memory, 1):7.2f}"
            f" {compile_times['plain']:8.2f}s {compile_times['masked'] / compile_times['plain']:7.2f}"
            f"  {_differing(steps['masked'](*arguments), steps['plain'](*arguments))}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
