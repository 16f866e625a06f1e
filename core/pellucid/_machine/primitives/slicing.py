"""Slices by axis, and windows whose start is computed at run time.

A window that would reach over an edge is moved until it fits; no error is raised for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    IndexingError,
    IntegerRangeError,
    Ints,
    Shape,
    ShapeError,
    Size,
    Symbol,
    as_value,
    canonical_shape,
    canonical_size,
    dtypes,
    fits,
    insert_at,
    larger,
    register_pytree_node,
    strict_zip,
)
from pellucid._machine.ir import (
    INDEXING,
    Avals,
    NoParams,
    Operands,
    P,
    Primitive,
    Values,
    element_shape,
    is_linear,
    shaped_array,
)
from pellucid._machine.lowering.in_place import checked_update
from pellucid._machine.lowering.slices import clamp_start, element_apart
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla import Array

from .arithmetic import add, rem
from .assembly import aligned_at_one_dim, concatenate, slice
from .conversion import convert_element_type, size_scalar
from .creation import zeros
from .dslice import Slice
from .families import INTEGER, kind_of, texts
from .gather import gather, gather_p
from .index_dims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from .indexed_windows import GatherParams, ScatterParams
from .linear import JointlyLinear
from .logical import lt, select_n
from .movement import broadcast_in_dim, canonical_axis, expand_dims, squeeze
from .scatter import scatter_p, write_apart

_BOOL = np.dtype(bool)

# Static slices along one axis ---------------------------------------------------------------------


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """`operand[start_index:limit_index:stride]` along `axis`; negative indices count from the end.

    The result has the dtype of `operand`.
    Raises: AxisError for an axis out of bounds, ShapeError for indices beyond the size, TypeError for ones that are no
    integers, ArgumentTypeError for lists and strings.

    >>> slice_in_dim(np.arange(5), 1, -1)
    Array([1, 2, 3], dtype=int32)
    """
    shape = type_of(operand).shape
    axis = canonical_axis(axis, len(shape))
    size = shape[axis]
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    if start_index is not None:
        starts[axis] = _from_front(start_index, size)
    if limit_index is not None:
        limits[axis] = _from_front(limit_index, size)
    strides[axis] = stride
    return slice(operand, starts, limits, strides)


def _from_front(index, size):
    index = canonical_size(index)
    return index + size if index < 0 else index


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The part of `operand` at `index` along `axis`, which stays with size 1 if `keepdims`.

    The result has the dtype of `operand`; `index` is static and may be negative.
    Raises: IndexingError for an index out of bounds, AxisError for an axis out of bounds, TypeError for an index that
    isn't an integer, ArgumentTypeError for lists and strings.

    >>> index_in_dim(np.arange(5), -1, keepdims=False)
    Array(4, dtype=int32)
    """
    shape = type_of(operand).shape
    axis = canonical_axis(axis, len(shape))
    index, size = canonical_size(index), shape[axis]
    if not -size <= index < size:
        raise IndexingError(
            f"index_in_dim: index {index} is out of bounds for axis {axis} of size {size}.",
            got=f"operand: {type_of(operand).text()}",
        )
    index = _from_front(index, size)
    window = slice_in_dim(operand, index, index + 1, axis=axis)
    return window if keepdims else squeeze(window, (axis,))


def index_take(src: ArrayLike, idxs: Sequence[Any], axes: Ints) -> Array:
    """The parts of `src` at indices along several `axes`: part `n` is at `idxs[k][n]` along `axes[k]`.

    `idxs` are vectors of integers, of one length, which becomes the first dimension of the result; indices count
    around the end of their axis as often as needed.

    The result has the dtype of `src`, and then the shape of its other axes.
    Raises: ShapeError for indices that are no vectors of one length, ValueError for ones that aren't integers and for
    another number of axes, AxisError for axes out of bounds, ArgumentTypeError for axes that aren't integers, and for
    lists and strings.

    >>> index_take(np.arange(6).reshape(2, 3), (np.array([1, 0]), np.array([-1, 4])), (0, 1))
    Array([5, 1], dtype=int32)
    """
    shape = type_of(src).shape
    places = [canonical_axis(axis, len(shape)) for axis in axes]
    if len(idxs) != len(places):
        raise ArgumentValueError(
            "index_take needs one array of indices for each axis.",
            got=f"{len(idxs)} arrays of indices, axes {tuple(axes)}",
        )
    columns = [
        broadcast_in_dim(_modulo(index, shape[axis]), (*type_of(index).shape, 1), (0,))
        for index, axis in strict_zip(idxs, places)
    ]
    offsets = tuple(range(1, 1 + len(shape) - len(places)))
    numbers = GatherDimensionNumbers(offsets, tuple(sorted(places)), tuple(places))
    sizes = [1 if axis in places else size for axis, size in enumerate(shape)]
    return gather(src, concatenate(columns, 1), numbers, sizes)


def _modulo(index, size: Size):
    """`index` modulo `size`."""
    return wrap_negative(rem(index, size_scalar(size, type_of(index).dtype)), size)


# Where a window begins ----------------------------------------------------------------------------


def start_scalars(
    name: str, shape: Shape, start_indices: Any, allow_negative_indices: bool | Sequence[bool]
) -> Values:
    """One scalar start index per dimension of `shape`, all of one dtype; negative ones count from the end if allowed.

    What is known now is computed now, so that it stands in the program as a literal.
    """
    starts = _listed_starts(name, start_indices)
    wraps = (
        [bool(allow_negative_indices)] * len(starts)
        if isinstance(allow_negative_indices, (bool, np.bool_))
        else list(allow_negative_indices)
    )
    if not len(starts) == len(wraps) == len(shape):
        raise ShapeError(
            f"{name} needs a start index for each of the {len(shape)} dimensions of its operand.",
            got=[
                f"{len(starts)} start indices",
                f"allow_negative_indices={allow_negative_indices}",
            ],
        )
    starts = [as_value(s) if isinstance(s, Symbol) else s for s in starts]
    avals: Avals = [type_of(s) for s in starts]
    dtypes_of_arrays = {a.dtype for s, a in strict_zip(starts, avals) if type(s) is not int}
    dtype = dtypes_of_arrays.pop() if dtypes_of_arrays else type_of(0).dtype
    if dtypes_of_arrays or kind_of(dtype) not in INTEGER or any(a.shape for a in avals):
        raise DtypeError(
            f"{name} needs integer scalars of one dtype as start indices.",
            got=texts("start", avals),
        )
    if not all(fits(size, np.iinfo(dtype).max) for size in shape):
        dtype = np.dtype(np.int32)
        starts = [s if type(s) is int else convert_element_type(s, dtype) for s in starts]
    return [
        start_scalar(s, size, dtype, wrap) for s, size, wrap in strict_zip(starts, shape, wraps)
    ]


def _listed_starts(name: str, start_indices) -> Values:
    if isinstance(start_indices, (list, tuple)):
        return list(start_indices)
    aval = type_of(start_indices)
    if aval.ndim != 1:
        raise ShapeError(f"{name} needs a sequence of start indices.", got=f"got {aval.text()}")
    return [index_in_dim(start_indices, i, keepdims=False) for i in range(aval.shape[0])]


def start_scalar(index: Any, size: int, dtype: Any, wrap: bool) -> Any:
    """A start index of `dtype`, along a dimension of `size` from whose end it counts if it may and is negative."""
    if isinstance(index, (int, np.generic, np.ndarray)):
        value = int(index)
        if value < 0 and not wrap:
            raise ArgumentValueError(
                f"start index {value} is negative, which `allow_negative_indices=False` rules out."
            )
        if value < 0 and isinstance(size, Symbol):
            return size_scalar(larger(size + value, 0), dtype)
        value += size if value < 0 else 0
        limits = np.iinfo(dtype)
        return dtype.type(min(max(value, limits.min), limits.max))
    return wrap_negative(index, size) if wrap else index


def wrap_negative(index: Any, size: Size) -> Any:
    """`index`, an array of integers, with `size` added where it is negative.

    Raises: IntegerRangeError if the result may not be an int32 and 64-bit types are off.
    """
    dtype: Any = type_of(index).dtype
    if kind_of(dtype) == "unsigned":
        return index
    if not fits(size, np.iinfo(dtype).max):
        dtype = dtypes.canonicalize_dtype(np.int32 if fits(size, 2**31) else np.int64)
        if not fits(size, np.iinfo(dtype).max + 1):
            raise IntegerRangeError(
                "an index into so long a dimension needs 64 bits.",
                got=f"size {size}, index {type_of(index).text()}",
                do="Index with Python integers, or enable 64-bit types: `config.update('enable_x64', True)`.",
            )
        index = convert_element_type(index, dtype)
    # `size` may exceed the dtype by one; its sum with a negative index then wraps around to the right value.
    size_as_index = np.int64(size).astype(dtype) if type(size) is int else size_scalar(size, dtype)
    return select_n(lt(index, dtype.type(0)), index, add(index, size_as_index))


def _check_window(name: str, avals: Avals, window: Shape, shown: str) -> None:
    """Raise ShapeError or DtypeError unless operand and start indices make a window; errors show it as `shown`."""
    operand, *starts = avals
    got = [f"operand: {operand.text()}", shown, *texts("start", starts)]
    if len(starts) != operand.ndim or any(s.shape != () for s in starts):
        raise ShapeError(
            f"{name} needs one scalar start index for each dimension of its operand.", got=got
        )
    if len(window) != operand.ndim:
        raise ShapeError(f"{name} needs a window with as many dimensions as its operand.", got=got)
    if not all(0 <= w <= size for w, size in strict_zip(window, operand.shape)):
        raise ShapeError(f"{name} needs a window that fits into its operand.", got=got)
    if any(kind_of(s.dtype) not in INTEGER or s.dtype != starts[0].dtype for s in starts):
        raise DtypeError(f"{name} needs integer start indices of one dtype.", got=got)


class _Window(JointlyLinear[P]):
    """A primitive that reads or writes the window that begins at its last operands, one scalar for each axis."""

    n_arrays: ClassVar[int]
    """Number of operands before the start indices."""

    def batch(self, axis, operands, dims, params):
        n, ndim = self.n_arrays, len(operands) - self.n_arrays
        arrays, starts = operands[:n], operands[n:]
        if all(d is None for d in dims[n:]):
            aligned, dim = aligned_at_one_dim(axis, arrays, dims[:n])
            params = self.batched_params(params, dim, axis.size)
            dtype = type_of(starts[0]).dtype if starts else np.dtype(np.int32)
            starts = insert_at(starts, dim, dtype.type(0))
            return bind(self, *aligned, *starts, params=params), [dim]
        columns = [expand_dims(s, (1,)) for s in aligned_at_one_dim(axis, starts, dims[n:])[0]]
        x, *update = arrays
        axes = tuple(range(ndim))
        primitive, general = self.at_index_vectors(axes, params)
        return primitive.batch(
            axis, (x, concatenate(columns, 1), *update), (dims[0], 0, *dims[1:n]), general
        )

    def batched_params(self, params: P, dim: int, size: int) -> P:
        """Params for arrays with one more axis of `size` at `dim`."""
        return params

    def at_index_vectors(self, axes: Shape, params: P) -> tuple[Primitive, Any]:
        """The primitive that does the same at start indices in one array, and its params."""
        raise self.missing("batch")

    def lower(self, ctx, operands, params):
        n, avals = self.n_arrays, ctx.avals_in
        dtype = avals[-1].dtype if len(operands) > n else np.dtype(np.int32)
        inner = element_shape(avals[0])
        starts = [
            clamp_start(ctx, start, aval, size - w)
            for start, aval, size, w in strict_zip(
                operands[n:], avals[n:], avals[0].shape, self.window(avals, params)
            )
        ]
        zeros_inside = [ctx.constant(dtype.type(0)) for _ in inner]
        return [self.lower_window(ctx, [*operands[:n], *starts, *zeros_inside], params, inner)]

    def window(self, avals: Avals, params: P) -> Shape:
        """The shape of the window, for operands of types `avals`."""
        raise self.missing("lower")

    def lower_window(self, ctx: Any, operands: Operands, params: P, inner: Shape) -> Any:
        """Lowers the primitive; the operands contain start indices for the element axes `inner`, too."""
        raise self.missing("lower")


# dynamic_slice ------------------------------------------------------------------------------------


class DynamicSliceParams(NamedTuple):
    slice_sizes: Shape


class DynamicSlice(_Window[DynamicSliceParams]):
    name = "dynamic_slice"
    n_arrays = 1
    traits = INDEXING.replace(linear=(0,), passive="others", touches="part")
    all_dims = "~"

    def abstract_eval(self, avals, params):
        x, *_ = avals
        _check_window(self.name, avals, params.slice_sizes, f"window: {params.slice_sizes}")
        return [shaped_array(params.slice_sizes, x.dtype, x.weak_type)]

    def operand_cotangents(self, cotangent, operands, params):
        x, *starts = operands
        return bind(dynamic_update_slice_p, zeros(x.aval), cotangent, *starts)

    def batched_params(self, params, dim, size):
        return DynamicSliceParams(insert_at(params.slice_sizes, dim, size))

    def at_index_vectors(self, axes, params):
        windows = GatherDimensionNumbers(axes, (), axes)
        return gather_p, GatherParams(
            windows, None, True, GatherScatterMode.CLIP, params.slice_sizes, True
        )

    def window(self, avals, params):
        return params.slice_sizes

    def lower_window(self, ctx, operands, params, inner):
        x, *starts = operands
        x = element_apart(ctx, x, ctx.avals_in[0], ctx.avals_out[0])
        sizes = {"slice_sizes": (*params.slice_sizes, *inner)}
        return ctx.as_result("stablehlo.dynamic_slice", [x, *starts], sizes)


dynamic_slice_p = DynamicSlice()


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    slice_sizes: Ints,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The window of `operand` with static `slice_sizes` that begins at `start_indices`.

    `start_indices` are integer scalars, one for each dimension, or an array of them. Negative ones count from
    the end, if `allow_negative_indices` (for all dimensions, or one by one). A window that reaches over an edge
    is moved until it fits. Source: StableHLO specification, `dynamic_slice`.

    The result has shape `slice_sizes` and the dtype of `operand`.
    Raises: ShapeError for another number of indices or sizes, and for sizes out of bounds; DtypeError for indices that
    aren't integers; TypeError for sizes that are none; ArgumentTypeError for lists and strings.

    >>> dynamic_slice(np.arange(5), (4,), (2,))
    Array([3, 4], dtype=int32)
    """
    shape = type_of(operand).shape
    starts = start_scalars("dynamic_slice", shape, start_indices, allow_negative_indices)
    params = DynamicSliceParams(canonical_shape(slice_sizes))
    return bind1(dynamic_slice_p, operand, *starts, params=params)


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The window of `operand` along `axis` with static `slice_size` that begins at `start_index`.

    The result has the dtype of `operand`; the start is moved as by `dynamic_slice`.
    Raises: AxisError for an axis out of bounds, ShapeError for a size out of bounds, DtypeError for a start that is no
    integer, TypeError for a size that is none, ArgumentTypeError for lists and strings.

    >>> dynamic_slice_in_dim(np.arange(5), 1, 2)
    Array([1, 2], dtype=int32)
    """
    shape = type_of(operand).shape
    axis = canonical_axis(axis, len(shape))
    sizes = list(shape)
    sizes[axis] = canonical_size(slice_size)
    starts, wraps = _starts_along(axis, len(shape), start_index, allow_negative_indices)
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=wraps)


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The part of `operand` at `index` along `axis`, which stays with size 1 if `keepdims`.

    The result has the dtype of `operand`; `index` is an integer scalar, and one out of bounds is moved to the edge.
    Raises: AxisError for an axis out of bounds, DtypeError for an index that isn't an integer, ArgumentTypeError for lists
    and strings.

    >>> dynamic_index_in_dim(np.arange(5), -1, keepdims=False)
    Array(4, dtype=int32)
    """
    window = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return window if keepdims else squeeze(window, (axis,))


def _starts_along(axis: int, ndim: int, index, wrap: bool) -> tuple[Values, list[bool]]:
    """Start indices that are 0 but along `axis`, and which of them may be negative."""
    starts: Values = [0] * ndim
    starts[axis] = index
    return starts, [wrap and i == axis for i in range(ndim)]


# dynamic_update_slice -----------------------------------------------------------------------------


class DynamicUpdateSlice(_Window[NoParams]):
    name = "dynamic_update_slice"
    n_arrays = 2
    traits = INDEXING.replace(linear=(0, 1), passive="others", touches="in place")
    all_dims = "~="

    def abstract_eval(self, avals, params):
        x, update, *starts = avals
        if x.dtype != update.dtype:
            raise DtypeError(
                "dynamic_update_slice needs an operand and an update of one dtype.",
                got=[f"operand: {x.text()}", f"update: {update.text()}"],
                do="Convert one with `lax.convert_element_type`.",
            )
        _check_window(self.name, (x, *starts), update.shape, f"update: {update.text()}")
        return [shaped_array(x.shape, x.dtype)]

    def operand_cotangents(self, cotangent, operands, params):
        x, update, *starts = operands
        aval = type_of(update)
        window = DynamicSliceParams(aval.shape)
        return [
            is_linear(x) and bind1(self, cotangent, zeros(aval), *starts),
            is_linear(update) and bind1(dynamic_slice_p, cotangent, *starts, params=window),
        ]

    def at_index_vectors(self, axes, params):
        windows = ScatterDimensionNumbers(axes, (), axes)
        return scatter_p, ScatterParams(windows, True, GatherScatterMode.CLIP, True)

    def window(self, avals, params):
        return avals[1].shape

    def lower_window(self, ctx, operands, params, inner):
        x, update, *_ = operands
        result = ctx.as_result("stablehlo.dynamic_update_slice", operands)
        checked_update(
            ctx, result, x, update,
            lambda: ctx.from_python(_updated_copy, operands[: len(operands) - len(inner)])[0],
        )  # fmt: skip
        return result


dynamic_update_slice_p = DynamicUpdateSlice()


def _updated_copy(x, update, *starts):
    """`dynamic_update_slice` that doesn't write in place."""
    written, updated = write_apart(
        x, update, lambda array, window: bind1(dynamic_update_slice_p, array, window, *starts)
    )
    return select_n(written, x, updated)


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """`operand` with the window that begins at `start_indices` replaced by `update`, of the same rank.

    Start indices are as for `dynamic_slice`: a window that reaches over an edge is moved until it fits.

    The result has the shape and dtype of `operand`, which is that of `update`, too.
    Raises: DtypeError for different dtypes and for indices that aren't integers, ShapeError for an update of another
    rank or that is larger and for another number of indices, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `dynamic_update_slice`.

    >>> dynamic_update_slice(np.zeros(4, np.int32), np.array([1, 2], np.int32), (3,))
    Array([0, 0, 1, 2], dtype=int32)
    """
    shape = type_of(operand).shape
    starts = start_scalars("dynamic_update_slice", shape, start_indices, allow_negative_indices)
    return bind1(dynamic_update_slice_p, operand, update, *starts)


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`operand` with the window along `axis` that begins at `start_index` replaced by `update`.

    The result has the shape and dtype of `operand`, which is that of `update`, too.
    Raises: DtypeError for different dtypes and for a start that isn't an integer, ShapeError for an update that does not
    fit, AxisError for an axis out of bounds, ArgumentTypeError for lists and strings.

    >>> dynamic_update_slice_in_dim(np.zeros(4, np.int32), np.array([1, 2], np.int32), 1, 0)
    Array([0, 1, 2, 0], dtype=int32)
    """
    ndim = type_of(operand).ndim
    starts, wraps = _starts_along(
        canonical_axis(axis, ndim), ndim, start_index, allow_negative_indices
    )
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=wraps)


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`operand` with the part at `index` along `axis` replaced by `update`, which may lack that axis.

    The result has the shape and dtype of `operand`, which is that of `update`, too; an index out of bounds is moved to
    the edge.
    Raises: DtypeError for different dtypes and for an index that isn't an integer, ShapeError for an update that does not
    fit, AxisError for an axis out of bounds, ArgumentTypeError for lists and strings.

    >>> dynamic_update_index_in_dim(np.zeros(3, np.int32), np.int32(1), -1, 0)
    Array([0, 0, 1], dtype=int32)
    """
    ndim = type_of(operand).ndim
    axis = canonical_axis(axis, ndim)
    if type_of(update).ndim != ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def _flat_slice(s: Slice) -> tuple[tuple[Any, ...], tuple[int | None, int]]:
    """(children, which may be traced; static size and stride, where the size is None if it is traced)."""
    if s.is_dynamic_size:
        return (s.start, s.size), (None, s.stride)
    return (s.start,), (s.size, s.stride)


def _slice_of(data: Any, children: Any) -> Slice:
    size, stride = data
    return Slice(children[0], children[1] if size is None else size, stride)


register_pytree_node(Slice, _flat_slice, _slice_of)
