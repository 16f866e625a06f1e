"""Calls of cuDNN's attention in programs for NVIDIA GPUs: their targets, operands and configurations.

XLA hands a call to cuDNN by its target, `__cudnn$fmha…`, and a configuration in JSON, in which sizes are strings. Source: XLA's
`CudnnfMHABackendConfig`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.ir import Primitive, ShapedArray, Traits, shaped_array
from pellucid._machine.lowering.custom_calls import custom_call
from pellucid._machine.parallel.custom_partitioning import custom_partitioning
from pellucid._machine.parallel.reductions import psum
from pellucid._machine.primitives import transpose
from pellucid._machine.sharding.sharding_rule import parse_rule
from pellucid._machine.tracing import bind, type_of

STATUS_RETURNING = 2
"""Version of the interface of native functions by which XLA recognizes cuDNN's."""
_ELEMENT_TYPES = {"bfloat16": "BF16", "float16": "F16"}
"""Of numbers of 8 bits, products are said to be in bfloat16."""


class AttentionSetting(NamedTuple):
    """What a call of attention knows when it is traced.

    `window` is how many positions up to its own a query attends to, 0 for all. `dropout_rate` is the part of the weights that is left out,
    chosen by `seed`. `max_segments` is how many sequences may lie one after another in an element of the batch, 0 where each has one.
    `is_paged`: keys and values are pages of a pool, of which tables tell those of a sequence.
    """

    scale: float
    is_causal: bool
    window: int
    has_bias: bool
    has_lengths: bool
    dropout_rate: float = 0.0
    seed: int = 0
    max_segments: int = 0
    is_paged: bool = False

    @property
    def mask_type(self) -> str:
        """XLA's name of what a query attends to."""
        is_causal = self.is_causal or self.window > 0
        if self.has_lengths:
            return "PADDING_CAUSAL" if is_causal else "PADDING"
        return "CAUSAL" if is_causal else "NO_MASK"

    @property
    def target(self) -> str:
        """The part of the target's name that says which operands and operations there are."""
        return f"{'ScaleBias' * self.has_bias}Softmax{'Dropout' * (self.dropout_rate > 0)}"


def _dot(lhs: Sequence[int], rhs: Sequence[int], lhs_batch: Sequence[int]) -> dict[str, Any]:
    """Dimension numbers of a product with an operand [batch, length, heads, head size]."""
    return {
        "lhs_contracting_dimensions": [*map(str, lhs)],
        "rhs_contracting_dimensions": [*map(str, rhs)],
        "lhs_batch_dimensions": [*map(str, lhs_batch)],
        "rhs_batch_dimensions": ["0", "2"],
    }


FORWARD_PRODUCTS = {
    "bmm1_dot_dimension_numbers": _dot([3], [3], [0, 2]),  # queries and keys
    "bmm2_dot_dimension_numbers": _dot([3], [1], [0, 1]),  # weights and values
}
BACKWARD_PRODUCTS = {
    "bmm1_grad_gemm1_dot_dimension_numbers": _dot([2], [1], [0, 1]),  # cotangents of keys
    "bmm1_grad_gemm2_dot_dimension_numbers": _dot([3], [1], [0, 1]),  # cotangents of queries
    "bmm2_grad_gemm1_dot_dimension_numbers": _dot([2], [1], [0, 1]),  # cotangents of values
    "bmm2_grad_gemm2_dot_dimension_numbers": _dot([3], [3], [0, 2]),  # cotangents of weights
}


def _config(
    query: ShapedArray, key: ShapedArray, scale: float, mask_type: str, products: Any, more: Mapping[str, Any]
) -> str:  # fmt: skip
    b, t, n, _ = query.shape
    attention = {
        "algorithm": {
            "algo_id": "0",
            "math_type": "TENSOR_OP_MATH",
            "tuning_knobs": {"17": "1", "24": "0"},
            "is_cudnn_frontend": True,
            "workspace_size": "0",
        },
        "fmha_scale": scale,
        "intermediate_tensor_shape": {
            "element_type": _ELEMENT_TYPES.get(query.dtype.name, "BF16"),
            "dimensions": [*map(str, (b, n, t, key.shape[1]))],
            "tuple_shapes": [],
            "layout": {"minor_to_major": ["3", "2", "1", "0"], "tiles": [], "memory_space": "0"},
            "is_dynamic_dimension": [False] * 4,
        },
        "is_flash_attention": True,
        "mask_type": mask_type,
        **products,
        **more,
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
Result = tuple[ShapedArray, tuple[int, ...]]
"""The type of a result of a call, and its layout."""


def call_attention(
    name: str, scale: float, mask_type: str, products: Any, more: Mapping[str, Any], operands: Sequence[Any], results: Sequence[Result]
) -> list[Any]:  # fmt: skip
    """The results of a call of cuDNN's attention, the first operands of which are query and key; the workspace, which comes last, is left out."""
    query, key = type_of(operands[0]), type_of(operands[1])
    avals, layouts = zip(*results, (_WORKSPACE, (0,)), strict=True)
    config = _config(query, key, scale, mask_type, products, more)
    params = CudnnCallParams(f"__cudnn$fmha{name}", config, avals, layouts)
    return list(bind(cudnn_call_p, *operands, params=params))[:-1]


def _call(
    setting: AttentionSetting, is_backward: bool, operands: Sequence[Any], results: Sequence[Result]
) -> list[Any]:
    more = {
        "dropout_rate": setting.dropout_rate,
        "seed": setting.seed,
        "sliding_window_length": setting.window,
        "max_seg_per_batch": max(setting.max_segments, 1),
        "is_paged_attention": setting.is_paged,
    }
    products = BACKWARD_PRODUCTS if is_backward else FORWARD_PRODUCTS
    name = setting.target + "Backward" * is_backward
    return call_attention(name, setting.scale, setting.mask_type, products, more, operands, results)


_BHTD = (3, 1, 2, 0)
"""The layout of [batch, heads, length, head size] whose memory is that of [batch, length, heads, head size]."""


def by_length(x: Any) -> Any:
    """[batch, heads, length, head size] as [batch, length, heads, head size]."""
    return transpose(x, (0, 2, 1, 3))


def result_like(query: ShapedArray, size: int) -> Result:
    """The result for queries, for `by_length`: [batch, heads, queries, size]."""
    b, t, n, _ = query.shape
    return shaped_array((b, n, t, size), query.dtype), _BHTD


def row_major_result(shape: Sequence[int], dtype: Any = np.float32) -> Result:
    """A result in the usual layout."""
    return shaped_array(tuple(shape), np.dtype(dtype)), tuple(range(len(shape)))[::-1]


# Sequences one after another ------------------------------------------------------------------------------------


def _pack(
    setting: AttentionSetting, query: ShapedArray, key: ShapedArray, lengths: Sequence[Any]
) -> list[Any]:
    """Lengths and offsets [batch, segments] of queries and keys as cuDNN reads them.

    It takes the sequences of the whole batch one after another: those that there are come first, whichever element they are of. Offsets
    count elements of the whole array, and have one more entry, its end. A length below 0 marks what is no sequence.
    """
    counts, starts = lengths[:2], lengths[2:]
    b, n_segments = type_of(counts[0]).shape
    exists = ((counts[0] >= 0) & (counts[1] >= 0)).reshape(-1)
    order = jnp.argsort(~exists, stable=True)
    found_counts, found_starts = [], []
    for count, start, aval in zip(counts, starts, (query, key), strict=True):
        _, length, heads, size = aval.shape
        end = b * length * heads * size
        rows = jnp.arange(b, dtype=np.int32)[:, None] * length
        places = ((start + rows) * (heads * size)).reshape(-1)
        ordered = jnp.where(exists, count.reshape(-1), 0)[order]
        found_counts.append(ordered.reshape(b, n_segments))
        places = jnp.where(exists, places, end)[order]
        tail = jnp.full((b,), end, np.int32)
        found_starts.append(jnp.concatenate([places, tail]).reshape(b, n_segments + 1))
    return [*found_counts, *found_starts]


def places_in_segments(counts: Any, starts: Any, exists: Any, length: int) -> tuple[Any, Any]:
    """(segment, place within it) [batch, length] of each position, both -1 where there is none.

    `counts`, `starts` and `exists` are [batch, segments].
    """
    positions = jnp.arange(length, dtype=np.int32)
    starts, ends = starts[..., None], (starts + counts)[..., None]
    inside = exists[..., None] & (positions >= starts) & (positions < ends)
    segment = jnp.where(inside.any(1), jnp.argmax(inside, 1), -1)
    place = jnp.max(jnp.where(inside, positions - starts, -1), 1)
    return segment, place


def _in_segments(setting: AttentionSetting, query: Any, key: Any, extras: Sequence[Any]) -> Any:
    """(whether a query, whether a key [batch, length] is within a sequence that has both)."""
    counts_q, counts_k, starts_q, starts_k = extras
    exists = (counts_q > 0) & (counts_k > 0)
    sides = ((counts_q, starts_q, type_of(query)), (counts_k, starts_k, type_of(key)))
    return [places_in_segments(c, s, exists, a.shape[1])[0] >= 0 for c, s, a in sides]


def _where_inside(inside: Any, x: Any) -> Any:
    """`x` [batch, length, …], and 0 where no sequence is, which cuDNN leaves unwritten."""
    return jnp.where(inside[:, :, None, None], x, 0)


# Forward and backward -------------------------------------------------------------------------------------------


def _forward(setting: AttentionSetting, is_training: bool, *operands: Any) -> list[Any]:
    """[result, and the logarithms of sums of exponentials in training] by cuDNN, as of `FusedAttention`.

    Operands: query, key, value, and as far as there are some the bias, both lengths, both offsets, both tables of pages.
    """
    query, key, value = operands[:3]
    q, v = type_of(query), type_of(value)
    b, t, n, _ = q.shape
    packed = operands[3 + setting.has_bias :] if setting.max_segments else ()
    if packed:
        operands = (query, key, value, *_pack(setting, q, type_of(key), packed))
    results = [result_like(q, v.shape[-1])]
    if is_training:
        results.append(row_major_result((b * max(setting.max_segments, 1), n, t)))
    result, *sums = _call(setting, False, operands, results)
    result = by_length(result)
    if packed:
        result = _where_inside(_in_segments(setting, query, key, packed)[0], result)
        sums = [x.reshape((b, setting.max_segments, n, t)) for x in sums]
    return [result, *sums]


def _backward(
    setting: AttentionSetting, of_bias: bool, summed_over: Sequence[str], *operands: Any
) -> list[Any]:
    """Cotangents of query, key and value, and of the bias if `of_bias`, by cuDNN.

    Operands: query, key, value, the logarithms of sums of exponentials, the cotangent of the result, the bias if there is one, the result,
    lengths and offsets if there are some. `summed_over` names axes of devices that all have a part of the bias's cotangent.
    """
    query, key, value, sums, cotangent, *rest = operands
    n_before = 1 + setting.has_bias
    packed = rest[n_before:] if setting.max_segments else ()
    if packed:
        sums = sums.reshape((-1, *type_of(sums).shape[2:]))
        rest = [*rest[:n_before], *_pack(setting, type_of(query), type_of(key), packed)]
    results = [result_like(type_of(x), type_of(x).shape[-1]) for x in operands[:3]]
    if of_bias:
        bias = type_of(rest[0])
        results.append(row_major_result(bias.shape, bias.dtype))
    found = _call(setting, True, (query, key, value, sums, cotangent, *rest), results)
    slopes, of_biases = [*map(by_length, found[:3])], found[3:]
    if packed:
        in_queries, in_keys = _in_segments(setting, query, key, packed)
        slopes = [_where_inside(i, x) for i, x in zip((in_queries, in_keys, in_keys), slopes, strict=True)]  # fmt: skip
    if summed_over:
        of_biases = [psum(x, tuple(summed_over)) for x in of_biases]
    return [*slopes, *of_biases]


# Over several devices: batch and heads are cut ------------------------------------------------------------------

QUERY, KEY, VALUE, RESULT, SUMS = "btnh", "bsnh", "bsnd", "btnd", "bnt"
"""Letters of dimensions: batch, queries, keys, heads, head size of keys and values. More are for pages, their places, and segments."""


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
            per_element = "bg" if setting.max_segments else "b"
            found += [per_element] * (2 * setting.has_lengths + 2 * (setting.max_segments > 0))
            found += ["bxpy"] * (2 * setting.is_paged)
        elif kind == SUMS and setting.max_segments:
            found.append("bgnt")
        else:
            if kind in (KEY, VALUE):
                kind = kind if shares_heads else kind.replace("n", "m")
                kind = kind.replace("b", "q").replace("s", "c") if setting.is_paged else kind
            found.append(kind)
    return found


def cut_letters(setting: AttentionSetting, query: Sequence[int], key: Sequence[int]) -> str:
    """The dimensions that devices have parts of: the batch, but of pages, and heads if each has keys of its own."""
    return "b" * (not setting.is_paged) + "n" * (query[2] == key[2])


FORWARD_KINDS = ((QUERY, KEY, VALUE, "bias", "lengths"), (RESULT, SUMS))
_BACKWARD_KINDS = (
    (QUERY, KEY, VALUE, SUMS, RESULT, "bias", RESULT, "lengths"),
    (QUERY, KEY, VALUE, "bias"),
)


def _partition(function: Callable[..., Any], kinds: Any, n_static: int, axes_of_sums: Any) -> Any:
    """A function of cuDNN that devices compute for their own elements of the batch and, if each has keys of its own, heads.

    `axes_of_sums` gives the axes of devices that a static argument after the first ones names; None where there is no such argument.
    """
    whole = custom_partitioning(function, static_argnums=tuple(range(n_static)))

    def partition(*arguments: Any) -> Any:
        *static, mesh, operands, results = arguments
        shardings = [[value.sharding for value in values] for values in (operands, results)]
        if axes_of_sums is not None:
            static = [*static[:-1], axes_of_sums(static[0], operands)]
        return mesh, functools.partial(function, *static), shardings[1], tuple(shardings[0])

    def rule(*arguments: Any) -> Any:
        setting, *_, operands, results = arguments
        query, key = operands[0].shape, operands[1].shape
        position = kinds[0].index("bias")
        bias = operands[position].shape if setting.has_bias else None
        sides = [dimensions(setting, side, query, key, bias) for side in kinds]
        sides[1] = sides[1][: len(results)]
        cut = cut_letters(setting, query, key)
        letters = sorted({letter for side in sides for kind in side for letter in kind})
        text = " -> ".join(", ".join(" ".join(kind) for kind in side) for side in sides)
        uncut = tuple([letter for letter in letters if letter not in cut])
        return parse_rule(text, need_replication_factors=uncut)

    whole.def_partition(partition, sharding_rule=rule)
    return whole


def _axes_of_bias_sums(setting: AttentionSetting, operands: Sequence[Any]) -> tuple[str, ...]:
    """The axes over which the batch, or heads, are cut where all of these share a bias: each device has a part of its cotangent."""
    if not setting.has_bias:
        return ()
    query, bias = operands[0], operands[5].shape
    shared = [axis for axis, size in ((0, bias[0]), (2, bias[1])) if size != query.shape[axis]]
    names: list[str] = []
    for axis in shared:
        entry = query.sharding.spec[axis]
        names += [] if entry is None else [entry] if isinstance(entry, str) else entry
    return tuple(names)


forward = _partition(_forward, FORWARD_KINDS, 2, None)
backward = _partition(_backward, _BACKWARD_KINDS, 3, _axes_of_bias_sums)
