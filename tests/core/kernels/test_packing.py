"""Narrow elements side by side in wide ones, on every device."""

import ml_dtypes
import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import (
    ArgumentValueError,
    DtypeError,
    ShapeError,
    UnsupportedError,
)
from pellucid.experimental.pallas import pallas_call, tpu

RNG = np.random.default_rng(0)
FORMATS = [
    ("float32", "bfloat16", 2),
    ("float32", "float16", 2),
    ("float32", "float8_e5m2", 4),
    ("bfloat16", "float8_e4m3fn", 2),
    ("int32", "int16", 2),
    ("int32", "int8", 4),
    ("uint32", "uint8", 4),
    ("int16", "int8", 2),
]


@pytest.mark.parametrize(("wide", "narrow", "count"), FORMATS)
def test_what_is_packed_is_unpacked(wide, narrow, count):
    dtype = np.dtype(getattr(ml_dtypes, wide, wide))
    small = np.dtype(getattr(ml_dtypes, narrow, narrow))
    xs = [(RNG.normal(size=(4, 8)) * 100).astype(dtype) for _ in range(count)]
    if dtype.kind in "iu":
        xs = [RNG.integers(0, 1000, (4, 8)).astype(dtype) for _ in range(count)]
    words = tpu.pack_elementwise(xs, packed_dtype=narrow)
    assert words.dtype == np.dtype(f"int{8 * dtype.itemsize}")
    # By NumPy: narrow elements of one word lie beside each other, the first one first.
    beside = np.stack([x.astype(small) for x in xs], axis=-1)
    np.testing.assert_array_equal(
        words, np.ascontiguousarray(beside).view(words.dtype)[..., 0], strict=True
    )
    for i, x in enumerate(xs):
        back = tpu.unpack_elementwise(words, index=i, packed_dtype=narrow, unpacked_dtype=wide)
        np.testing.assert_array_equal(back, x.astype(small).astype(dtype), strict=True)


def test_in_a_kernel():
    def kernel(x_ref, o_ref, p_ref):
        packed = tpu.pack_elementwise([x_ref[...], x_ref[...] * 2], packed_dtype="bfloat16")
        p_ref[...] = packed
        options = {"packed_dtype": "bfloat16", "unpacked_dtype": "float32"}
        o_ref[...] = tpu.unpack_elementwise(packed, index=1, **options)

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    shapes = [x, pl.ShapeDtypeStruct(x.shape, np.int32)]
    doubled, packed = pallas_call(kernel, shapes)(x)
    np.testing.assert_array_equal(doubled, 2 * x)
    np.testing.assert_array_equal(packed, tpu.pack_elementwise([x, 2 * x], packed_dtype="bfloat16"))


def test_rounding_by_chance():
    x = np.float32([1.003, -1.003, 1e-40, np.inf, -np.inf, np.nan, 0.0, 3.4e38])
    nan = np.uint32([0x7F800001]).view(np.float32)  # its mantissa lies where bits are dropped
    x = np.append(x, nan)
    down, up = (
        np.float32(tpu.stochastic_round(x, np.full(9, bits, np.uint32), target_dtype="bfloat16"))
        for bits in (0, 0xFFFFFFFF)
    )
    np.testing.assert_array_equal(down[:2], np.float32([1, -1]))
    np.testing.assert_array_equal(up[:2], np.float32([1.0078125, -1.0078125]))
    np.testing.assert_array_equal(down[3:7], x[3:7])
    assert up[7] == np.inf
    assert np.isnan([down[8], up[8]]).all()
    many = np.full(20000, 1.003, np.float32)
    bits = RNG.integers(0, 1 << 32, 20000, dtype=np.uint32)
    mean = np.mean(np.float32(tpu.stochastic_round(many, bits, target_dtype="bfloat16")))
    np.testing.assert_allclose(mean, 1.003, atol=1e-4)
    exact = np.float32([1.5, -2, 0.0078125])
    kept = tpu.stochastic_round(exact, np.full(3, 0xFFFF, np.uint32), target_dtype="bfloat16")
    np.testing.assert_array_equal(np.float32(kept), exact)


X, N = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.int32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tpu.pack_elementwise([X], packed_dtype="bfloat16"), ArgumentValueError, "takes 2 arrays"),
        (lambda: tpu.pack_elementwise([], packed_dtype="bfloat16"), DtypeError, "one dtype"),
        (lambda: tpu.pack_elementwise([X, N], packed_dtype="bfloat16"), DtypeError, "one dtype"),
        (lambda: tpu.pack_elementwise([X, X[:1]], packed_dtype="bfloat16"), ShapeError, "one shape"),
        (lambda: tpu.pack_elementwise([X, X], packed_dtype="int16"), DtypeError, "integers as integers"),
        (lambda: tpu.pack_elementwise([X] * 8, packed_dtype="int4"), DtypeError, "several of 8 or 16"),
        (lambda: tpu.unpack_elementwise(X, index=0, packed_dtype="bfloat16", unpacked_dtype="float32"), DtypeError, "takes integers"),
        (lambda: tpu.unpack_elementwise(N, index=0, packed_dtype="int16", unpacked_dtype="float32"), DtypeError, "of the kind of"),
        (lambda: tpu.unpack_elementwise(N, index=2, packed_dtype="int16", unpacked_dtype="int32"), ArgumentValueError, "each element holds 2"),
        (lambda: tpu.stochastic_round(X, N[:1], target_dtype="bfloat16"), ShapeError, "for each element"),
        (lambda: tpu.stochastic_round(N, N, target_dtype="bfloat16"), DtypeError, "takes float32"),
        (lambda: tpu.stochastic_round(X, N, target_dtype="float8_e5m2"), UnsupportedError, "rounds to bfloat16"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
