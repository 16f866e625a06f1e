"""Products of matrices that are quantized to blocks with scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    ShapeError,
    dtypes,
    library_code,
    public_functions,
)
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.primitives.contraction import DotDimensionNumbers, dot_general
from pellucid._machine.primitives.conversion import bitcast_convert_type
from pellucid._machine.primitives.staging import optimization_barrier
from pellucid._machine.xla.arrays import Array

from .scaled_matmul import scaled_matmul

_E4M3, _E8M0 = map(dtypes.as_dtype, ("float8_e4m3fn", "float8_e8m0fnu"))


@dataclass
class BlockScaleConfig:
    """Quantization of one operand: `block_size` elements of `data_type` along the contracted axis share a scale.

    `global_scale`, an array of one element, scales the whole operand, which "nvfp4" needs. `infer_only` has no effect.

    >>> get_scaled_dot_general_config("mxfp8").block_size
    32
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


def get_scaled_dot_general_config(
    mode: Literal["nvfp4", "mxfp8"], global_scale: ArrayLike | None = None
) -> BlockScaleConfig:
    """The quantization "mxfp8" (float8_e4m3fn, 32 elements to a power of two) or "nvfp4" (float4_e2m1fn, 16 to a float8_e4m3fn).

    `global_scale` is one number that scales the whole operand with "nvfp4", by default 1.
    Raises: ArgumentValueError for another mode. Source: OCP Microscaling Formats Specification 1.0.

    It describes operands of any shape; `scaled_dot_general` takes it.

    >>> get_scaled_dot_general_config("nvfp4").block_size
    16
    """
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, _E4M3, _E8M0)
    if mode == "nvfp4":
        scale = jnp.ones((1,), np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, dtypes.as_dtype("float4_e2m1fn"), _E4M3, scale)
    raise ArgumentValueError(
        'get_scaled_dot_general_config needs the mode "mxfp8" or "nvfp4".', got=f"mode={mode!r}"
    )


def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    preferred_element_type: DTypeLike = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: Literal["cudnn"] | None = None,
) -> Array:
    """`lax.dot_general` of operands that are quantized by blocks of the contracted axes.

    `configs` has the quantizations of `lhs`, of `rhs` and, where it is differentiated, of the result's cotangent; without
    it nothing is quantized. The gradient is that of the product of unquantized operands: with "nvfp4" for cotangents
    exactly, 0 where an operand exceeds the largest number of its format; else both factors of it are quantized along the
    axes which it contracts. On NVIDIA GPUs the products are those of `scaled_matmul`; `implementation` has no effect.
    Raises: ShapeError where a block doesn't divide the contracted size, DtypeError for a result of more than 32 bits or of integers.

    The result has the shape that `lax.dot_general` gives, and dtype `preferred_element_type`.

    >>> x = jnp.ones((2, 64))
    >>> config = get_scaled_dot_general_config("mxfp8")
    >>> scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=[config] * 3)
    Array([[64., 64.],
           [64., 64.]], dtype=float32)
    """
    dtype = dtypes.as_dtype(preferred_element_type)
    if configs is None:
        return dot_general(lhs, rhs, dimension_numbers, preferred_element_type=dtype)
    if dtype.name not in ("float32", "bfloat16", "float16"):
        raise DtypeError(
            "nn.scaled_dot_general can only return float32, bfloat16 or float16.",
            got=f"preferred_element_type={dtype.name}",
        )
    if len(configs) < 2:
        raise ArgumentValueError(
            "nn.scaled_dot_general needs configs of lhs, of rhs and of the cotangent.",
            got=f"{len(configs)} configs",
        )
    operands, shapes = [], []
    for x, contracted, batch in zip((lhs, rhs), *dimension_numbers, strict=True):
        x = jnp.asarray(x)
        x = x if dtypes.is_inexact(x.dtype) else x.astype(np.float32)
        axes = range(x.ndim)
        contracted, batch = (tuple(axes[i] for i in dims) for dims in (contracted, batch))
        groups = (batch, tuple(i for i in axes if i not in (*contracted, *batch)), contracted)
        sizes = [tuple(x.shape[i] for i in group) for group in groups]
        shapes.append(sizes)
        matrix = jnp.transpose(x, sum(groups, ()))
        operands.append(jnp.reshape(matrix, tuple(map(math.prod, sizes))))
    if shapes[0][0] != shapes[1][0] or shapes[0][2] != shapes[1][2]:
        raise ShapeError(
            "nn.scaled_dot_general needs batch and contracted axes of the same sizes.",
            got=[f"{side}: batch {s[0]}, contracted {s[2]}" for side, s in zip(("lhs", "rhs"), shapes, strict=True)],
        )  # fmt: skip
    result = _quantized_product(*configs)(*operands).astype(dtype)
    return jnp.reshape(result, (*shapes[0][0], *shapes[0][1], *shapes[1][1]))


def _quantized_product(
    lhs_config: BlockScaleConfig,
    rhs_config: BlockScaleConfig,
    config: BlockScaleConfig | None = None,
) -> Any:
    """The product of `lhs` [B, M, K] and `rhs` [B, N, K], both quantized along K, with its derivatives."""

    @custom_vjp
    def product(lhs: Any, rhs: Any) -> Any:
        return _product_in_narrow_format((lhs, lhs_config), (rhs, rhs_config))

    def forward(lhs: Any, rhs: Any) -> Any:
        return product(lhs, rhs), (lhs, rhs)

    def backward(operands: Any, cotangent: Any) -> Any:
        lhs, rhs = operands
        if config is None:
            raise ArgumentValueError(
                "nn.scaled_dot_general needs a third config, that of the cotangent, to be differentiated.", got="2 configs"
            )  # fmt: skip
        if config.mode == "nvfp4":
            slopes = (
                _where_representable(lhs, lhs_config, jnp.einsum("bmn,bnk->bmk", cotangent, rhs)),
                _where_representable(rhs, rhs_config, jnp.einsum("bmn,bmk->bnk", cotangent, lhs)),
            )
        else:
            turned, left, right = (jnp.matrix_transpose(x) for x in (cotangent, lhs, rhs))
            slopes = (
                _product_in_narrow_format((cotangent, config), (right, rhs_config)),
                _product_in_narrow_format((turned, config), (left, lhs_config)),
            )
        return tuple(slope.astype(x.dtype) for slope, x in zip(slopes, operands, strict=True))

    product.defvjp(library_code(forward), library_code(backward))
    return product


def _product_in_narrow_format(*operands: tuple[Any, BlockScaleConfig]) -> Any:
    """The product [B, M, N], in float32, of two operands [B, M, K] and [B, N, K] that are quantized along K."""
    (lhs, lhs_scales), (rhs, rhs_scales) = (_quantize(x, config) for x, config in operands)
    result = scaled_matmul(lhs, rhs, lhs_scales, rhs_scales)
    for _, config in operands:
        if config.global_scale is not None:
            result = result * config.global_scale
    return result


def _quantize(x: Array, config: BlockScaleConfig) -> tuple[Array, Array]:
    """`x` [B, M, K] and scales [B, M, K / block], both in the narrow dtypes of `config`."""
    size = config.block_size
    if not x.shape[-1] or x.shape[-1] % size:
        raise ShapeError(
            f"nn.scaled_dot_general with {config.mode} needs contracted axes of a multiple of {size} elements.",
            got=f"{x.shape[-1]} elements",
            do="Pad the operands with zeros. Derivatives contract the other axes, too.",
        )
    limit = float(dtypes.finfo(config.data_type).max)
    blocks = jnp.reshape(x, (*x.shape[:-1], -1, size))
    if config.mode == "mxfp8":
        scales, inverses = _powers_of_two(jnp.max(jnp.abs(blocks), -1, keepdims=True) / limit)
        blocks = blocks.astype(np.float32) * inverses
    else:
        blocks = blocks.astype(np.float32) / config.global_scale
        scales = jnp.max(jnp.abs(blocks), -1, keepdims=True) / limit
        scales = jnp.minimum(scales, float(dtypes.finfo(config.scale_type).max))
        # Without barriers the compiler may drop conversions to a narrow dtype and back.
        scales = optimization_barrier(scales.astype(config.scale_type))
        blocks = blocks / scales.astype(np.float32)
    narrow = optimization_barrier(jnp.clip(blocks, -limit, limit).astype(config.data_type))
    return jnp.reshape(narrow, x.shape), scales[..., 0]


_MANTISSA_BITS = 23
_LARGEST_EXPONENT = 254
"""Exponent bits of the largest finite float32 numbers, with bias 127."""


def _powers_of_two(x: Array) -> tuple[Array, Array]:
    """The least powers of two that are at least `x`, of float8_e8m0fnu, and their inverses of float32; NaN where `x` isn't finite.

    The narrow dtype is the exponent alone, of which 255 is NaN; its least power stands for 0, too.
    """
    bits = bitcast_convert_type(x.astype(np.float32), np.uint32)
    exponent, mantissa = bits >> _MANTISSA_BITS, bits & (2**_MANTISSA_BITS - 1)
    exponent = jnp.minimum(exponent + (mantissa > 0), _LARGEST_EXPONENT + 1)
    powers = bitcast_convert_type(exponent.astype(np.uint8), _E8M0)
    return powers, bitcast_convert_type((_LARGEST_EXPONENT - exponent) << _MANTISSA_BITS, np.float32)  # fmt: skip


def _where_representable(x: Array, config: BlockScaleConfig, slope: Array) -> Array:
    """`slope`, or 0 where `x` exceeds what scales of "nvfp4" can represent."""
    if config.global_scale is None:
        return slope
    largest = math.prod(float(dtypes.finfo(t).max) for t in (config.data_type, config.scale_type))
    return jnp.where(jnp.abs(x) <= config.global_scale * largest, slope, 0)


__all__ = ["get_scaled_dot_general_config", "scaled_dot_general"]

public_functions(__all__, globals())
