"""How long do transformations take to trace, and what do their programs cost when they run?"""

from __future__ import annotations

import functools
import itertools
import time
from typing import Any

import transformer
from versus import Target, compare, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of each."""
    jnp = jax.numpy
    p, ids = transformer.parameters(jax), transformer.tokens(jax)
    widths = (16, 32, 32, 1)
    layers = [(jnp.ones((a, b), jnp.float32) * 0.1, jnp.zeros(b, jnp.float32)) for a, b in itertools.pairwise(widths)]  # fmt: skip
    inputs = jnp.ones((8, widths[0]), jnp.float32)

    def loss(layers: Any, x: Any) -> Any:
        for w, b in layers:
            x = jnp.tanh(x @ w + b)
        return jnp.mean(x**2)

    def traced(transform: Any, *args: Any, rounds: int = 3) -> float:
        best = float("inf")
        for _ in range(rounds):
            function = transform(
                functools.partial(loss)
            )  # new each time, so that no cache of traces helps
            start = time.perf_counter()
            jax.make_jaxpr(function)(*args)
            best = min(best, time.perf_counter() - start)
        return best

    def step() -> float:
        best = float("inf")
        for _ in range(3):
            forward = functools.partial(transformer.loss, jax, ids=ids)
            start = time.perf_counter()
            jax.make_jaxpr(jax.value_and_grad(forward))(p)
            best = min(best, time.perf_counter() - start)
        return best

    eager = jax.grad(jnp.sin)
    compiled = jax.jit(jax.grad(loss))
    wide = [
        (jnp.ones((512, 512), jnp.float32) * 0.01, jnp.zeros(512, jnp.float32)) for _ in range(3)
    ]
    rows = jnp.ones((256, 512), jnp.float32)

    def run() -> float:
        return per_call(lambda: jax.block_until_ready(compiled(wide, rows)), seconds=0.2)

    def steps_per_second() -> float:
        """Seconds of a scan of 10,000 steps over those of one of 100, per step."""
        seconds = []
        for n in (100, 10_000):
            scan = jax.jit(
                lambda c, n=n: jax.lax.scan(lambda c, _: (c * 0.5 + 1.0, None), c, None, length=n)[
                    0
                ]
            )
            seconds.append(
                per_call(lambda scan=scan: jax.block_until_ready(scan(1.0)), seconds=0.1) / n
            )
        return seconds[1] / seconds[0]

    def gradient_of_long_scan() -> float:
        function = lambda c: jax.lax.scan(lambda c, _: (jnp.sin(c), None), c, None, length=10_000)[
            0
        ]
        start = time.perf_counter()
        jax.make_jaxpr(jax.grad(lambda c: function(c)))(1.0)
        return time.perf_counter() - start

    return {
        "trace value_and_grad of the 12-layer loss": step,
        "eager grad(sin)(1.0)": lambda: per_call(lambda: eager(1.0)),
        "trace the hessian of a 3-layer MLP": lambda: traced(jax.hessian, layers, inputs),
        "trace vmap(grad) of a 3-layer MLP": lambda: traced(
            lambda f: jax.vmap(jax.grad(f), in_axes=(None, 0)), layers, inputs
        ),
        "run a compiled gradient": run,
        "a step of 10,000 against one of 100": steps_per_second,
        "trace the gradient of 10,000 steps": gradient_of_long_scan,
    }


TARGETS = {
    "trace value_and_grad of the 12-layer loss": Target(0.35, "ms"),
    "eager grad(sin)(1.0)": Target(0.3),
    "trace the hessian of a 3-layer MLP": Target(0.4, "ms"),
    "trace vmap(grad) of a 3-layer MLP": Target(0.4, "ms"),
    "run a compiled gradient": Target(1.03, "ms"),
    "a step of 10,000 against one of 100": Target(1.5, ""),
    "trace the gradient of 10,000 steps": Target(0.5, "ms"),
}

if __name__ == "__main__":
    compare(__file__, TARGETS, rounds=5)
