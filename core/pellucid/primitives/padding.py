"""Static windows: `slice` cuts one out of an array, `pad` puts an array into one; each undoes the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import (
    ArgumentValueError,
    DtypeError,
    Ints,
    ShapeError,
    canonical_shape,
    dilated_size,
    dtypes,
    inserted,
    ints,
    larger,
    strict_zip,
    strided_length,
)
from pellucid.ir import MOVEMENT, Operands, ShapedArray, element_shape, is_linear, shaped_array
from pellucid.lowering.faults import NEGATIVE_PADDING
from pellucid.tracing import bind1, type_of

from .arithmetic import sub
from .broadcasting import broadcast_in_dim, brought_to, reduce_sum
from .creation import zero_like_elements
from .linear import JointlyLinear
from .logical import select_n
from .movement import Movement

# slice --------------------------------------------------------------------------------------------


class SliceParams(NamedTuple):
    limit_indices: Ints
    start_indices: Ints
    strides: Ints | None


class Slice(Movement[SliceParams]):
    name = "slice"
    traits = MOVEMENT.replace(touches="part")
    all_dims = "~"

    def result_shape(self, x, params):
        limits, starts, strides = params
        if not len(starts) == len(limits) == len(strides or starts) == x.ndim:
            raise ShapeError(
                f"slice needs one start, limit and stride for each of the {x.ndim} dimensions.",
                got=[
                    f"operand: {x.text()}",
                    f"start_indices {starts}, limit_indices {limits}, strides {(1,) * x.ndim if strides is None else strides}",
                ],
            )
        shape = []
        for i, size in enumerate(x.shape):
            start, limit, step = starts[i], limits[i], strides[i] if strides else 1
            if not 0 <= start <= limit <= size:
                raise ShapeError(
                    f"slice needs 0 <= start <= limit <= size; dimension {i} has start {start}, limit {limit}, "
                    f"size {size}.",
                    got=f"operand: {x.text()}",
                    do="For bounds that may lie outside, use `x[start:limit]`.",
                )
            if step < 1:
                raise ShapeError(
                    f"slice needs positive strides; dimension {i} has {step}.",
                    got=f"operand: {x.text()}",
                    do="To go backwards, slice and then `lax.rev`.",
                )
            shape.append(strided_length(limit - start, step))
        return tuple(shape)

    def undo(self, cotangent, aval, params):
        _, starts, strides = params
        config = []
        for i, (start, size) in enumerate(strict_zip(starts, aval.shape)):
            step = strides[i] if strides else 1
            span = dilated_size(type_of(cotangent).shape[i], step)
            config.append((start, size - start - span, step - 1))
        return pad(cotangent, zero_like_elements(cotangent), config)

    def batched_params(self, params, dim, size):
        limits, starts, strides = params
        steps = None if strides is None else inserted(strides, dim, 1)
        return SliceParams(inserted(limits, dim, size), inserted(starts, dim, 0), steps), dim

    def lower(self, ctx, operands, params):
        limits, starts, strides = params
        inner = element_shape(ctx.avals_in[0])
        return [
            lowered_slice(
                ctx, operands[0], (*starts, *(0 for _ in inner)), (*limits, *inner), ctx.avals_out[0],
                strides and (*strides, *(1 for _ in inner)),
            )
        ]  # fmt: skip


def lowered_slice(
    ctx: Any, x: Any, starts: Ints, limits: Ints, result: ShapedArray, strides: Ints | None = None
) -> Any:
    """`stablehlo.slice` of `x`, a value of type `result`."""
    attributes = {
        "start_indices": starts,
        "limit_indices": limits,
        "strides": strides or (1,) * len(starts),
    }
    return ctx.op1("stablehlo.slice", result, [x], attributes)


slice_p = Slice()


def slice(
    operand: Any,
    start_indices: Ints,
    limit_indices: Ints,
    strides: Ints | None = None,
) -> Any:
    """The part of `operand` from `start_indices` up to (not including) `limit_indices`, in steps of `strides`.

    One static integer for each dimension, with 0 <= start <= limit <= size; ShapeError otherwise.
    Source: StableHLO specification, `slice`.

    >>> slice(np.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    params = SliceParams(
        canonical_shape(limit_indices),
        canonical_shape(start_indices),
        None if strides is None else ints(strides),
    )
    return bind1(slice_p, operand, params=params)


# pad ----------------------------------------------------------------------------------------------


class PadParams(NamedTuple):
    padding_config: tuple[tuple[int, int, int], ...]


class Pad(JointlyLinear[PadParams]):
    name = "pad"
    traits = MOVEMENT
    all_dims = "~"

    def abstract_eval(self, avals, params):
        x, value = avals
        config = params.padding_config
        got = [
            f"operand: {x.text()}",
            f"padding_value: {value.text()}",
            f"padding_config: {config}",
        ]
        if isinstance(x.dtype, dtypes.ExtendedDType):
            raise DtypeError("pad needs numbers or bools.", got=got)
        if x.dtype != value.dtype:
            raise DtypeError(
                "pad needs an operand and a padding value of one dtype.",
                got=got,
                do=f"Pass `np.{x.dtype.name}(value)`, or use `jnp.pad`.",
            )
        if value.shape != ():
            raise ShapeError("pad needs a scalar padding value.", got=got)
        if len(config) != x.ndim:
            raise ShapeError(
                f"pad needs (low, high, interior) for each of the {x.ndim} dimensions.", got=got
            )
        if any(interior < 0 for _, _, interior in config):
            raise ShapeError("pad needs interior padding that is not negative.", got=got)
        shape = tuple([
            low + dilated_size(size, interior + 1) + high
            for size, (low, high, interior) in strict_zip(x.shape, config)
        ])  # fmt: skip
        if any(size < 0 for size in shape):
            raise ShapeError(
                f"pad can't remove more than there is: the result would have shape {shape}.",
                got=got,
            )
        return [shaped_array(shape, x.dtype, x.weak_type and value.weak_type)]

    def operand_cotangents(self, cotangent, operands, params):
        unpadded = self._unpadded(cotangent, params)
        is_needed = is_linear(operands[1])
        return unpadded, sub(_total(cotangent), _total(unpadded)) if is_needed else None

    def _unpadded(self, cotangent, params: PadParams):
        """The elements of `cotangent` at which those of the operand are; 0 where they were cut away."""
        config = params.padding_config
        zero = zero_like_elements(cotangent)
        cut = pad(cotangent, zero, [(-low, -high, 0) for low, high, _ in config])
        strides = [interior + 1 for _, _, interior in config]
        shape = type_of(cut).shape
        return cut if set(strides) <= {1} else slice(cut, (0,) * len(shape), shape, strides)

    def batch(self, axis, operands, dims, params):
        (x, value), (x_dim, value_dim) = operands, dims
        x, x_dim = brought_to(axis, x, x_dim, 0) if x_dim is None else x, x_dim or 0
        config = inserted(params.padding_config, x_dim, (0, 0, 0))
        if value_dim is None:
            return [pad(x, value, config)], [x_dim]
        padded = pad(x, zero_like_elements(x), config)
        shape = type_of(padded).shape
        mask = broadcast_in_dim(np.array(True), type_of(x).shape, ())
        mask = pad(mask, np.array(False), config)
        values = broadcast_in_dim(value, shape, (x_dim,))
        return [select_n(mask, values, padded)], [x_dim]

    def lower(self, ctx, operands, params):
        config, result = params.padding_config, ctx.avals_out[0]
        cut = [(larger(-low, 0), larger(-high, 0)) for low, high, _ in config]
        if all(size == 0 for ends in cut for size in ends) or not ctx.has_fault(NEGATIVE_PADDING):
            return [lowered_pad(ctx, operands, config, result)]
        # What is too much is cut off afterwards.
        config = tuple(
            [(larger(low, 0), larger(high, 0), interior) for low, high, interior in config]
        )
        grown = tuple([n + sum(ends) for n, ends in strict_zip(result.shape, cut)])
        padded = lowered_pad(ctx, operands, config, result.update(shape=grown))
        limits = [n - high for n, (_, high) in strict_zip(grown, cut)]
        return [lowered_slice(ctx, padded, [low for low, _ in cut], limits, result)]


def lowered_pad(
    ctx: Any, operands: Operands, config: Sequence[tuple[int, int, int]], result: ShapedArray
) -> Any:
    """`stablehlo.pad` of an operand and a padding value, a value of type `result`."""
    attributes = {
        "edge_padding_low": [low for low, _, _ in config],
        "edge_padding_high": [high for _, high, _ in config],
        "interior_padding": [interior for _, _, interior in config],
    }
    return ctx.op1("stablehlo.pad", result, operands, attributes)


pad_p = Pad()


def _total(x):
    """The sum of all elements of `x`."""
    return reduce_sum(x, range(type_of(x).ndim))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """`operand` with `padding_value` before, after and between its elements.

    `padding_config` has (low, high, interior) for each dimension; a negative low or high removes elements,
    after the interior padding was put in. Operand and value have one dtype, the value is a scalar.
    Source: StableHLO specification, `pad`.

    >>> pad(np.arange(1, 4), 0, [(1, 0, 1)])
    Array([0, 1, 0, 2, 0, 3], dtype=int32)
    """
    config: Any = tuple([canonical_shape(entry) for entry in padding_config])
    if any(len(entry) != 3 for entry in config):
        raise ArgumentValueError(
            "pad needs (low, high, interior) for each dimension.", got=f"padding_config: {config}"
        )
    return bind1(pad_p, operand, padding_value, params=PadParams(config))
