"""Attention by cuDNN in all its forms: masks, bias, dropout, lengths, packed sequences, pages, numbers of 8 bits.

On NVIDIA GPUs each call is one kernel; elsewhere it is the plain form, with all logits in memory. `nn.dot_product_attention` has the usual
part of this, under a common interface.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DeviceError,
    DtypeError,
    ShapeError,
    UnsupportedError,
    public_functions,
)
from pellucid._machine.ir import ShapedArray, shaped_array
from pellucid._machine.runtime.platforms import default_device
from pellucid._machine.tracing import type_of
from pellucid._machine.xla import GpuFacts, cudnn_version
from pellucid.nn.attention import bias_of_mask
from pellucid.nn.cudnn import AttentionSetting
from pellucid.nn.cudnn_support import (
    NARROW_DTYPES,
    OTHERWISE,
    Form,
    check_gpu,
    check_lengths,
    check_operands,
)
from pellucid.nn.fused_attention import attention_and_sums, differentiable_attention
from pellucid.nn.narrow_attention import (
    FACTORS,
    MAXIMA,
    ONE,
    NarrowAttentionParams,
    differentiable_narrow_attention,
)


class MaskType(enum.Enum):
    """What a query attends to, besides what a mask says: everything; positions below the lengths; its own and earlier ones; both of these.

    `ALIBI`, a bias by distance, is refused: give it as a bias.

    >>> MaskType.CAUSAL.value
    2
    """

    NO_MASK = 0
    PADDING = 1
    CAUSAL = 2
    PADDING_CAUSAL = 3
    ALIBI = 4


class AttentionLayout(enum.Enum):
    """The order of the axes of operands: batch, length, heads, head size; or batch, heads, length, head size.

    >>> AttentionLayout.BTNH.value
    0
    """

    BTNH = 0
    BNTH = 1


_LAYOUTS = {
    **dict.fromkeys(("BTNH", "BSNH"), AttentionLayout.BTNH),
    **dict.fromkeys(("BNTH", "BNSH"), AttentionLayout.BNTH),
}
_CAUSAL = (MaskType.CAUSAL, MaskType.PADDING_CAUSAL)
_PADDED = (MaskType.PADDING, MaskType.PADDING_CAUSAL)


class FP8Params(TypedDict):
    """Factors, float32 [1, 1, 1, 1], of attention of 8 bits: numbers times `descale` are the values, values times `scale` are the numbers.

    q, k, v, o: the operands and the result; s: the weights; dQ, dK, dV, dO, dP: cotangents, of the logits the last. The largest magnitudes that
    the way back finds are the cotangents of `amax_dQ`, `amax_dK`, `amax_dV` and `amax_dP`, whose values nothing depends on.
    """

    amax_dQ: ArrayLike
    amax_dK: ArrayLike
    amax_dV: ArrayLike
    amax_dP: ArrayLike
    descale_q: ArrayLike
    descale_k: ArrayLike
    descale_v: ArrayLike
    descale_s: ArrayLike
    scale_s: ArrayLike
    scale_o: ArrayLike
    descale_o: ArrayLike
    descale_dO: ArrayLike
    descale_dP: ArrayLike
    scale_dQ: ArrayLike
    scale_dK: ArrayLike
    scale_dV: ArrayLike
    scale_dP: ArrayLike


# Checks ---------------------------------------------------------------------------------------------------------


def _normalize_layout(layout: str) -> AttentionLayout:
    """The layout of a name, in which S may stand for T."""
    found = _LAYOUTS.get(layout.upper())
    if found is None:
        raise ArgumentValueError(
            "attention by cuDNN has the layouts BTNH and BNTH.", got=f"qkv_layout={layout!r}"
        )
    return found


def check_cudnn_version() -> int:
    """The version of cuDNN, as one number: 90800 is 9.8.0.

    Raises: DeviceError (a RuntimeError) where there is no cuDNN.
    """
    version = cudnn_version()
    if version is None:
        raise DeviceError("there is no cuDNN.", do="Install a CUDA plug-in, or use the plain form: `nn.dot_product_attention`.")  # fmt: skip
    major, minor, patch = version
    return major * 10000 + minor * 100 + patch


def check_compute_capability(capability: str) -> bool:
    """Whether the default device is an NVIDIA GPU of this compute capability, or a newer one.

    >>> check_compute_capability("8.0")
    False
    """
    found = getattr(default_device(), "compute_capability", "")
    parts = str(found).split(".")
    if not parts[0].isdigit():
        return False
    return tuple(map(int, parts)) >= tuple(map(int, capability.split(".")))


def check_layout(
    query: Any, key: Any, value: Any, bias: Any, q_seqlen: Any, kv_seqlen: Any, q_offsets: Any, kv_offsets: Any, page_table_k: Any,
    page_table_v: Any, layout: int | AttentionLayout,
) -> None:  # fmt: skip
    """Raise ShapeError, or DtypeError, for operands that don't fit each other; arrays or types of arrays, None for those that aren't given."""
    caller = "attention by cuDNN"
    named = {"query": query, "key": key, "value": value}
    text = {name: f"{name}: {x.dtype}{[*x.shape]}" for name, x in named.items()}
    got = [*text.values()]
    if any(len(x.shape) != 4 for x in named.values()):
        raise ShapeError(f"{caller} needs query, key and value of four axes.", got=got)
    if len({np.dtype(x.dtype) for x in named.values()}) > 1:
        raise DtypeError(f"{caller} needs query, key and value of one dtype.", got=got)
    is_heads_first = AttentionLayout(layout) == AttentionLayout.BNTH
    b, t, n, h = _by_length(query.shape) if is_heads_first else query.shape
    of_key, of_value = (
        _by_length(x.shape) if is_heads_first else tuple(x.shape) for x in (key, value)
    )
    table = page_table_k if page_table_k is not None else page_table_v
    is_paged = table is not None
    if (
        of_key[:3] != of_value[:3]
        or of_key[3] != h
        or not of_key[2]
        or n % of_key[2]
        or (of_key[0] != b and not is_paged)
    ):
        raise ShapeError(
            f"{caller} needs key and value with the batch of the query, a number of heads that divides the query's, and a key of its head size.",
            got=got,
        )
    s = of_key[1]
    if table is not None:
        _check_tables(page_table_k, page_table_v, q_seqlen, kv_seqlen, b, of_key[0])
        s = of_key[1] * table.shape[2]
    if bias is not None:
        fits = len(bias.shape) == 4 and bias.shape[0] in (1, b) and bias.shape[1] in (1, n)
        if not fits or tuple(bias.shape[2:]) != (t, s):
            raise ShapeError(
                f"{caller} needs a bias [batch or 1, heads or 1, queries, keys].",
                got=[*got, f"bias: {[*bias.shape]}"],
            )
    if (q_seqlen is None) != (kv_seqlen is None) or (q_offsets is None) != (kv_offsets is None):
        raise ArgumentValueError(f"{caller} needs lengths, and offsets, of queries and of keys, or of neither.")  # fmt: skip
    if q_offsets is not None and q_seqlen is None:
        raise ArgumentValueError(f"{caller} needs the lengths of packed sequences beside their offsets.")  # fmt: skip
    segments = () if q_offsets is None else q_seqlen.shape[1:2]
    expected = {"q_seqlen": (q_seqlen, (b, *segments)), "kv_seqlen": (kv_seqlen, (b, *segments))}
    if q_offsets is not None:
        more = (b, *[m + 1 for m in segments])
        expected |= {"q_offsets": (q_offsets, more), "kv_offsets": (kv_offsets, more)}
    for name, (x, shape) in expected.items():
        if x is None:
            continue
        if tuple(x.shape) != shape or (q_offsets is not None and not segments):
            raise ShapeError(
                f"{caller} needs lengths [batch]; of packed sequences lengths [batch, sequences] and offsets [batch, sequences + 1].",
                got=f"{name}: {[*x.shape]} beside a batch of {b}",
            )
        if np.dtype(x.dtype).kind not in "iu":
            raise DtypeError(f"{caller} needs integers as lengths and offsets.", got=f"{name}: {x.dtype}")  # fmt: skip


def _check_tables(table_k: Any, table_v: Any, q_seqlen: Any, kv_seqlen: Any, b: int, n_pages: int) -> None:  # fmt: skip
    caller = "paged attention by cuDNN"
    if table_k is None or table_v is None or q_seqlen is None or kv_seqlen is None:
        raise ArgumentValueError(f"{caller} needs tables of pages of keys and of values, and both lengths.")  # fmt: skip
    for table in (table_k, table_v):
        shape = tuple(table.shape)
        if len(shape) != 4 or shape[0] != b or shape[1::2] != (1, 1) or shape != tuple(table_k.shape):  # fmt: skip
            raise ShapeError(
                f"{caller} needs tables [batch, 1, pages of each, 1], both alike.",
                got=[f"page_table_k: {[*table_k.shape]}", f"page_table_v: {[*table_v.shape]}"],
            )
        if np.dtype(table.dtype).kind not in "iu":
            raise DtypeError(f"{caller} needs tables of integers.", got=f"{table.dtype}")
    if n_pages != b * table_k.shape[2]:
        raise ShapeError(
            f"{caller} needs pools of as many pages as the tables have places.",
            got=f"{n_pages} pages, tables of {b} times {table_k.shape[2]}",
            do="Make the tables longer, or the pool; places beyond a sequence's length may name any page.",
        )


def _by_length(shape: Any) -> tuple[int, ...]:
    b, n, t, h = shape
    return b, t, n, h


def check_is_flash_attention(
    query: Any, key: Any, value: Any, layout: int | AttentionLayout, cudnn_version: int, has_bias: bool, is_training: bool,
    is_packed: bool = False, is_paged_attention: bool = False, is_fp8: bool = False,
) -> None:  # fmt: skip
    """Raise UnsupportedError, or CompilationError, for operands that cuDNN of this version has no kernel for on the default device.

    `layout`, `cudnn_version` and the rest are as in the calls of this module; the operands are arrays or types of arrays.
    """
    is_heads_first = AttentionLayout(layout) == AttentionLayout.BNTH
    q, k, v = (_type_by_length(x, is_heads_first) for x in (query, key, value))
    check_operands(q, k, v, NARROW_DTYPES if is_fp8 else ("bfloat16", "float16"))
    if is_training or has_bias:
        check_lengths(q, k, "that is differentiated" if is_training else "with a bias or a mask")
    version = divmod(cudnn_version, 10000)
    capability = str(getattr(default_device(), "compute_capability", "")).split(".")
    if capability[0].isdigit():
        facts = GpuFacts(
            (int(capability[0]), int(capability[1]) if len(capability) > 1 else 0),
            (version[0], *divmod(version[1], 100)),
        )
        form = Form(
            q.shape[-1], v.shape[-1], is_packed=is_packed, is_paged=is_paged_attention, is_narrow=is_fp8
        )  # fmt: skip
        check_gpu(form, facts)


def _type_by_length(x: Any, is_heads_first: bool) -> ShapedArray:
    """The type of `x` with the axes batch, length, heads, head size."""
    shape = _by_length(x.shape) if is_heads_first else tuple(x.shape)
    return shaped_array(shape, np.dtype(x.dtype))


# Attention ------------------------------------------------------------------------------------------------------


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    q_seqlen: ArrayLike | None = None,
    kv_seqlen: ArrayLike | None = None,
    q_offsets: ArrayLike | None = None,
    kv_offsets: ArrayLike | None = None,
    fp8_params: FP8Params | None = None,
    *,
    scale: float = 1.0,
    mask_type: MaskType = MaskType.NO_MASK,
    seed: int = 42,
    dropout_rate: float = 0.0,
    qkv_layout: str = "BTNH",
    sliding_window_length: int | None = None,
    use_fp8: bool = False,
    return_residual: bool = False,
) -> Any:
    """`softmax(scale * query key^T + bias) value` for each head, by one kernel of cuDNN on NVIDIA GPUs.

    `query`: [B, T, N, H]; `key`: [B, S, K, H]; `value`: [B, S, K, D], where K divides N; bfloat16 or float16. With `qkv_layout` "BNTH" the heads
    stand before the lengths, in the result [B, T, N, D], too. `bias` [B or 1, N or 1, T, S] is added, `mask` of bools, of such a shape, says what is
    attended to. `q_seqlen` and `kv_seqlen` [B] are how many positions count. `sliding_window_length` is how many positions up to its own a query
    of a causal mask attends to.

    `dropout_rate`: the part of the weights that becomes 0, others grow by as much; the way back leaves out the same ones. Which they are depends on
    `seed` and on the kind of device, and devices that have parts of the batch leave out the same places of theirs.

    Packed sequences: `q_seqlen` and `kv_seqlen` [B, M] are the lengths of up to M sequences that lie one after another in each element of the
    batch, below 0 where there is none; `q_offsets` and `kv_offsets` [B, M + 1] are where they begin (the last column isn't looked at). Only positions of the same
    sequence attend to each other; results elsewhere are 0.

    `use_fp8`: of float8_e4m3fn or float8_e5m2, with factors `fp8_params`, no bias, no lengths and no dropout: (result of 8 bits, the largest weight, the largest
    magnitude of the result). `return_residual`: (result, the logarithms [B, N, T] of the sums of exponentials).

    It has a first derivative in reverse mode, also by the bias, and batches; over several devices the batch is cut, and heads.
    Raises: ShapeError, DtypeError and ArgumentValueError for operands that don't fit; UnsupportedError for what cuDNN has not: head sizes above 256 or that
    8 doesn't divide, odd lengths with a bias, a mask or a derivative, a window without a causal mask, `MaskType.ALIBI`; CompilationError for what the GPU, or its
    cuDNN, has not.

    >>> x = jnp.ones((1, 4, 2, 8), np.float16)
    >>> dot_product_attention(x, x, x, mask_type=MaskType.CAUSAL, dropout_rate=0.5).shape
    (1, 4, 2, 8)
    """
    layout = _normalize_layout(qkv_layout)
    query, key, value = (jnp.asarray(x) for x in (query, key, value))
    q_seqlen, kv_seqlen, q_offsets, kv_offsets = (
        None if x is None else jnp.asarray(x) for x in (q_seqlen, kv_seqlen, q_offsets, kv_offsets)
    )
    if use_fp8:
        given = {
            "bias": bias, "mask": mask, "q_seqlen": q_seqlen, "kv_seqlen": kv_seqlen, "q_offsets": q_offsets, "kv_offsets": kv_offsets,
            "dropout_rate": dropout_rate or None, "sliding_window_length": sliding_window_length, "return_residual": return_residual or None,
        }  # fmt: skip
        names = [name for name, x in given.items() if x is not None]
        if names or mask_type not in (MaskType.NO_MASK, MaskType.CAUSAL):
            raise ArgumentValueError(
                "attention by cuDNN of 8 bits has a causal mask, and nothing more.",
                got=", ".join(names) or f"mask_type={mask_type.name}",
            )
        return _narrow(query, key, value, fp8_params, scale, mask_type, layout)
    return _attention(
        query, key, value, bias, mask, [q_seqlen, kv_seqlen], [q_offsets, kv_offsets], [None, None], scale, mask_type, seed, dropout_rate,
        layout, sliding_window_length, return_residual,
    )  # fmt: skip


def paged_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    q_seqlen: ArrayLike,
    kv_seqlen: ArrayLike,
    page_table_k: ArrayLike,
    page_table_v: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    fp8_params: FP8Params | None = None,
    *,
    scale: float = 1.0,
    mask_type: MaskType = MaskType.NO_MASK,
    seed: int = 42,
    dropout_rate: float = 0.0,
    qkv_layout: str = "BTNH",
    sliding_window_length: int | None = None,
    use_fp8: bool = False,
    return_residual: bool = False,
) -> Any:
    """`dot_product_attention` over keys and values in pages of a pool, by one kernel of cuDNN on NVIDIA GPUs.

    `query`: [B, T, N, H]; `key` and `value`: pools [pages, page size, K, H]; `page_table_k` and `page_table_v` [B, 1, P, 1]: which P pages hold a
    sequence's keys, and values, in order. `kv_seqlen` [B] is how many of these P times page size places count, `q_seqlen` [B] how many queries. The other
    arguments are those of `dot_product_attention`, with S = P times page size. It has no derivative, and no 8-bit form.

    Raises: as `dot_product_attention`; ShapeError, too, unless pools have B times P pages.

    >>> pool, table = jnp.ones((4, 2, 1, 8), np.float16), np.arange(4, dtype=np.int32).reshape(2, 1, 2, 1)
    >>> lengths = np.array([1, 1]), np.array([3, 4])
    >>> paged_attention(jnp.ones((2, 1, 1, 8), np.float16), pool, pool, *lengths, table, table).shape
    (2, 1, 1, 8)
    """
    if use_fp8 or fp8_params is not None:
        raise UnsupportedError("paged attention by cuDNN has no form of 8 bits.", do="Use bfloat16 or float16.")  # fmt: skip
    query, key, value = (jnp.asarray(x) for x in (query, key, value))
    lengths, tables = (
        [None if x is None else jnp.asarray(x) for x in pair]
        for pair in ((q_seqlen, kv_seqlen), (page_table_k, page_table_v))
    )
    return _attention(
        query, key, value, bias, mask, lengths, [None, None], tables, scale, mask_type, seed, dropout_rate,
        _normalize_layout(qkv_layout), sliding_window_length, return_residual,
    )  # fmt: skip


def _attention(
    query: Any, key: Any, value: Any, bias: Any, mask: Any, lengths: Sequence[Any], offsets: Sequence[Any], tables: Sequence[Any], scale: Any,
    mask_type: MaskType, seed: int, dropout_rate: float, layout: AttentionLayout, window: int | None, return_residual: bool,
) -> Any:  # fmt: skip
    caller = "attention by cuDNN"
    bias = None if bias is None else jnp.asarray(bias)
    (q_seqlen, kv_seqlen), (q_offsets, kv_offsets), (table_k, table_v) = lengths, offsets, tables
    check_layout(query, key, value, bias, q_seqlen, kv_seqlen, q_offsets, kv_offsets, table_k, table_v, layout)  # fmt: skip
    if layout == AttentionLayout.BNTH:
        query, key, value = (_swap_heads(x) for x in (query, key, value))
    check_operands(type_of(query), type_of(key), type_of(value))
    is_packed, is_paged = offsets[0] is not None, tables[0] is not None
    if mask_type == MaskType.ALIBI:
        raise UnsupportedError(f"{caller} has no ALIBI.", do="Give its slopes times distances as `bias`, with a causal mask.")  # fmt: skip
    if mask_type in _PADDED and lengths[0] is None:
        raise ArgumentValueError(f"{caller} needs q_seqlen and kv_seqlen.", got=f"mask_type={mask_type.name}")  # fmt: skip
    if window is not None and (window <= 0 or mask_type not in _CAUSAL):
        raise UnsupportedError(
            f"{caller} has windows of one position or more, of a causal mask.",
            got=f"sliding_window_length={window}, mask_type={mask_type.name}",
        )
    if not 0 <= dropout_rate < 1:
        raise ArgumentValueError(f"{caller} needs a dropout_rate from 0 to below 1.", got=f"{dropout_rate}")  # fmt: skip
    if not isinstance(scale, (int, float, np.number)):
        raise ArgumentTypeError(f"{caller} needs a number as scale.", got=type(scale).__name__)
    t = query.shape[1]
    s = key.shape[1] * (tables[0].shape[2] if is_paged else 1)
    if mask is not None and jnp.asarray(mask).dtype != np.bool_:
        raise DtypeError(f"{caller} needs a mask of bools.", got=f"mask: {type_of(jnp.asarray(mask)).text()}")  # fmt: skip
    if is_packed:
        _check_packed(query, key, value, bias, mask, return_residual)
    whole = bias_of_mask(bias, mask, query.dtype, t, s, is_single=False)
    extras: list[Any] = [] if whole is None else [whole]
    extras += [x.astype(np.int32) for x in lengths if x is not None]
    extras += [x[:, :-1].astype(np.int32) for x in offsets if x is not None]
    extras += [x.astype(np.int32) for x in tables if x is not None]
    setting = AttentionSetting(
        float(scale), mask_type in _CAUSAL, window or 0, whole is not None, lengths[0] is not None, float(dropout_rate),
        int(seed) if dropout_rate else 0, offsets[0].shape[1] - 1 if is_packed else 0, is_paged,
    )  # fmt: skip
    if return_residual:
        result, sums = attention_and_sums(setting, query, key, value, *extras)
    else:
        result, sums = differentiable_attention(setting, query, key, value, *extras), None
    if layout == AttentionLayout.BNTH:
        result = _swap_heads(result)
    return (result, sums) if return_residual else result


def _swap_heads(x: Any) -> Any:
    return jnp.swapaxes(x, 1, 2)


_LARGEST_OFFSET = 2**31


def _check_packed(query: Any, key: Any, value: Any, bias: Any, mask: Any, return_residual: bool) -> None:  # fmt: skip
    caller = "attention by cuDNN of packed sequences"
    if bias is not None or mask is not None or return_residual:
        raise UnsupportedError(f"{caller} has no bias, no mask of elements, and no residuals.", do=OTHERWISE)  # fmt: skip
    if key.shape != value.shape:
        raise UnsupportedError(f"{caller} needs keys and values of one head size.", do=OTHERWISE)
    if max(query.size, key.size) >= _LARGEST_OFFSET:
        raise UnsupportedError(
            f"{caller} takes fewer than 2**31 elements: offsets are 32 bits wide.",
            got=f"query: {[*query.shape]}, key: {[*key.shape]}",
            do="Compute parts of the batch one after another.",
        )


def _narrow(
    query: Any, key: Any, value: Any, factors: Mapping[str, Any] | None, scale: Any, mask_type: MaskType, layout: AttentionLayout
) -> Any:  # fmt: skip
    caller = "attention by cuDNN of 8 bits"
    names = (*FACTORS, *MAXIMA)
    missing = [name for name in names if factors is None or name not in factors]
    if missing or factors is None:
        raise ArgumentValueError(f"{caller} needs fp8_params.", got=f"without {', '.join(missing)}")
    found = {name: jnp.asarray(factors[name]) for name in names}
    for name, factor in found.items():
        if factor.shape != ONE or factor.dtype != np.float32:
            raise ShapeError(f"{caller} needs factors float32[1, 1, 1, 1].", got=f"{name}: {type_of(factor).text()}")  # fmt: skip
    check_layout(query, key, value, None, None, None, None, None, None, None, layout)
    if layout == AttentionLayout.BNTH:
        query, key, value = (_swap_heads(x) for x in (query, key, value))
    check_operands(type_of(query), type_of(key), type_of(value), NARROW_DTYPES)
    params = NarrowAttentionParams(float(scale), mask_type == MaskType.CAUSAL)
    result, largest_weight, largest = differentiable_narrow_attention(params, query, key, value, found)  # fmt: skip
    result = _swap_heads(result) if layout == AttentionLayout.BNTH else result
    return result, largest_weight, largest


__all__ = [
    "AttentionLayout", "FP8Params", "MaskType", "check_compute_capability", "check_cudnn_version", "check_is_flash_attention",
    "check_layout", "dot_product_attention", "paged_attention",
]  # fmt: skip

public_functions(__all__, globals())
