"""Movement: primitives that rearrange, repeat or sum elements (`reshape`, `transpose`, `rev`, `broadcast_in_dim`, `squeeze`, `reduce_sum`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import ml_dtypes
import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    Axes,
    AxisError,
    DtypeError,
    Ints,
    Shape,
    ShapeError,
    Symbol,
    canonical_shape,
    config,
    dtypes,
    exact_quotient,
    expecting,
    insert_at,
    ints,
    strict_zip,
)
from pellucid._machine.ir import (
    MOVEMENT,
    BatchAxis,
    BatchDim,
    Dims,
    LaidOut,
    Operands,
    P,
    Primitive,
    ShapedArray,
    Shown,
    Traits,
    Values,
    element_shape,
    regrouping,
    shaped_array,
    with_mark,
    without_dims,
    words,
)
from pellucid._machine.lowering.exact import protect_value
from pellucid._machine.lowering.summed_products import apart_from_product
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import as_array, bind, bind1, type_of
from pellucid._machine.xla import Array

from .counts import combinations


def canonical_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """`axis` as an index from the front; raises AxisError if an array of `ndim` axes lacks it."""
    index = axis
    if type(axis) is not int:
        with expecting(f"{what} must be an int", axis):
            index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise AxisError(
            f"{what} {index} is out of bounds for an array with {ndim} dimension{'s' * (ndim != 1)}."
        )
    return index + ndim if index < 0 else index


def shift_axes(axes: Ints, dim: int) -> Axes:
    """`axes` of an array after one more axis is inserted at `dim`."""
    return tuple([a + (a >= dim) for a in axes])


def with_batch_dim(params: Any, fields: Sequence[str], dim: int) -> Any:
    """`params` whose `fields`, dimensions of an array, are those after one more is inserted at `dim`."""
    dims = {field: getattr(params, field) for field in fields}
    return params._replace(**{
        field: shift_axes(d, dim) if type(d) is tuple else d + (d >= dim) for field, d in dims.items()
    })  # fmt: skip


def other_axes(ndim: int, *groups: Iterable[int]) -> Axes:
    """The axes of an array of `ndim` dimensions that are in none of the `groups`."""
    axes = set().union(*groups)
    return tuple([i for i in range(ndim) if i not in axes])


def permute(values: Sequence[Any], order: Ints) -> tuple[Any, ...]:
    """The `values`, by position, that are at `order`."""
    return tuple([values[i] for i in order])


def inverse_permutation(permutation: Ints) -> list[int]:
    """The permutation that undoes `permutation`."""
    inverse = [0] * len(permutation)
    for i, p in enumerate(permutation):
        inverse[p] = i
    return inverse


class OfOneArray(Primitive[P]):
    """A primitive of one array, whose batch rule changes the params alone."""

    dim_fields: ClassVar[Sequence[str]] = ()
    """Params that hold the dimensions along which the operation works; naming them provides the batch rule."""
    dims_mark = "!"
    """The mark of their factors; "" if the results lack them."""

    def result_shape(self, x: ShapedArray, params: Any) -> Shape:
        """The shape of the result for an operand of type `x`, whose elements it has; raises if it doesn't fit."""
        raise self.missing("abstract_eval")

    def abstract_eval(self, avals, params):
        [x] = avals
        return [shaped_array(self.result_shape(x, params), x.dtype, x.weak_type)]

    def worked_dims(self, params: Any) -> Axes:
        """The dimensions that the params hold."""
        fields = [getattr(params, field) for field in self.dim_fields]
        return tuple([d for dims in fields for d in (dims if type(dims) is tuple else (dims,))])

    def factors(self, avals, results, params):
        if not self.dim_fields:
            return super().factors(avals, results, params)
        at = self.worked_dims(params)
        dims = with_mark(words(avals[0].ndim), at, self.dims_mark)
        return [dims], [dims if self.dims_mark else without_dims(dims, at)] * len(results)

    def batched_params(self, params: Any, dim: int, size: int) -> tuple[P, int]:
        """Params for a batch of `size` along axis `dim` of the operand, and the batch axis of the results."""
        if not self.dim_fields:
            raise self.missing("batch")
        batched = with_batch_dim(params, self.dim_fields, dim)
        gone = () if self.dims_mark else self.worked_dims(batched)
        return batched, dim - sum(d < dim for d in gone)

    def batch(self, axis, operands, dims, params):
        params, dim = self.batched_params(params, dims[0], axis.size)  # type: ignore[arg-type]
        results = bind(self, *operands, params=params)
        return results, [dim] * len(results)


class Movement(OfOneArray[P]):
    """A linear primitive of one operand: its tangent moves as the operand does."""

    def jvp(self, primals, tangents, params):
        return bind(self, *primals, params=params), bind(self, *tangents, params=params)

    def transpose(self, cotangents, operands, params):
        [cotangent], [x] = cotangents, operands
        return [self.operand_cotangent(cotangent, x.aval, params)]

    def operand_cotangent(self, cotangent: Any, aval: ShapedArray, params: Any) -> Any:
        """The cotangent of the operand, whose type is `aval`."""
        raise self.missing("operand_cotangent")


class Identity(Movement[P]):
    """A primitive that returns its operand; tangents and cotangents are treated like values.

    Subclasses add a side condition or an effect.
    """

    traits = MOVEMENT
    types_are_laid_out = True

    def abstract_eval(self, avals, params):
        return avals

    def operand_cotangent(self, cotangent, aval, params):
        return bind1(self, cotangent, params=params)

    def batch(self, axis, operands, dims, params):
        return bind(self, *operands, params=params), dims

    def lower(self, ctx, operands, params):
        return operands


class IdentityOfValues(Identity[P]):
    """An identity that does nothing to tangents and cotangents."""

    def jvp(self, primals, tangents, params):
        return bind(self, *primals, params=params), tangents

    def operand_cotangent(self, cotangent, aval, params):
        return cotangent


# reshape ------------------------------------------------------------------------------------------


class ReshapeParams(NamedTuple):
    """`dimensions` exists for the reference's text; it is always None here."""

    dimensions: None
    new_sizes: Shape
    sharding: Any


class Reshape(LaidOut, Movement[ReshapeParams]):
    name = "reshape"
    traits = MOVEMENT.replace(cheap=True)

    def result_shape(self, x, params):
        if any(size < 0 for size in params.new_sizes) or math.prod(params.new_sizes) != x.size:
            raise ShapeError(
                f"reshape can't turn {x.size} elements into shape {params.new_sizes}.",
                got=f"operand: {x.text()}",
                do=f"The new sizes must multiply to {x.size}.",
            )
        return params.new_sizes

    def factors(self, avals, results, params):
        return regrouping(avals[0].shape, params.new_sizes)

    def operand_cotangent(self, cotangent, aval, params):
        return reshape(cotangent, aval.shape)

    def batch(self, axis, operands, dims, params):
        x = move_axis(operands[0], dims[0], 0)
        return [reshape(x, (axis.size, *params.new_sizes))], [0]

    def lower(self, ctx, operands, params):
        return [ctx.reshape(operands[0], ctx.avals_out[0])]


reshape_p = Reshape()


def reshape(
    operand: ArrayLike,
    new_sizes: Ints,
    dimensions: Ints | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """The elements of `operand`, in row-major order, with shape `new_sizes`.

    `dimensions` permutes the axes first. Raises ShapeError unless the sizes multiply to the operand's.
    Source: StableHLO specification, `reshape`.

    >>> reshape(np.arange(6), (2, 3)).shape
    (2, 3)
    """
    sizes = canonical_shape(new_sizes)
    aval = type_of(operand)
    if dimensions is not None and ints(dimensions) != tuple(range(aval.ndim)):
        operand = transpose(operand, dimensions)
    elif sizes == aval.shape and out_sharding is None:
        return as_array(operand)
    return bind1(
        reshape_p, operand, params=ReshapeParams(None, sizes, reshape_p.stated_layout(out_sharding))
    )


def inferred_sizes(caller: str, old: Shape, sizes: Sequence[Any]) -> Shape:
    """`sizes` to which an array of shape `old` is reshaped; one that is -1 follows from the others.

    Raises: ArgumentTypeError for sizes that aren't known, ShapeError if no size can stand for -1.
    """
    try:
        shape = canonical_shape(sizes)
    except TypeError:
        raise ArgumentTypeError(
            f"{caller} needs sizes that are ints known when tracing.", got=f"got shape {sizes}"
        ) from None
    unknown = [i for i, s in enumerate(shape) if type(s) is int and s == -1]
    if not unknown:
        return shape
    n_elements = math.prod(old)
    last = exact_quotient(n_elements, math.prod([s for s in shape if s != -1]))
    if len(unknown) > 1 or last is None:
        raise ShapeError(
            f"{caller} can't turn {n_elements} elements into shape {shape}.",
            got=f"operand: shape {list(old)}",
            do="Use -1 at most once, and sizes that divide the number of elements.",
        )
    return (*shape[: unknown[0]], last, *shape[unknown[0] + 1 :])


# transpose ----------------------------------------------------------------------------------------


class TransposeParams(NamedTuple):
    permutation: Axes


class Transpose(Movement[TransposeParams]):
    name = "transpose"
    traits = MOVEMENT.replace(cheap=True)

    def result_shape(self, x, params):
        if sorted(params.permutation) != list(range(x.ndim)):
            raise ShapeError(
                f"transpose needs a permutation of {x.ndim} axes, got {params.permutation}.",
                got=f"operand: {x.text()}",
            )
        return permute(x.shape, params.permutation)

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim)
        return [dims], [permute(dims, params.permutation)]

    def operand_cotangent(self, cotangent, aval, params):
        return transpose(cotangent, inverse_permutation(params.permutation))

    def batch(self, axis, operands, dims, params):
        [dim] = dims
        return [transpose(operands[0], (dim, *shift_axes(params.permutation, dim)))], [0]  # type: ignore[arg-type]

    def lower(self, ctx, operands, params):
        [result] = ctx.avals_out
        inner = range(result.ndim, result.ndim + len(element_shape(result)))
        return [ctx.transpose(operands[0], (*params.permutation, *inner), result)]


transpose_p = Transpose()


def transpose(operand: ArrayLike, permutation: Ints) -> Array:
    """`operand` with its axes permuted: axis `i` of the result is axis `permutation[i]` of the operand.

    The result has the dtype of `operand`.
    Raises: ShapeError for anything that isn't a permutation of its axes, TypeError for axes that aren't integers,
    ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `transpose`.

    >>> transpose(np.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    permutation = ints(permutation)
    if permutation == tuple(range(len(permutation))) and len(permutation) == type_of(operand).ndim:
        return as_array(operand)
    return bind1(transpose_p, operand, params=TransposeParams(permutation))


def move_axis(x: Any, source: Any, target: int) -> Any:
    """`x` with axis `source` moved to `target`; the other axes keep their order."""
    if source == target:
        return x
    return transpose(x, insert_at(other_axes(type_of(x).ndim, [source]), target, source))


# rev ----------------------------------------------------------------------------------------------


class RevParams(NamedTuple):
    dimensions: Axes


class Rev(Movement[RevParams]):
    name = "rev"
    traits = MOVEMENT
    dim_fields, dims_mark = ("dimensions",), "~"

    def result_shape(self, x, params):
        if len(set(params.dimensions)) != len(params.dimensions):
            raise ArgumentValueError(f"rev got a dimension twice: {params.dimensions}.")
        for d in params.dimensions:
            canonical_axis(d, x.ndim, "dimension")
        return x.shape

    def operand_cotangent(self, cotangent, aval, params):
        return rev(cotangent, params.dimensions)

    def lower(self, ctx, operands, params):
        dimensions = {"dimensions": params.dimensions}
        return [ctx.as_result("stablehlo.reverse", operands, dimensions)]


rev_p = Rev()


def rev(operand: ArrayLike, dimensions: Ints) -> Array:
    """`operand` with the order of elements along `dimensions` reversed.

    The result has the shape and dtype of `operand`.
    Raises: AxisError for dimensions out of bounds, ArgumentValueError for repeated ones, TypeError for ones that are no
    integers, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `reverse`.

    >>> rev(np.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return bind1(rev_p, operand, params=RevParams(ints(dimensions)))


# broadcast_in_dim ---------------------------------------------------------------------------------


class BroadcastInDimParams(NamedTuple):
    broadcast_dimensions: Axes
    shape: Shape
    sharding: Any


class BroadcastInDim(Shown, LaidOut, Movement[BroadcastInDimParams]):
    name = "broadcast_in_dim"
    traits = MOVEMENT.replace(cheap=True)
    unshown, says_nothing = ("shape",), (None, ())

    def result_shape(self, x, params):
        shape, dims = params.shape, params.broadcast_dimensions
        if any(n < 0 for n in shape):
            raise ShapeError(
                f"broadcast_in_dim can't give an array of shape {shape}: sizes are not negative."
            )
        if len(dims) != x.ndim or list(dims) != sorted(set(dims)):
            raise ShapeError(
                f"broadcast_in_dim needs {x.ndim} increasing broadcast_dimensions, got {dims}.",
                got=f"operand: {x.text()}",
            )
        for i, d in enumerate(dims):
            if not 0 <= d < len(shape) or x.shape[i] not in (1, shape[d]):
                raise ShapeError(
                    f"broadcast_in_dim can't fit axis {i} of the operand to axis {d} of shape {shape}.",
                    got=f"operand: {x.text()}",
                )
        return shape

    def factors(self, avals, results, params):
        dims = words(len(params.shape))
        sizes = strict_zip(avals[0].shape, params.broadcast_dimensions)
        return [[dims[d] if size == params.shape[d] else "1" for size, d in sizes]], [dims]

    def operand_cotangent(self, cotangent, aval, params):
        aligned = {
            d for i, d in enumerate(params.broadcast_dimensions) if aval.shape[i] == params.shape[d]
        }
        summed = reduce_sum(cotangent, other_axes(len(params.shape), aligned))
        return reshape(summed, aval.shape)

    def batch(self, axis, operands, dims, params):
        x = move_axis(operands[0], dims[0], 0)
        broadcast_dimensions = (0, *(d + 1 for d in params.broadcast_dimensions))
        return [broadcast_in_dim(x, (axis.size, *params.shape), broadcast_dimensions)], [0]

    def lower(self, ctx, operands, params):
        [result] = ctx.avals_out
        inner = range(result.ndim, result.ndim + len(element_shape(result)))
        return [ctx.broadcast(operands[0], (*params.broadcast_dimensions, *inner), result)]


broadcast_in_dim_p = BroadcastInDim()


def broadcast_in_dim(
    operand: ArrayLike,
    shape: Ints,
    broadcast_dimensions: Ints,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """`operand` repeated to `shape`; its axis `i` becomes axis `broadcast_dimensions[i]`.

    An axis of size 1 is stretched. Source: StableHLO specification, `broadcast_in_dim`.

    The result has the dtype of `operand`.
    Raises: ShapeError for dimensions that do not increase or whose sizes do not fit, TypeError for sizes that are no
    integers, ArgumentTypeError for lists and strings.

    >>> broadcast_in_dim(np.arange(2), (3, 2), (1,)).shape
    (3, 2)
    """
    shape = canonical_shape(shape)
    dims = ints(broadcast_dimensions)
    out_sharding = broadcast_in_dim_p.stated_layout(out_sharding)
    aval = type_of(operand)
    if out_sharding is None and shape == aval.shape and dims == tuple(range(len(shape))):
        return as_array(operand)
    return bind1(
        broadcast_in_dim_p, operand, params=BroadcastInDimParams(dims, shape, out_sharding)
    )


def broadcast(
    operand: ArrayLike, sizes: Ints, *, out_sharding: Sharding | PartitionSpec | None = None
) -> Array:
    """`operand` repeated along new leading axes of the given `sizes`.

    The result has shape `[*sizes, *operand.shape]` and the dtype of `operand`.
    Raises: ShapeError for negative sizes, TypeError for sizes that aren't integers, ArgumentTypeError for lists and
    strings.

    >>> broadcast(np.arange(2), (3,)).shape
    (3, 2)
    """
    if not sizes and out_sharding is None:
        return as_array(operand)
    shape = (*sizes, *type_of(operand).shape)
    dims = range(len(sizes), len(shape))
    return broadcast_in_dim(operand, shape, dims, out_sharding=out_sharding)


def expand_dims(array: ArrayLike, dimensions: Ints) -> Array:
    """`array` with new axes of size 1 at `dimensions` of the result.

    The result has the dtype of `array`; negative dimensions count from its end.
    Raises: AxisError for dimensions out of bounds, ArgumentValueError for repeated ones, ArgumentTypeError for ones
    that aren't integers, and for lists and strings.

    >>> expand_dims(np.arange(3), (0,)).shape
    (1, 3)
    """
    aval = type_of(array)
    ndim = aval.ndim + len(set(dimensions))
    new = {canonical_axis(d, ndim) for d in dimensions}
    if len(new) != len(tuple(dimensions)):
        raise ArgumentValueError(f"expand_dims got a dimension twice: {tuple(dimensions)}.")
    if not new:
        return as_array(array)
    old_axes = other_axes(ndim, new)
    sizes = iter(aval.shape)
    shape = tuple([1 if i in new else next(sizes) for i in range(ndim)])
    return broadcast_in_dim(array, shape, old_axes)


def _is_size(size: Any) -> bool:
    return isinstance(size, (int, np.integer, Symbol))


def broadcast_shapes(*shapes: Ints) -> Shape:
    """The shape that arrays of `shapes` broadcast to, by NumPy's rules; raises ShapeError if they don't.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    for shape in shapes:
        for size in shape:
            if (type(size) is not int and not _is_size(size)) or size < 0:
                raise ShapeError(
                    "broadcast_shapes needs shapes of integers from 0.", got=f"got {shape!r:.60}"
                )
    first = tuple(shapes[0]) if shapes else ()
    if all(tuple(shape) == first for shape in shapes[1:]):
        return first
    ndim = max(len(shape) for shape in shapes)
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in strict_zip(*padded):
        distinct = {s for s in sizes if s != 1}
        if len(distinct) > 1:
            raise ShapeError(
                f"shapes {', '.join(str(tuple(s)) for s in shapes)} can't be broadcast together.",
                do="Trailing dimensions must be equal, or 1.",
            )
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)


def unbroadcast(x: Any, aval: ShapedArray) -> Any:
    """The sum of `x` over the axes along which a value of type `aval` was repeated to x's shape."""
    shape = type_of(x).shape
    if shape == aval.shape:
        return x
    lead = len(shape) - aval.ndim
    stretched = [lead + i for i, size in enumerate(aval.shape) if size == 1 != shape[lead + i]]
    summed = reduce_sum(x, (*range(lead), *stretched))
    return reshape(summed, aval.shape)


def broadcast_to(x: Any, shape: Shape) -> Any:
    """`x` repeated to `shape`, its axes at the end, as NumPy does."""
    aval = type_of(x)
    if aval.shape == shape:
        return x
    return broadcast_in_dim(x, shape, range(len(shape) - aval.ndim, len(shape)))


# reduce_sum ---------------------------------------------------------------------------------------


class ReduceSumParams(NamedTuple):
    axes: Axes
    out_sharding: Any


def reduced_shape(shape: Shape, axes: Ints, what: str) -> Shape:
    """`shape` without `axes`; raises for axes that are repeated or absent."""
    if len(set(axes)) != len(axes):
        raise ArgumentValueError(f"{what} got an axis twice: {tuple(axes)}.")
    for a in axes:
        if not 0 <= a < len(shape):
            raise ArgumentValueError(f"{what}: axis {a} is out of bounds for shape {shape}.")
    return tuple([s for i, s in enumerate(shape) if i not in axes])


_HALF_WIDTH = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class ReduceSum(LaidOut, Movement[ReduceSumParams]):
    name = "reduce_sum"
    dim_fields, dims_mark = ("axes",), ""
    traits = Traits(kind="reduction", flops=combinations, linear="all", makes_nan=True)

    def types(self, avals, params):
        # Read here because type rules are cached, and their cache keys don't contain this option.
        [x] = avals
        forbidden = not config.allow_f16_reductions.value and x.dtype in _HALF_WIDTH
        if forbidden and any(x.shape[a] != 1 for a in params.axes):
            raise ArgumentValueError(
                "reduce_sum of 16-bit floating numbers is forbidden by `allow_f16_reductions`.",
                got=f"operand: {x.text()}",
                do="Convert to float32 first.",
            )
        return super().types(avals, params)

    def result_shape(self, x, params):
        if x.dtype == np.bool_ or isinstance(x.dtype, dtypes.ExtendedDType):
            raise DtypeError(
                "reduce_sum needs numbers.",
                got=f"operand: {x.text()}",
                do="Convert with `.astype`.",
            )
        return reduced_shape(x.shape, params.axes, "reduce_sum")

    def operand_cotangent(self, cotangent, aval, params):
        old_axes = other_axes(aval.ndim, params.axes)
        return broadcast_in_dim(cotangent, aval.shape, old_axes)

    def batched_params(self, params, dim, size):
        return super().batched_params(params._replace(out_sharding=None), dim, size)

    def lower(self, ctx, operands, params):
        [x], [aval] = operands, ctx.avals_in
        zero = ctx.constant(np.zeros((), aval.dtype))
        x = apart_from_product(ctx, protect_value(ctx, x, aval), aval, ctx.avals_out[0].shape)
        return [ctx.reduce(x, zero, params.axes, "stablehlo.add", ctx.avals_out[0])]


reduce_sum_p = ReduceSum()


def reduce_sum(
    operand: ArrayLike, axes: Ints, *, out_sharding: Sharding | PartitionSpec | None = None
) -> Array:
    """Sum of the elements along `axes`, which disappear.

    Takes integer, floating-point or complex elements; the result has the shape of `operand` without `axes`, and its
    dtype.
    Raises: DtypeError for other elements, ArgumentValueError for axes that are repeated or out of bounds, TypeError for
    ones that aren't integers, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `reduce` with `add`.

    >>> reduce_sum(np.ones((2, 3), np.float32), (1,))
    Array([3., 3.], dtype=float32)
    """
    axes = ints(axes)
    if not axes and out_sharding is None:
        return as_array(operand)
    return bind1(
        reduce_sum_p,
        operand,
        params=ReduceSumParams(axes, reduce_sum_p.stated_layout(out_sharding)),
    )


# squeeze ------------------------------------------------------------------------------------------


class SqueezeParams(NamedTuple):
    dimensions: Axes


class Squeeze(Movement[SqueezeParams]):
    name = "squeeze"
    dim_fields, dims_mark = ("dimensions",), ""
    traits = MOVEMENT.replace(cheap=True)

    def result_shape(self, x, params):
        bad = [d for d in params.dimensions if x.shape[d] != 1]
        if bad:
            raise ShapeError(
                f"squeeze can only remove dimensions of size 1; dimension {bad[0]} has size {x.shape[bad[0]]}.",
                got=f"operand: {x.text()}",
            )
        return reduced_shape(x.shape, params.dimensions, "squeeze")

    def operand_cotangent(self, cotangent, aval, params):
        return expand_dims(cotangent, params.dimensions)

    def lower(self, ctx, operands, params):
        return [ctx.reshape(operands[0], ctx.avals_out[0])]


squeeze_p = Squeeze()


def squeeze(array: ArrayLike, dimensions: Ints) -> Array:
    """`array` without its axes `dimensions`, which must have size 1.

    The result has the dtype of `array`; negative dimensions count from the end.
    Raises: AxisError for dimensions out of bounds, ShapeError for ones of another size, ArgumentValueError for repeated
    ones, ArgumentTypeError for ones that aren't integers, and for lists and strings.

    >>> squeeze(np.zeros((1, 3)), (0,)).shape
    (3,)
    """
    aval = type_of(array)
    axes = tuple(sorted(canonical_axis(d, aval.ndim) for d in dimensions))
    if len(set(axes)) != len(axes):
        raise ArgumentValueError(f"squeeze got a dimension twice: {tuple(dimensions)}.")
    if not axes:
        return as_array(array)
    return bind1(squeeze_p, array, params=SqueezeParams(axes))


# Batching of operands that must have one shape ------------------------------------------------------


def brought_to(axis: BatchAxis, x: Any, dim: BatchDim, target: BatchDim) -> Any:
    """`x` with its batch axis at `target`; a value without one is repeated."""
    if dim == target or target is None:
        return x
    if dim is not None:
        return move_axis(x, dim, target)
    shape = insert_at(type_of(x).shape, target, axis.size)
    return broadcast_in_dim(x, shape, other_axes(len(shape), [target]))


def aligned_at(axis: BatchAxis, operands: Operands, dims: Dims, target: int | Dims = 0) -> Values:
    """`operands` with their batch axes at `target`, one place for all or one for each, as by `brought_to`."""
    targets = [target] * len(operands) if isinstance(target, int) else target
    return [brought_to(axis, *each) for each in strict_zip(operands, dims, targets)]


def aligned_for_batch(axis: BatchAxis, operands: Operands, dims: Dims) -> tuple[Values, int]:
    """Operands of an elementwise rule brought to fit, and where the batch axis then is.

    That is where all have it, or else in front. An operand without a batch axis gets one of size 1, unless it is
    a scalar: those fit as they are.
    """
    ndims = [type_of(x).ndim - (d is not None) for x, d in strict_zip(operands, dims)]
    ndim = max(ndims)
    places = {(d, n) for d, n in strict_zip(dims, ndims) if d is not None or n}
    target: int = places.pop()[0] if len(places) == 1 else 0  # pyright: ignore[reportAssignmentType]  # one has a batch axis
    aligned = []
    for x, dim, n in strict_zip(operands, dims, ndims):
        if dim is None:
            aligned.append(expand_dims(x, (target,)) if n else x)
        elif n == ndim:
            aligned.append(move_axis(x, dim, target))
        else:
            aligned.append(expand_dims(x, other_axes(ndim + 1, [target])))
    return aligned, target
