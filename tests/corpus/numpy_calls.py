"""Calls of every public function of the NumPy API: what they give eagerly, under jit and under vmap.

A row is an expression over `jnp`, `np` and the operands `x, y, z`. Operands hold what calls tend to get wrong: zeros
as divisors, negative and extreme integers, infinities and NaN, bools, dtypes of 8 and 16 bits, complex numbers, nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = ("x", "y", "z")
CHUNK = 40
QUICK_COMPILATION = {"xla_llvm_disable_expensive_passes": True}

_INF, _NAN = np.inf, np.nan
_FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 10.0, 1000.0, 0.1, _INF, -_INF, _NAN]
_COMPLEX = [0, 1, -2, 2.5 - 1j, -0.5 + 0.25j, 3j, complex(-0.0, 0.0)]
_NOT_FINITE = [complex(_INF, 0), complex(0, -_INF), complex(_NAN, 0)]


def values(dtype: Any) -> np.ndarray:
    """A vector [n] of the numbers that functions of `dtype` tend to get wrong."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True, True, False])
    if dtype.kind == "c":
        return np.array(_COMPLEX, dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = [0, 1, 2, 7, 100] + ([-1, -2, -8, -100] if dtype.kind == "i" else [])
        return np.array([*small, info.min, info.max], dtype)
    return np.array(_FLOATS, np.float64).astype(dtype)


def ordinary(*shape: int, dtype: Any = "float32") -> np.ndarray:
    """Distinct small numbers of both signs (where the dtype has them), without a pattern."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    numbers = (np.arange(count) * 7 + 3) % (2 * count + 1) - (0 if dtype.kind == "u" else count // 2)
    if dtype.kind == "b":
        return (numbers % 3 == 0).reshape(shape)
    if dtype.kind == "c":
        return (numbers - 0.5j * numbers[::-1]).astype(dtype).reshape(shape)
    scale = 0.75 if dtype.kind not in "iu" else 1
    return (numbers * scale).astype(dtype).reshape(shape)


class Row(NamedTuple):
    """An expression over `jnp`, `np` and its operands `x, y, z`."""

    text: str
    operands: tuple[Any, ...] = ()
    x64: bool = False

    def __str__(self) -> str:
        types = [f"{x.dtype}{list(x.shape)}" for x in self.operands]
        return " | ".join([self.text, *types, *["x64"] * self.x64])

    def function(self, jax: Any) -> Callable[..., Any]:
        """The expression as a function of its operands."""
        names = {"jax": jax, "jnp": jax.numpy, "np": np, "lax": jax.lax}
        return eval(f"lambda {', '.join(NAMES[: len(self.operands)])}: {self.text}", names)


# Families -----------------------------------------------------------------------------------------

_SINGLE = ("float32", "int32", "bool", "complex64", BF16, "int8", "uint8", "float16", "uint32")
_DOUBLE = ("float64", "int64", "uint64", "complex128")

UNARY = (
    "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh atan atanh bitwise_count"
    " bitwise_invert bitwise_not cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor imag invert"
    " isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not nan_to_num negative positive rad2deg radians"
    " real reciprocal rint round sign signbit sin sinc sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide divmod equal"
    " float_power floor_divide fmod greater greater_equal heaviside hypot isclose left_shift less less_equal logaddexp"
    " logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal power remainder"
    " right_shift subtract true_divide"
).split()
_PAIRS = [
    ("float32", "float32"), ("int32", "int32"), ("int8", "int8"), ("uint8", "uint8"), ("bool", "bool"),
    ("complex64", "complex64"), (BF16, BF16), ("uint8", "int8"), ("uint32", "int32"), ("bool", "float32"),
    ("int32", "float16"), (BF16, "complex64"), ("float16", BF16),
]  # fmt: skip
_WIDE_PAIRS = [
    ("float64", "float64"), ("int64", "int64"), ("uint64", "uint64"), ("uint32", "int32"), ("float32", "int64"),
    ("complex128", "float32"), ("uint64", "int8"),
]  # fmt: skip
_NUMBERS = ("-1", "0", "2", "300", "2.5", "-1.0", "True", "1j")
REDUCTIONS = (
    "all any amax amin argmax argmin average count_nonzero cumprod cumsum max mean min nanargmax nanargmin nancumprod"
    " nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar prod ptp std sum var"
).split()
_INITIAL = ("sum", "prod", "max", "min", "nansum", "nanprod", "nanmax", "nanmin")


def _unary() -> Iterator[Row]:
    for name in UNARY:
        for dtype in _SINGLE:
            yield Row(f"jnp.{name}(x)", (values(dtype),))
        for dtype in _DOUBLE:
            yield Row(f"jnp.{name}(x)", (values(dtype),), True)
        yield Row(f"jnp.{name}(x)", (np.array(_NOT_FINITE, np.complex64),))
        for number in ("True", "-3", "2.5", "1j", "0.0"):
            yield Row(f"jnp.{name}({number})")
        yield Row(f"jnp.{name}(x)", (np.zeros((0, 2), np.float32),))
        yield Row(f"jnp.{name}(2)", x64=True)


def _binary() -> Iterator[Row]:
    for name in BINARY:
        for wide, pairs in ((False, _PAIRS), (True, _WIDE_PAIRS)):
            for a, b in pairs:
                yield Row(f"jnp.{name}(x, y)", (values(a)[:, None], values(b)), wide)
        for dtype in ("uint8", "int32", "float32", "bool", "complex64", BF16, "uint32", "int8"):
            for number in _NUMBERS:
                yield Row(f"jnp.{name}(x, {number})", (values(dtype),))
                yield Row(f"jnp.{name}({number}, x)", (values(dtype),))
        yield Row(f"jnp.{name}(x, y)", (np.zeros((0, 2), np.float32), np.ones(2, np.int32)))
        yield Row(f"jnp.{name}(x, y)", (np.ones(2, np.int32), np.ones(3, np.int32)))
        yield Row(f"jnp.{name}(-1, x)", (values("uint64"),), True)
        yield Row(f"jnp.{name}(3, 2)")
        yield Row(f"jnp.{name}(3, 2)", x64=True)


def _reductions() -> Iterator[Row]:
    for name in REDUCTIONS:
        for dtype in _SINGLE:
            x = ordinary(3, 4, dtype=dtype)
            yield Row(f"jnp.{name}(x)", (values(dtype),))
            yield Row(f"jnp.{name}(x, axis=0)", (x,))
            yield Row(f"jnp.{name}(x, -1)", (x,))
        for dtype in _DOUBLE:
            yield Row(f"jnp.{name}(x)", (values(dtype),), True)
            yield Row(f"jnp.{name}(x, axis=1)", (ordinary(3, 4, dtype=dtype),), True)
        for dtype in ("bool", "int8", "uint8", "int32", "float32"):
            yield Row(f"jnp.{name}(x)", (ordinary(5, dtype=dtype),), True)
        x = ordinary(3, 4)
        yield Row(f"jnp.{name}(x, axis=(0, 1))", (x,))
        yield Row(f"jnp.{name}(x, axis=0, keepdims=True)", (x,))
        yield Row(f"jnp.{name}(x, axis=2)", (x,))
        yield Row(f"jnp.{name}(x, dtype='int16')", (x,))
        yield Row(f"jnp.{name}(x, dtype='float32')", (ordinary(4, dtype="int8"),))
        yield Row(f"jnp.{name}(x, axis=0)", (np.zeros((0, 2), np.float32),))
        yield Row(f"jnp.{name}(x, axis=1)", (np.zeros((0, 2), np.int32),))
        yield Row(f"jnp.{name}(2.5)")
        yield Row(f"jnp.{name}(3)")
        yield Row(f"jnp.{name}([1, 2])")
        if name not in ("average", "argmax", "argmin", "cumsum", "cumprod", "nancumsum", "nancumprod"):
            yield Row(f"jnp.{name}(x, axis=1, where=y)", (x, ordinary(3, 4, dtype="bool")))
        if name in _INITIAL:
            for dtype in ("uint8", "float32", "int32", "bool"):
                yield Row(f"jnp.{name}(x, axis=1, initial=-1)", (ordinary(3, 4, dtype=dtype),))
                yield Row(f"jnp.{name}(x, axis=1, initial=2.5)", (ordinary(3, 4, dtype=dtype),))
            yield Row(f"jnp.{name}(x, axis=1, initial=300, where=y)", (ordinary(3, 4, dtype="uint8"), ordinary(3, 4, dtype="bool")))


def _each(texts: str, *operands: Any, x64: bool = False) -> Iterator[Row]:
    for text in texts.strip().splitlines():
        yield Row(text.strip(), operands, x64)


def _others() -> Iterator[Row]:
    x, y = ordinary(3, 4), ordinary(4, 2)
    one, two, cube = ordinary(6), ordinary(6)[::-1].copy(), ordinary(2, 3, 4)
    for dtype in ("float32", "uint8", "bool", BF16, "complex64"):
        yield from _each(_MOVED, ordinary(2, 3, 4, dtype=dtype))
    yield from _each(_MOVED_ONCE, cube)
    yield from _each(_TWO_VECTORS, one, two)
    yield from _each(_TWO_VECTORS, ordinary(6, dtype="uint8"), ordinary(6, dtype="int8"))
    yield from _each(_TWO_VECTORS, ordinary(6, dtype="int32"), ordinary(6, dtype=BF16))
    yield from _each(_TWO_VECTORS, ordinary(6, dtype="bool"), ordinary(6, dtype="bool"))
    yield from _each(_TWO_VECTORS, ordinary(6, dtype="float64"), ordinary(6, dtype="int64"), x64=True)
    yield from _each(_PRODUCTS, x, y)
    yield from _each(_PRODUCTS, ordinary(3, 4, dtype="uint8"), ordinary(4, 2, dtype="int8"))
    yield from _each(_PRODUCTS, ordinary(3, 4, dtype="complex64"), ordinary(4, 2, dtype=BF16))
    yield from _each(_PRODUCTS, ordinary(3, 4, dtype="bool"), ordinary(4, 2, dtype="int32"))
    yield from _each(_PRODUCTS, ordinary(3, 4, dtype="int64"), ordinary(4, 2, dtype="float32"), x64=True)
    for dtype in ("float32", "int32", "uint8", "bool", "complex64", BF16, "float16", "int8"):
        yield from _each(_ORDERED, values(dtype))
        yield from _each(_BESIDE_NUMBERS, ordinary(4, dtype=dtype))
    for dtype in _DOUBLE:
        yield from _each(_ORDERED, values(dtype), x64=True)
        yield from _each(_BESIDE_NUMBERS, ordinary(4, dtype=dtype), x64=True)
    yield from _each(_ORDERED, ordinary(3, 4))
    yield from _each(_ORDERED, values("int32"), x64=True)
    yield from _each(_CHOSEN, ordinary(4, dtype="bool"), ordinary(4), ordinary(4, dtype="int32"))
    yield from _each(_CHOSEN, ordinary(4, dtype="int32"), ordinary(4, dtype="uint8"), ordinary(4, dtype="int8"))
    yield from _each(_CREATED)
    yield from _each(_CREATED, x64=True)
    yield from _each(_FROM_VALUES, np.int32(2))
    yield from _each(_FROM_VALUES, np.float32(2.5))
    yield from _each(_FROM_VALUES, np.float32([1, 2]))
    for dtype in ("float32", "complex64", "int32", BF16, "bool"):
        yield from _each(_TRANSFORMS, ordinary(2, 6, dtype=dtype))
    yield from _each(_TRANSFORMS, ordinary(2, 6, dtype="float64"), x64=True)
    yield from _each(_TRANSFORMS, np.zeros((0, 3), np.float32))
    yield from _each(_OF_PLACES, ordinary(3, 4), np.int32([2, 0, 1]))
    yield from _each(_OF_PLACES, ordinary(3, 4, dtype="uint8"), np.uint8([0, 1, 2]))
    yield from _each(_OF_PLACES, ordinary(3, 4, dtype="bool"), np.int8([-1, 0, -3]))
    yield from _each(_OF_PLACES, ordinary(3, 4, dtype="int64"), np.int64([-1, 5, -9]), x64=True)


_MOVED = """
jnp.append(x, x)
jnp.append(x, x, axis=1)
jnp.array(x)
jnp.array(x, dtype='float16')
jnp.asarray(x)
jnp.atleast_1d(x)
jnp.atleast_2d(x[0, 0])
jnp.atleast_3d(x[0])
jnp.broadcast_to(x, (2, 2, 3, 4))
jnp.column_stack([x[0], x[1]])
jnp.concat([x, x])
jnp.concatenate([x, x], axis=None)
jnp.concatenate([x, x], axis=-1, dtype='complex64')
jnp.diag(x[0])
jnp.diag(x[0, 0], 1)
jnp.diagonal(x)
jnp.diagonal(x, 1, 0, 2)
jnp.dsplit(x, 2)
jnp.dstack([x, x])
jnp.expand_dims(x, (0, -1))
jnp.flip(x)
jnp.fliplr(x)
jnp.flipud(x)
jnp.hsplit(x, 3)
jnp.hstack([x, x])
jnp.matrix_transpose(x)
jnp.moveaxis(x, 0, -1)
jnp.permute_dims(x, (2, 0, 1))
jnp.ravel(x)
jnp.repeat(x, 2)
jnp.repeat(x, 2, axis=1)
jnp.repeat(x, np.array([1, 0, 2]), axis=1)
jnp.repeat(x, np.array([1, 0, 2]), axis=1, total_repeat_length=4)
jnp.reshape(x, (4, -1))
jnp.reshape(x, 24, order='F')
jnp.roll(x, 1)
jnp.roll(x, (1, -2), axis=(0, 2))
jnp.rollaxis(x, 2)
jnp.rot90(x, 3)
jnp.split(x, [1], axis=1)
jnp.split(x, 2)
jnp.array_split(x, 3, axis=2)
jnp.squeeze(x[:1])
jnp.stack([x, x], axis=1)
jnp.swapaxes(x, 0, 2)
jnp.tile(x, (2, 1, 1))
jnp.trace(x)
jnp.trace(x, 1, 2, 0)
jnp.transpose(x)
jnp.tril(x)
jnp.triu(x, 1)
jnp.unstack(x)
jnp.vsplit(x, 2)
jnp.vstack([x, x])
jnp.zeros_like(x)
jnp.ones_like(x)
jnp.empty_like(x)
jnp.full_like(x, -1)
jnp.full_like(x, 300)
jnp.full_like(x, 2.5)
jnp.full_like(x, x[0])
jnp.full_like(x, 2, dtype='bool')
jnp.zeros_like(x, shape=(2,))
x.astype('int8')
x.astype(bool)
x.astype(float)
x.at[0].set(-1)
x.at[0].add(-1)
x.at[0, 1].multiply(300)
x.at[0].max(2)
x.at[:, 1].set(x[:, 0])
x[1]
x[..., None, 1:]
x[:, [0, -1]]
x.T
x.mT
x.copy()
x.flatten()
x.itemsize
x.nbytes
x.size
x.ndim
"""
_MOVED_ONCE = """
jnp.split(x, 3)
jnp.transpose(x, (0, 1))
jnp.reshape(x, (5, -1))
jnp.expand_dims(x, 7)
jnp.squeeze(x, 1)
jnp.broadcast_to(x, (3,))
jnp.concatenate([x, x[0]])
jnp.diag(x)
jnp.moveaxis(x, (0, 1), 2)
jnp.roll(x, 1, axis=4)
jnp.rot90(x[0, 0])
jnp.stack([])
jnp.concatenate([])
jnp.concatenate(x)
jnp.repeat(x, -1)
jnp.vsplit(x[0, 0], 2)
jnp.reshape(x, (2, 3, 4), copy=True)
jnp.array(x, copy=True)
jnp.array(x, dtype='complex64', ndmin=5)
jnp.repeat(x, jnp.array([1, 2, 3]), axis=1)
jnp.repeat(x, jnp.array([1, 2, 3]), axis=1, total_repeat_length=6)
jnp.repeat(x, jnp.array([1, 2, 3]), axis=1, total_repeat_length=9)
jnp.repeat(x, [2], axis=1)
"""
_TWO_VECTORS = """
jnp.allclose(x, y)
jnp.array_equal(x, y)
jnp.array_equal(x, x[:2])
jnp.array_equiv(x, y)
jnp.array_equiv(x, 1)
jnp.average(x, weights=y)
jnp.broadcast_arrays(x, y[:, None])
jnp.clip(x, -1, 2)
jnp.clip(x, y, None)
jnp.clip(x, min=0.5)
jnp.clip(x, 300)
jnp.concatenate([x, y])
jnp.stack([x, y])
jnp.append(x, y)
jnp.hstack([x, y])
jnp.column_stack([x, y])
jnp.inner(x, y)
jnp.dot(x, y)
jnp.vdot(x, y)
jnp.outer(x, y)
jnp.kron(x, y)
jnp.vecdot(x, y)
jnp.tensordot(x, y, 1)
jnp.matmul(x, y)
jnp.einsum('i,i', x, y)
jnp.einsum('i,j->ij', x, y)
jnp.meshgrid(x, y)
jnp.meshgrid(x, y, indexing='ij', sparse=True)
jnp.where(x > y, x, y)
jnp.where(x, y, -1)
jnp.where(x, 1, 2.5)
jnp.linspace(x, y, 4)
jnp.linspace(x, y, 3, endpoint=False, axis=1)
jnp.linspace(x, 5, 3, dtype='int32')
jnp.vectorize(lambda a, b: a * b - a)(x, y)
jnp.vectorize(lambda a, b: jnp.sum(a) - b, signature='(n),()->()')(x, y)
x + y
x - y
x * y
x / y
x // y
x % y
x ** y
x @ y
x & y
x | y
x ^ y
x << y
x >> y
x == y
x < y
x >= y
divmod(x, y)
abs(x)
-x
+x
~x
round(x)
"""
_PRODUCTS = """
jnp.dot(x, y)
jnp.matmul(x, y)
jnp.matvec(x, y[:, 0])
jnp.vecmat(x[0], y)
jnp.inner(x, y.T)
jnp.tensordot(x, y, 1)
jnp.tensordot(x, y, ((1,), (0,)))
jnp.kron(x, y)
jnp.outer(x, y)
jnp.vdot(x[:, 0], x[:, 1])
jnp.vecdot(x, y[:, 0])
jnp.einsum('ij,jk->ki', x, y)
jnp.einsum('ij->j', x)
jnp.einsum('ij,jk->', x, y)
jnp.matmul(x, x)
jnp.dot(x, y, preferred_element_type='float32')
jnp.multiply(x, y[:, 0])
jnp.trace(x, dtype='int16')
"""
_ORDERED = """
jnp.sort(x)
jnp.sort(x, descending=True)
jnp.argsort(x)
jnp.argsort(x, descending=True, axis=0)
jnp.nonzero(x)
jnp.nonzero(x, size=3)
jnp.nonzero(x, size=3, fill_value=-1)
jnp.argmax(x, keepdims=True)
jnp.cumulative_sum(x[:3], include_initial=True)
jnp.cumulative_prod(x[:3])
jnp.cumulative_sum(x[:3], dtype='float32')
jnp.nan_to_num(x, nan=-1)
jnp.nan_to_num(x, nan=1, posinf=300, neginf=-300)
jnp.angle(x, deg=True)
jnp.round(x, 1)
jnp.round(x, -1)
jnp.around(x, decimals=2)
jnp.isclose(x, x, equal_nan=True)
jnp.allclose(x, x, equal_nan=True)
jnp.array_equal(x, x, equal_nan=True)
jnp.where(x)
jnp.power(x, 2)
jnp.power(x, -1)
jnp.power(x, 0)
jnp.power(x, 3.0)
jnp.power(x, 0.5)
jnp.power(2, x)
jnp.power(2.0, x)
x ** 2
x ** -1
x ** 0.5
x ** -2.0
2 ** x
2.0 ** x
jnp.trunc(x)
x.sum()
x.mean()
x.argsort()
x.clip(-1, 1)
x.round(1)
x.max(initial=-1)
x.view('int8')
x.real
x.imag
x.conj()
"""
_BESIDE_NUMBERS = """
x + 1
x - 1
x * -1
1 - x
x / 2
x // 2
x // -1
x % 3
x % -3
x // 0
x % 0
7 % x
7 // x
divmod(x, 0)
divmod(-7, x)
x + 300
x + 2.5
x == -1
x < -1
x > 300
x != 2.5
x & -1
x << 1
x >> 1
1 << x
jnp.where(x == 0, x, -1)
jnp.where(x == 0, -1, 300)
jnp.clip(x, -1, 300)
jnp.maximum(x, -1)
jnp.minimum(300, x)
jnp.full_like(x, -1)
jnp.full((2,), -1, x.dtype)
jnp.max(x, initial=-1)
jnp.sum(x, initial=-1)
x.at[0].set(-1)
x.at[1].set(300)
x.at[1].add(-1)
x.at[1].set(2.5)
x.at[9].get(mode='fill', fill_value=-1)
jnp.append(x, -1)
jnp.concatenate([x, jnp.array([1])])
jnp.asarray(x, dtype=int)
jnp.asarray(x, dtype=float)
jnp.array([x[0], 1])
jnp.array([x[0], -1.5])
jnp.add(x, np.int8(3))
jnp.add(x, np.float64(3))
jnp.multiply(x, np.uint8(200))
x + True
x * 1j
"""
_CHOSEN = """
jnp.where(x, y, z)
jnp.where(x, y, 0)
jnp.where(x, 1, 0)
jnp.where(x, 1.0, z)
jnp.where(x[:, None], y, z)
jnp.where(x, y)
jnp.where(x, y[:2], z)
"""
_CREATED = """
jnp.arange(5)
jnp.arange(5.0)
jnp.arange(1, 7, 2)
jnp.arange(1, 2, 0.25)
jnp.arange(5, 1, -2)
jnp.arange(0)
jnp.arange(-3)
jnp.arange(3, dtype='float16')
jnp.arange(3, dtype='uint8')
jnp.arange(2.5, 7)
jnp.arange(0, 1, 0.1)
jnp.arange(True)
jnp.arange(3j)
jnp.arange(1, 5, 0)
jnp.arange(0, 10, 3, dtype='int8')
jnp.arange(1, step=0.3)
jnp.arange(np.float32(3))
jnp.arange(np.int8(3), np.uint8(9))
jnp.arange(10, stop=None)
jnp.arange(-1, 3, dtype='uint8')
jnp.arange(0, 2, dtype=bool)
jnp.arange(0, 5, dtype=bool)
jnp.array(1)
jnp.array(-1.5)
jnp.array([1, 2.5])
jnp.array([True, 2])
jnp.array([[1, 2], [3, 4]], dtype='int8')
jnp.array([])
jnp.array(-1, dtype='uint8')
jnp.array([300], dtype='uint8')
jnp.array(2.7, dtype='int32')
jnp.array([1, [2]])
jnp.array('a')
jnp.array(None)
jnp.array(1j)
jnp.asarray(3)
jnp.asarray([3.0])
jnp.asarray(True)
jnp.asarray(2**40)
jnp.asarray(-2**31)
jnp.asarray(2**31)
jnp.empty((2, 3))
jnp.eye(3)
jnp.eye(2, 3, 1)
jnp.eye(3, k=-1, dtype='int8')
jnp.eye(2, dtype=bool)
jnp.full((2, 2), 3)
jnp.full(2, -1, 'uint8')
jnp.full(2, 2.5)
jnp.full((2,), 2.5, 'int32')
jnp.full((2, 2), [1, 2])
jnp.full((2,), 1j)
jnp.full(3, 300, 'uint8')
jnp.full((), True)
jnp.geomspace(1, 1000, 4)
jnp.geomspace(1, 256, 9, dtype='int32')
jnp.geomspace(-1, -1000, 4)
jnp.geomspace(1, 64, 3, endpoint=False)
jnp.identity(3)
jnp.identity(2, 'int8')
jnp.indices((2, 3))
jnp.indices((2, 3), sparse=True)
jnp.indices((2,), dtype='float32')
jnp.linspace(0, 1, 5)
jnp.linspace(0., 1., 1)
jnp.linspace(0, 1, 0)
jnp.linspace(0, 10, 4, dtype='int32')
jnp.linspace(0, 1, 3, retstep=True)
jnp.linspace(0, 1j, 3)
jnp.linspace(0, 1, 3, endpoint=False)
jnp.linspace(1, 1, 2)
jnp.linspace(0, 1, -1)
jnp.linspace(-5, 5, 4, dtype='int32')
jnp.logspace(0, 3, 4)
jnp.logspace(0, 4, 5, base=2)
jnp.logspace(0, 3, 4, dtype='int32')
jnp.ones(3)
jnp.ones((2, 2), 'int8')
jnp.ones((), bool)
jnp.zeros((2, 0))
jnp.zeros(2, dtype=complex)
jnp.zeros((-1,))
jnp.zeros(2, int)
jnp.zeros(2, float)
jnp.tri(3)
jnp.tri(2, 3, 1, dtype='int32')
jnp.tri(3, k=-1)
jnp.fft.fftfreq(5)
jnp.fft.fftfreq(4, 0.5)
jnp.fft.rfftfreq(5)
jnp.fft.rfftfreq(4, d=2)
jnp.broadcast_shapes((2, 1), (3,))
jnp.result_type(1, 2.5)
jnp.promote_types('int8', 'uint8')
jnp.isdtype(np.dtype('int8'), 'integral')
jnp.issubdtype('float32', np.floating)
jnp.einsum_path('ij,jk->ik', np.ones((2, 3)), np.ones((3, 2)))[0]
jnp.meshgrid(np.arange(2), np.arange(3))
jnp.concatenate([[1, 2], [3.5]])
jnp.float32(3)
jnp.int8(3)
jnp.bool_(2)
jnp.uint8(-1)
jnp.int32([1, 2])
jnp.float32(1j)
jnp.iinfo('int8').max
jnp.finfo('bfloat16').eps
"""
_FROM_VALUES = """
jnp.full((2,), x)
jnp.full((2,), x, 'uint8')
jnp.full_like(x, 7)
jnp.array([x, 1])
jnp.array([x, x], dtype='float32')
jnp.stack([x, 2])
jnp.arange(x)
jnp.eye(3, k=x)
jnp.tri(3, k=x)
jnp.zeros(x)
jnp.linspace(0, x, 3)
jnp.linspace(x, 1., 1)
jnp.logspace(0, x, 3)
jnp.geomspace(1, x, 3)
jnp.repeat(x, 2)
jnp.atleast_2d(x)
jnp.where(x, 1, 0)
jnp.tile(x, 3)
jnp.diag(x)
jnp.cumsum(x)
jnp.sort(x)
jnp.sort(x, axis=None)
jnp.argsort(x, axis=None)
jnp.argmax(x)
jnp.ravel(x)
jnp.round(x, 2)
jnp.sum(x, axis=0)
jnp.expand_dims(x, 0)
jnp.broadcast_to(x, (3, 2))
jnp.unstack(x)
jnp.flip(x)
jnp.squeeze(x)
jnp.nonzero(x)
jnp.einsum(',->', x, x)
jnp.einsum('...,...->...', x, x)
jnp.trace(x)
jnp.triu(x)
jnp.matmul(x, x)
jnp.dot(x, 2)
jnp.dot(x, [1, 2])
jnp.concatenate([x, x])
jnp.hstack([x, x])
jnp.vstack([x, 1])
jnp.dstack([x, 1])
jnp.array_equal(x, x)
jnp.allclose(x, 2)
jnp.average(x)
jnp.average(x, weights=x)
jnp.divmod(x, 0)
x.item() if x.ndim == 0 else x
x.tolist()
len(x)
bool(x)
int(x)
float(x)
range(x)
list(x)
[1, 2, 3][x]
"""
_TRANSFORMS = "\n".join(
    [
        *(f"jnp.fft.{name}(x)" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift")),
        *(f"jnp.fft.{name}(x, n=4, axis=0, norm='ortho')" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")),
        *(f"jnp.fft.{name}(x, axes=[])" for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "fftshift")),
        *(f"jnp.fft.{name}(x, s=(3,), axes=(0,))" for name in ("fftn", "irfftn")),
        "jnp.fft.fft(x, n=0)", "jnp.fft.irfft(x, n=1)", "jnp.fft.fft(x, axis=2)",
    ]
)  # fmt: skip
_OF_PLACES = """
x[y]
x[y, 1]
x[:, y]
x[y == 0]
x.at[y].set(1)
x.at[y].add(1)
x.at[y].get(mode='fill')
x.at[y].get(mode='wrap')
x.at[y].get(mode='clip')
x.at[y, y].set(300)
x[y[0]]
x[y[0]:]
jnp.repeat(x, y, axis=0)
jnp.repeat(x, y, axis=0, total_repeat_length=5)
jnp.roll(x, y[0])
jnp.roll(x, y)
jnp.roll(x, y[:2], axis=(0, 1))
jnp.left_shift(x, y[0])
jnp.bitwise_count(y)
jnp.power(x, y[0])
"""


def all_rows() -> list[Row]:
    """Every row, once."""
    rows = [*_unary(), *_binary(), *_reductions(), *_others()]
    return list({str(row): row for row in rows}.values())


# Outcomes -----------------------------------------------------------------------------------------


class Value(NamedTuple):
    """A leaf of a result; `text` stands for what is no array."""

    dtype: str
    weak_type: bool
    array: np.ndarray | None
    text: str = ""


Outcome = list[Value] | str
"""The leaves of a result, or the names of the built-in classes above the error and its text."""


def outcomes(jax: Any, rows: Sequence[Row], modes: Sequence[str]) -> list[dict[str, Outcome]]:
    """For each row what each of `modes` ("eager", "jit", "vmap") gives; "eager" where jit fails is always among them."""
    found: list[dict[str, Outcome]] = [{} for _ in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wide in (False, True):
            chosen = [i for i, row in enumerate(rows) if row.x64 is wide]
            with jax.enable_x64(wide):
                for mode in modes:
                    if mode == "eager":
                        for i in chosen:
                            found[i][mode] = _eagerly(jax, rows[i])
                    else:
                        for start in range(0, len(chosen), CHUNK):
                            part = chosen[start : start + CHUNK]
                            results = _together(jax, [rows[i] for i in part], mode)
                            for i, result in zip(part, results, strict=True):
                                found[i][mode] = result
                if "eager" not in modes:
                    for i in chosen:
                        if isinstance(found[i]["jit"], str):
                            found[i]["eager"] = _eagerly(jax, rows[i])
    return found


def _eagerly(jax: Any, row: Row) -> Outcome:
    try:
        result = row.function(jax)(*(jax.numpy.asarray(x) for x in row.operands))
        return [_value(leaf) for leaf in jax.tree.leaves(result)]
    except Exception as error:
        return _failure(error)


def _other(x: np.ndarray) -> np.ndarray:
    """What lies beside `x` in a batch."""
    return np.flip(x).copy()


def _together(jax: Any, rows: Sequence[Row], mode: str) -> list[Outcome]:
    """What each row gives in one program of all that can be traced."""
    results: list[Outcome] = []
    traced: list[tuple[int, Callable[..., Any], list[Any]]] = []
    for i, row in enumerate(rows):
        function, operands = row.function(jax), [jax.numpy.asarray(x) for x in row.operands]
        if mode == "vmap" and operands:
            function = jax.vmap(function)
            operands = [
                jax.numpy.asarray(np.stack([_other(x), x])) for x in map(np.asarray, row.operands)
            ]
        results.append([])
        seen: list[Any] = []

        def flat(*xs: Any, function: Any = function, seen: list[Any] = seen) -> list[Any]:
            leaves = jax.tree.leaves(function(*xs))
            seen[:] = leaves
            return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

        try:
            jax.eval_shape(flat, *operands)
            results[i] = [Value("", False, None, _text(x)) for x in seen if not isinstance(x, jax.Array)]
            traced.append((i, flat, operands))
        except Exception as error:
            results[i] = _failure(error)
    for i, arrays in _run(jax, traced):
        batched = mode == "vmap" and rows[i].operands
        if isinstance(arrays, str):
            results[i] = arrays
        else:
            results[i] = [_value(x, at=1 if batched else None) for x in arrays] + results[i]
    return results


def _run(jax: Any, traced: Sequence[Any]) -> list[tuple[int, Any]]:
    def every(groups: list[list[Any]]) -> list[Any]:
        return [flat(*xs) for (_, flat, _), xs in zip(traced, groups, strict=True)]

    if not traced:
        return []
    try:
        results = jax.jit(every, compiler_options=QUICK_COMPILATION)([xs for *_, xs in traced])
        return [(i, result) for (i, *_), result in zip(traced, results, strict=True)]
    except Exception as error:
        if len(traced) == 1:
            return [(traced[0][0], _failure(error))]
    return [pair for one in traced for pair in _run(jax, [one])]


def _value(x: Any, at: int | None = None) -> Value:
    if not hasattr(x, "weak_type"):
        return Value("", False, None, _text(x))
    array = np.asarray(x)
    return Value(str(array.dtype), bool(x.weak_type), array if at is None else array[at])


def _text(x: Any) -> str:
    return f"{x}"


def _failure(error: Exception) -> str:
    builtin = [cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"]
    return f"{' '.join(builtin)}: {type(error).__name__}: {str(error)[:200]}"
