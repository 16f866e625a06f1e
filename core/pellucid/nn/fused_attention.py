"""Attention by cuDNN on NVIDIA GPUs, which has no matrix of all logits in memory; by its plain form on other platforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import CompilationError, UnsupportedError, strict_zip
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.ir import Primitive, ShapedArray, Traits, shaped_array
from pellucid._machine.primitives import broadcast_to, move_axis, reshape
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.transforms.gradient import vjp

from . import cudnn
from .cudnn import KEY, QUERY, SUMS, AttentionSetting
from .plain_attention import plain_attention

MAX_HEAD_SIZE = 128
"""The largest head size that cuDNN takes on every GPU since A100."""
_F32 = np.dtype(np.float32)


class AttentionParams(NamedTuple):
    """`is_training`: whether the logarithms of sums of exponentials are results, too."""

    setting: AttentionSetting
    is_training: bool


def _flops(products: int) -> Callable[..., float]:
    """Operations of so many products of all queries with all keys."""

    def count(operands: Any, results: Any, params: Any) -> float:
        b, t, n, h = operands[0].shape
        return 2.0 * products * b * n * t * operands[1].shape[1] * h

    return count


class _Attention(Primitive[AttentionParams]):
    """Base class of attention and its derivative; operands have a batch axis in front, size 1 for a bias that all share."""

    def jvp(self, primals, tangents, params):
        raise UnsupportedError(
            "cuDNN's attention has a first derivative in reverse mode only, and none of the logarithms that `return_residual` asks for.",
            do='Use implementation="xla".',
        )

    kinds: tuple[tuple[str, ...], tuple[str, ...]]
    """Letters for the dimensions of operands and results."""

    def factors(self, avals, results, params):
        query, key = avals[0].shape, avals[1].shape
        bias = avals[self.kinds[0].index("bias")].shape if params.setting.has_bias else None
        cut = "bn" if query[2] == key[2] else "b"
        sides = [
            [
                [letter if letter in cut else f"{letter}!" for letter in kind]
                for kind in cudnn.dimensions(params.setting, side, query, key, bias)
            ]
            for side in self.kinds
        ]
        return sides[0], sides[1][: len(results)]

    def batch(self, axis, operands, dims, params):
        b = _element_shape(operands[0], dims[0])[0]
        bias = self.kinds[0].index("bias") if params.setting.has_bias else None
        merged = [
            # Only the bias may be one for all elements, if it has a batch axis of size 1.
            x
            if i == bias and dim is None and type_of(x).shape[0] == 1
            else self._merge(axis.size, b, x, dim)
            for i, (x, dim) in enumerate(strict_zip(operands, dims))
        ]
        results = bind(self, *merged, params=params)
        split = [reshape(x, (axis.size, b, *type_of(x).shape[1:])) for x in results]
        return split, [0] * len(split)

    @staticmethod
    def _merge(size: int, b: int, x: Any, dim: int | None) -> Any:
        """`x` with the new axis as part of its batch axis, whose size becomes `size` times `b`."""
        shape = _element_shape(x, dim)
        x = broadcast_to(x, (size, *shape)) if dim is None else move_axis(x, dim, 0)
        return reshape(broadcast_to(x, (size, b, *shape[1:])), (size * b, *shape[1:]))

    def lower(self, ctx, operands, params):
        if ctx.platform == "rocm":
            raise CompilationError(
                "attention of cuDNN is for NVIDIA GPUs.", do='Use implementation="xla".'
            )
        function = self.by_cudnn if ctx.platform == "cuda" else self.plain
        return ctx.from_python(function, operands, (params,))

    by_cudnn: Callable[..., list[Any]]
    """The results on an NVIDIA GPU, of the operands and `params`."""
    plain: Callable[..., list[Any]]
    """The results elsewhere."""


def _element_shape(x: Any, dim: int | None) -> tuple[int, ...]:
    """The shape of an element of a batch."""
    aval = type_of(x)
    return aval.shape if dim is None else aval.without_dim(dim).shape


class FusedAttention(_Attention):
    """Attention of query, key, value and, as far as there are some, a bias and both lengths."""

    name = "fused_attention"
    traits = Traits(kind="contraction", flops=_flops(2), returns_list=True)

    def abstract_eval(self, avals, params):
        query = avals[0]
        b, t, n, _ = query.shape
        stats = [shaped_array((b, n, t), _F32)] if params.is_training else []
        return [shaped_array(query.shape, query.dtype), *stats]

    kinds = (QUERY, KEY, KEY, "bias", "lengths"), (QUERY, SUMS)

    @staticmethod
    def by_cudnn(*arguments: Any) -> list[Any]:
        *operands, params = arguments
        return cudnn.forward(params.setting, params.is_training, *operands)

    @staticmethod
    def plain(*arguments: Any) -> list[Any]:
        *operands, params = arguments
        result, stats = _plain(params.setting, *operands)
        return [result, stats] if params.is_training else [result]


class FusedAttentionBackward(_Attention):
    """Cotangents of query, key and value.

    Operands: these, the logarithms, the cotangent of the result, the result, then a bias and both lengths as far as there are some.
    """

    name = "fused_attention_backward"
    traits = Traits(kind="contraction", flops=_flops(5), returns_list=True)

    def abstract_eval(self, avals, params):
        return [shaped_array(aval.shape, aval.dtype) for aval in avals[:3]]

    kinds = (QUERY, KEY, KEY, SUMS, QUERY, QUERY, "bias", "lengths"), (QUERY, KEY, KEY)

    @staticmethod
    def by_cudnn(*arguments: Any) -> list[Any]:
        q, k, v, stats, cotangent, result, *extras, params = arguments
        n_bias = int(params.setting.has_bias)
        bias, lengths = extras[:n_bias], extras[n_bias:]
        return cudnn.backward(params.setting, q, k, v, stats, cotangent, *bias, result, *lengths)

    @staticmethod
    def plain(*arguments: Any) -> list[Any]:
        q, k, v, _, cotangent, _, *extras, params = arguments
        function = lambda q, k, v: _plain(params.setting, q, k, v, *extras)[0]
        return list(vjp(function, q, k, v)[1](cotangent))


fused_attention_p = FusedAttention()
fused_attention_backward_p = FusedAttentionBackward()


def _plain(setting: AttentionSetting, query: Any, key: Any, value: Any, *extras: Any) -> Any:
    """(result, logarithms [batch, heads, queries] of sums of exponentials) of `plain_attention`."""
    bias = extras[0] if setting.has_bias else None
    n_queries, n_keys = extras[-2:] if setting.has_lengths else (None, None)
    window = (setting.window - 1, 0) if setting.window else None
    result, sums = plain_attention(
        query,
        key,
        value,
        bias,
        None,
        n_queries,
        n_keys,
        setting.scale,
        setting.is_causal,
        window,
        True,
    )
    return result, jnp.moveaxis(sums, 1, 2).astype(_F32)


# The function and its derivative --------------------------------------------------------------------------------


def check_operands(query: ShapedArray, key: ShapedArray, value: ShapedArray) -> None:
    """Raise UnsupportedError for what cuDNN has no kernel for."""
    texts = [f"{n}: {a.text()}" for n, a in (("query", query), ("key", key), ("value", value))]
    otherwise = 'Use implementation="xla".'
    if len({query.dtype, key.dtype, value.dtype}) > 1 or query.dtype.name not in cudnn.DTYPES:
        raise UnsupportedError(
            "cuDNN's attention takes query, key and value all of bfloat16, or all of float16.",
            got=texts,
            do=f"Convert them: `x.astype('bfloat16')`. {otherwise}",
        )
    size = query.shape[-1]
    if size % 8 or not 0 < size <= MAX_HEAD_SIZE:
        raise UnsupportedError(
            f"cuDNN's attention takes head sizes that 8 divides, up to {MAX_HEAD_SIZE}.",
            got=texts,
            do=f"Pad the head size with zeros, and give `scale`. {otherwise}",
        )
    if 0 in (*query.shape, *key.shape):
        raise UnsupportedError("cuDNN's attention takes no arrays without elements.", got=texts, do=otherwise)  # fmt: skip


def check_lengths(
    setting: AttentionSetting, query: ShapedArray, key: ShapedArray, what: str
) -> None:
    """Raise UnsupportedError for odd numbers of queries or keys where cuDNN needs even ones."""
    t, s = query.shape[1], key.shape[1]
    if t % 2 or s % 2:
        raise UnsupportedError(
            f"cuDNN's attention {what} takes even numbers of queries and keys.",
            got=f"{t} queries, {s} keys",
            do='Pad them, and give `query_seq_lengths` and `key_value_seq_lengths`; or use implementation="xla".',
        )


def fused_attention(setting: AttentionSetting, q: Any, k: Any, v: Any, *extras: Any) -> Any:
    """`softmax(scale * query key^T + bias) value` [batch, queries, heads, head size] by `fused_attention_p`."""
    if setting.has_bias:
        check_lengths(setting, type_of(q), type_of(k), "with a bias or a mask")
    return bind(fused_attention_p, q, k, v, *extras, params=AttentionParams(setting, False))[0]


def attention_and_sums(setting: AttentionSetting, q: Any, k: Any, v: Any, *extras: Any) -> Any:
    """(`fused_attention`, the logarithms [batch, heads, queries] of the sums of exponentials)."""
    if setting.has_bias:
        check_lengths(setting, type_of(q), type_of(k), "with a bias or a mask")
    return tuple(bind(fused_attention_p, q, k, v, *extras, params=AttentionParams(setting, True)))


def _forward(setting: AttentionSetting, q: Any, k: Any, v: Any, *extras: Any) -> Any:
    check_lengths(setting, type_of(q), type_of(k), "that is differentiated")
    result, sums = attention_and_sums(setting, q, k, v, *extras)
    return result, (q, k, v, sums, result, extras)


def _backward(setting: AttentionSetting, kept: Any, cotangent: Any) -> Any:
    q, k, v, sums, result, extras = kept
    params = AttentionParams(setting, True)
    found = bind(
        fused_attention_backward_p, q, k, v, sums, cotangent, result, *extras, params=params
    )
    rest: Sequence[Any] = [None] * len(extras)
    if setting.has_bias:
        # Nobody may ask for it; then it isn't computed.
        of_bias = lambda bias: _plain(setting, q, k, v, bias, *extras[1:])[0]
        rest = [*vjp(of_bias, extras[0])[1](cotangent), *rest[1:]]
    return (*found, *rest)


differentiable_attention = custom_vjp(fused_attention, nondiff_argnums=(0,))
differentiable_attention.defvjp(_forward, _backward)
