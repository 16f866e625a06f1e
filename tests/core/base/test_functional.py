"""Functions under other names, and around callable objects whose names are no strings."""

import functools

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base import copy_with_name


class Doubling:
    """A callable object as libraries make them, whose `__name__` is something else than a string."""

    def __init__(self, name):
        self.__name__ = name

    def __call__(self, x):
        return x * 2.0


CALLS = {
    "jit": lambda f: pl.jit(f)(1.0),
    "grad": lambda f: pl.grad(f)(1.0),
    "jvp": lambda f: pl.jvp(f, (1.0,), (1.0,))[1],
    "jacfwd": lambda f: pl.jacfwd(f)(1.0),
    "linearize": lambda f: pl.linearize(f, 1.0)[1](1.0),
    "vmap": lambda f: pl.vmap(f)(np.ones(1, np.float32))[0],
    "pmap": lambda f: pl.pmap(f)(np.ones(1, np.float32))[0],
    "checkpoint": lambda f: pl.checkpoint(f)(1.0),
    "custom_jvp": lambda f: pl.custom_jvp(f).fun(1.0),
    "eval_shape": lambda f: 2.0 if pl.eval_shape(f, 1.0).shape == () else 0.0,
    "vectorize": lambda f: jnp.vectorize(f)(1.0),
    "map": lambda f: lax.map(f, np.ones(1, np.float32))[0],
    "cond": lambda f: lax.cond(True, f, f, 1.0),
    "composite": lambda f: lax.composite(f, "my.doubling")(1.0),
}


@pytest.mark.parametrize("name", [5, None])
@pytest.mark.parametrize("call", CALLS)
def test_callable_objects_may_have_names_that_are_no_strings(call, name):
    assert float(CALLS[call](Doubling(name))) == 2


def test_a_renamed_function_is_called_so_everywhere():
    def scaled(x, *, factor=2):
        """`scaled` of `x`."""
        return x * factor

    other = copy_with_name(scaled, "grown", "library")
    assert (other.__name__, other.__qualname__, other.__module__) == ("grown", "grown", "library")
    assert other.__doc__ == "`grown` of `x`."
    assert other(3) == 6
    assert other(3, factor=3) == 9
    assert scaled.__name__ == "scaled"


WITH_NAMES = {
    "jit": pl.jit,
    "jit with static arguments": lambda f: pl.jit(f, static_argnums=0),
    "grad": pl.grad,
    "value_and_grad": pl.value_and_grad,
    "vmap": pl.vmap,
    "pmap": pl.pmap,
    "checkpoint": pl.checkpoint,
    "custom_jvp": pl.custom_jvp,
    "custom_vjp": pl.custom_vjp,
    "vectorize": jnp.vectorize,
}


@pytest.mark.parametrize("transform", WITH_NAMES.values(), ids=WITH_NAMES)
def test_what_wraps_partials_and_objects_has_their_name(transform):
    def scaled(factor, x):
        return factor * x

    assert transform(functools.partial(scaled, 2)).__name__ == "scaled"
    assert transform(Doubling(None)).__name__ == "Doubling"
