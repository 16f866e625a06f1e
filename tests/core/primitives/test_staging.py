"""Composites, tokens, and values kept for their own sake."""

import numpy as np
import pytest
from corpus import staged_values
from message_checks import check_message

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid.test_util import check_grads

X = staged_values.X


@pytest.mark.oracle
@pytest.mark.parametrize(("program", "arguments"), staged_values.PROGRAMS)
def test_programs_give_what_the_reference_gives(oracle, program, arguments):
    fails = program in staged_values.FAILING
    oracle.check(program, *arguments, library=pl, fails=fails)


def tangent(x, y):
    return {"tan": lax.div(lax.sin(x), lax.cos(x)), "product": x * y, "constant": 2.0}


def test_derivatives_and_batches_of_composites_are_those_of_the_decomposition():
    call = lax.composite(tangent, "my.tangent")
    check_grads(call, (X, X + 1), 2)
    batched, expected = (pl.vmap(f, in_axes=(0, None))(X, 2.0) for f in (call, tangent))
    pl.tree.map(np.testing.assert_array_equal, batched, expected)
    assert "composite" not in str(pl.make_jaxpr(pl.grad(lambda x: call(x, 1.0)["tan"]))(1.0))


def test_unused_results_leave_a_composite_whole():
    call = lax.composite(tangent, "my.tangent")
    text = pl.jit(lambda x: call(x, x)["tan"]).lower(1.0).as_text()
    assert "-> (tensor<f32>, tensor<f32>, tensor<f32>)" in text
    assert "composite" not in pl.jit(lambda x: (call(x, x), x)[1]).lower(1.0).as_text()


def test_a_composite_may_close_over_traced_values():
    def function(x):
        return lax.composite(lambda y: x * y, "my.product")(2.0)

    assert pl.jit(function)(3.0) == 6.0
    assert pl.grad(function)(3.0) == 2.0


def test_a_composite_has_no_side_effects():
    check_message(
        lambda: lax.composite(lambda x: pl.debug.print("{}", x), "my.print")(1.0),
        NotImplementedError,
        "composite: the decomposition of 'my.print' has side effects.",
    )


@pytest.mark.parametrize("name", ["tangent", "my tangent", "", "1.x"])
def test_names_are_checked(name):
    check_message(lambda: lax.composite(lax.sin, name), ValueError, f"name: {name!r}")


def test_attributes_are_checked():
    call = lax.composite(lambda x, *, a: x, "my.identity")
    for value, shown in ((1j, "complex"), (jnp.ones(2), "ArrayImpl"), (object(), "object")):
        check_message(lambda value=value: call(X, a=value), TypeError, f"a: {shown}")


def test_tokens_come_out_of_calls_only_as_tokens():
    token = lax.after_all(lax.create_token(), lax.create_token())
    assert pl.typeof(token) is pl.core.abstract_token
    check_message(lambda: lax.after_all(token, 1.0), TypeError, "after_all needs tokens.", "f32[]")
    add = pl.jit(lambda token, x: {"token": lax.after_all(token), "x": x + 1})
    for call in (add, add.lower(token, X).compile(), lambda t, x: pl.jit(add)(t, x)):
        results = call(token, X)
        results = call(results["token"], results["x"])
        assert isinstance(results["token"], pl.extend.core.Token)
        assert results["token"].block_until_ready() is None
        np.testing.assert_array_equal(results["x"], X + 2)
    assert pl.typeof(pl.device_put(X)) != pl.typeof(token)


def test_tokens_over_several_devices():
    mesh = pl.make_mesh((2,), ("i",))
    x = pl.device_put(np.arange(4.0), pl.NamedSharding(mesh, pl.P("i")))
    call = pl.jit(lambda token, x: (lax.after_all(token), x + 1))
    token, y = call(lax.create_token(), x)
    token, y = call(token, y)
    assert y.sharding == x.sharding
    _, z = call(token, X)
    np.testing.assert_array_equal(z, X + 1)


def test_derivatives_beside_tokens():
    def f(x):
        return lax.create_token(), x * x

    assert pl.grad(lambda x: pl.jit(f)(x)[1])(2.0) == 4
    gradient, token = pl.grad(lambda x: f(x)[::-1], has_aux=True)(2.0)
    assert gradient == 4
    assert pl.jit(pl.grad(lambda x, token: x * x))(2.0, token) == 4


def test_tokens_are_no_arrays():
    token = lax.create_token()
    for call in (
        lambda: pl.vmap(lambda x: lax.create_token())(np.ones(2)),
        lambda: lax.fori_loop(0, 3, lambda i, token: token, token),
        lambda: pl.device_put(token),
    ):
        check_message(call, AttributeError, "a token has no `")


def test_attributes_of_a_composite_may_be_empty_or_bytes():
    call = lax.composite(lambda x, **_: x + 1, "my.attributes")
    text = pl.jit(lambda x: call(x, empty=[], letters=b"ab\xff", nothing=None)).lower(1.0).as_text()
    assert 'composite_attributes = {empty = [], letters = "ab\\FF"}' in text


def test_params_of_a_composite_are_printed_in_the_order_of_the_alphabet():
    text = str(pl.make_jaxpr(lax.composite(lambda x: x + 1, "my.op"))(1.0))
    assert text.index("attributes=") < text.index("name=my.op") < text.index("version=0")
