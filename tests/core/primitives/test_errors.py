"""Errors of elementwise functions for operands that they can't take."""

import numpy as np
import pytest

import pellucid
from pellucid import lax
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    IntegerRangeError,
    MissingRule,
    ShapeError,
)

F = np.ones(3, np.float32)
I = np.ones(3, np.int32)
B = np.ones(3, bool)
C = np.ones(3, np.complex64)


@pytest.mark.parametrize(
    ("call", "error", "first_line"),
    [
        (lambda: lax.add(F, I), DtypeError, "add needs operands of one dtype."),
        (lambda: lax.add(B, B), DtypeError, "add does not accept bool elements."),
        (lambda: lax.add(F, np.ones((2, 3), np.float32)), ShapeError,
         "add needs operands of one shape, up to dimensions of size 1 and scalars."),
        (lambda: lax.add(F, [1.0]), ArgumentTypeError, "a value of type list is not an array."),
        (lambda: lax.sqrt(I), DtypeError, "sqrt does not accept i32 elements."),
        (lambda: lax.lt(C, C), DtypeError, "lt does not accept c64 elements."),
        (lambda: lax.real(F), DtypeError, "real does not accept f32 elements."),
        (lambda: lax.complex(F.astype(np.float16), F.astype(np.float16)), DtypeError,
         "no complex numbers have parts of dtype float16."),
        (lambda: lax.pow(F, F.astype(np.float16)), DtypeError,
         "pow needs an exponent of the base's dtype, or an integer."),
        (lambda: lax.integer_pow(I, -1), DtypeError, "integers can't have negative powers."),
        (lambda: lax.round(F, 2), ArgumentValueError, "round has no such rounding_method."),
        (lambda: lax.exp(F, accuracy="high"), ArgumentTypeError,
         "accuracy must be an AccuracyMode, a Tolerance or None."),
        (lambda: lax.Tolerance(atol=-1.0), ArgumentValueError, "Tolerance takes no negative numbers."),
        (lambda: lax.select_n(F, F, F), DtypeError, "select_n needs a bool or integer `which`."),
        (lambda: lax.select_n(B, F, I), DtypeError, "select_n needs cases of one dtype."),
        (lambda: lax.select_n(B, F, np.float32(1)), ShapeError,
         "select_n needs cases of one shape, and `which` of that shape or a scalar."),
        (lambda: lax.select_n(B, F, F, F), ArgumentTypeError,
         "select_n can't choose among more than two cases by a bool."),
        (lambda: lax.clamp(F, np.float32(1), F), ShapeError,
         "clamp needs bounds that are scalars or have the operand's shape."),
        (lambda: lax.convert_element_type(F, "float31"), DtypeError, "convert_element_type: no dtype has this name."),
        (lambda: lax.bitcast_convert_type(B, np.uint8), DtypeError, "bitcast_convert_type can't read bool as u8."),
        (lambda: lax.bitcast_convert_type(np.ones(3, np.uint8), np.int32), ShapeError,
         "bitcast_convert_type can't read elements of 8 bits as elements of 32."),
        (lambda: lax.reduce_precision(F, 0, 3), ArgumentValueError,
         "reduce_precision needs at least 1 exponent bit and at least 0 mantissa bits."),
        (lambda: lax.iota(np.bool_, 3), DtypeError, "iota needs a numeric dtype."),
        (lambda: lax.iota(np.int32, -3), ShapeError, "iota needs a shape without negative sizes."),
        (lambda: lax.iota(np.int32, 3.0), ShapeError, "iota needs a shape of integers."),
        (lambda: lax.broadcasted_iota(np.int32, (2,), 1), ArgumentValueError, "iota needs a dimension of its shape."),
        (lambda: lax.full((2,), F), ShapeError, "full needs a scalar to fill the array with."),
        (lambda: lax.broadcast_like(F, np.ones((3, 1))), ShapeError, "broadcast_like can't repeat the array to that shape."),
        (lambda: lax.rng_uniform(False, True, (2,)), DtypeError,
         "rng_uniform needs bounds of one integer or floating dtype."),
        (lambda: lax.rng_bit_generator(I, (2,)), ArgumentTypeError,
         "rng_bit_generator needs a key of type uint32[4] or uint64[2]."),
    ],
)  # fmt: skip
def test_messages(call, error, first_line) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).splitlines()[0] == first_line


@pytest.mark.parametrize(
    ("function", "first_line"),
    [
        (lambda x: lax.nextafter(x, x), "`nextafter` has no jvp rule."),
        (lambda x: lax.betainc(x, 2.0, 0.5), "betainc can't be differentiated by its argument a."),
        (lambda x: lax.polygamma(x, 2.0), "polygamma can't be differentiated by its argument m."),
        (lambda x: lax.zeta(x, 2.0), "zeta can't be differentiated by its argument x."),
        (lambda x: lax.igamma_grad_a(x, 2.0), "`igamma_grad_a` has no jvp rule."),
    ],
)
def test_absent_derivatives_are_named(function, first_line) -> None:
    with pytest.raises(MissingRule) as caught:
        pellucid.grad(function)(1.5)
    assert str(caught.value).splitlines()[0] == first_line


def test_a_part_thrown_away_is_warned_of() -> None:
    with pytest.warns(np.exceptions.ComplexWarning):
        lax.convert_element_type(C, np.float32)


def reading(size):
    """The program that reads one element of a long array at an index that is known when it runs."""
    array, index = (
        pellucid.ShapeDtypeStruct((size,), np.int8),
        pellucid.ShapeDtypeStruct((), np.int32),
    )
    return pellucid.make_jaxpr(lambda x, i: lax.dynamic_index_in_dim(x, i, 0))(array, index)


def test_dimensions_that_int32_can_just_index():
    assert "add b -2147483648:i32[]" in str(
        reading(2**31)
    )  # the sum wraps around to the index from the front


def test_dimensions_that_need_wider_indices():
    with pytest.raises(
        IntegerRangeError, match=r"needs 64 bits(.*\n)*.*size 2147483649, index i32"
    ):
        reading(2**31 + 1)


@pytest.mark.parametrize("call", [
    lambda keys: lax.dot(keys, keys),
    lambda keys: lax.ragged_dot(keys[None], keys[None, :, None], I[:1]),
    lambda keys: lax.conv(keys[None, None], keys[None, None], (1,), "SAME"),
])  # fmt: skip
@pytest.mark.parametrize("transform", [lambda f: f, pellucid.jit], ids=["eagerly", "jit"])
def test_products_of_keys_are_refused(call, transform) -> None:
    with pytest.raises(DtypeError, match="does not accept key<fry> elements"):
        transform(call)(pellucid.random.split(pellucid.random.key(0), 3))


def _initialized(make, **axes):
    return getattr(pellucid.nn.initializers, make)(**axes)(pellucid.random.key(0), (3, 3))


SCATTERED = lax.ScatterDimensionNumbers((), (0,), (0,))
M = np.ones((3, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: lax.scatter(F, I[:, None], F, SCATTERED, mode=[]), ArgumentValueError, "gather or scatter mode"),
        (lambda: lax.collapse(M, "a"), ArgumentTypeError, "collapse needs integers"),
        (lambda: lax.collapse(M, 0, 1.5), ArgumentTypeError, "collapse needs integers"),
        (lambda: lax.index_take(M, (I,), (0, 1)), ArgumentValueError, "one array of indices for each axis"),
        (lambda: lax.index_take(M, (I, I), (0,)), ArgumentValueError, "one array of indices for each axis"),
        (lambda: pellucid.numpy.nonzero(M, size=3, fill_value=(1, 2, 3)), ArgumentValueError, "one for each dimension"),
        (lambda: pellucid.numpy.argwhere(M, size=3, fill_value=(1,)), ArgumentValueError, "one for each dimension"),
        (lambda: _initialized("lecun_normal", in_axis=5), IndexError, "axis 5 is out of bounds"),
        (lambda: _initialized("he_normal", batch_axis=(7,)), IndexError, "axis 7 is out of bounds"),
        (lambda: _initialized("lecun_normal", in_axis="a"), ArgumentTypeError, "axes as integers"),
        (lambda: _initialized("glorot_uniform", out_axis=1.5), ArgumentTypeError, "axes as integers"),
        (lambda: _initialized("orthogonal", column_axis=5), IndexError, "axis 5 is out of bounds"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_named(call, error, text) -> None:
    with pytest.raises(error, match=text):
        call()
