"""Products of matrices whose blocks have scales: one operation of NVIDIA GPUs in narrow formats, arithmetic elsewhere."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArrayLike,
    DtypeError,
    DTypeLike,
    ShapeError,
    dtypes,
    public_functions,
    strict_zip,
)
from pellucid._machine.ir import Primitive, ShapedArray, Traits, Zero, shaped_array
from pellucid._machine.parallel.custom_partitioning import custom_partitioning
from pellucid._machine.primitives import aligned_at, reshape
from pellucid._machine.sharding.sharding_rule import parse_rule
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.promotion import aval_of

from .cudnn import CudnnCallParams, cudnn_call_p

_FORMATS = {
    ("float8_e4m3fn", "float8_e8m0fnu", 32),
    ("float4_e2m1fn", "float8_e4m3fn", 16),
}
"""Elements, scales and sizes of blocks that XLA's operation takes, "mxfp8" and "nvfp4"."""
_DEQUANTIZE_TYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


class ScaledMatmulParams(NamedTuple):
    dtype: np.dtype


class ScaledMatmul(Primitive[ScaledMatmulParams]):
    """[B, M, N] of [B, M, K], [B, N, K] and their scales [B, M, K / block] and [B, N, K / block]."""

    name = "scaled_matmul"
    traits = Traits(
        kind="contraction",
        flops=lambda operands, results, params: 2.0 * results[0].size * operands[0].shape[-1],
        makes_nan=True,
    )

    def abstract_eval(self, avals, params):
        lhs, rhs, *_ = avals
        return [shaped_array((*lhs.shape[:2], rhs.shape[1]), params.dtype)]

    def factors(self, avals, results, params):
        return [["b", "m", "k!"], ["b", "n", "k!"], ["b", "m", "l!"], ["b", "n", "r!"]], [["b", "m", "n"]]  # fmt: skip

    def jvp(self, primals, tangents, params):
        result = bind1(self, *primals, params=params)
        terms = []
        for i, tangent in enumerate(tangents):  # linear in each of the four
            if type(tangent) is not Zero:
                factors: Any = [*primals[:i], tangent, *primals[i + 1 :], params.dtype]
                terms.append(_multiply(*factors))
        return [result], [functools.reduce(jnp.add, terms)]

    def batch(self, axis, operands, dims, params):
        in_front = aligned_at(axis, operands, dims)
        merged = [
            reshape(x, (n * b, *rest)) for x in in_front for n, b, *rest in [type_of(x).shape]
        ]
        b = type_of(in_front[0]).shape[1]
        result = bind1(self, *merged, params=params)
        return [reshape(result, (axis.size, b, *type_of(result).shape[1:]))], [0]

    def lower(self, ctx, operands, params):
        is_known = ctx.platform == "cuda" and _is_known(ctx.avals_in, params)
        return ctx.from_python(_over_devices if is_known else _multiply, operands, params)


scaled_matmul_p = ScaledMatmul()


def _is_known(avals: Sequence[ShapedArray], params: ScaledMatmulParams) -> bool:
    """Whether XLA has an operation for operands of these types."""
    if params.dtype.name not in _DEQUANTIZE_TYPES or any(0 in aval.shape for aval in avals):
        return False
    formats = {
        (x.dtype.name, scale.dtype.name, x.shape[-1] // scale.shape[-1])
        for x, scale in strict_zip(avals[:2], avals[2:])
    }
    return len(formats) == 1 and formats <= _FORMATS


def _multiply(lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, dtype: np.dtype) -> Array:
    """The definition: both operands times their scales in `dtype`, and their product."""
    operands = []
    for x, scales in ((lhs, lhs_scales), (rhs, rhs_scales)):
        size = type_of(x).shape[-1] // type_of(scales).shape[-1]
        factors = jnp.repeat(jnp.asarray(scales).astype(dtype), size, axis=-1)
        operands.append(jnp.asarray(x).astype(dtype) * factors)
    return jnp.einsum("bmk,bnk->bmn", *operands, preferred_element_type=dtype)


def _call(dtype: np.dtype, *operands: Any) -> Any:
    """The product by XLA's operation, for one device."""
    lhs, rhs, *_ = map(type_of, operands)
    config = {
        "scaled_dot_backend_config": {
            "lhs_batch_dimensions": [0],
            "rhs_batch_dimensions": [0],
            "dequantize_type": _DEQUANTIZE_TYPES[dtype.name],
        }
    }
    result = shaped_array((*lhs.shape[:2], rhs.shape[1]), dtype)
    text = json.dumps(config, separators=(",", ":"))
    params = CudnnCallParams("__op$block_scaled_dot", text, (result,), ((2, 1, 0),))
    return bind(cudnn_call_p, *operands, params=params)[0]


_partitioned = custom_partitioning(_call, static_argnums=(0,))


def _partition(dtype: np.dtype, mesh: Any, operands: Any, results: Any) -> Any:
    shardings = tuple(value.sharding for value in operands)
    return mesh, functools.partial(_call, dtype), results.sharding, shardings


_partitioned.def_partition(
    _partition,
    sharding_rule=lambda *_: parse_rule(
        "b m k, b n k, b m l, b n r -> b m n", need_replication_factors=("k", "l", "r")
    ),
)


def _over_devices(*arguments: Any) -> Any:
    """The product by XLA's operation, each device for its own part of the batch, rows and columns."""
    *operands, dtype = arguments
    return _partitioned(dtype, *operands)


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """`lhs` [B, M, K] times `rhs` [B, N, K] transposed, both scaled by blocks along K: [B, M, N].

    `lhs_scales` [B, M, K / block] and `rhs_scales` [B, N, K / block] multiply the elements of their blocks. On NVIDIA GPUs
    it is one operation for float8_e4m3fn with 32 elements to a scale of float8_e8m0fnu, and for float4_e2m1fn with 16 to
    one of float8_e4m3fn; else, and on other platforms, operands are multiplied by their scales first.
    Raises: ShapeError for scales that don't fit.

    The result has dtype `preferred_element_type`, in which operands are multiplied by their scales: DtypeError for one of integers or
    real numbers where an operand or a scale has fractions or imaginary parts, and for PRNG keys. ArgumentTypeError for lists and strings.

    >>> x, scales = jnp.ones((1, 2, 4)), jnp.full((1, 2, 1), 2.0)
    >>> scaled_matmul(x, x, scales, scales)
    Array([[[16., 16.],
            [16., 16.]]], dtype=float32)
    """
    avals: list[ShapedArray] = []
    operands: list[tuple[Any, Any]] = []
    for name, x, scales in (("lhs", lhs, lhs_scales), ("rhs", rhs, rhs_scales)):
        aval, scale_aval = aval_of("nn.scaled_matmul", x), aval_of("nn.scaled_matmul", scales)
        blocks = scale_aval.shape[-1] if scale_aval.ndim else 0
        if (
            aval.ndim != 3
            or scale_aval.shape[:-1] != aval.shape[:-1]
            or not blocks
            or aval.shape[-1] % blocks
        ):
            raise ShapeError(
                "nn.scaled_matmul needs operands [B, M, K] and scales [B, M, K / block].",
                got=[f"{name}: {aval.text()}", f"{name}_scales: {scale_aval.text()}"],
            )
        avals.append(aval)
        operands.append((jnp.asarray(x), jnp.asarray(scales)))
    if avals[0].shape[::2] != avals[1].shape[::2]:
        raise ShapeError(
            "nn.scaled_matmul needs operands [B, M, K] and [B, N, K].",
            got=[
                f"{name}: {aval.text()}" for name, aval in zip(("lhs", "rhs"), avals, strict=True)
            ],
        )
    arrays = [x for pair in operands for x in pair]
    dtype = dtypes.check_user_dtype(preferred_element_type, "nn.scaled_matmul")
    if isinstance(dtype, dtypes.ExtendedDType):
        raise DtypeError("nn.scaled_matmul can only return numbers.", got=f"preferred_element_type={dtype.name}")  # fmt: skip
    for x in arrays:
        loses_part = x.dtype.kind == "c" and dtype.kind != "c"
        if loses_part or (dtypes.is_inexact(x.dtype) and not dtypes.is_inexact(dtype)):
            raise DtypeError(
                "nn.scaled_matmul multiplies in the dtype of its result, which doesn't have all parts of the operands' numbers.",
                got=f"preferred_element_type={dtype.name}, an operand or scale of {x.dtype.name}",
                do=f"Ask for {'complex64' if loses_part else 'float32'}, or convert the operand first.",
            )
    params = ScaledMatmulParams(dtype)
    lhs, lhs_scales, rhs, rhs_scales = arrays
    return bind1(scaled_matmul_p, lhs, rhs, lhs_scales, rhs_scales, params=params)


__all__ = ["scaled_matmul"]

public_functions(__all__, globals())
