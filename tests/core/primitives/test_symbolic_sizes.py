"""Programs whose sizes are symbols have the types that programs of any values of the symbols have."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.dims import InconclusiveDimensionOperation
from pellucid.export import symbolic_shape
from pellucid.export.dimensions import evaluate
from tests.corpus.symbolic import FUNCTIONS, VARIABLES, WITHOUT_DERIVATIVE, structs

VALUES = {"b": 5, "c": 3}
SYMBOLS = dict(zip(VARIABLES, symbolic_shape("b, c", constraints=["b >= 2"]), strict=True))
PRIMITIVES = 60


def shape_of(aval):
    return tuple(evaluate(size, VALUES) for size in aval.shape)


def total(function):
    def summed(*xs):
        leaves = map(jnp.asarray, pl.tree.leaves(function(*xs)))
        sums = [jnp.sum(y) for y in leaves if jnp.issubdtype(y.dtype, np.inexact)]
        return sum(sums, jnp.float32(0))

    return summed


def forward(function):
    def derivative(*xs):
        floating = [i for i, x in enumerate(xs) if x.dtype == np.float32]
        chosen = [xs[i] for i in floating]

        def of(*some):
            inputs = dict(zip(floating, some, strict=True))
            return function(*(inputs.get(i, x) for i, x in enumerate(xs)))

        return pl.jvp(of, chosen, [jnp.ones_like(x) for x in chosen])[1]

    return derivative


WAYS = {
    "trace": lambda f: f,
    "jvp": forward,
    "grad": lambda f: pl.grad(total(f)),
    "jit": pl.jit,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_are_those_of_any_values(name):
    function, *texts = FUNCTIONS[name]
    ways = {"trace": WAYS["trace"]} if name in WITHOUT_DERIVATIVE else WAYS
    for way, transform in ways.items():
        symbolic = pl.make_jaxpr(transform(function))(*structs(texts, SYMBOLS))
        concrete = pl.make_jaxpr(transform(function))(*structs(texts, VALUES))
        results = [shape_of(a) for a in symbolic.out_avals]
        assert results == [a.shape for a in concrete.out_avals], way


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_of_symbols(name):
    function, *texts = FUNCTIONS[name]

    def batched(values):
        batches = [
            pl.ShapeDtypeStruct((values["c"], *s.shape), s.dtype) for s in structs(texts, values)
        ]
        return pl.make_jaxpr(pl.vmap(function))(*batches).out_avals

    results = [shape_of(a) for a in batched(SYMBOLS)]
    assert results == [a.shape for a in batched(VALUES)]


def test_many_primitives_are_seen():
    names = {
        e.primitive.name
        for function, *texts in FUNCTIONS.values()
        for e in pl.make_jaxpr(function)(*structs(texts, SYMBOLS)).jaxpr.equations
    }
    assert len(names) >= PRIMITIVES, sorted(names)


def test_what_depends_on_the_values_is_refused():
    x = pl.ShapeDtypeStruct((SYMBOLS["b"], 4), np.float32)
    for function in (
        lambda x: lax.dynamic_slice_in_dim(x, 0, 3),
        lambda x: lax.top_k(x.T, 3),
        lambda x: x[1] if x.shape[0] > 3 else x[0],
        lambda x: lax.unstack(x),
    ):
        with pytest.raises(InconclusiveDimensionOperation, match=r"can't be decided|is needed"):
            pl.make_jaxpr(function)(x)
