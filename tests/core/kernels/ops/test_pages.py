"""Attention over keys in pages as kernels of TPUs, against plain forms."""

import importlib

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentValueError, DtypeError, ShapeError
from pellucid.experimental.pallas.ops.gpu.paged_attention import paged_attention_reference
from pellucid.experimental.pallas.ops.tpu.paged_attention import paged_attention
from pellucid.experimental.pallas.ops.tpu.paged_attention.quantization_utils import (
    QuantizedTensor,
    quantize_to_int8,
    unquantize_from_int8,
)
from pellucid.experimental.pallas.ops.tpu.paged_attention.util import (
    grouped_query_attention_reference,
)
from tests.core.kernels.ops.closeness import assert_close
from tests.core.kernels.ops.test_decoding import array, gathered, pages

ragged = importlib.import_module(
    "pellucid.experimental.pallas.ops.tpu.ragged_paged_attention.kernel"
)
TABLE, LENGTHS = np.array([[4, 0, 7, 2, 1], [3, 8, 3, 5, 6], [0, 0, 0, 0, 0]]), np.array([19, 6, 0])


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_one_query_over_keys_in_pages(at_once):
    q, (k, v) = array((3, 4, 8)), pages()
    expected = paged_attention_reference(q, gathered(k, TABLE), gathered(v, TABLE), LENGTHS)
    unused = np.where(np.arange(5) * 4 < LENGTHS[:, None], TABLE, -7)
    found = paged_attention(q, k, v, LENGTHS, unused, pages_per_compute_block=at_once)
    assert_close(found, expected)
    assert not found[2].any()
    whole = [jnp.swapaxes(gathered(x, TABLE), 1, 2) for x in (k, v)]
    assert_close(grouped_query_attention_reference(q, *whole, LENGTHS), expected)


def test_integers_with_a_factor_for_each_key():
    q, (k, v) = array((3, 4, 8)), pages()
    quantized = [quantize_to_int8(x) for x in (k, v)]
    exact = [unquantize_from_int8(x) for x in quantized]
    np.testing.assert_allclose(exact[0], k, atol=0.02)
    expected = paged_attention_reference(
        q, *[gathered(x, TABLE) for x in exact], LENGTHS, attn_logits_soft_cap=2.0
    )
    found = paged_attention(
        q, *quantized, LENGTHS, TABLE, pages_per_compute_block=2, attn_logits_soft_cap=2.0
    )
    assert_close(found, expected)
    zero = quantize_to_int8(jnp.zeros((1, 4)))
    assert isinstance(zero, QuantizedTensor)
    assert not unquantize_from_int8(zero).any()


def test_pages_that_are_not_there_and_operands_that_do_not_fit():
    q, (k, v) = array((3, 4, 8)), pages()
    with pytest.raises(ValueError, match=r"paged_attention.*lies outside"):
        paged_attention(q, k, v, LENGTHS, TABLE + 5, pages_per_compute_block=1)
    with pytest.raises(ShapeError, match="row of pages"):
        paged_attention(q, k, v, LENGTHS[:2], TABLE, pages_per_compute_block=1)
    with pytest.raises(ShapeError, match="needs one query"):
        paged_attention(q[:, :3], k, v, LENGTHS, TABLE, pages_per_compute_block=1)
    with pytest.raises(DtypeError, match="integers"):
        paged_attention(q, k, v, LENGTHS, TABLE.astype("f4"), pages_per_compute_block=1)
    with pytest.raises(ArgumentValueError, match="megacore_mode"):
        paged_attention(q, k, v, LENGTHS, TABLE, pages_per_compute_block=1, megacore_mode="heads")


def sequences(page_size=4, dtype="float32"):
    """Tokens of four sequences, of which three count: one decodes a token, one begins, one goes on."""
    q, kv = array((21, 4, 8), dtype), array((9, page_size, 4, 8), dtype, 1)
    return (
        q,
        kv,
        np.array([9, 11, 13, 3]),
        TABLE[[0, 1, 0, 2]] % 9,
        np.array([0, 1, 12, 17, 20]),
        np.array([3]),
    )


@pytest.mark.parametrize("sizes", [(1, 4), (2, 8), (5, 32), (None, None)])
@pytest.mark.parametrize(
    "options",
    [{}, {"sm_scale": 0.5, "sliding_window": 3, "soft_cap": 2.0, "k_scale": 2.0, "v_scale": 3.0}],
)
def test_tokens_of_several_sequences(sizes, options):
    args = sequences()
    blocks = {"num_kv_pages_per_block": sizes[0], "num_queries_per_block": sizes[1]}
    found = ragged.ragged_paged_attention(*args, **options, **blocks)
    assert_close(found[:17], ragged.ref_ragged_paged_attention(*args, **options))
    assert not found[17:].any()
    ragged.dynamic_validate_inputs(*args, **options, **blocks)


def test_sequences_that_are_traced_empty_or_narrow():
    args = sequences()
    assert_close(
        pl.jit(ragged.ragged_paged_attention)(*args)[:17], ragged.ref_ragged_paged_attention(*args)
    )
    assert not ragged.ragged_paged_attention(*args[:5], np.array([0])).any()
    narrow = sequences(dtype="bfloat16")
    assert_close(
        ragged.ragged_paged_attention(*narrow)[:17],
        ragged.ref_ragged_paged_attention(*narrow),
        0.05,
    )


@pytest.mark.parametrize(
    ("which", "value", "what"),
    [
        (2, np.array([0, 11, 13, 3]), "more queries than keys"),
        (2, np.array([30, 11, 13, 3]), "more keys than its pages hold"),
        (3, np.full((4, 5), 9), "isn't in the pool"),
        (4, np.array([0, 5, 2, 17, 20]), "must grow"),
        (5, np.array([5]), "more sequences"),
    ],
)
def test_numbers_that_are_looked_at(which, value, what):
    args = [*sequences()]
    args[which] = value
    with pytest.raises(ArgumentValueError, match=what):
        ragged.dynamic_validate_inputs(*args)


def test_types_that_are_looked_at():
    q, kv, *rest = sequences()
    with pytest.raises(ShapeError, match="needs queries"):
        ragged.ragged_paged_attention(q[:, :3], kv, *rest)
    with pytest.raises(ShapeError, match="for each sequence"):
        ragged.ragged_paged_attention(q, kv, *rest[:-1], np.array([1, 2]))
    with pytest.raises(ArgumentValueError, match="sliding_window"):
        ragged.ragged_paged_attention(q, kv, *rest, sliding_window=0)
    assert ragged.get_dtype_packing("float32") == 1
