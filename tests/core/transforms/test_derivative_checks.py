"""`check_grads` and its kin say which derivative is wrong, by which argument, and by how much."""

import functools

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.test_util import check_grads, check_jvp, check_vjp

X = np.array([1.0, 2.0, 3.0], np.float32)


@pl.custom_vjp
def twice_in_w(x, w):
    return x * w


twice_in_w.defvjp(
    lambda x, w: (x * w, (x, w)), lambda saved, ct: (saved[1] * ct, 2 * saved[0] * ct)
)


def test_the_wrong_argument_is_named_with_both_numbers():
    params = {"b": X, "w": X}
    check_message(
        lambda: check_grads(lambda p: twice_in_w(p["b"], p["w"]), (params,), 1, modes=("rev",)),
        AssertionError,
        "order 1, vjp of `<lambda>`",
        'along args[0]["w"], the projected cotangent: the derivative is',
        "central differences give",
    )


def test_an_argument_that_is_right_is_not_blamed():
    with pytest.raises(AssertionError) as caught:
        check_grads(twice_in_w, (X, X), 1, modes="rev")
    assert "args[0]" not in str(caught.value)


def test_the_order_and_the_modes_are_named():
    @pl.custom_jvp
    def slope(x):
        return jnp.cos(x)

    slope.defjvp(lambda primals, tangents: (slope(*primals), 7 * tangents[0]))

    @pl.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), slope(*primals) * tangents[0]))
    check_grads(sine, (X,), 1)
    check_message(
        lambda: check_grads(sine, (X,), 2),
        AssertionError,
        "order 2, jvp of jvp of `sine`",
        "along args[0], result 1: at (",
    )
    with pytest.raises(AssertionError, match="order 2, vjp of vjp of `sine`"):
        check_grads(sine, (X,), 2, modes=("rev",))


def test_a_tangent_of_another_shape_is_found():
    def push(primals, tangents):
        return jnp.sin(primals[0]), jnp.sum(tangents[0])

    check_message(
        lambda: check_jvp(jnp.sin, push, (X,), err_msg="mine"),
        AssertionError,
        "mine: a tangent doesn't have the type of its result.",
        "result: f32[3], tangent: f32[]",
    )


def test_a_rule_with_another_value_is_found():
    check_message(
        lambda: check_vjp(jnp.sin, functools.partial(pl.vjp, jnp.cos), (X,)),
        AssertionError,
        "result 0 is not the function's",
        "its value is",
    )


def test_tolerances_are_by_dtype():
    def inexact(primals, tangents):
        return jnp.sin(primals[0]), jnp.cos(primals[0]) * tangents[0] * 1.05

    check_jvp(jnp.sin, inexact, (X,), rtol=0.1)
    check_jvp(jnp.sin, inexact, (X,), rtol={np.float32: 0.1})
    with pytest.raises(AssertionError):
        check_jvp(jnp.sin, inexact, (X,), rtol={np.float64: 0.1})


def test_narrow_and_wide_floats_have_steps_of_their_own():
    check_grads(jnp.tanh, (jnp.array([0.3, -0.7], jnp.bfloat16),), 1)
    with pl.enable_x64(True):
        check_grads(jnp.tanh, (np.array([0.3, -0.7]),), 3, atol=1e-7, rtol=1e-7)


def test_integers_and_flags_stay_where_they_are():
    check_grads(lambda x, n, flag: (x**n if flag else x, n + 1), (X, 3, True), 2)


@pytest.mark.parametrize(("order", "modes"), [(0, ("fwd",)), (1, ("forward",))])
def test_orders_and_modes_are_checked(order, modes):
    check_message(
        lambda: check_grads(jnp.sin, (X,), order, modes),
        ValueError,
        f"order={order}, modes={modes!r}",
    )
