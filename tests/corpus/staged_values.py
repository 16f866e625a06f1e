"""Composites, tokens and values kept for their own sake; each program takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`.
"""

import numpy as np

from corpus.transform_programs import submodule

X = np.array([0.25, -0.5, 1.25], np.float32)
TABLE = np.arange(3, dtype=np.float32)


def _tangent(jax, version=0):
    lax = submodule(jax, "lax")

    def tangent(x, *, scale=None, table=None):
        return lax.div(lax.sin(x), lax.cos(x))

    return lax.composite(tangent, "my.tangent", version)


def composite_values(jax, x):
    call = _tangent(jax)
    both = submodule(jax, "lax").composite(
        lambda t: {"a": t[0] * t[1], "b": t[0] + 1}, name="my.both"
    )
    return call(x), jax.jit(call)(x), both((x, 2.0)), call(x, scale=2.0, table=TABLE)


def composite_operations(jax, x):
    """The operation in StableHLO, for attributes of each type."""
    call = _tangent(jax)
    values = (
        True, 2, 2.5, "text", np.float32(0.5), np.int8(3), [1, 2], (1.5, 2), {"a": 1}, None, TABLE,
        np.bool_(False),
    )  # fmt: skip
    found = []
    for value in values:
        text = jax.jit(lambda x, value=value: call(x, scale=value)).lower(x).as_text()
        [line] = [line for line in text.splitlines() if "stablehlo.composite " in line]
        found.append(line.split("decomposition")[0].split("%arg0")[-1])
    return found


def composite_of_objects(jax, x):
    return jax.jit(lambda x: _tangent(jax)(x, scale=object()))(x)


def composite_of_traced_attributes(jax, x):
    return jax.jit(lambda x: _tangent(jax)(x, scale=x))(x)


def tokens(jax, x):
    lax = submodule(jax, "lax")

    def function(x):
        token = lax.after_all(lax.create_token(), lax.create_token(x))
        lax.after_all(token)
        return x

    return jax.jit(function)(x), str(jax.make_jaxpr(function)(x)), jax.vmap(function)(x)


def no_token(jax, x):
    return jax.jit(lambda x: submodule(jax, "lax").after_all(x))(x)


def kept(jax, x, prevent):
    lax, jnp = submodule(jax, "lax"), jax.numpy

    def function(x):
        lax.dce_sink({"a": lax.sin(x), "b": [lax.cos(x)]}, prevent_mlir_dce=prevent)
        return x * 2

    results = [jax.jit(function)(x), jax.vmap(function)(x), function(x)]
    slope = jax.jit(jax.grad(lambda x: jnp.sum(function(x))))(x)
    text = jax.jit(function).lower(x).as_text()
    return results, slope, str(jax.make_jaxpr(function)(x)), "stablehlo.sine" in text


PROGRAMS = [
    (composite_values, (X,)),
    (composite_operations, (X,)),
    (composite_of_objects, (X,)),
    (composite_of_traced_attributes, (X,)),
    (tokens, (X,)),
    (no_token, (X,)),
    (kept, (X, False)),
    (kept, (X, True)),
]

FAILING = {composite_of_objects, composite_of_traced_attributes, no_token}
"""Programs that are mistakes."""
