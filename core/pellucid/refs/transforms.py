"""Transformations of references: `reshape`, `transpose` and `bitcast` of what a view shows."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.base import ShapeError, dtypes
from pellucid.primitives.conversion import bitcast_convert_type
from pellucid.primitives.movement import inverse_permutation, reshape, transpose

Shape = tuple[int, ...]


class Reshaped(NamedTuple):
    """The elements of an array of `shape`, in row-major order, with `new_shape`."""

    shape: Shape
    new_shape: Shape

    def result_shape(self, operands: Any) -> Shape:
        return self.new_shape

    def applied(self, array: Any) -> Any:
        return reshape(array, self.new_shape)

    def inverted(self, array: Any) -> Any:
        return reshape(array, self.shape)


class Transposed(NamedTuple):
    """An array of `shape` with its axes permuted: axis `i` is axis `permutation[i]` of the array."""

    shape: Shape
    permutation: Shape

    def result_shape(self, operands: Any) -> Shape:
        return tuple([self.shape[i] for i in self.permutation])

    def applied(self, array: Any) -> Any:
        return transpose(array, self.permutation)

    def inverted(self, array: Any) -> Any:
        return transpose(array, inverse_permutation(self.permutation))


class Bitcast(NamedTuple):
    """The bits of an array of `shape` and `dtype` as elements of `new_dtype`.

    The last dimension but one takes up another width: to a dtype `n` times narrower each row becomes `n` rows, the
    lowest bits first; to a wider one `n` rows become one.
    """

    shape: Shape
    dtype: Any
    new_dtype: Any

    def result_shape(self, operands: Any) -> Shape:
        return _cast_shape(self.shape, self.dtype, self.new_dtype)

    def applied(self, array: Any) -> Any:
        return _cast(array, self.dtype, self.new_dtype)

    def inverted(self, array: Any) -> Any:
        return _cast(array, self.new_dtype, self.dtype)


Transform = Reshaped | Transposed | Bitcast


def _cast_shape(shape: Shape, dtype, new_dtype) -> Shape:
    """Raises: ShapeError for a shape without rows, or whose rows don't make up whole ones of the other width."""
    old_bits, new_bits = dtypes.itemsize_bits(dtype), dtypes.itemsize_bits(new_dtype)
    if old_bits == new_bits:
        return shape
    if len(shape) < 2 or shape[-2] * old_bits % new_bits:
        raise ShapeError(
            f"bitcast: the rows of shape {list(shape)} don't make up whole rows of {dtypes.short_name(new_dtype)}.",
            got=f"{dtypes.short_name(dtype)} of {old_bits} bits, {dtypes.short_name(new_dtype)} of {new_bits} bits",
            do="The last dimension but one takes up the change of width; reshape first.",
        )
    return (*shape[:-2], shape[-2] * old_bits // new_bits, shape[-1])


def _cast(array, dtype, new_dtype):
    old_bits, new_bits = dtypes.itemsize_bits(dtype), dtypes.itemsize_bits(new_dtype)
    if old_bits == new_bits:
        return bitcast_convert_type(array, new_dtype)
    *outer, n_rows, n_columns = array.shape
    target = _cast_shape(array.shape, dtype, new_dtype)
    n = max(old_bits, new_bits) // min(old_bits, new_bits)
    lead = tuple(range(len(outer) + 1))
    swapped = (*lead, len(lead) + 1, len(lead))
    if old_bits > new_bits:  # [..., rows, columns, n] to [..., rows, n, columns]
        return reshape(transpose(bitcast_convert_type(array, new_dtype), swapped), target)
    parts = reshape(array, (*outer, n_rows // n, n, n_columns))
    return bitcast_convert_type(transpose(parts, swapped), new_dtype)
