"""Types of values."""

import copy
import pickle

import numpy as np
import pytest

from pellucid import lax
from pellucid._machine.base.errors import ShapeError
from pellucid._machine.ir.avals import ShapedArray, abstract_token, shaped_array


def test_equal_types_are_one_object() -> None:
    assert ShapedArray((2, 3), np.float32) is shaped_array((2, 3), np.dtype(np.float32))
    assert shaped_array((2,), np.dtype(np.float32), True) is not shaped_array(
        (2,), np.dtype(np.float32)
    )


def test_a_pickled_or_copied_type_is_the_same_object() -> None:
    aval = shaped_array((2, 3), np.dtype(np.int8), True)
    assert pickle.loads(pickle.dumps(aval)) is aval
    assert copy.deepcopy(aval) is aval


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "f32[2]"),
        ("int8", "i8[2]"),
        ("bool", "bool[2]"),
        ("complex64", "c64[2]"),
        ("uint32", "u32[2]"),
    ],
)
def test_text(dtype: str, text: str) -> None:
    assert shaped_array((2,), np.dtype(dtype)).text() == text


def test_tangents_of_integers_hold_nothing() -> None:
    assert shaped_array((3,), np.dtype(np.int32)).tangent().dtype.names == ("float0",)
    floating = shaped_array((3,), np.dtype(np.float32))
    assert floating.tangent() is floating.at_least_vspace() is floating


def test_size_and_bytes() -> None:
    aval = shaped_array((2**31,), np.dtype(np.float32))
    assert (aval.size, aval.nbytes, aval.ndim) == (2**31, 2**33, 1)
    assert shaped_array((), np.dtype(np.float32)).size == 1


def test_length_of_a_scalar_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="0-dimensional"):
        len(shaped_array((), np.dtype(np.float32)))


def test_a_token_has_a_tangent_type() -> None:
    assert abstract_token.text() == "Tok"
    assert abstract_token.tangent().shape == ()


def test_a_shape_whose_bytes_cannot_be_counted_is_an_error() -> None:
    with pytest.raises(
        ShapeError, match=r"can't have so many elements(.*\n)*.*\(4611686018427387904, 4\)"
    ):
        lax.broadcast(1.0, (1 << 62, 4))
    assert shaped_array((1 << 31,), np.dtype("int8")).nbytes == 1 << 31
