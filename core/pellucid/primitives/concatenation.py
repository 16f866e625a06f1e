"""Arrays put together and taken apart: `concatenate` and `split`, `stack` and `unstack`, `tile`."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

from pellucid.base import (
    ArgumentValueError,
    Ints,
    Shape,
    ShapeError,
    canonical_shape,
    inserted,
    ints,
    resized,
    strict_zip,
)
from pellucid.ir import (
    MOVEMENT,
    Avals,
    BatchAxis,
    Dims,
    Operands,
    P,
    ShapedArray,
    Zero,
    alike,
    element_shape,
    physical,
    shaped_array,
    with_mark,
    words,
)
from pellucid.sharding.explicit_types import sharding_with_dim
from pellucid.tracing import bind, bind1, type_of, types_of

from .broadcasting import broadcast_in_dim, reduce_sum
from .creation import instantiate
from .families import check_one_dtype, texts
from .linear import JointlyLinear
from .movement import Movement, canonical_axis, move_axis, reshape, shifted, with_batch_dim
from .padding import lowered_slice

# Putting together ---------------------------------------------------------------------------------


class Joining(JointlyLinear[P]):
    """A primitive that joins arrays along an axis; the cotangents of the arrays are parts of the result's."""

    def check(self, avals: Avals) -> None:
        """Raise unless there are operands, of one dtype and rank."""
        if not avals:
            raise ArgumentValueError(f"{self.name} needs at least one array.")
        check_one_dtype(
            self.name,
            avals,
            do=f"Convert one with `lax.convert_element_type`, or use `jnp.{self.name}`, which promotes.",
        )
        if any(a.ndim != avals[0].ndim for a in avals):
            raise ShapeError(
                f"{self.name} needs operands with one number of dimensions.",
                got=texts("operand", avals),
            )


def aligned_at_one_dim(axis: BatchAxis, operands: Operands, dims: Dims) -> tuple[list[Any], int]:
    """Operands of one rank with all their batch axes at one place, and that place.

    Those without a batch axis are repeated, and laid out along it as the first of the others.
    """
    first, target = next((x, d) for x, d in strict_zip(operands, dims) if d is not None)
    shown = type_of(first).shown_sharding
    aligned = []
    for x, dim in strict_zip(operands, dims):
        aligned.append(
            _repeated(x, axis.size, target, shown) if dim is None else move_axis(x, dim, target)
        )
    return aligned, target


def _repeated(x, size: int, position: int, shown):
    """`x` repeated along a new dimension, laid out there as a value whose type shows the sharding `shown`."""
    aval: Any = type_of(x)
    sharding = sharding_with_dim(aval, position, shown)
    shape = inserted(aval.shape, position, size)
    return broadcast_in_dim(x, shape, shifted(range(aval.ndim), position), out_sharding=sharding)


def axis_checked(name: str, axis: int, x: Any, got: Any = None, what: str = "axis") -> int:
    """`axis`; raises ShapeError unless the array of type `x` has it."""
    if not 0 <= axis < x.ndim:
        raise ShapeError(
            f"{name}: {what} {axis} is out of bounds.", got=got or f"operand: {x.text()}"
        )
    return axis


class ConcatenateParams(NamedTuple):
    dimension: int


class Concatenate(Joining[ConcatenateParams]):
    name = "concatenate"
    traits = MOVEMENT

    def abstract_eval(self, avals, params):
        self.check(avals)
        first, got = avals[0], texts("operand", avals)
        dimension = axis_checked(self.name, params.dimension, first, got, "dimension")
        for aval in avals:
            if resized(aval.shape, dimension, first.shape[dimension]) != first.shape:
                raise ShapeError(
                    f"concatenate needs operands whose shapes differ at most in dimension {dimension}.",
                    got=got,
                )
        shape = resized(first.shape, dimension, sum(a.shape[dimension] for a in avals))
        return [shaped_array(shape, first.dtype, all(a.weak_type for a in avals))]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim, mark="=")
        dims = with_mark(dims, [params.dimension], "~")
        return [dims] * len(avals), [dims]

    def operand_cotangents(self, cotangent, operands, params):
        dimension = params.dimension
        return split(cotangent, [x.shape[dimension] for x in types_of(operands)], dimension)

    def batch(self, axis, operands, dims, params):
        aligned, dim = aligned_at_one_dim(axis, operands, dims)
        return bind(self, *aligned, params=with_batch_dim(params, ["dimension"], dim)), [dim]

    def lower(self, ctx, operands, params):
        dimension = {"dimension": params.dimension}
        return [ctx.op1("stablehlo.concatenate", ctx.avals_out[0], operands, dimension)]


concatenate_p = Concatenate()


def concatenate(operands: Any, dimension: int) -> Any:
    """The arrays `operands` one after the other along `dimension`; their other dimensions are equal.

    Source: StableHLO specification, `concatenate`.

    >>> concatenate([np.arange(2), np.arange(3)], 0)
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    arrays = _listed(operands, "concatenate")
    if len(arrays) == 1 and 0 <= operator.index(dimension) < type_of(arrays[0]).ndim:
        return arrays[0]
    return bind1(concatenate_p, *arrays, params=ConcatenateParams(operator.index(dimension)))


def _listed(operands, name: str) -> list[Any]:
    """`operands` as a list; the rows of an array if it is one."""
    if isinstance(operands, (list, tuple)):
        return list(operands)
    if getattr(operands, "ndim", 0):
        return unstack(operands)
    raise ArgumentValueError(
        f"{name} needs a sequence of arrays.", got=f"got {type(operands).__name__}"
    )


class StackParams(NamedTuple):
    axis: int


class Stack(Joining[StackParams]):
    name = "stack"
    traits = MOVEMENT

    def abstract_eval(self, avals, params):
        self.check(avals)
        first = avals[0]
        if any(a.shape != first.shape for a in avals):
            raise ShapeError("stack needs operands of one shape.", got=texts("operand", avals))
        shape = inserted(first.shape, params.axis, len(avals))
        return [shaped_array(shape, first.dtype, all(a.weak_type for a in avals))]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim, mark="=")
        [new] = words(1, len(dims))
        return [dims] * len(avals), [inserted(dims, params.axis, new)]

    def operand_cotangents(self, cotangent, operands, params):
        return unstack(cotangent, params.axis)

    def batch(self, axis, operands, dims, params):
        aligned, dim = aligned_at_one_dim(axis, operands, dims)
        before = dim <= params.axis
        return [bind1(self, *aligned, params=StackParams(params.axis + before))], [
            dim + (not before)
        ]

    def lower(self, ctx, operands, params):
        aval = physical(ctx.avals_in[0])
        row = shaped_array(inserted(aval.shape, params.axis, 1), aval.dtype)
        rows = [ctx.reshape(x, row) for x in operands]
        dimension = {"dimension": params.axis}
        return [ctx.op1("stablehlo.concatenate", ctx.avals_out[0], rows, dimension)]


stack_p = Stack()


def stack(operands: Any, axis: int = 0) -> Any:
    """The arrays `operands`, of one shape, side by side along a new `axis`.

    >>> stack([np.arange(2), np.arange(2)], axis=1).tolist()
    [[0, 0], [1, 1]]
    """
    arrays = _listed(operands, "stack")
    if not arrays:
        raise ArgumentValueError("stack needs at least one array.")
    ndim = type_of(arrays[0]).ndim
    return bind1(stack_p, *arrays, params=StackParams(canonical_axis(axis, ndim + 1)))


# Taking apart -------------------------------------------------------------------------------------


class Parting(Movement[P]):
    """A movement with several results; the cotangent of the operand joins theirs."""

    traits = MOVEMENT.replace(returns_list=True)

    def join(self, cotangents: list[Any], params: Any) -> Any:
        """The cotangent of the operand."""
        raise self.missing("join")

    def transpose(self, cotangents, operands, params):
        if all(type(ct) is Zero for ct in cotangents):
            return [Zero(operands[0].aval)]
        return [self.join([instantiate(ct) for ct in cotangents], params)]


class SplitParams(NamedTuple):
    axis: int
    sizes: Shape


class Split(Parting[SplitParams]):
    name = "split"
    dim_fields, dims_mark = ("axis",), "~"

    def abstract_eval(self, avals, params):
        [x] = avals
        axis, sizes = params
        got = [f"operand: {x.text()}", f"sizes: {sizes}"]
        axis_checked(self.name, axis, x, got)
        if any(size < 0 for size in sizes):
            raise ShapeError("split needs sizes that are not negative.", got=got)
        if sum(sizes) != x.shape[axis]:
            raise ShapeError(
                f"split needs sizes that add up to {x.shape[axis]}, the size of axis {axis}.",
                got=got,
            )
        return [shaped_array(resized(x.shape, axis, size), x.dtype, x.weak_type) for size in sizes]

    def join(self, cotangents, params):
        return concatenate(cotangents, params.axis)

    def lower(self, ctx, operands, params):
        [aval], start, results = ctx.avals_in, 0, []
        for size, result in strict_zip(params.sizes, ctx.avals_out):
            results.append(_piece(ctx, operands[0], aval, params.axis, start, size, result))
            start += size
        return results


split_p = Split()


def _piece(ctx, x, aval: ShapedArray, axis: int, start: int, size: int, result: ShapedArray):
    """The lowered `size` elements from `start` along `axis` of `x`, a value of type `aval`."""
    shape = physical(aval).shape
    starts = resized((0,) * len(shape), axis, start)
    return lowered_slice(ctx, x, starts, resized(shape, axis, start + size), result)


def split(operand: Any, sizes: Ints, axis: int = 0) -> list[Any]:
    """`operand` cut along `axis` into parts of the given `sizes`, which add up to its size there.

    >>> [x.shape for x in split(np.arange(5), (2, 3))]
    [(2,), (3,)]
    """
    params = SplitParams(
        canonical_axis(axis, type_of(operand).ndim),
        canonical_shape(sizes),
    )
    return list(bind(split_p, operand, params=params))


class UnstackParams(NamedTuple):
    axis: int


class Unstack(Parting[UnstackParams]):
    name = "unstack"
    dim_fields = ("axis",)

    def abstract_eval(self, avals, params):
        [x] = avals
        axis = axis_checked(self.name, params.axis, x)
        row = shaped_array(resized(x.shape, axis), x.dtype, x.weak_type)
        return [row] * x.shape[axis]

    def factors(self, avals, results, params):
        dims = with_mark(words(avals[0].ndim), [params.axis], self.dims_mark)
        return [dims], [resized(dims, params.axis)] * len(results)

    def join(self, cotangents, params):
        return stack(cotangents, params.axis)

    def batched_params(self, params, dim, size):
        batched, dim = super().batched_params(params, dim, size)
        return batched, dim - (batched.axis < dim)

    def lower(self, ctx, operands, params):
        [aval], axis = ctx.avals_in, params.axis
        row = aval.update(shape=resized(aval.shape, axis, 1))
        return [
            ctx.reshape(_piece(ctx, operands[0], aval, axis, i, 1, row), result)
            for i, result in enumerate(ctx.avals_out)
        ]


unstack_p = Unstack()


def unstack(x: Any, axis: int = 0) -> list[Any]:
    """The arrays that `x` holds along `axis`, which disappears.

    >>> [row.tolist() for row in unstack(np.eye(2, dtype=np.int32))]
    [[1, 0], [0, 1]]
    """
    axis = canonical_axis(axis, type_of(x).ndim)
    return list(bind(unstack_p, x, params=UnstackParams(axis)))


# tile ---------------------------------------------------------------------------------------------


class TileParams(NamedTuple):
    reps: Shape


class Tile(Movement[TileParams]):
    name = "tile"
    traits = MOVEMENT

    def result_shape(self, x, params):
        if len(params.reps) != x.ndim or any(n < 0 for n in params.reps):
            raise ShapeError(
                f"tile needs {x.ndim} repetitions, one for each dimension, that are not negative.",
                got=[f"operand: {x.text()}", f"reps: {params.reps}"],
                do="To repeat along new axes, use `jnp.tile`.",
            )
        return tuple([size * n for size, n in strict_zip(x.shape, params.reps)])

    def factors(self, avals, results, params):
        repeated = [i for i, n in enumerate(params.reps) if n != 1]
        return alike(avals, results, "!", repeated)

    def undo(self, cotangent, aval, params):
        folded = reshape(cotangent, _folded(aval.shape, params.reps))
        return reduce_sum(folded, range(0, 2 * aval.ndim, 2))

    def batched_params(self, params, dim, size):
        return TileParams(inserted(params.reps, dim, 1)), dim

    def lower(self, ctx, operands, params):
        [aval] = ctx.avals_in
        inner = element_shape(aval)
        dtype = physical(aval).dtype
        folded = (*_folded(aval.shape, params.reps), *inner)
        dims = (*range(1, 2 * aval.ndim, 2), *range(2 * aval.ndim, len(folded)))
        repeated = ctx.broadcast(operands[0], dims, shaped_array(folded, dtype))
        return [ctx.reshape(repeated, ctx.avals_out[0])]


tile_p = Tile()


def _folded(shape: Ints, reps: Ints) -> Shape:
    """The shape of a tiled array in which each dimension is split into (repetitions, size)."""
    return tuple([n for pair in strict_zip(reps, shape) for n in pair])


def tile(operand: Any, reps: Ints) -> Any:
    """`operand` laid `reps[i]` times in a row along each dimension `i`.

    >>> tile(np.arange(3), (2,))
    Array([0, 1, 2, 0, 1, 2], dtype=int32)
    """
    return bind1(tile_p, operand, params=TileParams(ints(reps)))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """`operand` with its dimensions from `start_dimension` up to `stop_dimension` made into one, row-major.

    Negative dimensions count from the end; without a stop, all that follow are collapsed.

    >>> collapse(np.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = type_of(operand).shape
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ArgumentValueError(
            f"collapse needs a start dimension that does not lie behind the stop dimension, got {start} and {stop}."
        )
    return reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))
