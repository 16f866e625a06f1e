"""custom_jvp, custom_vjp and what is built on them."""

import dataclasses

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import custom_jvp, custom_vjp, grad, jit, jvp, lax, linear_transpose, vmap
from pellucid._machine.base.errors import DerivativeRuleError, UnexpectedTracerError
from pellucid.custom_batching import custom_vmap
from pellucid.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)


def forward(rule):
    f = custom_jvp(lambda x: x)
    f.defjvp(rule)
    return f


def reverse(fwd, bwd):
    f = custom_vjp(lambda d: d["a"])
    f.defvjp(fwd, bwd)
    return f


def test_python_control_flow_works_outside_of_traces():
    @custom_jvp
    def f(x):
        return x if x > 0 else -x

    f.defjvp(lambda p, t: (f(*p), t[0] if p[0] > 0 else -t[0]))
    assert float(grad(f)(-2.0)) == -1.0


def test_rules_see_symbolic_zeros():
    seen = []
    f = custom_jvp(lambda x, y: x * y)

    def rule(primals, tangents):
        seen.append([isinstance(t, SymbolicZero) for t in tangents])
        return f(*primals), tangents[0] * primals[1]

    f.defjvp(rule, symbolic_zeros=True)
    for g in (f, jit(f)):
        assert float(grad(g)(2.0, 3.0)) == 3.0
    assert vmap(grad(f))(np.ones(2), np.ones(2)).shape == (2,)
    assert seen == [[False, True]] * 3
    tree = {"w": np.ones(2, np.float32), "none": None, "n": (3,)}
    zeros = zero_from_primal(tree, symbolic_zeros=True)
    assert zeros["w"].shape == (2,)
    assert zeros["n"][0].dtype == pl.float0
    assert zero_from_primal(tree)["w"].sum() == 0


def test_a_linear_function_with_its_own_derivative_is_transposed():
    """Alone, and where it is part of the tangent that another rule computes."""
    scaled = custom_jvp(lambda x, by: x * by)
    scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0] * primals[1]))
    x = np.float32([0.5, 1.5])
    assert linear_transpose(lambda x: scaled(x, 3.0), x)(x)[0].tolist() == [1.5, 4.5]
    f = custom_jvp(lax.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), jit(scaled)(*tangents, lax.cos(*primals))))
    for g in (f, jit(f)):
        np.testing.assert_allclose(vmap(grad(g))(x), np.cos(x), rtol=1e-6)


def test_forward_and_backward_functions_see_symbolic_zeros():
    seen = []
    f = custom_vjp(lambda x, y: (x * y, x))

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        x, y = custom_vjp_primal_tree_values((x, y))
        return f(x, y), (x, y)

    def bwd(residuals, cts):
        seen.append(isinstance(cts[1], SymbolicZero))
        return cts[0] * residuals[1], None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert float(grad(lambda x: f(x, 3.0)[0])(2.0)) == 3.0
    assert float(grad(lambda x: jit(f)(x, 3.0)[0])(2.0)) == 3.0
    assert seen == [(True, False), True] * 2
    assert CustomVJPPrimal(1, True) == CustomVJPPrimal(1, True)


def test_defaults_keywords_and_methods():
    class Layer:
        @custom_jvp
        def scale(self, x):
            return x * 2.0

    f = custom_jvp(lambda x, y=2.0: x * y)
    f.defjvp(lambda p, t: (f(*p), t[0] * p[1] * 10.0))
    assert float(grad(f)(1.0)) == 20.0
    assert float(grad(lambda x: f(x, y=3.0))(1.0)) == 30.0
    with pytest.raises(DerivativeRuleError):
        Layer().scale(1.0)


def test_arguments_that_are_not_differentiated_by_name():
    f = custom_vjp(lambda x, mode: x if mode == "same" else -x, nondiff_argnames=("mode",))
    f.defvjp(lambda x, mode: (x, None), lambda mode, _, g: (g * 5.0,))
    assert float(grad(lambda x: f(x, "same"))(1.0)) == 5.0


def test_rules_may_capture_arrays():
    w = np.arange(3, dtype=np.float32)
    f = custom_jvp(lambda x: x * w)
    f.defjvp(lambda p, t: (f(*p), t[0] * (w + 1.0)))
    loss = lambda x: lax.reduce_sum(f(x), (0,))
    for g in (
        loss,
        jit(loss),
        lambda x: lax.scan(lambda c, _: (c + jit(loss)(x), None), 0.0, None, length=1)[0],
    ):
        np.testing.assert_array_equal(grad(g)(np.ones(3, np.float32)), w + 1.0)


def test_batches_are_summed_for_arguments_that_have_none():
    f = custom_vjp(lambda x, w: x * w)
    f.defvjp(lambda x, w: (f(x, w), (x, w)), lambda r, g: (g * r[1], g * r[0]))
    x = np.arange(3, dtype=np.float32)
    loss = lambda w: lax.reduce_sum(vmap(f, in_axes=(0, None))(x, w), (0,))
    assert float(grad(loss)(2.0)) == float(jit(grad(jit(loss)))(2.0)) == 3.0


ERRORS = [
    (lambda: custom_jvp(3), ["custom_jvp needs a function"]),
    (lambda: custom_jvp(lambda x: x)(1.0), ["no derivative was given", "defjvp"]),
    (lambda: grad(forward(lambda p, t: p[0]))(1.0), ["must return a pair (result, tangent)"]),
    (lambda: grad(forward(lambda p, t: (p[0], t)))(1.0), ["another structure than the result"]),
    (lambda: grad(forward(lambda p, t: (p[0], np.ones(3))))(1.0), ["tangent: got f32[3], expected f32[]"]),
    (lambda: grad(jit(forward(lambda p, t: ((p[0],), (t[0],)))))(1.0), ["another type than the function"]),
    (lambda: custom_vjp(lambda x: x)(1.0), ["no derivative was given", "defvjp"]),
    (lambda: grad(reverse(lambda d: d["a"], lambda r, g: g))({"a": 1.0}), ["must return a pair (result, residuals)"]),
    (lambda: grad(reverse(lambda d: (d["a"], None), lambda r, g: g))({"a": 1.0}), ["a tuple, one cotangent for each", "got f32[]", "`(ct,)`"]),
    (lambda: grad(reverse(lambda d: (d["a"], None), lambda r, g: (g,)))({"a": 1.0, "b": 2.0}), ["cotangents[0]", "structure"]),
    (lambda: grad(reverse(lambda d: (d["a"], None), lambda r, g: ({"a": np.ones(2)},)))({"a": 1.0}), ['cotangents[0]["a"]: got f32[2], expected f32[]']),
    (lambda: grad(reverse(lambda d: ("a", None), lambda r, g: (g,)))({"a": 1.0}), ["not an array"]),
    (lambda: jvp(reverse(lambda d: (d["a"], None), lambda r, g: ({"a": g},)), ({"a": 1.0},), ({"a": 1.0},)), ["forward-mode", "reverse derivative"]),
    (lambda: jvp(vmap(pl.custom_gradient(lambda x: (x, lambda g: [g]))), (np.ones(2),), (np.ones(2),)), ["forward-mode", "reverse derivative"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "fragments"), ERRORS)
def test_errors_say_what_where_and_what_to_do(call, fragments):
    check_message(call, TypeError, *fragments)


def test_traced_values_as_settings_are_refused():
    f = custom_vjp(lambda n, x: x * n, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (x * n, None), lambda n, _, g: (g * n,))
    assert float(grad(lambda x: f(3.0, x))(1.0)) == 3.0
    check_message(
        lambda: jit(lambda n: grad(lambda x: f(n, x))(1.0))(2.0),
        UnexpectedTracerError,
        "nondiff_argnums",
    )


def scaled(c):
    """Two functions that are c * x, and whose derivatives are 10 * c; both capture `c`."""
    forwards = custom_jvp(lambda x: x * c)
    forwards.defjvp(lambda p, t: (forwards(*p), t[0] * c * 10.0))
    backwards = custom_vjp(lambda x: x * c)
    backwards.defvjp(lambda x: (backwards(x), None), lambda _, ct: (ct * c * 10.0,))
    return forwards, backwards


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
@pytest.mark.parametrize("which", [0, 1])
def test_functions_and_rules_may_capture_values_of_an_outer_batch(which, wrap):
    cs = np.arange(1.0, 4.0, dtype=np.float32)

    def outer(c, x):
        f = scaled(c)[which]
        return f(2.0), f(x), grad(f)(2.0), grad(f)(x), vmap(f)(x + cs), vmap(grad(f))(x + cs)

    actual = wrap(vmap(outer))(cs, cs)
    expected = [
        cs * 2.0, cs * cs, cs * 10.0, cs * 10.0,
        cs[:, None] * (cs[:, None] + cs), np.broadcast_to(10.0 * cs[:, None], (3, 3)),
    ]  # fmt: skip
    for got, target in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, target)
    two = vmap(vmap(lambda c, d: grad(scaled(c * d)[which])(2.0), (None, 0)), (0, None))
    np.testing.assert_allclose(wrap(two)(cs, cs), 10.0 * cs[:, None] * cs)
    over_batch = wrap(grad(lambda x: vmap(lambda c, x: scaled(c)[which](x))(cs, x).sum()))
    np.testing.assert_allclose(over_batch(cs), 10.0 * cs)


def test_arguments_that_are_not_differentiated_may_be_batched():
    f = custom_jvp(lambda c, x: x * c, nondiff_argnums=(0,))
    f.defjvp(lambda c, p, t: (f(c, *p), t[0] * c * 10.0))
    xs = np.arange(3.0, dtype=np.float32)
    np.testing.assert_allclose(vmap(f)(xs, xs), xs * xs)
    np.testing.assert_allclose(vmap(grad(f, 1))(xs, xs), 10.0 * xs)


def test_a_result_that_no_batch_reaches_has_no_batch_axis():
    f, g = scaled(2.0)
    for h in (f, g):
        assert vmap(lambda x, h=h: (x, h(3.0)), out_axes=(0, None))(np.ones(2))[1] == 6.0


def identity(c):
    """The identity, whose backward function captures `c`."""
    f = custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct * c,))
    return f


def test_a_batch_that_only_the_rule_captures_is_summed():
    cs = np.arange(1.0, 4.0, dtype=np.float32)
    total = lambda w: vmap(lambda c: identity(c)(w) * c)(cs).sum()
    for f in (total, jit(total)):
        assert grad(f)(2.0) == (cs * cs).sum()


def test_symbolic_zeros_are_those_of_one_element():
    shapes = []
    f = custom_vjp(lambda x, y: (x * y, x))

    def bwd(y, cts):
        shapes.append((type(cts[1]), cts[1].shape))
        return cts[0] * y, None

    f.defvjp(lambda x, y: (f(x.value, y.value), y.value), bwd, symbolic_zeros=True)
    ones = np.ones(2, np.float32)
    grad(lambda x: vmap(f)(x, ones)[0].sum())(ones)
    assert shapes == [(SymbolicZero, ())]


def test_decorators_take_the_definitions_of_what_they_decorate():
    f = custom_vjp(custom_vmap(lambda x: x * 2.0))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * 10.0,))
    f.def_vmap(lambda size, batched, x: (x * 3.0, batched[0]))
    assert vmap(f)(np.ones(2)).tolist() == [3.0, 3.0]
    assert vmap(grad(f))(np.ones(2)).tolist() == [10.0, 10.0]
    g = custom_vmap(custom_jvp(lambda x: x * 2.0))
    g.defjvp(lambda p, t: (g(*p), t[0] * 7.0))
    g.def_vmap(lambda size, batched, x: (x * 3.0, batched[0]))
    assert jvp(g, (1.0,), (1.0,)) == (2.0, 7.0)
    with pytest.raises(AttributeError, match="defjvp"):
        custom_vmap(lambda x: x).defjvp  # noqa: B018


# Cotangents that are known to be zero --------------------------------------------------------------------


@pl.custom_vjp
def doubled(x, meter):
    """Twice `x`; the rule passes a measurement on as the cotangent of `meter`."""
    return 2 * x


doubled.defvjp(lambda x, meter: (2 * x, None), lambda _, ct: (ct, jnp.float32(7)))


@pl.custom_vjp
def second(x, y):
    """`y`, and no cotangent for `x`."""
    return y


second.defvjp(lambda x, y: (y, None), lambda _, ct: (None, ct))

# The answers are the reference's: a rule is asked unless nothing that it computes reaches the result.
MEASURED = {
    "unused": (lambda x, m: (doubled(x, m), x**2)[1], 0),
    "stopped": (lambda x, m: lax.stop_gradient(doubled(x, m)) + x**2, 0),
    "used": (lambda x, m: doubled(x, m) * 0 + x**2, 7),
    "no cotangent": (lambda x, m: second(doubled(x, m), x**2), 7),
    "no cotangent behind other operations": (lambda x, m: second(jnp.sin(doubled(x, m)), x**2), 7),
}
WAYS = {
    "eager": lambda f: f,
    "jit": pl.jit,
    "checkpoint": pl.checkpoint,
    "scan": lambda f: lambda x, m: lax.scan(lambda c, _: (c + f(x, m), None), 0.0, None, 1)[0],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", MEASURED)
def test_rules_are_asked_for_cotangents_of_zero(case, way):
    function, expected = MEASURED[case]
    assert pl.grad(WAYS[way](function), (0, 1))(3.0, 1.0)[1] == expected
    assert pl.jit(pl.grad(WAYS[way](function), 1))(3.0, 1.0) == expected


@pl.tree_util.register_dataclass
@dataclasses.dataclass
class Boxed:
    value: object
    none: None = None


def test_an_array_is_the_cotangent_of_a_subtree_of_one_leaf():
    f = pl.custom_vjp(lambda box: box["x"].value ** 2)
    f.defvjp(lambda box: (f(box), box["x"].value), lambda x, ct: ({"x": 3 * x * ct, "n": None},))
    assert pl.grad(f)({"x": Boxed(2.0), "n": None})["x"].value == 6


def test_zero_cotangents_of_scalars_are_arrays_also_in_programs():
    @pl.custom_vjp
    def both(x):
        return x, 2 * x

    def backward(residuals, cotangents):
        used, unused = cotangents
        assert isinstance(unused, pl.Array)
        assert unused.at[...].set(3.0).shape == ()
        return (used + unused,)

    both.defvjp(lambda x: (both(x), None), backward)
    for function in (
        lambda x: both(x)[0],
        pl.jit(lambda x: both(x)[0]),
        pl.checkpoint(lambda x: both(x)[0]),
    ):
        assert pl.grad(function)(1.5) == 1
        assert pl.jit(pl.grad(function))(np.float32(1.5)) == 1


@pytest.mark.parametrize("of", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("returned", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_cotangents_of_another_precision_become_those_of_the_argument(of, returned):
    f = custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct.astype(returned),))
    x = jnp.ones(2, of)
    gradient = grad(lambda x: (f(x) + x).astype("float32").sum())(x)
    assert gradient.dtype == x.dtype
    assert gradient.tolist() == [2, 2]


def test_cotangents_of_another_kind_are_refused_unless_unchecked():
    f = custom_vjp(lambda x: x)
    for change in (
        lambda ct: ct.astype("int32"),
        lambda ct: ct.astype("complex64"),
        lambda ct: ct.sum(),
    ):
        f.defvjp(lambda x: (x, None), lambda _, ct, change=change: (change(ct),))
        with pytest.raises(DerivativeRuleError, match="of another type"):
            grad(lambda x: f(x).sum())(jnp.ones(2))
        with pl._machine.base.config.disable_bwd_checks(True):
            assert grad(lambda x: f(x).sum())(jnp.ones(2)).tolist() in ([1, 1], 2)
