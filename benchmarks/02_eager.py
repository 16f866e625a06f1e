"""How long does one eager operation take?"""

from __future__ import annotations

from typing import Any

from versus import Target, compare, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of one eager call, arrays of 8 by 8."""
    jnp = jax.numpy
    x = jnp.ones((8, 8), jnp.float32)
    y = jnp.ones((8, 8), jnp.float32)
    scalar = jnp.float32(1.0)
    gradient = jax.grad(jnp.sin)
    return {
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
    "x + y": Target(0.8), "x * 2.0": Target(0.8), "x[0]": Target(0.25), "x[1:3, 2]": Target(0.25), "jnp.sum(x)": Target(1.0),
    "jnp.sin(x)": Target(1.0), "x @ y": Target(1.0), "jnp.where(x > 0, x, y)": Target(1.0),
    "x.reshape(64)": Target(1.0), "grad(sin)(1.0)": Target(0.3),
}  # fmt: skip

if __name__ == "__main__":
    compare(__file__, TARGETS)
