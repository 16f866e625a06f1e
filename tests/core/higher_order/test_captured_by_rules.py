"""Rules that close over traced values: as if these were arguments that are not differentiated, under every transformation."""

import functools

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import BatchingRuleError, DerivativeRuleError

X = np.array([0.5, 1.0, 2.0], np.float32)
SCALE = np.array([3.0, -1.0, 0.5], np.float32)


def by_jvp(x, scale):
    """sin(x), whose tangent is multiplied by `scale`, which the rule captures."""

    @pl.custom_jvp
    def f(y):
        return jnp.sin(y)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * scale * jnp.cos(*primals)))
    return f(x)


def by_symbolic_jvp(x, scale):
    @pl.custom_jvp
    def f(y):
        return jnp.sin(y)

    def rule(primals, tangents):
        return f(*primals), tangents[0] * scale * jnp.cos(*primals)

    f.defjvp(rule, symbolic_zeros=True)
    return f(x)


def by_backward(x, scale):
    @pl.custom_vjp
    def f(y):
        return jnp.sin(y)

    f.defvjp(lambda y: (f(y), y), lambda y, ct: (ct * scale * jnp.cos(y),))
    return f(x)


def by_forward(x, scale):
    @pl.custom_vjp
    def f(y):
        return jnp.sin(y)

    f.defvjp(lambda y: (f(y), scale * jnp.cos(y)), lambda slope, ct: (ct * slope,))
    return f(x)


def by_remat(x, scale):
    @pl.custom_vjp
    def f(y):
        return jnp.sin(y)

    forward = lambda y: (f(y), scale * jnp.cos(y))
    f.defvjp(forward, lambda slope, ct: (ct * slope,), optimize_remat=True)
    return f(x)


def by_nested(x, scale):
    """A rule that calls a function whose rule captures a value, too."""

    @pl.custom_jvp
    def f(y):
        return jnp.sin(y)

    f.defjvp(lambda ps, ts: (f(*ps), ts[0] * scale_gradient(jnp.cos(*ps), scale)))

    def scale_gradient(y, factor):
        @pl.custom_jvp
        def g(z):
            return z * lax.stop_gradient(factor)

        g.defjvp(lambda ps, ts: (g(*ps), ts[0] * factor))
        return g(y)

    return f(x)


class Holder:
    """A rule that is a method of an object that holds the value, in a list."""

    def __init__(self, scale):
        self.held = [{"scale": scale}]

    def rule(self, primals, tangents):
        return jnp.sin(*primals), tangents[0] * self.held[0]["scale"] * jnp.cos(*primals)


def by_method(x, scale):
    f = pl.custom_jvp(jnp.sin)
    f.defjvp(Holder(scale).rule)
    return f(x)


def by_partial(x, scale):
    f = pl.custom_jvp(jnp.sin)
    f.defjvp(functools.partial(lambda s, ps, ts: (jnp.sin(*ps), ts[0] * s * jnp.cos(*ps)), scale))
    return f(x)


def by_default(x, scale):
    f = pl.custom_jvp(jnp.sin)
    f.defjvp(lambda ps, ts, s=scale: (jnp.sin(*ps), ts[0] * s * jnp.cos(*ps)))
    return f(x)


KINDS = {
    f.__name__: f
    for f in (
        by_jvp, by_symbolic_jvp, by_backward, by_forward, by_remat, by_nested, by_method, by_partial, by_default,
    )
}  # fmt: skip

WRAPPED = {
    "eagerly": lambda f: f,
    "jit": pl.jit,
    "jit of jit": lambda f: pl.jit(pl.jit(f)),
    "checkpoint": pl.checkpoint,
    "scan": lambda f: lambda x, s: lax.scan(lambda c, _: (c, f(x, s)), 0.0, None, length=2)[1][1],
    "map": lambda f: lambda x, s: lax.map(lambda a: f(*a), (x[None], s[None]))[0],
    "cond": lambda f: lambda x, s: lax.cond(x.sum() > -10, lambda: f(x, s), lambda: x),
    "vmap": lambda f: lambda x, s: pl.vmap(f)(x, s),
    "vmap of one": lambda f: (
        lambda x, s: jnp.diagonal(pl.vmap(lambda x: pl.vmap(lambda s: f(x, s))(s))(x))
    ),
    "jit of vmap of jit": lambda f: pl.jit(pl.vmap(pl.jit(f))),
    "a function of jit's": lambda f: lambda x, s: pl.jit(lambda y: f(y, s))(x),
}


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_rule(kind, wrap):
    f = WRAPPED[wrap](KINDS[kind])

    def loss(x, scale):
        return (f(x, scale) * jnp.arange(1.0, 4.0)).sum()

    weights = np.arange(1.0, 4.0)
    expected = weights * SCALE * np.cos(X)
    for gradient in (pl.grad(loss, (0, 1)), pl.jit(pl.grad(loss, (0, 1)))):
        for _ in range(2):
            of_x, of_scale = gradient(X, SCALE)
            np.testing.assert_allclose(of_x, expected, rtol=1e-5)
            assert not np.asarray(of_scale).any()  # the function doesn't depend on it
    np.testing.assert_allclose(f(X, SCALE), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize(
    "kind", ["by_jvp", "by_backward", "by_forward", "by_method", "by_partial", "by_default"]
)
@pytest.mark.parametrize("wrap", ["eagerly", "jit", "vmap", "checkpoint", "scan"])
def test_second_derivatives_go_through_what_the_rule_captured(kind, wrap):
    f = WRAPPED[wrap](KINDS[kind])

    def slope(x, scale):
        return pl.grad(lambda x: f(x, scale).sum())(x).sum()

    of_x, of_scale = pl.jit(pl.grad(slope, (0, 1)))(X, SCALE)
    # The derivative of sin(x) · scale in x goes by the rule again where the rule uses the function.
    np.testing.assert_allclose(of_scale, np.cos(X), rtol=1e-5)
    np.testing.assert_allclose(of_x, -SCALE * np.sin(X), rtol=1e-5)


@pytest.mark.parametrize("kind", ["by_jvp", "by_method", "by_nested", "by_default"])
@pytest.mark.parametrize("wrap", ["eagerly", "jit", "vmap", "scan"])
def test_forward_mode(kind, wrap):
    f = WRAPPED[wrap](KINDS[kind])
    result, tangent = pl.jit(lambda *a: pl.jvp(f, a, (X, X)))(X, SCALE)
    np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(tangent, SCALE * np.cos(X) * X, rtol=1e-5)


def test_per_example_gradients_and_devices():
    mesh = pl.sharding.Mesh(np.array(pl.devices()[:3]), ("x",))
    spec = pl.P("x")

    def of_part(x, scale):
        return pl.grad(lambda x: by_backward(x, scale).sum())(x)

    f = pl.shard_map(of_part, mesh=mesh, in_specs=(spec, spec), out_specs=spec)
    np.testing.assert_allclose(pl.jit(f)(X, SCALE), SCALE * np.cos(X), rtol=1e-5)


# A function that depends on the value is another matter -----------------------------------------------------


def dependent(x, scale):
    @pl.custom_jvp
    def f(y):
        return y * scale

    f.defjvp(lambda ps, ts: (f(*ps), ts[0] * scale))
    return f(x)


HIDDEN = []


def secretly_dependent(x, scale):
    HIDDEN[:] = [scale]

    @pl.custom_jvp
    def f(y):
        return y * HIDDEN[0]

    f.defjvp(lambda ps, ts: (f(*ps), ts[0] * scale))
    return f(x)


def reversed_dependent(x, scale):
    @pl.custom_vjp
    def f(y):
        return y * scale

    f.defvjp(lambda y: (f(y), None), lambda _, ct: (ct * scale,))
    return f(x)


@pytest.mark.parametrize("wrap", ["eagerly", "jit", "checkpoint", "scan", "vmap"])
@pytest.mark.parametrize("f", [dependent, secretly_dependent, reversed_dependent])
def test_a_captured_value_that_the_function_depends_on_has_no_derivative(f, wrap):
    f = WRAPPED[wrap](f)
    for transformed in (pl.grad, lambda g: pl.jit(pl.grad(g))):
        np.testing.assert_allclose(transformed(lambda x: f(x, SCALE).sum())(X), SCALE)
        with pytest.raises((DerivativeRuleError, pl.errors.UnexpectedTracerError)):
            transformed(lambda s: f(X, s).sum())(SCALE)
        with pytest.raises((DerivativeRuleError, pl.errors.UnexpectedTracerError)):
            transformed(lambda x: f(x, 2 * x).sum())(X)


# Batching rules ---------------------------------------------------------------------------------------------


def by_batching_rule(x, scale):
    @pl.custom_batching.custom_vmap
    def f(y):
        return jnp.sin(y)

    @f.def_vmap
    def _(size, batched, y):
        return jnp.sin(y) * scale, True

    return f(x)


@pytest.mark.parametrize("wrap", ["eagerly", "jit", "checkpoint", "a function of jit's"])
def test_batching_rules_may_capture_what_is_not_batched(wrap):
    f = WRAPPED[wrap](by_batching_rule)
    for transformed in (pl.vmap, lambda g, axes: pl.jit(pl.vmap(g, axes))):
        result = transformed(f, (0, None))(np.stack([X, 2 * X]), SCALE)
        np.testing.assert_allclose(result, np.sin([X, 2 * X]) * SCALE, rtol=1e-6)


@pytest.mark.parametrize("wrap", ["eagerly", "jit"])
def test_a_batched_value_that_a_batching_rule_captured_is_refused(wrap):
    with pytest.raises(BatchingRuleError, match="closes over a value that an outer vmap batches"):
        pl.vmap(WRAPPED[wrap](by_batching_rule))(X, SCALE)


# Functions of the library, which are remembered -----------------------------------------------------------


@pytest.mark.parametrize("make_mask", [np.asarray, jnp.asarray], ids=["NumPy", "array"])
def test_masked_softmax_is_differentiated_again_and_again(make_mask):
    mask = make_mask([True, False, True])

    def loss(x):
        return (pl.nn.softmax(x, where=mask) * pl.nn.softmax(2 * x, where=mask)).sum()

    def plain(x):
        weights = jnp.where(mask, jnp.exp(x), 0.0)
        doubled = jnp.where(mask, jnp.exp(2 * x), 0.0)
        return (weights / weights.sum() * doubled / doubled.sum()).sum()

    expected = pl.grad(plain)(X)
    for _ in range(4):
        np.testing.assert_allclose(pl.grad(loss)(X), expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(pl.jit(pl.grad(loss))(X), expected, rtol=1e-4, atol=1e-6)
