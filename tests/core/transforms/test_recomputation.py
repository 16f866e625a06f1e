"""Residuals that follow cheaply from others aren't kept across calls and steps of loops."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax

X = np.linspace(-2, 2, 1024, dtype=np.float32).reshape(16, 64)


def normalized(x):
    centred = x - jnp.mean(x, axis=1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred * centred, axis=1, keepdims=True) + 1e-5)


def kept_by_call(f, *args):
    """Bytes of the results that only the backward pass of the jitted `f` uses."""
    program = pl.make_jaxpr(lambda *xs: pl.vjp(pl.jit(f), *xs)[1])(*args).jaxpr
    [call] = [e for e in program.equations if e.primitive.name == "jit"]
    n_results = len(pl.make_jaxpr(f)(*args).jaxpr.outvars)
    return sum(v.aval.nbytes for v in call.results[n_results:])


def stacked_by_scan(body, init, length):
    program = pl.make_jaxpr(
        lambda c: pl.vjp(lambda x: lax.scan(body, x, None, length=length)[0], c)[1]
    )(init).jaxpr
    [loop] = [e for e in program.equations if e.primitive.name == "scan"]
    return sum(v.aval.nbytes for v in loop.results[1:])


def test_a_quotient_of_kept_values_is_not_kept():
    # of x - mean, the deviation, quotients and powers of both, only the first two and what is small
    assert kept_by_call(normalized, X) <= X.nbytes + 4 * 16 * 4


def test_a_mask_is_kept_as_truth_values():
    assert kept_by_call(lambda x: jnp.sum(jnp.maximum(x, 0) ** 2), X) < 2 * X.nbytes


def test_loops_keep_less_per_step():
    def body(x, _):
        return jnp.maximum(normalized(x), 0.1 * x), None

    assert stacked_by_scan(body, X, 8) <= 8 * (2 * X.nbytes + X.size + 1024)


@pytest.mark.parametrize("wrap", [pl.jit, lambda f: f], ids=["jit", "plain"])
def test_values_stay_the_same(wrap):
    def loss(x):
        def body(c, _):
            return wrap(lambda y: jnp.maximum(normalized(y) * 1.5, 0.1 * y))(c), None

        return jnp.sum(lax.scan(body, x, None, length=3)[0] ** 2)

    def unrolled(x):
        for _ in range(3):
            x = jnp.maximum(normalized(x) * 1.5, 0.1 * x)
        return jnp.sum(x**2)

    np.testing.assert_allclose(pl.grad(loss)(X), pl.grad(unrolled)(X), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(
        pl.jvp(pl.grad(loss), (X,), (X,))[1],
        pl.jvp(pl.grad(unrolled), (X,), (X,))[1],
        rtol=2e-3,
        atol=2e-3,
    )


def test_what_costs_more_than_memory_is_kept():
    program = pl.make_jaxpr(lambda x: pl.vjp(pl.jit(lambda y: jnp.sin(jnp.exp(y))), x)[1])(X).jaxpr
    [call] = [e for e in program.equations if e.primitive.name == "jit"]
    names = [e.primitive.name for e in call.params.jaxpr.jaxpr.equations]
    assert names.count("exp") == 1
    assert len(call.results) >= 2


def test_equations_that_run_again_say_what_they_repeat():
    program = pl.make_jaxpr(pl.grad(pl.jit(lambda x: jnp.sum(normalized(x)))))(X).jaxpr
    backward = [e for e in program.equations if e.primitive.name == "jit"][-1].params.jaxpr.jaxpr
    assert any(
        e.lineage is not None and e.lineage.origins
        for e in backward.equations
        if e.primitive.name == "div"
    )


def primitives_of_residuals(f, *args):
    """Primitives of the results that only the backward pass of the jitted `f` uses; inputs are left out."""
    program = pl.make_jaxpr(lambda *xs: pl.vjp(pl.jit(f), *xs)[1])(*args).jaxpr
    [call] = [e for e in program.equations if e.primitive.name == "jit"]
    jaxpr = call.params.jaxpr.jaxpr
    made_by = {v: e.primitive.name for e in jaxpr.equations for v in e.results}
    n_results = len(pl.make_jaxpr(f)(*args).jaxpr.outvars)
    return sorted(made_by[v] for v in jaxpr.outvars[n_results:] if v in made_by)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(lambda x: (x @ x).T * x, ["dot_general"], id="reordered"),
        pytest.param(
            lambda x: (x - jnp.sum(x, 1, keepdims=True)) * x, ["reduce_sum"], id="shifted"
        ),
        pytest.param(lambda x: (1 - jnp.exp(x)) * x, ["exp"], id="affine"),
        pytest.param(lambda x: (x + x.T) * x, ["add"], id="sum of large operands"),
    ],
)
def test_what_lies_in_memory_is_handed_over_instead_of_its_forms(function, expected):
    assert primitives_of_residuals(function, X[:16, :16]) == expected


def test_small_residuals_are_not_worth_an_equation():
    assert primitives_of_residuals(lambda x: (x @ x).T * x, X[:4, :4]) == ["transpose"]
