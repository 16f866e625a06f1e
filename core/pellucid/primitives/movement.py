"""Movement: primitives that rearrange elements (`reshape`, `transpose`, `rev`). Each is the inverse of another."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from pellucid.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Axes,
    AxisError,
    Ints,
    Shape,
    ShapeError,
    canonical_shape,
    canonical_size,
    exact_quotient,
    expecting,
    ints,
)
from pellucid.ir import (
    MOVEMENT,
    LaidOut,
    P,
    Primitive,
    ShapedArray,
    Zero,
    element_shape,
    regrouping,
    shaped_array,
    with_mark,
    without_dims,
    words,
)
from pellucid.tracing import bind, bind1, type_of


def canonical_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """`axis` as an index from the front; raises AxisError if an array of `ndim` axes lacks it."""
    index = axis
    if type(axis) is not int:
        with expecting(f"{what} is an int", axis):
            index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise AxisError(
            f"{what} {index} is out of bounds for an array with {ndim} dimension{'s' * (ndim != 1)}."
        )
    return index + ndim if index < 0 else index


def shifted(axes: Ints, dim: int) -> Axes:
    """`axes` of an array after one more axis is inserted at `dim`."""
    return tuple([a + (a >= dim) for a in axes])


def with_batch_dim(params: Any, fields: Sequence[str], dim: int) -> Any:
    """`params` whose `fields`, dimensions of an array, are those after one more is inserted at `dim`."""
    dims = {field: getattr(params, field) for field in fields}
    return params._replace(**{
        field: shifted(d, dim) if type(d) is tuple else d + (d >= dim) for field, d in dims.items()
    })  # fmt: skip


def inverse_permutation(permutation: Ints) -> list[int]:
    """The permutation that undoes `permutation`."""
    inverse = [0] * len(permutation)
    for i, p in enumerate(permutation):
        inverse[p] = i
    return inverse


class OfOneArray(Primitive[P]):
    """A primitive of one array, whose batch rule changes the params alone."""

    dim_fields: ClassVar[Sequence[str]] = ()
    """The params that hold dimensions of the array along which the operation works; with them comes a batch rule."""
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
        if type(cotangent) is Zero:
            return [Zero(x.aval)]
        return [self.undo(cotangent, x.aval, params)]

    def undo(self, cotangent: Any, aval: ShapedArray, params: Any) -> Any:
        """The cotangent of the operand, whose type is `aval`."""
        raise self.missing("undo")


class Identity(Movement[P]):
    """A primitive whose result equals its operand; subclasses add a side condition or an effect."""

    traits = MOVEMENT

    def abstract_eval(self, avals, params):
        return avals

    def factors(self, avals, results, params):
        return None  # the types have their shardings already

    def undo(self, cotangent, aval, params):
        return cotangent

    def batch(self, axis, operands, dims, params):
        return [bind1(self, *operands, params=params)], dims

    def lower(self, ctx, operands, params):
        return operands


# reshape ------------------------------------------------------------------------------------------


class ReshapeParams(NamedTuple):
    """`dimensions` is kept for the reference's text; it is always None here."""

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

    def undo(self, cotangent, aval, params):
        return reshape(cotangent, aval.shape)

    def batch(self, axis, operands, dims, params):
        x = move_axis(operands[0], dims[0], 0)
        return [reshape(x, (axis.size, *params.new_sizes))], [0]

    def lower(self, ctx, operands, params):
        return [ctx.reshape(operands[0], ctx.avals_out[0])]


reshape_p = Reshape()


def reshape(
    operand: Any,
    new_sizes: Ints,
    dimensions: Ints | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The elements of `operand`, in row-major order, with shape `new_sizes`.

    `dimensions` permutes the axes first. Raises ShapeError unless the sizes multiply to the operand's.
    Source: StableHLO specification, `reshape`.

    >>> reshape(np.arange(6), (2, 3)).shape
    (2, 3)
    """
    sizes = canonical_shape(new_sizes)
    aval = type_of(operand)
    if dimensions is not None and tuple(dimensions) != tuple(range(aval.ndim)):
        operand = transpose(operand, dimensions)
    elif sizes == aval.shape and out_sharding is None:
        return operand
    return bind1(
        reshape_p,
        operand,
        params=ReshapeParams(None, sizes, reshape_p.stated_layout(out_sharding)),
    )


def inferred_sizes(caller: str, old: Shape, sizes: Sequence[Any]) -> Shape:
    """`sizes` to which an array of shape `old` is reshaped; one that is -1 follows from the others.

    Raises: ArgumentTypeError for sizes that aren't known, ShapeError if no size can stand for -1.
    """
    try:
        shape = tuple([canonical_size(s) for s in sizes])
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
        return tuple([x.shape[i] for i in params.permutation])

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim)
        return [dims], [[dims[i] for i in params.permutation]]

    def undo(self, cotangent, aval, params):
        return transpose(cotangent, inverse_permutation(params.permutation))

    def batch(self, axis, operands, dims, params):
        [dim] = dims
        return [transpose(operands[0], (dim, *shifted(params.permutation, dim)))], [0]  # type: ignore[arg-type]

    def lower(self, ctx, operands, params):
        [result] = ctx.avals_out
        inner = range(result.ndim, result.ndim + len(element_shape(result)))
        return [ctx.transpose(operands[0], (*params.permutation, *inner), result)]


transpose_p = Transpose()


def transpose(operand: Any, permutation: Ints) -> Any:
    """`operand` with its axes permuted: axis `i` of the result is axis `permutation[i]` of the operand.

    Source: StableHLO specification, `transpose`.

    >>> transpose(np.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    permutation = ints(permutation)
    if permutation == tuple(range(len(permutation))) and len(permutation) == type_of(operand).ndim:
        return operand
    return bind1(transpose_p, operand, params=TransposeParams(permutation))


def move_axis(x: Any, source: Any, target: int) -> Any:
    """`x` with axis `source` moved to `target`; the other axes keep their order."""
    if source == target:
        return x
    order = [i for i in range(type_of(x).ndim) if i != source]
    order.insert(target, source)
    return transpose(x, order)


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

    def undo(self, cotangent, aval, params):
        return rev(cotangent, params.dimensions)

    def lower(self, ctx, operands, params):
        dimensions = {"dimensions": params.dimensions}
        return [ctx.op1("stablehlo.reverse", ctx.avals_out[0], operands, dimensions)]


rev_p = Rev()


def rev(operand: Any, dimensions: Ints) -> Any:
    """`operand` with the order of elements along `dimensions` reversed.

    Source: StableHLO specification, `reverse`.

    >>> rev(np.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return bind1(rev_p, operand, params=RevParams(ints(dimensions)))
