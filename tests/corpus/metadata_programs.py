"""Programs whose operations have metadata for XLA; each takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`. They give the metadata of each sine, cosine and
exponential in StableHLO.
"""

import re

import numpy as np

from corpus.transform_programs import submodule

X = np.array([0.25, -0.5, 1.25], np.float32)
_OPERATION = re.compile(r"stablehlo\.(sine|cosine|exponential) [^{\n]*(\{.*\})? :")


def _metadata(lowered):
    return sorted((name, found) for name, found in _OPERATION.findall(lowered.as_text()))


def _set(jax, *x, **metadata):
    return submodule(submodule(jax, "experimental"), "xla_metadata").set_xla_metadata(
        *x, **metadata
    )


def contexts(jax, x):
    jnp = jax.numpy

    def function(x):
        with _set(jax, a=1, b=True):
            y = jnp.sin(x)
            with _set(jax, a=None, c="z"):
                y = jnp.cos(y)
        return jnp.exp(y)

    return _metadata(jax.jit(function).lower(x)), jax.jit(function)(x), function(x)


def decorators(jax, x):
    function = _set(jax, kind="mine")(lambda x: jax.numpy.sin(x))
    return _metadata(jax.jit(function).lower(x))


def values(jax, x):
    def function(x):
        return _set(jax, {"y": jax.numpy.sin(x), "x": x}, k=2.5)

    slope = jax.grad(lambda x: function(x)["y"].sum())(x)
    return _metadata(jax.jit(function).lower(x)), jax.vmap(function)(x), slope


def around_a_call(jax, x):
    function = jax.jit(lambda x: jax.numpy.sin(x))
    found = [_metadata(function.lower(x))]
    with _set(jax, outer=1):
        found.append(_metadata(function.lower(x)))
    return found, _metadata(function.lower(x))


def loops(jax, x):
    def function(x):
        with _set(jax, inside="loop"):
            return submodule(jax, "lax").fori_loop(0, 3, lambda i, x: jax.numpy.sin(x), x)

    return _metadata(jax.jit(function).lower(x))


PROGRAMS = [(program, (X,)) for program in (contexts, decorators, values, around_a_call, loops)]
