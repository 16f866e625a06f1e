"""Attention of numbers of 8 bits with scales: by cuDNN on NVIDIA GPUs, by its definition on other platforms.

A quantized array is numbers of 8 bits with a factor, its `descale`, that they are to be multiplied by; `scale` is the factor that makes
numbers of 8 bits of others. Beside each array that it quantizes, an operation gives the largest magnitude in it (`amax`), from which the
next step's factor is chosen. Source: NVIDIA's cudnn-frontend, "Scaled Dot Product Attention FP8".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import CompilationError, UnsupportedError, dtypes, strict_zip
from pellucid._machine.higher_order.custom_rules import SymbolicZero
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.ir import Primitive, Traits, shaped_array
from pellucid._machine.parallel.custom_partitioning import custom_partitioning
from pellucid._machine.parallel.reductions import pmax
from pellucid._machine.primitives.staging import optimization_barrier
from pellucid._machine.sharding.sharding_rule import parse_rule
from pellucid._machine.tracing import bind, type_of
from pellucid.numpy.log_sums import logsumexp

from .cudnn import (
    BACKWARD_PRODUCTS,
    FORWARD_PRODUCTS,
    KEY,
    QUERY,
    RESULT,
    SUMS,
    VALUE,
    by_length,
    call_attention,
    result_like,
    row_major_result,
)
from .cudnn_support import Form, check_gpu
from .fused_attention import attention_flops, batch_one_by_one, sum_to_type_of

FORWARD_FACTORS: tuple[str, ...] = (
    "descale_q",
    "descale_k",
    "descale_v",
    "descale_s",
    "scale_s",
    "scale_o",
)
BACKWARD_FACTORS: tuple[str, ...] = (
    "descale_q", "descale_k", "descale_v", "descale_o", "descale_dO", "descale_s", "descale_dP", "scale_s", "scale_dQ", "scale_dK",
    "scale_dV", "scale_dP",
)  # fmt: skip
MAXIMA = ("amax_dQ", "amax_dK", "amax_dV", "amax_dP")
"""Largest magnitudes that the way back gives, as cotangents of these."""
FACTORS = tuple(sorted({*FORWARD_FACTORS, *BACKWARD_FACTORS}))
ONE = (1, 1, 1, 1)
"""The shape of a factor, and of a largest magnitude."""
_F32 = np.dtype(np.float32)


class NarrowAttentionParams(NamedTuple):
    scale: float
    is_causal: bool
    is_training: bool = False
    """Whether the logarithms of sums of exponentials are results, too."""

    @property
    def mask_type(self) -> str:
        """XLA's name of what a query attends to."""
        return "CAUSAL" if self.is_causal else "NO_MASK"


class _NarrowAttention(Primitive[NarrowAttentionParams]):
    """Base class of attention of 8 bits and its way back."""

    kinds: tuple[tuple[str, ...], tuple[str, ...]]
    """Letters for the dimensions of operands and results; those of factors and largest magnitudes are empty."""

    def jvp(self, primals, tangents, params):
        raise UnsupportedError(
            "cuDNN's attention of 8 bits has a first derivative in reverse mode only.",
            do="Differentiate `nn.dot_product_attention` of wider numbers.",
        )

    def factors(self, avals, results, params):
        cut = "bn" if avals[0].shape[2] == avals[1].shape[2] else "b"
        sides = [[[f"{c}" if c in cut else f"{c}!" for c in kind] for kind in side] for side in self._letters(avals)]  # fmt: skip
        return sides[0], sides[1][: len(results)]

    def _letters(self, avals):
        """`kinds` with letters for one-element arrays, and another letter for fewer heads of keys."""
        shares = avals[0].shape[2] == avals[1].shape[2]
        return [
            [_letters_of(kind, shares, f"{'or'[i]}{j}") for j, kind in enumerate(side)]
            for i, side in enumerate(self.kinds)
        ]

    def batch(self, axis, operands, dims, params):
        # A largest magnitude is that of an element.
        return batch_one_by_one(self, operands, dims, params)

    def lower(self, ctx, operands, params):
        if ctx.platform == "rocm":
            raise CompilationError("attention of cuDNN is for NVIDIA GPUs.", do='Use implementation="xla".')  # fmt: skip
        if ctx.platform == "cuda":
            query, value = ctx.avals_in[0], ctx.avals_in[2]
            check_gpu(Form(query.shape[-1], value.shape[-1], is_narrow=True), ctx.options.gpu)
        function = self.by_cudnn if ctx.platform == "cuda" else self.plain
        return ctx.from_python(function, operands, (params,), has_layouts=False)

    by_cudnn: Callable[..., list[Any]]
    plain: Callable[..., list[Any]]


def _letters_of(kind: str, shares_heads: bool, own: str) -> list[str]:
    """The dimensions' letters; `own` begins those of an array of one element."""
    if not kind:
        return [f"{own}{'wxyz'[i]}" for i in range(4)]
    return list(kind if shares_heads or kind not in (KEY, VALUE) else kind.replace("n", "m"))


class NarrowAttention(_NarrowAttention):
    """Attention of query, key, value and six factors: (result, largest weight, largest magnitude of the result, [logarithms])."""

    name = "fused_attention_8bit"
    traits = Traits(kind="contraction", flops=attention_flops(1, 1), returns_list=True)
    kinds = (QUERY, KEY, VALUE, *[""] * len(FORWARD_FACTORS)), (RESULT, "", "", SUMS)

    def abstract_eval(self, avals, params):
        query, value = avals[0], avals[2]
        b, t, n, _ = query.shape
        result = shaped_array((b, t, n, value.shape[-1]), query.dtype)
        one = shaped_array(ONE, _F32)
        return [result, one, one, *[shaped_array((b, n, t), _F32)] * params.is_training]

    @staticmethod
    def by_cudnn(*arguments: Any) -> list[Any]:
        *operands, params = arguments
        return _forward_over_devices(params, *operands)

    @staticmethod
    def plain(*arguments: Any) -> list[Any]:
        query, key, value, *factors, params = arguments
        of = dict(strict_zip(FORWARD_FACTORS, factors))
        dtype = type_of(query).dtype
        logits = _logits(params, query, key, of)
        sums = logsumexp(logits, axis=-1)
        weights = jnp.exp(logits - sums[..., None])
        narrow, largest_weight = _quantize(weights, of["scale_s"], dtype)
        product = jnp.einsum("bnts,bsnd->btnd", _wide(narrow), _over_heads(value, query))
        result, largest = _quantize(product * of["descale_s"] * of["descale_v"], of["scale_o"], dtype)  # fmt: skip
        return [result, largest_weight, largest, *[sums] * params.is_training]


class NarrowAttentionBackward(_NarrowAttention):
    """(cotangents of query, key, value; the largest magnitudes in these, and in that of the logits) of the operands below, and factors.

    Operands: query, key, value, the result, its cotangent, the logarithms of sums of exponentials.
    """

    name = "fused_attention_8bit_backward"
    traits = Traits(kind="contraction", flops=attention_flops(3, 2), returns_list=True)
    kinds = (
        (QUERY, KEY, VALUE, RESULT, RESULT, SUMS, *[""] * len(BACKWARD_FACTORS)),
        (QUERY, KEY, VALUE, *[""] * len(MAXIMA)),
    )

    def abstract_eval(self, avals, params):
        cotangents = [shaped_array(aval.shape, aval.dtype) for aval in avals[:3]]
        return [*cotangents, *[shaped_array(ONE, _F32)] * len(MAXIMA)]

    @staticmethod
    def by_cudnn(*arguments: Any) -> list[Any]:
        *operands, params = arguments
        return _backward_over_devices(params, *operands)

    @staticmethod
    def plain(*arguments: Any) -> list[Any]:
        query, key, value, result, cotangent, sums, *factors, params = arguments
        of = dict(strict_zip(BACKWARD_FACTORS, factors))
        dtype = type_of(query).dtype
        weights = jnp.exp(_logits(params, query, key, of) - sums[..., None])
        narrow, _ = _quantize(weights, of["scale_s"], dtype)
        wide = _wide(cotangent) * of["descale_dO"]
        of_value = jnp.einsum("bnts,btnd->bsnd", _wide(narrow) * of["descale_s"], wide)
        of_weights = jnp.einsum("btnd,bsnd->bnts", wide, _over_heads(value, query) * of["descale_v"])  # fmt: skip
        shared = jnp.einsum("btnd,btnd->bnt", wide, _wide(result) * of["descale_o"])
        of_logits = weights * (of_weights - shared[..., None]) * params.scale
        narrow, of_logits_max = _quantize(of_logits, of["scale_dP"], dtype)
        of_logits = _wide(narrow) * of["descale_dP"]
        of_query = jnp.einsum("bnts,bsnh->btnh", of_logits, _over_heads(key, query) * of["descale_k"])  # fmt: skip
        of_key = jnp.einsum("bnts,btnh->bsnh", of_logits, _wide(query) * of["descale_q"])
        of_key, of_value = (_sum_heads(x, key) for x in (of_key, of_value))
        found = [
            _quantize(x, of[f"scale_{name}"], dtype)
            for x, name in ((of_query, "dQ"), (of_key, "dK"), (of_value, "dV"))
        ]
        return [*[x for x, _ in found], *[largest for _, largest in found], of_logits_max]


narrow_attention_p = NarrowAttention()
narrow_attention_backward_p = NarrowAttentionBackward()


# The definition -------------------------------------------------------------------------------------------------


def _wide(x: Any) -> Any:
    return x.astype(np.float32)


def _over_heads(x: Any, query: Any) -> Any:
    """`x` of keys, in float32, with a head for each of the query's."""
    n, k = type_of(query).shape[2], type_of(x).shape[2]
    return _wide(x) if n == k else jnp.repeat(_wide(x), n // k, 2)


def _sum_heads(x: Any, key: Any) -> Any:
    """The cotangent of keys, of which one head serves several of the query."""
    b, s, n, h = type_of(x).shape
    k = type_of(key).shape[2]
    return x if n == k else x.reshape((b, s, k, n // k, h)).sum(3)


def _logits(params: NarrowAttentionParams, query: Any, key: Any, of: Mapping[str, Any]) -> Any:
    """[batch, heads, queries, keys] in float32."""
    logits = jnp.einsum("btnh,bsnh->bnts", _wide(query), _over_heads(key, query))
    logits = logits * (params.scale * of["descale_q"] * of["descale_k"])
    if params.is_causal:
        t, s = type_of(query).shape[1], type_of(key).shape[1]
        logits = jnp.where(np.tri(t, s, dtype=bool), logits, -0.7 * float(dtypes.finfo(_F32).max))
    return logits


def _quantize(x: Any, scale: Any, dtype: Any) -> tuple[Any, Any]:
    """(`x` times `scale` in the narrow dtype, the largest magnitude in `x`); what exceeds the dtype's numbers becomes its largest."""
    limit = float(dtypes.finfo(dtype).max)
    # Without a barrier the compiler may drop the conversion to a narrow dtype and back.
    narrow = optimization_barrier(jnp.clip(x * scale, -limit, limit).astype(dtype))
    return narrow, jnp.max(jnp.abs(x)).reshape(ONE)


# By cuDNN -------------------------------------------------------------------------------------------------------


def _forward(params: NarrowAttentionParams, axes: Sequence[str], *operands: Any) -> list[Any]:
    query, value = type_of(operands[0]), type_of(operands[2])
    b, t, n, _ = query.shape
    results = [result_like(query, value.shape[-1]), row_major_result(ONE), row_major_result(ONE)]
    if params.is_training:
        results.append(row_major_result((b, n, t)))
    result, *rest = call_attention("SoftmaxF8", params.scale, params.mask_type, FORWARD_PRODUCTS, {}, operands, results)  # fmt: skip
    maxima = [pmax(x, tuple(axes)) if axes else x for x in rest[:2]]
    return [by_length(result), *maxima, *rest[2:]]


def _backward(params: NarrowAttentionParams, axes: Sequence[str], *operands: Any) -> list[Any]:
    results = [result_like(type_of(x), type_of(x).shape[-1]) for x in operands[:3]]
    results += [row_major_result(ONE)] * len(MAXIMA)
    found = call_attention("SoftmaxBackwardF8", params.scale, params.mask_type, BACKWARD_PRODUCTS, {}, operands, results)  # fmt: skip
    maxima = [pmax(x, tuple(axes)) if axes else x for x in found[3:]]
    return [*map(by_length, found[:3]), *maxima]


def _over_devices(function: Callable[..., Any], primitive: _NarrowAttention) -> Callable[..., Any]:
    """`function` that devices compute for their own elements of the batch, and heads; the largest magnitudes are those of all devices."""
    whole = custom_partitioning(function, static_argnums=(0, 1))

    def partition(params: Any, _: Any, mesh: Any, operands: Any, results: Any) -> Any:
        shardings = [[value.sharding for value in values] for values in (operands, results)]
        axes: list[str] = []
        for entry in shardings[0][0].spec:
            axes += [] if entry is None else [entry] if isinstance(entry, str) else entry
        return mesh, functools.partial(function, params, tuple(axes)), shardings[1], tuple(shardings[0])  # fmt: skip

    def rule(params: Any, _: Any, mesh: Any, operands: Any, results: Any) -> Any:
        sides = primitive._letters(operands)
        sides[1] = sides[1][: len(results)]
        cut = "bn" if operands[0].shape[2] == operands[1].shape[2] else "b"
        letters = sorted({letter for side in sides for kind in side for letter in kind})
        text = " -> ".join(", ".join(" ".join(kind) for kind in side) for side in sides)
        return parse_rule(text, need_replication_factors=tuple([c for c in letters if c not in cut]))  # fmt: skip

    whole.def_partition(partition, sharding_rule=rule)
    return lambda params, *operands: whole(params, (), *operands)


_forward_over_devices = _over_devices(_forward, narrow_attention_p)
_backward_over_devices = _over_devices(_backward, narrow_attention_backward_p)


# The function and its derivative --------------------------------------------------------------------------------


def narrow_attention(
    params: NarrowAttentionParams, query: Any, key: Any, value: Any, factors: Mapping[str, Any]
) -> tuple[Any, Any, Any]:
    """(result, largest weight, largest magnitude of the result); `factors` has those of FACTORS, and MAXIMA."""
    operands = [factors[name] for name in FORWARD_FACTORS]
    return tuple(bind(narrow_attention_p, query, key, value, *operands, params=params))


def _with_residuals(params: NarrowAttentionParams, query: Any, key: Any, value: Any, factors: Mapping[str, Any]) -> Any:  # fmt: skip
    t, s = type_of(query).shape[1], type_of(key).shape[1]
    if t % 128 or s % 128 or type_of(query).shape[-1] != 128:
        raise UnsupportedError(
            "cuDNN's attention of 8 bits that is differentiated takes lengths that 128 divides, and the head size 128.",
            got=f"{t} queries, {s} keys, head size {type_of(query).shape[-1]}",
            do="Pad the operands, or differentiate `nn.dot_product_attention` of wider numbers.",
        )
    operands = [factors[name] for name in FORWARD_FACTORS]
    training = params._replace(is_training=True)
    *results, sums = bind(narrow_attention_p, query, key, value, *operands, params=training)
    return tuple(results), (query, key, value, results[0], sums, factors)


def _cotangents(params: NarrowAttentionParams, kept: Any, cotangents: Any) -> Any:
    query, key, value, result, sums, factors = kept
    of_result = cotangents[0]
    if type(of_result) is SymbolicZero:
        of_result = jnp.zeros_like(result)
    operands = [factors[name] for name in BACKWARD_FACTORS]
    found = bind(
        narrow_attention_backward_p, query, key, value, result, of_result, sums, *operands, params=params
    )  # fmt: skip
    maxima = dict(strict_zip(MAXIMA, found[3:]))
    of_factors = {
        name: _largest_along(maxima[name], x) if name in maxima else jnp.zeros_like(x)
        for name, x in factors.items()
    }
    summed = [sum_to_type_of(x, of) for x, of in zip(found[:3], (query, key, value), strict=True)]
    return (*summed, of_factors)


def _largest_along(x: Any, factor: Any) -> Any:
    """The largest magnitude along the axes of `shard_map` along which the factor is the same."""
    axes = type_of(x).varying - type_of(factor).varying
    return pmax(x, tuple(sorted(axes))) if axes else x


differentiable_narrow_attention = custom_vjp(narrow_attention, nondiff_argnums=(0,))
differentiable_narrow_attention.defvjp(_with_residuals, _cotangents)
