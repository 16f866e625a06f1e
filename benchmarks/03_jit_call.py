"""How long does a call of a compiled function take, by the number and shape of its arguments?"""

from __future__ import annotations

from typing import Any

from versus import compare, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of one call."""
    jnp = jax.numpy
    x = jnp.ones((8,), jnp.float32)
    timed = {}
    for n in (1, 10, 100):
        function = jax.jit(lambda *xs: [v + 1 for v in xs])
        arguments = [x] * n
        timed[f"{n} array argument{'s' * (n > 1)}"] = lambda f=function, a=arguments: per_call(
            lambda: f(*a)
        )
    tree = {f"layer{i}": {"w": x, "b": x, "rest": [x, x]} for i in range(50)}
    nested = jax.jit(lambda t: jax.tree.map(lambda v: v + 1, t))
    timed["nested dict of 200 leaves"] = lambda: per_call(lambda: nested(tree))
    return timed


if __name__ == "__main__":
    compare(__file__, {})
