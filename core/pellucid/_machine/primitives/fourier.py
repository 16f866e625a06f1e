"""The discrete Fourier transform."""

from __future__ import annotations

import enum
import math
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    Ints,
    Shape,
    ShapeError,
    canonical_shape,
    dtypes,
    expecting,
)
from pellucid._machine.ir import Traits, alike, shaped_array
from pellucid._machine.lowering.faults import UNEVEN_FFT
from pellucid._machine.tracing import as_array, bind, bind1, type_of
from pellucid._machine.xla import Array

from .arithmetic import mul
from .assembly import pad
from .contraction import convert_real
from .conversion import conj
from .counts import fft_operations
from .movement import Movement, broadcast_in_dim, move_axis

MAX_AXES = 3
"""XLA transforms at most three axes in one operation."""


class FftType(enum.IntEnum):
    """Kinds of Fourier transforms: forward or inverse, of complex or real signals.

    >>> FftType.RFFT
    <FftType.RFFT: 2>
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


class FftParams(NamedTuple):
    fft_type: FftType
    fft_lengths: Shape


class Fft(Movement[FftParams]):
    name = "fft"
    traits = Traits(
        kind="contraction", flops=fft_operations, linear="all", makes_nan=True, parts="none"
    )

    def abstract_eval(self, avals, params):
        [x] = avals
        kind, lengths = params
        rank = len(lengths)
        got = f"operand: {x.text()}"
        if rank > MAX_AXES:
            raise ShapeError(
                f"fft transforms up to {MAX_AXES} axes at once, got fft_lengths {lengths}.",
                got=got,
                do="Transform the others in a second call.",
            )
        if x.ndim < rank:
            raise ShapeError(f"fft over {rank} axes needs an operand with as many.", got=got)
        half = (*lengths[:-1], lengths[-1] // 2 + 1) if lengths else ()
        is_real = kind is FftType.RFFT
        expected, sizes = lengths, half if is_real else lengths
        if kind is FftType.IRFFT:
            expected = half
        n_batch = x.ndim - rank
        if x.shape[n_batch:] != expected:
            raise ShapeError(
                f"{kind.name} with fft_lengths {lengths} needs an operand whose last axes are {expected}.",
                got=got,
            )
        if x.dtype.name not in (("float32", "float64") if is_real else ("complex64", "complex128")):
            raise ArgumentValueError(
                f"{kind.name} needs a {'float32 or float64' if is_real else 'complex'} operand.",
                got=got,
            )
        to = dtypes.to_floating_dtype if kind is FftType.IRFFT else dtypes.to_complex_dtype
        return [shaped_array((*x.shape[:n_batch], *sizes), to(x.dtype))]

    def factors(self, avals, results, params):
        ndim = avals[0].ndim
        return alike(avals, results, "!", range(ndim - len(params.fft_lengths), ndim))

    def operand_cotangent(self, cotangent, aval, params):
        kind, lengths = params
        if kind in (FftType.FFT, FftType.IFFT):  # their matrices are symmetric
            return bind1(self, cotangent, params=params)
        n = math.prod(lengths)
        if kind is FftType.RFFT:
            # IRFFT adds each frequency's mirror image, of which RFFT returns only one: the cotangent is halved there.
            once = mul(conj(cotangent), _mirror_weights(lengths[-1], 0.5, type_of(cotangent)))
            spectrum = bind1(self, once, params=FftParams(FftType.IRFFT, lengths))
            return mul(np.asarray(n, aval.dtype), spectrum)
        spectrum = bind1(self, cotangent, params=FftParams(FftType.RFFT, lengths))
        mirrored = _mirror_weights(lengths[-1], 2, type_of(spectrum))
        weights = mul(np.asarray(1 / n, aval.dtype), mirrored)
        return conj(mul(weights, spectrum))

    def batch(self, axis, operands, dims, params):
        dim: Any = dims[0]
        n_batch = type_of(operands[0]).ndim - len(params.fft_lengths)
        target = dim if dim < n_batch else 0
        return bind(self, move_axis(operands[0], dim, target), params=params), [target]

    def lower(self, ctx, operands, params):
        result = ctx.avals_out[0]
        if 0 in result.shape or 0 in ctx.avals_in[0].shape:
            return [ctx.full(result, 0)]
        attributes = {
            "fft_type": ctx.enum("fft_type", params.fft_type.name),
            "fft_length": params.fft_lengths,
        }
        aval = ctx.avals_in[0]
        x = ctx.in_even_parts(UNEVEN_FFT, operands[0], aval)
        if ctx.sharding_attributes is not None:
            # XLA exchanges rows of a matrix of as many rows as parts, whose columns it cuts into as many again.
            transformed = range(aval.ndim - len(params.fft_lengths), aval.ndim)
            dims = ctx.sharding_attributes.dims_in_few_rows(aval, transformed)
            x = ctx.whole_along(UNEVEN_FFT, x, aval, dims) if dims else x
        return [ctx.op1("stablehlo.fft", result, [x], attributes)]


def _mirror_weights(length: int, factor: float, aval):
    """Weights of the frequencies of a real signal of `length`: `factor` where a mirror image exists, else 1;
    broadcast to `aval`.
    """
    size = aval.shape[-1]
    alone_at_end = int(length % 2 == 0 and length > 1)
    middle = broadcast_in_dim(np.asarray(factor, aval.dtype), (size - 1 - alone_at_end,), ())
    factors = pad(middle, np.ones((), aval.dtype), [(1, alone_at_end, 0)])
    return broadcast_in_dim(factors, (1,) * (aval.ndim - 1) + (size,), (aval.ndim - 1,))


fft_p = Fft()


def _canonical_type(fft_type) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    if isinstance(fft_type, str) and fft_type.upper() in FftType.__members__:
        return FftType[fft_type.upper()]
    raise ArgumentValueError(
        "fft: there is no such transform.",
        got=f"fft_type: {fft_type!r}",
        do="Use lax.FftType.FFT, IFFT, RFFT or IRFFT, or one of these names.",
    )


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Ints) -> Array:
    """Discrete Fourier transform of `x` along its last axes, whose lengths (of the signal) are `fft_lengths`.

    RFFT takes a real signal and gives the nonnegative frequencies of its last axis; IRFFT undoes it. The inverse
    transforms divide by the number of elements. Real operands of FFT, IFFT and IRFFT become complex.
    Raises ShapeError for other shapes. Source: StableHLO specification, `fft`.

    >>> fft(np.ones(4, np.float32), "RFFT", (4,))
    Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    kind = _canonical_type(fft_type)
    with expecting("fft needs a tuple of lengths", fft_lengths):
        lengths = canonical_shape(fft_lengths)
    dtype = type_of(x).dtype
    if kind is FftType.RFFT:
        if dtype.kind == "c":
            raise ArgumentValueError(
                "RFFT needs real signals only.",
                got=f"operand: {type_of(x).text()}",
                do="Use FFT for complex ones.",
            )
        x = convert_real(x, dtypes.to_inexact_dtype(dtype))
    else:
        x = convert_real(x, dtypes.canonicalize_explicit(dtypes.to_complex_dtype(dtype)))
    if not lengths:
        return as_array(x)
    return bind1(fft_p, x, params=FftParams(kind, lengths))
