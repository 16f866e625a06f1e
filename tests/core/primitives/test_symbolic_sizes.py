"""Programs whose sizes are symbols have the types that programs of any values of the symbols have."""

import numpy as np
import pytest
from symbols import variable

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.base.dims import InconclusiveSizeError
from pellucid.base.errors import CompilationError

VALUES = {"b": 5, "c": 3}
SYMBOLS = {name: variable(name) for name in VALUES}
INDEX = ((), np.int32)


def pooled(x):
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def layers(x, *weights):
    for w in weights:
        x = jnp.tanh(x @ w + w[0])
    return x.mean()


def recurrence(w):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, jnp.where(h > 0, h * h, jnp.log(1 + jnp.abs(h)))

    return step


# name: (function, its operands' shapes as texts, or (shape, dtype))
FUNCTIONS = {
    "arithmetic": (lambda x: (x + x * 2 - lax.rsqrt(x) / x) ** 3, "(b,4)"),
    "transcendental": (lambda x: lax.logistic(lax.erf(jnp.sin(x)) + jnp.exp(x)), "(b,4)"),
    "max": (lambda x: jnp.maximum(x, 0.0), "(b,4)"),
    "select": (lambda x: jnp.where(x > 0, x, 0.0), "(b,4)"),
    "clamp": (lambda x: lax.clamp(0.0, x, 1.0), "(b,4)"),
    "matmul": (lambda x, w: x @ w, "(b,4)", "(4,3)"),
    "matmul of two symbols": (lambda x, y: x @ y.T, "(b,4)", "(c,4)"),
    "contract a symbol": (lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))), "(b,4)", "(b,2)"),
    "einsum": (lambda x, y: jnp.einsum("bi,bj->ij", x, y), "(b,4)", "(b,3)"),
    "sums": (lambda x: (x.sum(), x.sum(0), x.sum(1)), "(b,4)"),
    "extremes": (lambda x: (x.max(0), x.prod(1), jnp.argmax(x, 0)), "(b,4)"),
    "means": (lambda x: (x.mean(), x.std(0)), "(b,4)"),
    "cumsum": (lambda x: jnp.cumsum(x, 0), "(b,4)"),
    "sort": (lambda x: jnp.sort(x, 0), "(b,4)"),
    "top_k": (lambda x: lax.top_k(x, 2), "(b,4)"),
    "reshape": (lambda x: (x.reshape(-1), x.reshape(-1, 2), lax.reshape(x, (2 * x.shape[0], 2))), "(b,4)"),
    "transpose": (lambda x: x.T, "(b,4)"),
    "broadcast": (lambda x: x[:, None] + x[None], "(b,4)"),
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x]), "(b,4)", "(c,4)"),
    "stack, split, tile": (lambda x: jnp.split(jnp.tile(jnp.stack([x, x]), (1, 1, 2)), 2, 2), "(b,4)"),
    "squeeze": (lambda x: jnp.squeeze(x[:, :1], 1), "(b,4)"),
    "slices": (lambda x: (x[1:], x[:-1], x[-1:], x[:, 1:3], x[::-1]), "(b+1,4)"),
    "pad": (lambda x: lax.pad(x, np.float32(0), ((1, 2, 0), (0, 0, 1))), "(b,4)"),
    "rev": (lambda x: lax.rev(x, (0,)), "(b,4)"),
    "iota": (lambda x: x + lax.broadcasted_iota(np.float32, x.shape, 0), "(b,4)"),
    "creation": (lambda x: jnp.ones_like(x) * x + jnp.zeros(x.shape), "(b,4)"),
    "element": (lambda x: (x[0], x[-1]), "(b,4)"),
    "dynamic element": (lambda x, i: x[i], "(b,4)", INDEX),
    "gather": (lambda x, i: x[i], "(b,4)", ("(c,)", np.int32)),
    "scatter": (lambda x, i: x.at[i].add(1.0), "(b,4)", INDEX),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 4)), "(b,4)", INDEX),
    "update": (lambda x, i: lax.dynamic_update_slice(x, jnp.ones((1, 4)), (i, 0)), "(b,4)", INDEX),
    "convolution": (lambda x, w: lax.conv(x, w, (2, 2), "SAME"), "(b,3,8,8)", "(5,3,3,3)"),
    "reduce_window": (pooled, "(b,8,8,3)"),
    "convert": (lambda x: (x.astype(np.int32), lax.reduce_precision(x, 5, 2)), "(b,4)"),
    "scan": (lambda x: lax.scan(lambda s, r: (s + r, s), jnp.zeros(4), x), "(b,4)"),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda a: a * 2, lambda a: a, x), "(b,4)"),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, a: a * 2, x), "(b,4)"),
    "calls": (lambda x: pl.jit(pl.checkpoint(jnp.sin))(x), "(b,4)"),
    "recurrence": (lambda w, xs: lax.scan(recurrence(w), jnp.zeros(xs.shape[1:]), xs), "(4,4)", "(b,c,4)"),
    "multilayer perceptron": (layers, "(b,4)", "(4,8)", "(8,8)", "(8,2)"),
}  # fmt: skip
PRIMITIVES = 30


def operands(texts, values):
    for text in texts:
        shape, dtype = text if isinstance(text, tuple) else (text, np.float32)
        yield pl.ShapeDtypeStruct(eval(str(shape), dict(values)), dtype)


def total(function):
    def summed(*xs):
        leaves = pl.tree_util.tree_leaves(function(*xs))
        return sum(jnp.sum(y) for y in leaves if jnp.issubdtype(y.dtype, np.inexact))

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
    for way, transform in WAYS.items():
        symbolic = pl.make_jaxpr(transform(function))(*operands(texts, SYMBOLS))
        concrete = pl.make_jaxpr(transform(function))(*operands(texts, VALUES))
        results = [eval(str(a.shape), dict(VALUES)) for a in symbolic.out_avals]
        assert results == [a.shape for a in concrete.out_avals], way


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_of_symbols(name):
    function, *texts = FUNCTIONS[name]

    def batched(values):
        structs = [
            pl.ShapeDtypeStruct((values["c"], *s.shape), s.dtype) for s in operands(texts, values)
        ]
        return pl.make_jaxpr(pl.vmap(function))(*structs).out_avals

    results = [eval(str(a.shape), dict(VALUES)) for a in batched(SYMBOLS)]
    assert results == [a.shape for a in batched(VALUES)]


def test_many_primitives_are_seen():
    names = {
        e.primitive.name
        for function, *texts in FUNCTIONS.values()
        for e in pl.make_jaxpr(function)(*operands(texts, SYMBOLS)).jaxpr.equations
    }
    assert len(names) >= PRIMITIVES, sorted(names)


def test_what_depends_on_the_values_is_refused():
    x = pl.ShapeDtypeStruct((SYMBOLS["b"], 4), np.float32)
    for function in (
        lambda x: x[:2],
        lambda x: lax.top_k(x.T, 2),
        lambda x: x[1] if x.shape[0] > 3 else x[0],
    ):
        with pytest.raises(InconclusiveSizeError, match=r"depends on the values|outside of"):
            pl.make_jaxpr(function)(x)
    with pytest.raises(CompilationError, match="symbolic sizes"):
        pl.jit(jnp.sin).lower(x)
