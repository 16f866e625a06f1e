"""Derivative rules of users that use references: right in each mode, or refused."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import errors, lax

jnp = pl.numpy
X = np.array([1.0, 2.0, 3.0], np.float32)


def by_reference(a):
    ref = pl.new_ref(jnp.zeros_like(a))
    for i in range(3):
        ref[i] = jnp.sin(a[i]) * (1 + ref[(i + 1) % 3])
    return ref[...]


def by_values(a):
    second = jnp.sin(a[1])
    return jnp.stack([jnp.sin(a[0]), second, jnp.sin(a[2]) * (1 + jnp.sin(a[0]))])


def with_rule(tangent):
    """`by_values` with a rule of its own, of which `tangent(primal, tangent)` is the second half."""
    function = pl.custom_jvp(by_values)
    function.defjvp(lambda p, t: (by_values(*p), tangent(*p, *t)))
    return function


def pushed(f, x, t):
    return pl.jvp(f, (x,), (t,))[1]


RULES = {
    "jvp": lambda f: lambda x, t: pushed(f, x, t),
    "jvp of jit": lambda f: lambda x, t: pushed(pl.jit(f), x, t),
    "jit of jvp": lambda f: lambda x, t: pl.jit(lambda x, t: pushed(f, x, t))(x, t),
    "linearize": lambda f: lambda x, t: pl.linearize(f, x)[1](t),
    "vmap": lambda f: lambda x, t: pl.vmap(lambda t: pushed(f, x, t))(jnp.stack([t, t]))[1],
    "checkpoint": lambda f: lambda x, t: pl.checkpoint(lambda t: pushed(f, x, t))(t),
    "of a loop": lambda f: (
        lambda x, t: pushed(lambda x: lax.fori_loop(0, 2, lambda i, c: f(x), x), x, t)
    ),
    "of cond": lambda f: lambda x, t: pushed(lambda x: lax.cond(x[0] < 9, f, jnp.cos, x), x, t),
    "cond": lambda f: lambda x, t: lax.cond(x[0] < 9, lambda t: pushed(f, x, t), lambda t: t, t),
}
MODES = {
    "jvp": lambda f: pushed(f, X, X),
    "linearize": lambda f: pl.linearize(f, X)[1](X),
    "vjp": lambda f: pl.vjp(f, X)[1](X)[0],
    "jit of vjp": lambda f: pl.jit(lambda x: pl.vjp(f, x)[1](x)[0])(X),
    "vjp of jit": lambda f: pl.vjp(pl.jit(f), X)[1](X)[0],
    "vjp of cond": lambda f: pl.vjp(lambda x: lax.cond(x[0] < 9, f, f, x), X)[1](X)[0],
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_may_differentiate_a_function_with_references(rule, mode):
    expected = mode(by_values)
    np.testing.assert_allclose(mode(with_rule(rule(by_reference))), expected, rtol=1e-5)


def filled(start):
    def tangent(x, t):
        ref = pl.new_ref(start(t))
        ref[...] = 2 * t
        return ref[...]

    return with_rule(tangent)


def test_a_tangent_is_not_written_to_a_reference_of_values():
    function = filled(lambda _: jnp.zeros(3))
    assert pushed(function, X, X).tolist() == [2, 4, 6]
    for mode in ("linearize", "vjp", "vjp of jit"):
        with pytest.raises(
            errors.EffectsError, match="can't write tangents to a reference"
        ) as caught:
            MODES[mode](function)
        assert "new_ref(0 * tangent)" in str(caught.value)
    for mode in MODES.values():
        assert mode(filled(lambda t: 0 * t)).tolist() == [2, 4, 6]


def test_a_rule_may_use_references_for_primals():
    def tangent(x, t):
        ref = pl.new_ref(x)
        ref[0] = ref[1] * 2
        return ref[...] * t

    assert [mode(with_rule(tangent)).tolist() for mode in MODES.values()] == [[4, 4, 9]] * 6


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit, pl.checkpoint])
def test_forward_derivatives_by_new_references_have_reverse_ones(transform):
    def product(x):
        cell = pl.new_ref(jnp.zeros_like(x))
        cell[0] = x[0] ** 2 * x[1]
        return cell[...]

    f, x = transform(product), jnp.array([2.0, 3.0])
    # f = a² b: along x its derivative is 3 a² b.
    along = pl.grad(lambda x: pl.jvp(f, (x,), (x,))[1].sum())(x)
    np.testing.assert_allclose(along, [36.0, 12.0])
    rows = pl.grad(lambda x: pl.jacfwd(f)(x).sum())(x)
    np.testing.assert_allclose(rows, [10.0, 4.0])
