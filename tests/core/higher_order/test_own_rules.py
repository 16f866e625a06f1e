"""Rules of one's own in places that the reference doesn't reach, and what is kept for them."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid._machine.base.errors import BatchingRuleError, DerivativeRuleError
from pellucid._machine.ir.rewriting import remove_dead_equations
from pellucid.ad_checkpoint import checkpoint_name
from pellucid.custom_derivatives import linear_call
from pellucid.experimental import checkify

X = np.array([0.5, 1.0, 2.0], np.float32)


@pytest.fixture
def tripled():
    """sin(x) * y, whose batches are three times that; it notes for which batches its rule was asked."""
    requests = []

    @pl.custom_batching.custom_vmap
    def f(x, y):
        return jnp.sin(x) * y

    @f.def_vmap
    def rule(size, batched, x, y):
        requests.append(size)
        return 3.0 * jnp.sin(x) * y, batched[0] or batched[1]

    f.asked = requests
    return f


def test_reverse_mode_of_a_batched_function_differentiates_its_batching_rule(tripled):
    outside = pl.vmap(pl.grad(tripled, argnums=(0, 1)), in_axes=(0, None))(X, 2.0)
    inside = pl.grad(lambda x: pl.vmap(tripled, in_axes=(0, None))(x, 2.0).sum())(X)
    np.testing.assert_allclose(outside[0], 6.0 * np.cos(X), 1e-6)
    np.testing.assert_allclose(outside[1], 3.0 * np.sin(X), 1e-6)
    np.testing.assert_allclose(inside, outside[0], 1e-6)
    assert set(tripled.asked) == {3}


def test_a_function_with_its_own_batching_has_all_derivatives_without_a_batch(tripled):
    assert pl.grad(tripled)(0.5, 2.0) == pytest.approx(2.0 * np.cos(0.5))
    assert pl.grad(pl.grad(tripled))(0.5, 2.0) == pytest.approx(-2.0 * np.sin(0.5))
    assert pl.jit(pl.grad(tripled, 1))(0.5, 2.0) == pytest.approx(np.sin(0.5))
    assert tripled.asked == []
    second = pl.vmap(pl.grad(pl.grad(tripled)), in_axes=(0, None))(X, 2.0)
    np.testing.assert_allclose(second, -6.0 * np.sin(X), 1e-5)


def test_the_batching_rule_counts_as_batched_what_is_so_with_its_tangent():
    seen = []
    f = pl.custom_batching.custom_vmap(lambda x, y: (x * y, y * 2.0))

    def rule(size, batched, x, y):
        seen.append(batched)
        return (x * y, y * 2.0), (batched[0] or batched[1], batched[1])

    f.def_vmap(rule)
    both = lambda x, y, s, t: pl.jvp(f, (x, y), (s, t))
    primals_only = pl.vmap(both, (0, None, None, None), ((0, None), (0, None)))(X, 2.0, 1.0, 3.0)
    tangents_only = pl.vmap(both, (None, None, 0, None), ((None, None), (0, None)))(
        5.0, 2.0, X, 3.0
    )
    assert seen == [[False, False]] * 2
    mixed = pl.vmap(both, (0, None, 0, 0), ((0, None), (0, 0)))(X, 2.0, X, X)
    for (x, s, t), actual in zip(
        ((X, 1.0, 3.0), (5.0, X, 3.0), (X, X, X)), (primals_only, tangents_only, mixed), strict=True
    ):
        np.testing.assert_allclose(actual[0][0], x * 2.0)
        np.testing.assert_allclose(actual[1][0], s * 2.0 + x * t, 1e-6)
        assert actual[0][1] == 4.0
        np.testing.assert_allclose(actual[1][1], 2.0 * t)


def test_rules_of_batches_get_numbers_of_programs_as_arrays() -> None:
    f = pl.custom_batching.custom_vmap(lambda x, y: x * y)

    @f.def_vmap
    def _(size, in_batched, x, y):
        assert in_batched == [True, False]
        return x * y.astype(x.dtype), True

    x = jnp.arange(3.0)
    np.testing.assert_array_equal(pl.jit(pl.vmap(lambda x: f(x, 2)))(x), [0, 2, 4])


def test_the_batching_rule_says_nothing_of_captured_values():
    def outer(x, y):
        f = pl.custom_batching.custom_vmap(lambda y: x * y)
        f.def_vmap(lambda size, batched, y: (y, True))
        return f(y)

    assert pl.grad(outer)(2.0, 3.0) == 3.0
    check_message(
        lambda: pl.vmap(pl.grad(outer), in_axes=(None, 0))(2.0, X),
        BatchingRuleError,
        "captures a value by which it is differentiated",
    )


def test_windows_reduced_by_a_function_have_derivatives_in_both_modes():
    largest = lambda a, b: jnp.where(a > b, a, b)
    f = lambda x: lax.reduce_window(x, -9.0, largest, (2,), (1,), "SAME", None, (1,))
    np.testing.assert_array_equal(pl.jvp(f, (X,), (X,))[1], [1.0, 2.0, 2.0])
    np.testing.assert_array_equal(pl.jacrev(f)(X), [[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    spread = lambda x: lax.reduce_window(
        x, 0.0, lambda a, b: a + 1.0 * b, (2,), (2,), [(1, 2)], (2,), (3,)
    )
    np.testing.assert_allclose(pl.jacfwd(spread)(X), pl.jacrev(spread)(X))
    np.testing.assert_allclose(pl.jacfwd(spread)(X) @ X, spread(X))
    starts = pl.vmap(lambda start: lax.reduce_window(X, start, largest, (2,), (1,), "SAME"))(
        X + 1.0
    )
    np.testing.assert_array_equal(starts[2], [3.0, 3.0, 3.0])


@pytest.mark.parametrize("kind", ["device", "NumPy", "array", "traced"])
def test_reducers_may_close_over_values(kind):
    """The reference refuses arrays on a device when it evaluates, and traced values when it traces."""
    scale = {"NumPy": np.float32(2), "array": jnp.full((1,), 2.0)}.get(kind, jnp.float32(2))
    x = jnp.arange(6.0).reshape(2, 3)

    def reduced(x, s):
        s = s if s.ndim == 0 else s[0]
        return lax.reduce(x, np.float32(0), lambda a, b: jnp.maximum(a, b) + s - s, (1,))

    def windows(x, s):
        s = s if s.ndim == 0 else s[0]
        largest = lambda a, b: jnp.where(a * s > b * s, a, b)
        return lax.reduce_window(x, -9.0, largest, (1, 2), (1, 1), "VALID")

    def pairs(x, s):
        s = s if s.ndim == 0 else s[0]
        combine = lambda a, b: (a[0] + b[0] + s - s, jnp.maximum(a[1] * s, b[1] * s) / s)
        return lax.reduce((x, x), (np.float32(0), np.float32(-9)), combine, (0,))

    def each(function, *args):
        if kind == "traced":
            return pl.jit(function)(*args, scale)
        eager, jitted = function(*args, scale), pl.jit(lambda *args: function(*args, scale))(*args)
        pl.tree.map(np.testing.assert_array_equal, eager, jitted)
        return jitted

    np.testing.assert_array_equal(each(reduced, x), [2, 5])
    np.testing.assert_array_equal(each(windows, x), [[1, 2], [4, 5]])
    np.testing.assert_array_equal(each(pairs, x), [[3, 5, 7], [3, 4, 5]])
    slope = lambda f: lambda x, s: pl.grad(lambda x: f(x, s).sum())(x)
    np.testing.assert_array_equal(each(slope(reduced), x), [[0, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(each(slope(windows), x), [[0, 1, 1], [0, 1, 1]])
    batched = lambda x, s: pl.vmap(lambda x: windows(x, s))(x[None])[0]
    np.testing.assert_array_equal(each(batched, x), [[1, 2], [4, 5]])


def test_reducers_of_equal_text_keep_the_scalars_that_they_close_over():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    for value in (2.0, 3.0, 2.0):
        s = jnp.float32(value)
        product = lambda x, s=s: lax.reduce_window(
            x, np.float32(0), lambda a, b: a + b * s, (1,), (1,), "VALID"
        )
        applied = lambda x, s=s: lax.scatter_apply(
            x, np.array([[1]]), lambda e: e * s, numbers, update_shape=(1,)
        )
        program = pl.make_jaxpr(product)(X)
        assert program.consts == []
        assert program.eqns[0].params["jaxpr"].consts == [s]
        for run in (lambda f: f, pl.jit):
            np.testing.assert_array_equal(run(product)(X), X * value)
            np.testing.assert_array_equal(run(applied)(X), X * [1, value, 1])


def test_a_linear_call_has_the_transpose_that_it_was_given():
    f = lambda r, x: linear_call(lambda r, x: x * r, lambda r, ct: ct * r * 10.0, r, x)
    assert f(3.0, 2.0) == 6.0
    assert pl.grad(f, 1)(3.0, 2.0) == 30.0
    assert pl.grad(f, 0)(3.0, 2.0) == 2.0  # residuals are differentiated as usual
    np.testing.assert_array_equal(pl.vmap(pl.grad(f, 1), in_axes=(0, None))(X, 2.0), 10.0 * X)
    np.testing.assert_array_equal(pl.vmap(f, in_axes=(None, 0))(3.0, X), 3.0 * X)
    back = pl.linear_transpose(lambda x: f(3.0, x), 1.0)
    assert back(1.0) == (30.0,)
    assert pl.linear_transpose(lambda ct: back(ct)[0], 1.0)(1.0) == (3.0,)


def test_a_linear_call_may_capture_values():
    def g(scale, x):
        return linear_call(lambda _, x: x * scale, lambda _, ct: ct * scale, (), x)

    assert pl.grad(g, argnums=(0, 1))(3.0, 2.0) == (2.0, 3.0)
    check_message(
        lambda: linear_call(lambda r, x: x, lambda r, ct: (ct, ct), 1.0, X),
        DerivativeRuleError,
        "cotangents of the linear arguments",
    )


def heavy(optimize):
    """A function whose forward pass does more than the function: it computes a cosine."""
    f = pl.custom_vjp(jnp.sin)
    f.defvjp(
        lambda x: (jnp.sin(x), jnp.cos(x)), lambda c, ct: (2.0 * c * ct,), optimize_remat=optimize
    )
    return f


def primitives(jaxpr):
    actual = []
    for equation in remove_dead_equations(jaxpr)[0].equations:
        if "jaxpr" in equation.params._fields and equation.primitive.name != "remat2":
            actual += primitives(equation.params.jaxpr.jaxpr)
        else:
            actual.append(equation.primitive.name)
    return actual


@pytest.mark.parametrize("optimize", [False, True])
def test_a_forward_pass_without_residuals_is_the_function(optimize):
    f = heavy(optimize)
    program = pl.make_jaxpr(pl.grad(pl.checkpoint(lambda x: f(f(x)) * x)))(1.0)
    assert "cos" not in primitives(program.jaxpr)
    for g in (f, pl.checkpoint(f), pl.jit(f)):
        assert pl.grad(g)(1.0) == pytest.approx(2.0 * np.cos(1.0))
        np.testing.assert_allclose(pl.vmap(pl.grad(g))(X), 2.0 * np.cos(X), 1e-6)
    assert pl.grad(pl.grad(f))(1.0) == pytest.approx(-2.0 * np.sin(1.0))


def test_a_forward_pass_that_computes_otherwise_stays_where_its_residuals_are_wanted():
    """Only with `optimize_remat` the primal pass of a rematerialized call runs the function."""
    f = pl.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (jnp.exp(x), x), lambda x, ct: (ct,), optimize_remat=True)
    g = pl.custom_vjp(jnp.sin)
    g.defvjp(lambda x: (jnp.exp(x), x), lambda x, ct: (ct,))
    value = lambda f: pl.value_and_grad(pl.checkpoint(f, policy=None))(1.0)[0]
    assert pl.jit(lambda: value(f))() == pytest.approx(np.sin(1.0))
    assert pl.jit(lambda: value(g))() == pytest.approx(np.exp(1.0))


@pytest.mark.parametrize(
    "policy",
    [
        pl.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
        pl.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["h"],
            names_which_can_be_offloaded=["k"],
            offload_src="device",
            offload_dst="pinned_host",
        ),
        pl.checkpoint_policies.save_only_these_names("k"),
        pl.checkpoint_policies.dots_saveable,
    ],
    ids=["offload dots", "offload names", "save names", "save dots"],
)
def test_policies_hold_within_scan(policy):
    weights = np.full((3, 2, 2), 0.5, np.float32)

    def body(c, w):
        h = checkpoint_name(jnp.sin(c @ w), "h")
        return checkpoint_name(jnp.sin(h @ w), "k"), None

    def loss(body):
        return lambda ws: jnp.sum(lax.scan(body, weights[0], ws)[0])

    expected = pl.grad(loss(body))(weights)
    checkpointed = loss(pl.checkpoint(body, policy=policy))
    np.testing.assert_allclose(pl.grad(checkpointed)(weights), expected, 1e-6)
    np.testing.assert_allclose(pl.jit(pl.grad(checkpointed))(weights), expected, 1e-6)


def test_checks_and_references_inside_a_function_with_its_own_batching():
    def noting(x):
        total = pl.new_ref(x)

        @pl.custom_batching.custom_vmap
        def f(y):
            total[...] += y
            return jnp.log(y)

        f.def_vmap(lambda size, batched, y: (y, batched[0]))
        return f(x), pl.freeze(total)

    for call in (noting, pl.jit(noting)):
        np.testing.assert_allclose(call(X), (np.log(X), 2 * X), 1e-6)

    f = pl.custom_batching.custom_vmap(jnp.log)
    f.def_vmap(lambda size, batched, y: (y, batched[0]))
    checked = checkify.checkify(f, errors=checkify.float_checks)
    assert "nan generated" in checked(-X)[0].get()
    error, values = pl.vmap(checked)(-X)  # the values by the rule, the errors by the function
    assert "mapped index 0: nan generated" in error.get()
    np.testing.assert_array_equal(values, -X)


@pytest.mark.parametrize("number", [2, 2.0, np.int32(2)])
@pytest.mark.parametrize("make", [jnp.asarray, lambda number: number])
@pytest.mark.parametrize("symbolic_zeros", [False, True])
def test_rules_read_shapes_and_dtypes_of_numbers(number, make, symbolic_zeros):
    """Eagerly, and as an array in a rule that sees the program of a jitted function, where the number is a literal."""
    seen = []

    @pl.custom_vjp
    def scaled(x, factor):
        return x * factor

    def forward(x, factor):
        if symbolic_zeros:
            x, factor = x.value, factor.value
        seen.append(factor)
        return x * jnp.ones(factor.shape, factor.dtype) * factor, factor

    scaled.defvjp(forward, lambda factor, ct: (ct * factor, None), symbolic_zeros=symbolic_zeros)

    @pl.custom_jvp
    def again(x, factor):
        return x * jnp.ones(factor.shape, factor.dtype) * factor

    def rule(primals, tangents):
        seen.append(primals[1])
        assert (primals[1].shape, primals[1].dtype) == ((), pl.typeof(number).dtype)
        return again(*primals), tangents[0] * primals[1]

    again.defjvp(rule, symbolic_zeros=symbolic_zeros)
    for f in (scaled, again):
        assert pl.grad(lambda x, f=f: f(x, make(number)))(3.0) == 2
        assert pl.grad(pl.jit(lambda x, f=f: f(x, make(number))))(3.0) == 2
        assert isinstance(seen[-1], pl.Array)
