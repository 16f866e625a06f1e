"""Attention by cuDNN on NVIDIA GPUs, which has no matrix of all logits in memory; by its plain form on other platforms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp, random
from pellucid._machine.base import CompilationError, UnsupportedError, strict_zip
from pellucid._machine.higher_order.custom_rules import SymbolicZero
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.loops import map as map_over
from pellucid._machine.ir import Primitive, ShapedArray, Traits, shaped_array
from pellucid._machine.parallel.reductions import psum
from pellucid._machine.primitives import broadcast_to, move_axis, reshape
from pellucid._machine.sharding import NamedSharding, PartitionSpec
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.transforms.gradient import vjp

from . import cudnn
from .cudnn import KEY, QUERY, RESULT, SUMS, VALUE, AttentionSetting
from .cudnn_support import Form, check_gpu, check_lengths
from .plain_attention import plain_attention

_F32 = np.dtype(np.float32)


class AttentionParams(NamedTuple):
    """`is_training`: whether the logarithms of sums of exponentials are results, too; `of_bias`: of the way back, whether the bias's cotangent is."""

    setting: AttentionSetting
    is_training: bool
    of_bias: bool = False


def _keys_of_array(operands: Any, params: Any) -> int:
    return operands[1].shape[1]


def attention_flops(
    of_keys: int, of_values: int, keys: Callable[[Any, Any], int] = _keys_of_array
) -> Callable[..., float]:
    """Operations of so many products of the head size of keys, and of values, each for all pairs of a query and one of `keys(operands, params)`."""

    def count(operands: Any, results: Any, params: Any) -> float:
        b, t, n, h = operands[0].shape
        sizes = of_keys * h + of_values * operands[2].shape[-1]
        return 2.0 * b * n * t * keys(operands, params) * sizes

    return count


def _keys_of_pages(operands: Any, params: Any) -> int:
    """The keys of an element: those of its array, or places of all pages in its table."""
    n = operands[1].shape[1]
    return n * operands[-1].shape[2] if params.setting.is_paged else n


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
        setting, query, key = params.setting, avals[0].shape, avals[1].shape
        bias = avals[self.kinds[0].index("bias")].shape if setting.has_bias else None
        cut = cudnn.cut_letters(setting, query, key)
        sides = [
            [
                [letter if letter in cut else f"{letter}!" for letter in kind]
                for kind in cudnn.dimensions(setting, side, query, key, bias)
            ]
            for side in self.kinds
        ]
        return sides[0], sides[1][: len(results)]

    def batch(self, axis, operands, dims, params):
        setting, size = params.setting, axis.size
        b = _element_shape(operands[0], dims[0])[0]
        bias = self.kinds[0].index("bias") if setting.has_bias else None
        merged: list[Any] = []
        for i, (x, dim) in enumerate(strict_zip(operands, dims)):
            rows = _element_shape(x, dim)[0]
            # Only a bias whose cotangent nobody asks for may be one for all elements, if it has a batch axis of size 1.
            if i == bias and dim is None and rows == 1 and not params.of_bias:
                merged.append(x)
            else:
                merged.append(self._merge(size, b if i == bias else rows, x, dim))
        if setting.is_paged:  # the pools lie one after another
            n_pages = _element_shape(operands[1], dims[1])[0]
            first = jnp.repeat(jnp.arange(size, dtype=np.int32) * n_pages, b)[:, None, None, None]
            merged[-2:] = [table + first for table in merged[-2:]]
        results = bind(self, *merged, params=params)
        split = [reshape(x, (size, b, *type_of(x).shape[1:])) for x in results]
        if params.of_bias:
            assert bias is not None
            if _element_shape(operands[bias], dims[bias])[0] == 1:
                split[-1] = split[-1].sum(1, keepdims=True)
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
        if ctx.platform == "cuda":
            setting, (query, _, value) = params.setting, ctx.avals_in[:3]
            form = Form(
                query.shape[-1], value.shape[-1], has_window=setting.window > 0, is_packed=setting.max_segments > 0,
                is_paged=setting.is_paged,
            )  # fmt: skip
            check_gpu(form, ctx.options.gpu)
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


def batch_one_by_one(
    primitive: Primitive[Any], operands: Sequence[Any], dims: Sequence[int | None], params: Any
) -> tuple[list[Any], list[int]]:
    """(results, their batch axes) of a call for each element of a batch, one after another."""
    batched = [i for i, d in enumerate(dims) if d is not None]
    moved = [move_axis(operands[i], d, 0) for i, d in enumerate(dims) if d is not None]

    def of_element(elements: Sequence[Any]) -> Any:
        whole = list(operands)
        for i, x in strict_zip(batched, elements):
            whole[i] = x
        return list(bind(primitive, *whole, params=params))

    results = map_over(of_element, moved)
    return results, [0] * len(results)


class FusedAttention(_Attention):
    """Attention of query, key, value and, as far as there are some, a bias, both lengths, both offsets, both tables of pages."""

    name = "fused_attention"
    traits = Traits(
        kind="contraction", flops=attention_flops(1, 1, _keys_of_pages), returns_list=True
    )

    def abstract_eval(self, avals, params):
        query, value = avals[0], avals[2]
        b, t, n, _ = query.shape
        segments = (params.setting.max_segments,) * (params.setting.max_segments > 0)
        stats = [shaped_array((b, *segments, n, t), _F32)] if params.is_training else []
        return [shaped_array((b, t, n, value.shape[-1]), query.dtype), *stats]

    kinds = cudnn.FORWARD_KINDS

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
    """Cotangents of query, key and value, and of the bias if `of_bias`.

    Operands: these, the logarithms, the cotangent of the result, the result, then a bias, both lengths and both offsets as far as there
    are some.
    """

    name = "fused_attention_backward"
    traits = Traits(kind="contraction", flops=attention_flops(3, 2), returns_list=True)

    def abstract_eval(self, avals, params):
        shown = [*avals[:3], *avals[6:7][: params.of_bias]]
        return [shaped_array(aval.shape, aval.dtype) for aval in shown]

    kinds = (QUERY, KEY, VALUE, SUMS, RESULT, RESULT, "bias", "lengths"), (QUERY, KEY, VALUE, "bias")  # fmt: skip

    def batch(self, axis, operands, dims, params):
        if params.setting.dropout_rate and dims[self.kinds[0].index(SUMS)] is None:
            # Many cotangents of one way there: each meets the weights that were left out there, not those of a larger batch.
            return batch_one_by_one(self, operands, dims, params)
        return super().batch(axis, operands, dims, params)

    @staticmethod
    def by_cudnn(*arguments: Any) -> list[Any]:
        q, k, v, stats, cotangent, result, *extras, params = arguments
        n_bias = int(params.setting.has_bias)
        bias, lengths = extras[:n_bias], extras[n_bias:]
        return cudnn.backward(
            params.setting, params.of_bias, (), q, k, v, stats, cotangent, *bias, result, *lengths
        )

    @staticmethod
    def plain(*arguments: Any) -> list[Any]:
        q, k, v, _, cotangent, _, *extras, params = arguments
        n_bias = int(params.of_bias)
        function = lambda q, k, v, *bias: _plain(params.setting, q, k, v, *bias, *extras[n_bias:])[0]  # fmt: skip
        return list(vjp(function, q, k, v, *extras[:n_bias])[1](cotangent))


fused_attention_p = FusedAttention()
fused_attention_backward_p = FusedAttentionBackward()


def _plain(setting: AttentionSetting, query: Any, key: Any, value: Any, *extras: Any) -> Any:
    """(result, logarithms [batch, heads, queries] of sums of exponentials, for each segment if there are) of `plain_attention`."""
    rest = list(extras)
    bias = rest.pop(0) if setting.has_bias else None
    lengths: tuple[Any, Any] = (None, None)
    if setting.has_lengths:
        lengths = (rest.pop(0), rest.pop(0))
    is_causal = setting.is_causal
    window = (setting.window - 1, 0) if setting.window else None
    mask = sees = factors = None
    if setting.max_segments:
        mask = _segment_mask(setting, type_of(query), type_of(key), *lengths, *rest)
        sees, lengths, is_causal, window = mask.any(-1)[:, 0], (None, None), False, None
    if setting.is_paged:
        key, value = (_read_pages(x, table) for x, table in zip((key, value), rest, strict=True))
    if setting.dropout_rate:
        shape = (*type_of(query).shape[:3:2], type_of(query).shape[1], type_of(key).shape[1])
        kept = random.bernoulli(random.key(setting.seed), 1 - setting.dropout_rate, shape)
        factors = kept / (1 - setting.dropout_rate)
    result, sums = plain_attention(
        query,
        key,
        value,
        bias,
        mask,
        lengths[0],
        lengths[1],
        setting.scale,
        is_causal,
        window,
        True,
        factors,
    )
    sums = jnp.moveaxis(sums, 1, 2).astype(_F32)
    if sees is not None:
        result = jnp.where(sees[:, :, None, None], result, 0)
        sums = jnp.repeat(sums[:, None], setting.max_segments, 1)
    return result, sums


def _segment_mask(setting: AttentionSetting, query: Any, key: Any, *lengths: Any) -> Any:
    """Mask [batch, 1, queries, keys] of the positions of the same sequence that attend to each other."""
    counts_q, counts_k, starts_q, starts_k = lengths
    exists = (counts_q >= 0) & (counts_k >= 0)
    sides = ((counts_q, starts_q, query), (counts_k, starts_k, key))
    (own, row), (other, column) = [
        (segment, place)
        for counts, starts, aval in sides
        for segment, place in [cudnn.places_in_segments(counts, starts, exists, aval.shape[1])]
    ]
    row, column = row[:, :, None], column[:, None, :]
    mask = (own[:, :, None] == other[:, None, :]) & (row >= 0) & (column >= 0)
    if setting.is_causal or setting.window:
        mask = mask & (column <= row)
    if setting.window:
        mask = mask & (column > row - setting.window)
    return mask[:, None]


def _read_pages(pool: Any, table: Any) -> Any:
    """[batch, places, heads, head size] of a pool [pages, size, heads, head size] and a table [batch, 1, pages of each, 1]."""
    pages = jnp.take(pool, table[:, 0, :, 0], axis=0, mode="clip")
    return jnp.reshape(pages, (pages.shape[0], -1, *pages.shape[3:]))


# The function and its derivative --------------------------------------------------------------------------------


def fused_attention(setting: AttentionSetting, q: Any, k: Any, v: Any, *extras: Any) -> Any:
    """`softmax(scale * query key^T + bias) value` [batch, queries, heads, head size] by `fused_attention_p`."""
    if setting.has_bias:
        check_lengths(type_of(q), type_of(k), "with a bias or a mask")
    return bind(fused_attention_p, q, k, v, *extras, params=AttentionParams(setting, False))[0]


def attention_and_sums(setting: AttentionSetting, q: Any, k: Any, v: Any, *extras: Any) -> Any:
    """(`fused_attention`, the logarithms [batch, heads, queries] of the sums of exponentials)."""
    if setting.has_bias:
        check_lengths(type_of(q), type_of(k), "with a bias or a mask")
    return tuple(bind(fused_attention_p, q, k, v, *extras, params=AttentionParams(setting, True)))


def _forward(setting: AttentionSetting, *primals: Any) -> Any:
    q, k, v, *extras = (primal.value for primal in primals)
    if setting.is_paged:
        raise UnsupportedError(
            "cuDNN's attention over pages has no derivative.",
            do="Differentiate attention over arrays: `nn.dot_product_attention`.",
        )
    check_lengths(type_of(q), type_of(k), "that is differentiated")
    result, sums = attention_and_sums(setting, q, k, v, *extras)
    # What is known when tracing is kept as structure: an empty tuple within, or none.
    of_bias = ((),) * (setting.has_bias and primals[3].perturbed)
    return result, (q, k, v, sums, result, extras, of_bias)


def _backward(setting: AttentionSetting, kept: Any, cotangent: Any) -> Any:
    q, k, v, sums, result, extras, marks = kept
    of_bias = bool(marks)
    if type(cotangent) is SymbolicZero:
        cotangent = jnp.zeros_like(result)
    is_cut = of_bias and _is_cut_along_shared(type_of(q), type_of(extras[0]))
    operands = [q, k, v, sums, cotangent, result, *extras]
    pull: Any = None
    if is_cut:  # each device has a bias of its own elements, whose cotangents are summed behind the operation
        operands[6], pull = vjp(functools.partial(_bias_of_all, type_of(q)), extras[0])
    params = AttentionParams(setting, True, of_bias)
    found = bind(fused_attention_backward_p, *operands, params=params)
    if is_cut:
        found = [*found[:3], *pull(found[3])]
    summed = [sum_to_type_of(x, of) for x, of in zip(found, (q, k, v, *extras), strict=False)]
    return (*summed, *[None] * (3 + len(extras) - len(found)))


def sum_to_type_of(cotangent: Any, operand: Any) -> Any:
    """The cotangent of an operand that is the same along axes of `shard_map` along which others vary: the sum along these."""
    axes = type_of(cotangent).varying - type_of(operand).varying
    if not axes:
        return cotangent
    dtype = type_of(cotangent).dtype
    return psum(cotangent.astype(np.float32), tuple(sorted(axes))).astype(dtype)


def _bias_of_all(query: ShapedArray, bias: Any) -> Any:
    """The bias with an element for each of the batch, and of the heads, where the query has them."""
    batch, _, heads, _ = query.sharding.spec.padded(4)
    layout = NamedSharding(query.sharding.mesh, PartitionSpec(batch, heads, None, None))
    shape = query.shape[0], query.shape[2], *type_of(bias).shape[2:]
    # Its cotangents are summed in float32.
    whole = jnp.broadcast_to(bias.astype(np.float32), shape, out_sharding=layout)
    return whole.astype(type_of(bias).dtype)


def _is_cut_along_shared(query: ShapedArray, bias: ShapedArray) -> bool:
    """Whether devices have parts, by the query's type, of elements that share a bias: its cotangent is a sum over these devices."""
    spec = query.sharding.spec.padded(4)
    return any(spec[axis] is not None and bias.shape[i] != query.shape[axis] for i, axis in ((0, 0), (1, 2)))  # fmt: skip


differentiable_attention = custom_vjp(fused_attention, nondiff_argnums=(0,))
differentiable_attention.defvjp(_forward, _backward, symbolic_zeros=True)
