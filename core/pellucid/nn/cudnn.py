"""Calls of cuDNN's attention in programs for NVIDIA GPUs: their targets, operands and configurations.

XLA hands a call to cuDNN by its target, `__cudnn$fmha…`, and a configuration in JSON, in which sizes are strings. Source: XLA's
`CudnnfMHABackendConfig`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.ir import Primitive, ShapedArray, Traits, shaped_array
from pellucid._machine.lowering.custom_calls import custom_call
from pellucid._machine.parallel.custom_partitioning import custom_partitioning
from pellucid._machine.primitives import transpose
from pellucid._machine.sharding.sharding_rule import parse_rule
from pellucid._machine.tracing import bind, type_of

STATUS_RETURNING = 2
"""Version of the interface of native functions by which XLA recognizes cuDNN's."""
_ELEMENT_TYPES = {"bfloat16": "BF16", "float16": "F16"}
DTYPES = (*_ELEMENT_TYPES,)
"""Names of the dtypes that its attention takes."""


class AttentionSetting(NamedTuple):
    """What a call of attention knows when it is traced. `window` is how many positions up to its own a query attends to, 0 for all."""

    scale: float
    is_causal: bool
    window: int
    has_bias: bool
    has_lengths: bool

    @property
    def mask_type(self) -> str:
        """XLA's name of what a query attends to."""
        is_causal = self.is_causal or self.window > 0
        if self.has_lengths:
            return "PADDING_CAUSAL" if is_causal else "PADDING"
        return "CAUSAL" if is_causal else "NO_MASK"


def _dot(lhs: Sequence[int], rhs: Sequence[int], lhs_batch: Sequence[int]) -> dict[str, Any]:
    """Dimension numbers of a product with an operand [batch, length, heads, head size]."""
    return {
        "lhs_contracting_dimensions": [*map(str, lhs)],
        "rhs_contracting_dimensions": [*map(str, rhs)],
        "lhs_batch_dimensions": [*map(str, lhs_batch)],
        "rhs_batch_dimensions": ["0", "2"],
    }


_FORWARD_PRODUCTS = {
    "bmm1_dot_dimension_numbers": _dot([3], [3], [0, 2]),  # queries and keys
    "bmm2_dot_dimension_numbers": _dot([3], [1], [0, 1]),  # weights and values
}
_BACKWARD_PRODUCTS = {
    "bmm1_grad_gemm1_dot_dimension_numbers": _dot([2], [1], [0, 1]),  # cotangents of keys
    "bmm1_grad_gemm2_dot_dimension_numbers": _dot([3], [1], [0, 1]),  # cotangents of queries
    "bmm2_grad_gemm1_dot_dimension_numbers": _dot([2], [1], [0, 1]),  # cotangents of values
    "bmm2_grad_gemm2_dot_dimension_numbers": _dot([3], [3], [0, 2]),  # cotangents of weights
}


def _config(setting: AttentionSetting, query: ShapedArray, key: ShapedArray, products: Any) -> str:
    b, t, n, _ = query.shape
    attention = {
        "algorithm": {
            "algo_id": "0",
            "math_type": "TENSOR_OP_MATH",
            "tuning_knobs": {"17": "1", "24": "0"},
            "is_cudnn_frontend": True,
            "workspace_size": "0",
        },
        "fmha_scale": setting.scale,
        "intermediate_tensor_shape": {
            "element_type": _ELEMENT_TYPES[query.dtype.name],
            "dimensions": [*map(str, (b, n, t, key.shape[1]))],
            "tuple_shapes": [],
            "layout": {"minor_to_major": ["3", "2", "1", "0"], "tiles": [], "memory_space": "0"},
            "is_dynamic_dimension": [False] * 4,
        },
        "is_flash_attention": True,
        "mask_type": setting.mask_type,
        **products,
        "dropout_rate": 0.0,
        "seed": 0,
        "sliding_window_length": setting.window,
        "max_seg_per_batch": 1,
        "is_paged_attention": False,
    }
    config = {"operation_queue_id": "0", "cudnn_fmha_backend_config": attention}
    return json.dumps(config, separators=(",", ":"))


class CudnnCallParams(NamedTuple):
    """`layouts` are those of the results, dimensions from the fastest to the slowest."""

    target: str
    config: str
    results: tuple[ShapedArray, ...]
    layouts: tuple[tuple[int, ...], ...]


class CudnnCall(Primitive[CudnnCallParams]):
    """A call of cuDNN on one device; only this file makes it, so it has no derivative and no batch rule."""

    name = "cudnn_call"
    traits = Traits(kind="host", flops=None, makes_nan=True, returns_list=True)
    types_are_laid_out = True

    def abstract_eval(self, avals, params):
        return params.results

    def lower(self, ctx, operands, params):
        row_major = [tuple(range(aval.ndim))[::-1] for aval in ctx.avals_in]
        call = custom_call(
            ctx,
            params.target,
            operands,
            result_types=ctx.types(ctx.avals_out),
            operand_layouts=row_major,
            result_layouts=params.layouts,
            backend_config=params.config,
            api_version=STATUS_RETURNING,
        )
        return list(call.results)


cudnn_call_p = CudnnCall()

_WORKSPACE = shaped_array((0,), np.dtype(np.uint8))


def _call(
    name: str, setting: AttentionSetting, products: Any, operands: Sequence[Any],
    results: Sequence[tuple[ShapedArray, tuple[int, ...]]],
) -> list[Any]:  # fmt: skip
    """The results of a call, each given by its type and layout; the workspace, which comes last, is left out."""
    query, key = type_of(operands[0]), type_of(operands[1])
    avals, layouts = zip(*results, (_WORKSPACE, (0,)), strict=True)
    config = _config(setting, query, key, products)
    params = CudnnCallParams(f"__cudnn$fmha{name}", config, avals, layouts)
    return list(bind(cudnn_call_p, *operands, params=params))[:-1]


_BHTD = (3, 1, 2, 0)
"""The layout of [batch, heads, length, head size] whose memory is that of [batch, length, heads, head size]."""


def _by_length(x: Any) -> Any:
    """[batch, heads, length, head size] as [batch, length, heads, head size]."""
    return transpose(x, (0, 2, 1, 3))


def _forward(setting: AttentionSetting, is_training: bool, *operands: Any) -> list[Any]:
    """[result, and the logarithms [batch, heads, queries] of sums of exponentials in training] by cuDNN.

    Operands: query, key, value, and the bias and both lengths as far as there are some.
    """
    query = type_of(operands[0])
    b, t, n, h = query.shape
    results: list[tuple[ShapedArray, tuple[int, ...]]] = [
        (shaped_array((b, n, t, h), query.dtype), _BHTD)
    ]
    if is_training:
        results.append((shaped_array((b, n, t), np.dtype(np.float32)), (2, 1, 0)))
    name = "ScaleBiasSoftmax" if setting.has_bias else "Softmax"
    result, *sums = _call(name, setting, _FORWARD_PRODUCTS, operands, results)
    return [_by_length(result), *sums]


def _backward(setting: AttentionSetting, *operands: Any) -> list[Any]:
    """Cotangents of query, key and value by cuDNN.

    Operands: query, key, value, the logarithms of sums of exponentials, the cotangent of the result, the bias if there is one, the result,
    both lengths if there are some.
    """
    results = [
        (shaped_array((b, n, length, h), type_of(x).dtype), _BHTD)
        for x in operands[:3]
        for b, length, n, h in [type_of(x).shape]
    ]
    name = "ScaleBiasSoftmaxBackward" if setting.has_bias else "SoftmaxBackward"
    return [*map(_by_length, _call(name, setting, _BACKWARD_PRODUCTS, operands, results))]


# Over several devices: batch and heads are cut ------------------------------------------------------------------

QUERY, KEY, SUMS = "btnh", "bsnh", "bnt"
"""Letters of dimensions: batch, queries, keys, heads, head size."""


def dimensions(
    setting: AttentionSetting, kinds: Sequence[str], query: Sequence[int], key: Sequence[int], bias: Sequence[int] | None
) -> list[str]:  # fmt: skip
    """Letters for the dimensions of values of these kinds, where "bias" and "lengths" stand for what there is of them.

    Heads of keys that serve several of the query are another letter, `m`, as is a dimension of the bias that all share.
    """
    shares_heads = query[2] == key[2]
    found: list[str] = []
    for kind in kinds:
        if kind == "bias":
            if bias is not None:
                found.append(("b" if bias[0] == query[0] else "u") + ("n" if bias[1] == query[2] else "v") + "ts")  # fmt: skip
        elif kind == "lengths":
            found += ["b", "b"] * setting.has_lengths
        else:
            found.append(kind if shares_heads or kind != KEY else "bsmh")
    return found


_FORWARD_KINDS = ((QUERY, KEY, KEY, "bias", "lengths"), (QUERY, SUMS))
_BACKWARD_KINDS = (
    (QUERY, KEY, KEY, SUMS, QUERY, "bias", QUERY, "lengths"),
    (QUERY, KEY, KEY),
)


def _partition(function: Callable[..., Any], kinds: Any, n_static: int) -> Any:
    """A function of cuDNN that devices compute for their own elements of the batch and, if each has keys of its own, heads."""
    whole = custom_partitioning(function, static_argnums=tuple(range(n_static)))

    def partition(*arguments: Any) -> Any:
        *static, mesh, operands, results = arguments
        shardings = [[value.sharding for value in values] for values in (operands, results)]
        return mesh, functools.partial(function, *static), shardings[1], tuple(shardings[0])

    def rule(*arguments: Any) -> Any:
        setting, *_, operands, results = arguments
        query, key = operands[0].shape, operands[1].shape
        position = kinds[0].index("bias")
        bias = operands[position].shape if setting.has_bias else None
        sides = [dimensions(setting, side, query, key, bias) for side in kinds]
        sides[1] = sides[1][: len(results)]
        cut = {"b", "n"} if query[2] == key[2] else {"b"}
        letters = sorted({letter for side in sides for kind in side for letter in kind})
        text = " -> ".join(", ".join(" ".join(kind) for kind in side) for side in sides)
        uncut = tuple([letter for letter in letters if letter not in cut])
        return parse_rule(text, need_replication_factors=uncut)

    whole.def_partition(partition, sharding_rule=rule)
    return whole


forward = _partition(_forward, _FORWARD_KINDS, 2)
backward = _partition(_backward, _BACKWARD_KINDS, 1)
