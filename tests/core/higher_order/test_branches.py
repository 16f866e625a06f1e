"""cond, switch, platform_dependent."""

import numpy as np
import pytest
from message_checks import check_message

from pellucid import grad, jit, lax, make_jaxpr, vmap


def test_results_that_are_operands_do_not_pass_through():
    f = lambda p, x, y: lax.cond(p, lambda a: (a, x, x * y), lambda a: (a, x, y), x)
    (equation,) = [e for e in make_jaxpr(f)(True, 1.0, 2.0).equations if e.primitive.name == "cond"]
    assert len(equation.results) == 1
    assert [float(v) for v in f(True, 2.0, 3.0)] == [2.0, 2.0, 6.0]


def test_branches_share_what_they_save():
    f = lambda p, x: lax.cond(p, lambda x: lax.sin(lax.sin(x)), lambda x: lax.exp(lax.cos(x)), x)
    forward, _ = [
        e for e in make_jaxpr(grad(f, 1))(True, 1.0).equations if e.primitive.name == "cond"
    ]
    assert len(forward.results) == 3


def test_a_branch_saves_a_weakly_typed_choice_that_others_lack():
    f = lambda x: lax.cond(
        x > 0, lambda x: lax.select(lax.gt(x, 1.0), lax.sin(x), x), lambda x: x * 2, x
    )
    assert float(grad(f)(-2.0)) == 2.0
    assert float(grad(f)(0.5)) == 1.0


def test_results_that_nobody_uses_are_dropped():
    f = jit(lambda x: lax.cond(x < 2.0, lambda x: (lax.sin(x), x), lambda x: (x, lax.cos(x)), x)[1])
    text = f.lower(2.0).as_text()
    assert "cosine" in text
    assert "stablehlo.sine" not in text


def test_what_an_element_of_a_batch_does_not_choose_has_no_derivative():
    root = vmap(lambda x: lax.cond(x > 0, lax.sqrt, lambda x: 2 * x, x))
    gradient = grad(lambda x: root(x).sum())(np.float32([0, 4, -1]))
    np.testing.assert_array_equal(gradient, [2, 0.25, 2])  # sqrt's would be inf and NaN


def test_indices_out_of_range_are_moved_into_it():
    branches = [lambda: 0, lambda: 1, lambda: 2]
    assert [int(lax.switch(i, branches)) for i in (-5, 0, 2, 9)] == [0, 0, 2, 2]


@pytest.mark.parametrize("choose", [lax.cond, lambda _, f, g, x: lax.switch(1, [f, g], x)])
def test_branches_are_traced_as_they_are_written(choose):
    """Modules of neural networks count the keys that they make while they are traced."""
    traced = []
    choose(True, lambda x: traced.append("first") or x, lambda x: traced.append("second") or -x, 1)
    assert traced == ["first", "second"]


def test_branches_have_the_stronger_type():
    actual = lax.cond(True, lambda: 1.0, lambda: np.float32(2))
    assert not actual.weak_type


def test_only_the_branch_of_the_platform_is_compiled():
    f = jit(lambda x: lax.platform_dependent(x, tpu=lax.sin, cpu=lax.cos))
    text = f.lower(1.0).as_text()
    assert "cosine" in text
    assert "stablehlo.sine" not in text
    assert vmap(lambda x: lax.platform_dependent(x, tpu=lax.sin, default=lax.cos))(
        np.zeros(2, np.float32)
    ).shape == (2,)


ERRORS = [
    (lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0), TypeError, ["one structure", "false_fun gives tuple of 2", "true_fun gives a leaf"]),
    (lambda: lax.cond(True, lambda x: {"a": x}, lambda x: {"a": 1}, 1.0), TypeError, ["result['a']", "i32[]", "f32[]"]),
    (lambda: lax.cond(np.ones(2), lax.sin, lax.cos, 1.0), TypeError, ["scalar pred", "f32[2]", ".any()"]),
    (lambda: lax.cond("a", lax.sin, lax.cos, 1.0), TypeError, ["scalar pred", "str"]),
    (lambda: lax.cond(True, lax.sin, 3, 1.0), TypeError, ["needs a function"]),
    (lambda: lax.switch(1.5, [lax.sin, lax.cos], 1.0), TypeError, ["integer index", "f32[]"]),
    (lambda: lax.switch(True, [lax.sin, lax.cos], 1.0), TypeError, ["integer index", "`cond`"]),
    (lambda: lax.switch(0, [], 1.0), ValueError, ["at least one branch"]),
    (lambda: lax.switch(0, [lax.sin, lambda x: (x,)], 1.0), TypeError, ["branches[1]", "one structure"]),
    (lambda: lax.platform_dependent(1.0, tpu=lax.sin), NotImplementedError, ["platform 'cpu'"]),
    (lambda: lax.platform_dependent(1.0), ValueError, ["a function for some platform"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "fragments"), ERRORS)
def test_errors_say_what_where_and_what_to_do(call, error, fragments):
    check_message(call, error, *fragments)
