"""grad, vjp, jvp, linearize, jacobians: conventions, trees and messages."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid
import pellucid.experimental.jet
from pellucid import grad, jit, jvp, lax, linearize, value_and_grad, vjp
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DerivativeRuleError,
    DtypeError,
    RemovedError,
    ShapeError,
)


def cubed(x):
    return x * x * x


def test_gradients_have_the_types_of_their_arguments():
    params = {"w": np.ones((2, 3), np.float32), "n": np.int32(2), "z": np.complex64(1j)}
    loss = lambda p: lax.reduce_sum(p["w"], (0, 1)) * lax.real(p["z"] * p["z"])
    actual = grad(loss, allow_int=True)(params)
    assert actual["w"].shape == (2, 3)
    assert actual["w"].dtype == np.float32
    assert actual["n"].dtype == pellucid.float0
    assert actual["z"].dtype == np.complex64


def test_gradients_are_arrays_and_weakly_typed_as_their_arguments():
    assert isinstance(grad(lambda x: x)(1.0), pellucid.Array)
    assert isinstance(grad(lambda x: 2.0)(1.0), pellucid.Array)
    assert grad(cubed)(1.0).weak_type
    assert not grad(cubed)(np.float32(1.0)).weak_type


def test_wide_arguments_are_narrowed():
    assert grad(cubed)(np.float64(2.0)).dtype == np.float32


def test_auxiliary_data_may_be_anything():
    (value, aux), slope = value_and_grad(lambda x: (cubed(x), ["text", x * 1.0]), has_aux=True)(2.0)
    assert (float(value), aux[0], float(aux[1]), float(slope)) == (8.0, "text", 2.0, 12.0)
    assert grad(lambda x: (cubed(x), None), has_aux=True)(2.0)[1] is None
    assert jvp(lambda x: (x, "text"), (1.0,), (1.0,), has_aux=True)[2] == "text"
    assert vjp(lambda x: (x, "text"), 1.0, has_aux=True)[2] == "text"
    assert linearize(lambda x: (x, "text"), 1.0, has_aux=True)[2] == "text"
    assert pellucid.jacfwd(lambda x: (x, "text"), has_aux=True)(1.0)[1] == "text"
    assert pellucid.jacrev(lambda x: (x, "text"), has_aux=True)(1.0)[1] == "text"


def test_chosen_arguments():
    f = lambda x, y, *, scale=1.0: x * y * scale
    assert [float(g) for g in grad(f, argnums=(1, 0))(2.0, 3.0, scale=10.0)] == [20.0, 30.0]
    assert float(grad(f, argnums=-1)(2.0, 3.0)) == 2.0
    assert isinstance(grad(f, argnums=[0])(2.0, 3.0), tuple)


def test_names_and_documentation_are_those_of_the_function():
    assert grad(cubed).__name__ == "cubed"
    assert grad(cubed).__wrapped__ is cubed
    assert "`cubed`" in grad(cubed).__doc__


def test_the_backward_pass_is_a_tree_of_its_residuals():
    w, x = np.ones(3, np.float32), np.arange(3, dtype=np.float32)
    y, backward = jit(lambda w, x: vjp(lambda w, x: lax.sin(w * x), w, x))(w, x)
    cts = jit(lambda b, ct: b(ct))(backward, y)
    np.testing.assert_allclose(cts[0], y * np.cos(w * x) * x, rtol=1e-6)
    residuals = pellucid.tree.leaves(vjp(lambda w: w * x, w)[1].args_res)
    assert residuals == []


def test_the_backward_pass_keeps_no_residual_that_it_does_not_need():
    x = np.ones(3, np.float32)
    _, backward = vjp(lambda x: (lax.sin(x), lax.stop_gradient(lax.exp(x))), x)
    assert len(backward.jaxpr.constvars) == 1
    _, backward = vjp(lambda x: lax.exp(x) + x, x)
    assert len(backward.jaxpr.constvars) == 1


def test_linear_functions_are_transposed():
    (actual,) = pellucid.linear_transpose(lambda x: 2.0 * x[::-1], np.zeros(3, np.float32))(
        np.arange(3, dtype=np.float32)
    )
    np.testing.assert_array_equal(actual, [4.0, 2.0, 0.0])
    struct = pellucid.ShapeDtypeStruct((), np.dtype(np.float32))
    assert float(pellucid.linear_transpose(lambda x: 3.0 * x, struct)(np.float32(2.0))[0]) == 6.0


ERRORS = [
    (lambda: grad(3), ArgumentTypeError, ["grad needs a function", "int"]),
    (
        lambda: grad(cubed)(1),
        DtypeError,
        ["grad needs real or complex inputs", "x: i32[]", "allow_int=True"],
    ),
    (lambda: grad(cubed)("a"), ArgumentTypeError, ["x: str ('a')"]),
    (lambda: grad(lambda p: p["a"])({"a": 1.0, "b": [1]}), DtypeError, ["p['b'][0]: i32[]"]),
    (lambda: grad(cubed)(np.ones(2)), ShapeError, ["one scalar", "returned f32[2]", ".sum()"]),
    (
        lambda: grad(lambda x: (x, x))(1.0),
        ArgumentTypeError,
        ["one scalar", "tuple with 2 leaves", "has_aux=True"],
    ),
    (lambda: grad(lambda x: 1)(1.0), DtypeError, ["floating outputs", "result: i32[]"]),
    (
        lambda: grad(lambda x: x * 1j)(1.0),
        DtypeError,
        ["real outputs", "c64[]", "holomorphic=True"],
    ),
    (lambda: grad(cubed, holomorphic=True)(1.0), DtypeError, ["complex inputs", "x: f32[]"]),
    (
        lambda: grad(cubed, argnums=1)(1.0),
        ArgumentTypeError,
        ["argnums=1", "`cubed`", "1 positional argument"],
    ),
    (lambda: grad(cubed, argnums="a"), ArgumentTypeError, ["argnums must be an int", "'a'"]),
    (lambda: grad(cubed, has_aux=True)(1.0), ArgumentTypeError, ["a pair (result, aux)"]),
    (lambda: grad(cubed, reduce_axes=("i",)), RemovedError, ["reduce_axes", "lax.psum"]),
    (lambda: jvp(cubed, 1.0, 1.0), ArgumentTypeError, ["tuples or lists"]),
    (
        lambda: jvp(cubed, (1.0,), [1.0]),
        ArgumentTypeError,
        ["tangents: got list of 1, expected tuple of 1"],
    ),
    (
        lambda: jvp(cubed, (1.0,), (1,)),
        DtypeError,
        ["x: primal f32[]", "expected tangent f32[]", "got i32[]"],
    ),
    (lambda: jvp(cubed, (1.0,), (np.ones(2),)), ShapeError, ["x: primal f32[]", "got f32[2]"]),
    (
        lambda: vjp(cubed, 1.0)[1](1.0, 2.0),
        ArgumentTypeError,
        ["takes one argument", "2 arguments"],
    ),
    (
        lambda: vjp(cubed, 1.0)[1]((1.0,)),
        ValueError,
        ["cotangent: got tuple of 1, expected a leaf"],
    ),
    (lambda: vjp(cubed, 1.0)[1](np.ones(2)), ValueError, ["result: got f32[2], expected f32[]"]),
    (lambda: vjp(lambda x: "a", 1.0), ArgumentTypeError, ["result: str ('a')"]),
    (lambda: linearize(cubed, 1.0)[1](1), ValueError, ["expected tangent f32[]", "got i32[]"]),
    (lambda: linearize(cubed, 1.0)[1]([1.0]), TypeError, ["expected a leaf"]),
    (lambda: pellucid.linear_transpose(cubed, 1)(1.0), TypeError, ["got f32[]", "expected i32[]"]),
    (
        lambda: pellucid.linear_transpose(lax.sin, 1.0)(1.0),
        NotImplementedError,
        ["`sin` has no transpose rule"],
    ),
    (
        lambda: pellucid.jacfwd(cubed)(1),
        DtypeError,
        ["jacfwd needs real floating inputs", "x: i32[]"],
    ),
    (lambda: pellucid.jacrev(cubed)(1), DtypeError, ["jacrev needs real or complex inputs"]),
]


@pytest.mark.parametrize(("call", "error", "fragments"), ERRORS)
def test_errors_say_what_where_and_what_to_do(call, error, fragments):
    check_message(call, error, *fragments)


def test_values_of_a_finished_derivative_are_refused():
    leaked = []
    grad(lambda x: leaked.append(x) or x)(1.0)
    with pytest.raises(pellucid.errors.UnexpectedTracerError):
        lax.sin(leaked[0])


def test_values_captured_from_a_derivative_are_refused_by_rules():
    f = pellucid.custom_jvp(lambda f, x: f(x), nondiff_argnums=(0,))
    f.defjvp(lambda f, p, t: (f(*p), t[0]))
    check_message(
        lambda: grad(lambda x: f(lambda y: y * x, x))(1.0), (DerivativeRuleError, pellucid.errors.UnexpectedTracerError),
        "captured: f32[]", "as an argument",
    )  # fmt: skip


def test_residuals_of_a_backward_pass_can_be_taken_out_and_set_again():
    """They are listed by argument, in tuples, so that no class of the user is made of what isn't needed."""

    @pellucid.tree_util.register_pytree_node_class
    class Shaped:
        def __init__(self, array):
            assert array.shape == (2,)
            self.array = array

        def tree_flatten(self):
            return (self.array,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    x, w = np.float32([1, 2]), np.float32([3, 4])
    _, backward = vjp(lambda p, x: p["w"].array * x + p["b"], {"w": Shaped(w), "b": 0.0}, x)
    (b, (kept,)), kept_x = backward.args_res
    assert "NotNeeded" in type(b).__name__
    assert kept.tolist() == [3, 4]
    assert kept_x.tolist() == [1, 2]
    cotangent, by_x = backward(np.ones(2, np.float32))
    assert (cotangent["w"].array.tolist(), by_x.tolist()) == ([1, 2], [3, 4])
    backward.args_res[0] = {"w": Shaped(10 * w), "b": 0.0}
    assert backward(np.ones(2, np.float32))[1].tolist() == [30, 40]
    backward.args_res[1] = None
    with pytest.raises(ArgumentValueError, match=r"lacks arguments that it needs"):
        backward(np.ones(2, np.float32))
    again = jit(lambda f, ct: f(ct))(vjp(lambda p: p.array * p.array, Shaped(w))[1], x)
    assert again[0].array.tolist() == [6, 16]


def _identity(x):
    return x


@pytest.mark.parametrize(
    "results",
    [
        lambda: jvp(lambda x: x + 1, (2.0,), (1.0,)),
        lambda: jvp(_identity, (2.0,), (1.0,)),
        lambda: jvp(lambda x: (3, True), (2.0,), (1.0,))[0],
        lambda: linearize(_identity, 2.0)[:1],
        lambda: linearize(_identity, 2.0)[1](1.0),
        lambda: vjp(_identity, 2.0)[:1],
        lambda: vjp(_identity, 2.0)[1](1.0),
        lambda: value_and_grad(_identity)(2.0),
        lambda: pellucid.linear_transpose(_identity, 2.0)(1.0),
    ],
)
def test_numbers_that_a_function_gives_back_become_arrays(results):
    for x in pellucid.tree.leaves(results()):
        assert isinstance(x, pellucid.Array)
        assert x.weak_type == (x.dtype != bool)
        assert x in (1, 2, 3)


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize(
    "results",
    [
        lambda x: jvp(lambda x: x + 1, (x,), (x,)),
        lambda x: jvp(_identity, (x,), (x,)),
        lambda x: linearize(_identity, x)[0],
        lambda x: linearize(_identity, x)[1](x),
        lambda x: vjp(_identity, x)[0],
        lambda x: vjp(_identity, x)[1](x),
        lambda x: pellucid.linear_transpose(_identity, x)(x),
        lambda x: pellucid.experimental.jet.jet(_identity, (x,), ((x, x),)),
    ],
)
def test_arrays_of_numpy_that_a_function_gives_back_become_arrays(results, shape):
    x = np.full(shape, 2, np.float32)[()]
    leaves = pellucid.tree.leaves(results(x))
    x *= 0  # results have an own copy
    for leaf in leaves:
        assert isinstance(leaf, pellucid.Array)
        assert (leaf >= 2).all()


def test_pullbacks_of_integers_carry_nothing():
    out, backward = vjp(lambda n: n * 2, np.arange(4, dtype=np.int32))
    assert isinstance(out, pellucid.Array)
    assert out.tolist() == [0, 2, 4, 6]
    [cotangent] = backward(np.zeros(4, pellucid.float0))
    assert (cotangent.dtype, cotangent.shape) == (pellucid.float0, (4,))


def test_auxiliary_numbers_stay_what_they_are():
    def function(x):
        return x, ("name", 3)

    assert jvp(function, (2.0,), (1.0,), has_aux=True)[2] == ("name", 3)
    (_, (_, n)), _ = value_and_grad(function, has_aux=True)(2.0)
    assert type(n) is int


def test_numbers_stay_literals_in_a_program():
    program = pellucid.make_jaxpr(lambda x: x * jvp(_identity, (2.0,), (1.0,))[0])(1.0)
    assert not program.consts
