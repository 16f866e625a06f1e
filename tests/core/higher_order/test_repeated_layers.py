"""Layers that a Python loop makes become calls of one program, and nothing else changes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.base import config
from pellucid.higher_order.repeated_layers import MIN_EQUATIONS, with_layers_called

N = 6
RNG = np.random.default_rng(0)
PARAMS = [
    {k: (RNG.normal(size=(8, 8)) / 3).astype(np.float32) for k in ("q", "k", "v", "up")}
    for _ in range(N)
]
X = RNG.normal(size=(5, 8)).astype(np.float32)


def block(p, x):
    scores = (x @ p["q"]) @ (x @ p["k"]).T / 3.0
    weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    x = x + (weights / weights.sum(axis=-1, keepdims=True)) @ (x @ p["v"])
    return x + jnp.tanh(x @ p["up"]) * 0.5


def stack(params, x):
    for p in params:
        x = block(p, x)
    return x


def loss(params, x):
    return (stack(params, x) ** 2).sum()


def inline_loss(params, x):
    for p in params:
        x = jnp.tanh(x @ p["q"]) + jnp.sin(x @ p["k"]) * jnp.cos(x @ p["v"])
        x = x / jnp.sqrt((x * x).sum(axis=-1, keepdims=True) + 1.0)
    return x.sum()


def scoped_loss(params, x):
    for i, p in enumerate(params):
        with pl.named_scope(f"layer{i}"):
            x = block(p, x)
    return x.sum()


def with_aux(params, x):
    seen = []
    for p in params:
        x = block(p, x)
        seen.append(x.mean())
    return x.sum(), seen


def leaking(params, x):
    """A value that doesn't depend on what is differentiated by leaves by another way than the results."""
    scales = []

    def inner(ps):
        y = x
        scales.append(jnp.sin(x).sum())
        for p in ps:
            y = block(p, y)
        return y.sum()

    gradient = pl.grad(inner)(params)
    return pl.tree.map(lambda g: g * scales[0], gradient)


def dropped(params, x):
    keys = pl.random.split(pl.random.key(0), N)
    for key, p in zip(keys, params, strict=True):
        x = jnp.where(pl.random.bernoulli(key, 0.9, x.shape), block(p, x), 0.0)
    return x.sum()


def numbered_loss(params, x):
    """Layers that differ in numbers."""
    for i, p in enumerate(params):
        x = block(p, x) * (1.0 - i / 10) + 0.5
    return x.sum()


def example_loss(params, x):
    return loss(params, x[None])


def shared_loss(params, x):
    """Layers that exchange values with those of the other examples."""
    for p in params:
        x = block(p, x[None])[0] / lax.pmax(jnp.abs(x).max(), "examples")
    return x.sum()


def calls(jaxpr):
    """How many calls of programs of each name there are."""
    return Counter(e.params.name for e in jaxpr.equations if e.primitive.name == "jit")


PROGRAMS = {
    "block": pl.value_and_grad(loss),
    "inline": pl.value_and_grad(inline_loss),
    "scopes": pl.value_and_grad(scoped_loss),
    "auxiliary values": pl.value_and_grad(with_aux, has_aux=True),
    "leaking": leaking,
    "keys": pl.grad(dropped),
    "numbers": pl.value_and_grad(numbered_loss),
    "vmap within": pl.grad(lambda p, xs: pl.vmap(lambda x: loss(p, x[None]))(xs).sum()),
    "forward": stack,
    "jitted loss": pl.grad(pl.jit(loss)),
    "hessian-vector product": lambda p, x: pl.jvp(pl.grad(loss), (p, x), (p, x)),
    "gradient of a gradient": pl.grad(
        lambda p, x: sum((g**2).sum() for g in pl.tree.leaves(pl.grad(loss)(p, x)))
    ),
    "per example": lambda p, x: pl.vmap(pl.value_and_grad(example_loss), in_axes=(None, 0))(p, x),
    "per example of two axes": lambda p, x: pl.vmap(
        lambda p: pl.vmap(pl.grad(example_loss), in_axes=(None, 0))(p, x)
    )(pl.tree.map(lambda a: jnp.stack([a, 2 * a]), p)),
    "exchanges between examples": lambda p, x: pl.vmap(
        pl.grad(shared_loss), in_axes=(None, 0), axis_name="examples"
    )(p, x),
    "vjp": lambda p, x: pl.vjp(stack, p, x)[1](x),
    "linearize": lambda p, x: pl.linearize(stack, p, x)[1](p, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_flat_program(name):
    function = PROGRAMS[name]
    results = []
    for is_on in (True, False):
        with config.call_repeated_layers(is_on):
            results.append(pl.jit(lambda p, x: function(p, x))(PARAMS, X))
    for ours, flat in zip(*map(pl.tree.leaves, results), strict=True):
        atol = 2e-5 + 1e-6 * np.abs(flat).max()
        np.testing.assert_allclose(ours, flat, rtol=2e-4, atol=atol)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("block", "block"),
        ("inline", "inline_loss_layer"),
        ("scopes", "block"),
        ("keys", "dropped_layer"),
        ("per example", "block"),
        ("per example of two axes", "block"),
        ("exchanges between examples", "shared_loss_layer"),
        ("hessian-vector product", "block"),
    ],
)
def test_layers_are_calls_before_they_are_differentiated(name, expected):
    program = pl.jit(PROGRAMS[name]).trace(PARAMS, X).jaxpr.jaxpr
    assert calls(program)[expected] == 2 * N  # forwards and backwards


def test_forward_layers_are_called_when_compiled():
    text = pl.jit(stack).lower(PARAMS, X).as_text()
    assert text.count("call @block") == N
    with config.call_repeated_layers(False):
        assert "call @block" not in pl.jit(lambda p, x: stack(p, x)).lower(PARAMS, X).as_text()


def test_programs_that_are_shown_stay_as_they_are():
    program = pl.make_jaxpr(PROGRAMS["block"])(PARAMS, X)
    assert not calls(program.jaxpr)["block"]


def test_calls_keep_the_scopes_of_their_layers():
    program = pl.jit(PROGRAMS["scopes"]).trace(PARAMS, X).jaxpr.jaxpr
    scopes = [str(e.scope) for e in program.equations if e.primitive.name == "jit"]
    forward = [s for s in scopes if "transpose" not in s][:N]
    assert [s.rpartition("(")[2].rstrip(")") for s in forward] == [f"layer{i}" for i in range(N)]


def test_fewer_layers_and_effects_stay_flat():
    few = pl.jit(pl.grad(loss)).trace(PARAMS[:3], X).jaxpr.jaxpr
    assert not calls(few)["block"]

    def printing(params, x):
        for p in params:
            x = block(p, x)
            pl.debug.print("{}", x.sum())
        return x.sum()

    assert not calls(pl.jit(pl.grad(printing)).trace(PARAMS, X).jaxpr.jaxpr)["printing_layer"]


def test_eager_gradients_are_not_staged():
    def branching(params, x):
        y = stack(params, x).sum()
        return y if y > 0 else -y

    gradient = pl.grad(branching)(PARAMS, X)
    sign = 1.0 if stack(PARAMS, X).sum() > 0 else -1.0
    expected = pl.grad(lambda p: sign * stack(p, X).sum())(PARAMS)
    for ours, other in zip(pl.tree.leaves(gradient), pl.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_with_repeats_compute_the_same(seed):
    """Whole numbers, so that every order of computing gives the same bits."""
    rng = np.random.default_rng(seed)
    n_values = 3
    operations = (lax.add, lax.sub, lax.mul, lax.max, lax.bitwise_xor)
    steps = rng.integers(0, 30, (int(rng.integers(10, 17)), 4)).tolist()
    steps[-1][3] = 0  # what a result needs of each layer
    n_layers = int(rng.integers(4, 8))
    odd_layer = int(rng.integers(-3, n_layers))  # one that is wired differently
    prologue = int(rng.integers(0, 5))

    def function(*inputs):
        values = list(inputs)
        ends = []
        for _ in range(prologue):
            values[0] = values[0] + values[1]
        for i in range(n_layers):
            for op, a, b, out in steps:
                if i == odd_layer:
                    a, b = b, a
                a, b, out = a % n_values, b % n_values, out % n_values
                values[out] = operations[op % 5](values[a], values[b])
            ends.append(values[0])
        return [*values, ends[0], ends[-2]]

    inputs = [np.arange(4, dtype=np.int32) + i for i in range(n_values)]
    jaxpr = pl.make_jaxpr(function)(*inputs).jaxpr
    called = with_layers_called(jaxpr)
    if odd_layer < 0:
        assert called is not None
    if called is not None:
        assert calls(called).total() >= 4
        for ours, flat in zip(evaluated(called, inputs), evaluated(jaxpr, inputs), strict=True):
            np.testing.assert_array_equal(ours, flat)


NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "xor": np.bitwise_xor,
}


def evaluated(jaxpr, inputs):
    """Results of a program of whole numbers, by NumPy."""
    values = dict(zip(jaxpr.invars, inputs, strict=True))
    for e in jaxpr.equations:
        operands = [values[a] for a in e.operands]
        if e.primitive.name == "jit":
            results = evaluated(e.params.jaxpr.jaxpr, operands)
        else:
            results = [NUMPY[e.primitive.name](*operands)]
        values.update(zip(e.results, results, strict=True))
    return [values[a] for a in jaxpr.outvars]


def test_short_programs_are_not_searched():
    program = pl.make_jaxpr(lambda x: x + 1)(1.0).jaxpr
    assert len(program.equations) < MIN_EQUATIONS
    assert with_layers_called(program) is None
