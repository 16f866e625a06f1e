"""How long does one eager operation take, and how long the first one of its kind, which is compiled?"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
from versus import Target, compare, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of one eager call, arrays of 8 by 8."""
    jnp = jax.numpy
    x = jnp.ones((8, 8), jnp.float32)
    y = jnp.ones((8, 8), jnp.float32)
    scalar = jnp.float32(1.0)
    gradient = jax.grad(jnp.sin)
    long, key = jnp.ones(2048, jnp.float32), jax.random.key(0)
    counts = itertools.count(3)

    def first_calls() -> float:
        """CPU seconds of all threads, with a shape that no call had before."""
        x = jax.device_put(np.ones((next(counts), 5), np.float32))
        start = time.process_time()
        jax.block_until_ready([
            x + x, x * x, x - x, x / x, x > 0, x[1:], x[0], x.T, x.reshape(-1), x.astype(np.int32), jnp.concatenate([x, x]),
            jnp.zeros(x.shape), x.at[0].set(1.0), jax.random.bits(key, (len(x),)),
        ])  # fmt: skip
        return time.process_time() - start

    return {
        "CPU of the first calls of 14 operations": first_calls,
        "x + y, 2048 elements": lambda: per_call(lambda: jax.block_until_ready(long + long)),
        "x + y": lambda: per_call(lambda: x + y),
        "x * 2.0": lambda: per_call(lambda: x * 2.0),
        "x[0]": lambda: per_call(lambda: x[0]),
        "x[1:3, 2]": lambda: per_call(lambda: x[1:3, 2]),
        "jnp.sum(x)": lambda: per_call(lambda: jnp.sum(x)),
        "jnp.sin(x)": lambda: per_call(lambda: jnp.sin(x)),
        "x @ y": lambda: per_call(lambda: x @ y),
        "jnp.where(x > 0, x, y)": lambda: per_call(lambda: jnp.where(x > 0, x, y)),
        "x.reshape(64)": lambda: per_call(lambda: x.reshape(64)),
        "grad(sin)(1.0)": lambda: per_call(lambda: gradient(scalar)),
    }


TARGETS = {
    "CPU of the first calls of 14 operations": Target(0.6, "ms"), "x + y, 2048 elements": Target(1.0),
    "x + y": Target(0.8), "x * 2.0": Target(0.8), "x[0]": Target(0.25), "x[1:3, 2]": Target(0.25), "jnp.sum(x)": Target(1.0),
    "jnp.sin(x)": Target(1.0), "x @ y": Target(1.0), "jnp.where(x > 0, x, y)": Target(1.0),
    "x.reshape(64)": Target(1.0), "grad(sin)(1.0)": Target(0.3),
}  # fmt: skip

if __name__ == "__main__":
    compare(__file__, TARGETS)
