"""`gather`: windows read from an array at index vectors."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    Ints,
    Shape,
    canonical_shape,
    insert_at,
    smaller,
)
from pellucid._machine.ir import (
    INDEXING,
    Avals,
    Linear,
    ShapedArray,
    element_shape,
    physical,
    registry,
    shaped_array,
    with_mark,
    words,
)
from pellucid._machine.lowering.faults import (
    MERGED_WINDOWS,
    UNEVEN_GATHER,
)
from pellucid._machine.lowering.slices import element_apart
from pellucid._machine.tracing import Tracer, bind, bind1, type_of
from pellucid._machine.xla import Array

from .creation import zeros
from .families import kind_of
from .index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_gather,
    gathered_shape,
    other_axes,
    with_batch,
    with_int_fields,
)
from .indexed_windows import (
    GatherParams,
    ScatterParams,
    clamp_starts,
    dimension_numbers_attribute,
    last_starts,
    lower_indices,
    movable_indices,
    window_words,
)
from .linear import JointlyLinear
from .monoids import highest, lowest

_INT32 = np.dtype(np.int32)
_BOOL = np.dtype(bool)


def _linear_gather(avals: Avals, params: GatherParams) -> Linear | None:
    # Sums of zeros are zero and of NaNs NaN; sums of any other elements that windows outside are filled with, differ.
    fill = params.fill_value
    return (0,) if fill is None or fill == 0 or fill != fill else None  # noqa: PLR0124


class Gather(JointlyLinear[GatherParams]):
    name = "gather"
    traits = INDEXING.replace(linear=_linear_gather, passive=(1,), touches="part")

    def abstract_eval(self, avals, params):
        x, indices = avals
        numbers, sizes = params.dimension_numbers, params.slice_sizes
        check_gather(x, indices, numbers, sizes)
        return [shaped_array(gathered_shape(numbers, indices.shape, sizes), x.dtype, x.weak_type)]

    def factors(self, avals, results, params):
        x, indices = avals
        numbers = params.dimension_numbers
        # Windows keep the operand's dimensions that they have whole; its others can't be cut, nor can indices.
        partial = [i for i, n in enumerate(params.slice_sizes) if n != x.shape[i]]
        batching = numbers.operand_batching_dims
        whole = {*partial, *numbers.collapsed_slice_dims}.difference(batching)
        dims = with_mark(words(x.ndim), whole, "!")
        # Each device takes what its own indices name.
        points, result = window_words(numbers, dims, indices.ndim, results[0].ndim, "!:")
        return [dims, points], [result]

    def jvp(self, primals, tangents, params):
        filled = params.mode is GatherScatterMode.FILL_OR_DROP
        linear = params._replace(fill_value=0) if filled else params
        results = bind(self, *primals, params=params)
        return results, bind(self, tangents[0], primals[1], params=linear)

    def operand_cotangents(self, cotangent, operands, params):
        x, indices = operands
        updated = ScatterParams(
            ScatterDimensionNumbers(*params.dimension_numbers), params.indices_are_sorted, params.mode, params.unique_indices
        )  # fmt: skip
        zero = zeros(x.aval.cotangent().strip_weak_type())
        # By name, as the scatters, whose derivatives gather, import this file.
        return bind(registry["scatter-add"], zero, indices, cotangent, params=updated)

    def batch(self, axis, operands, dims, params):
        (x, indices), (dim, indices_dim) = operands, dims
        indices, indices_dim = movable_indices(indices, indices_dim)
        numbers, sizes = params.dimension_numbers, params.slice_sizes
        indices_ndim = type_of(indices).ndim - (indices_dim is not None)
        ndim = indices_ndim - 1 + len(numbers.offset_dims)
        numbers, out_dim = with_batch(numbers, len(sizes), ndim, dim, indices_dim)
        if dim is None:
            params = params._replace(indices_are_sorted=False, unique_indices=False)
        else:
            sizes = insert_at(
                sizes, dim, axis.size if indices_dim is None else smaller(1, axis.size)
            )
        batched = params._replace(
            dimension_numbers=numbers, slice_sizes=sizes,
            indices_are_sorted=params.indices_are_sorted and not indices_dim,
        )  # fmt: skip
        return bind(self, x, indices, params=batched), [out_dim]

    def lower(self, ctx, operands, params):
        (x, indices), (aval, indices_aval) = operands, ctx.avals_in
        [result] = ctx.avals_out
        numbers = params.dimension_numbers
        indices, indices_aval = lower_indices(ctx, indices, indices_aval)
        attributes = {
            "dimension_numbers": dimension_numbers_attribute(ctx, numbers, result, indices_aval),
            "slice_sizes": (*params.slice_sizes, *element_shape(aval)),
            "indices_are_sorted": params.indices_are_sorted,
        }
        x = ctx.in_even_parts(UNEVEN_GATHER, x, aval, all)
        indices = ctx.in_even_parts(UNEVEN_GATHER, indices, indices_aval, all)
        x = element_apart(ctx, x, aval, result)
        if params.mode is GatherScatterMode.CLIP and ctx.has_fault(MERGED_WINDOWS):
            indices = clamp_starts(
                ctx, indices, indices_aval, aval.shape, numbers.start_index_map, params.slice_sizes
            )
        gathered = ctx.op1("stablehlo.gather", result, [x, indices], attributes)
        if params.mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
            return [gathered]  # the operation moves windows itself
        inside = self._inside(ctx, indices, indices_aval, aval.shape, params)
        index_axes = other_axes(result.ndim, numbers.offset_dims)
        stored = physical(result)
        mask = ctx.broadcast(inside, index_axes, shaped_array(stored.shape, _BOOL))
        fill = 0 if params.mode is GatherScatterMode.ONE_HOT else params.fill_value
        fill = ctx.full(stored, np.asarray(fill).astype(stored.dtype))
        return [ctx.op1("stablehlo.select", result, [mask, gathered, fill])]

    def _inside(self, ctx, indices, aval: ShapedArray, shape: Shape, params: GatherParams):
        """For each index vector, whether its window lies within the operand."""
        last = last_starts(
            ctx, aval, shape, params.dimension_numbers.start_index_map, params.slice_sizes
        )
        inside = ctx.compare(indices, last, "LE", aval)
        mask = shaped_array(aval.shape, _BOOL)
        if kind_of(aval.dtype) == "signed":
            not_negative = ctx.compare(indices, ctx.full(aval, 0), "GE", aval)
            inside = ctx.op1("stablehlo.and", mask, [inside, not_negative])
        one = shaped_array(aval.shape[:-1], _BOOL)
        return ctx.reduce(
            inside, ctx.constant(np.array(True)), [aval.ndim - 1], "stablehlo.and", one
        )


gather_p = Gather()


class _NegativeZero(float):
    """-0.0 among params, which is not equal to 0.0: they are other programs."""

    def __new__(cls) -> Self:
        return super().__new__(cls, -0.0)

    def __eq__(self, other: object) -> bool:
        return type(other) is _NegativeZero

    def __hash__(self) -> int:
        return hash(_NegativeZero)


def fill_param(dtype: Any, fill_value: Any) -> Any:
    """A fill value as a hashable Python number; all NaNs are one object, so that params compare equal.

    By default it is NaN, the least integer, or the largest unsigned one.
    """
    if fill_value is None:
        kind = kind_of(dtype)
        if kind in ("floating", "complex"):
            return math.nan
        return (lowest if kind == "signed" else highest)(
            physical(shaped_array((), dtype)).dtype
        ).item()
    if isinstance(fill_value, Tracer) or np.ndim(fill_value) != 0:
        raise ArgumentTypeError(
            "gather needs a fill value that is a number, known when the program is traced.",
            got=f"got {type_of(fill_value).text()}",
            do="Gather with the default fill value and choose with `lax.select`.",
        )
    value = np.asarray(fill_value).item()
    if not isinstance(value, float):
        return value
    is_negative_zero = value == 0 and math.copysign(1, value) < 0
    return math.nan if math.isnan(value) else _NegativeZero() if is_negative_zero else value


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Ints,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Windows of `operand`, of static `slice_sizes`, that begin at the index vectors `start_indices`.

    `mode` says what happens to windows outside (see `GatherScatterMode`); None promises that there are none.
    `fill_value` fills them in mode "fill"; by default NaN, the least integer, the largest unsigned one, True.
    `unique_indices` and `indices_are_sorted` are promises that may make it faster.

    The result has the dtype of `operand`, the batch shape of `start_indices` and, at `offset_dims`, the sizes of the
    windows.
    Raises: ShapeError for dimension numbers or sizes that do not fit, DtypeError for indices that aren't integers,
    TypeError for sizes that are none, ArgumentValueError for an unknown `mode`, ArgumentTypeError for lists and
    strings.
    Source: StableHLO specification, `gather`.

    >>> rows = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(np.eye(3), np.array([[2], [0]]), rows, (1, 3)).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    kind = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    filled = kind is GatherScatterMode.FILL_OR_DROP
    params = GatherParams(
        with_int_fields(dimension_numbers),
        fill_param(type_of(operand).dtype, fill_value) if filled else None,
        bool(indices_are_sorted),
        kind,
        canonical_shape(slice_sizes),
        bool(unique_indices),
    )
    return bind1(gather_p, operand, start_indices, params=params)
