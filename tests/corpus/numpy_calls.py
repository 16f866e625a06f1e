"""Calls of every public function of the NumPy API, with operands that functions tend to get wrong.

Operands hold zeros as divisors, negative and extreme integers, infinities and NaN, bools, elements of 8 and 16 bits,
complex numbers, or nothing. `numpy_outcomes` evaluates the calls.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = ("x", "y", "z")
_FOLDER = pathlib.Path(__file__).with_name("numpy_texts")

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
    numbers = (np.arange(count) * 7 + 3) % (2 * count + 1) - (
        0 if dtype.kind == "u" else count // 2
    )
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

UNARY = [
    "abs", "absolute", "acos", "acosh", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh",
    "around", "asin", "asinh", "atan", "atanh", "bitwise_count", "bitwise_invert", "bitwise_not", "cbrt", "ceil",
    "conj", "conjugate", "cos", "cosh", "deg2rad", "degrees", "exp", "exp2", "expm1", "fabs", "floor", "imag",
    "invert", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "log", "log10", "log1p", "log2", "logical_not",
    "nan_to_num", "negative", "positive", "rad2deg", "radians", "real", "reciprocal", "rint", "round", "sign",
    "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
BINARY = [
    "add", "arctan2", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "copysign", "divide", "divmod", "equal", "float_power", "floor_divide", "fmod", "greater",
    "greater_equal", "heaviside", "hypot", "isclose", "left_shift", "less", "less_equal", "logaddexp", "logaddexp2",
    "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "nextafter", "not_equal",
    "power", "remainder", "right_shift", "subtract", "true_divide",
]  # fmt: skip
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
REDUCTIONS = [
    "all", "any", "amax", "amin", "argmax", "argmin", "average", "count_nonzero", "cumprod", "cumsum", "max",
    "mean", "min", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
    "nanstd", "nansum", "nanvar", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip
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
        if name not in (
            "average",
            "argmax",
            "argmin",
            "cumsum",
            "cumprod",
            "nancumsum",
            "nancumprod",
        ):
            yield Row(f"jnp.{name}(x, axis=1, where=y)", (x, ordinary(3, 4, dtype="bool")))
        if name in _INITIAL:
            for dtype in ("uint8", "float32", "int32", "bool"):
                yield Row(f"jnp.{name}(x, axis=1, initial=-1)", (ordinary(3, 4, dtype=dtype),))
                yield Row(f"jnp.{name}(x, axis=1, initial=2.5)", (ordinary(3, 4, dtype=dtype),))
            yield Row(
                f"jnp.{name}(x, axis=1, initial=300, where=y)",
                (ordinary(3, 4, dtype="uint8"), ordinary(3, 4, dtype="bool")),
            )


def _each(topic: str, *operands: Any, x64: bool = False) -> Iterator[Row]:
    """Rows of the expressions in `numpy_texts`, one in each line of a topic's file."""
    for text in (_FOLDER / f"{topic}.txt").read_text().splitlines():
        yield Row(text, operands, x64)


def _others() -> Iterator[Row]:
    x, y = ordinary(3, 4), ordinary(4, 2)
    one, two, cube = ordinary(6), ordinary(6)[::-1].copy(), ordinary(2, 3, 4)
    for dtype in ("float32", "uint8", "bool", BF16, "complex64"):
        yield from _each("moved", ordinary(2, 3, 4, dtype=dtype))
    yield from _each("moved_once", cube)
    yield from _each("two_vectors", one, two)
    yield from _each("two_vectors", ordinary(6, dtype="uint8"), ordinary(6, dtype="int8"))
    yield from _each("two_vectors", ordinary(6, dtype="int32"), ordinary(6, dtype=BF16))
    yield from _each("two_vectors", ordinary(6, dtype="bool"), ordinary(6, dtype="bool"))
    yield from _each(
        "two_vectors", ordinary(6, dtype="float64"), ordinary(6, dtype="int64"), x64=True
    )
    yield from _each("products", x, y)
    yield from _each("products", ordinary(3, 4, dtype="uint8"), ordinary(4, 2, dtype="int8"))
    yield from _each("products", ordinary(3, 4, dtype="complex64"), ordinary(4, 2, dtype=BF16))
    yield from _each("products", ordinary(3, 4, dtype="bool"), ordinary(4, 2, dtype="int32"))
    yield from _each(
        "products", ordinary(3, 4, dtype="int64"), ordinary(4, 2, dtype="float32"), x64=True
    )
    for dtype in ("float32", "int32", "uint8", "bool", "complex64", BF16, "float16", "int8"):
        yield from _each("ordered", values(dtype))
        yield from _each("beside_numbers", ordinary(4, dtype=dtype))
    for dtype in _DOUBLE:
        yield from _each("ordered", values(dtype), x64=True)
        yield from _each("beside_numbers", ordinary(4, dtype=dtype), x64=True)
    yield from _each("ordered", ordinary(3, 4))
    yield from _each("ordered", values("int32"), x64=True)
    yield from _each("chosen", ordinary(4, dtype="bool"), ordinary(4), ordinary(4, dtype="int32"))
    yield from _each(
        "chosen", ordinary(4, dtype="int32"), ordinary(4, dtype="uint8"), ordinary(4, dtype="int8")
    )
    yield from _each("created")
    yield from _each("created", x64=True)
    yield from _each("from_values", np.int32(2))
    yield from _each("from_values", np.float32(2.5))
    yield from _each("from_values", np.float32([1, 2]))
    for dtype in ("float32", "complex64", "int32", BF16, "bool"):
        yield from _each("transforms", ordinary(2, 6, dtype=dtype))
    yield from _each("transforms", ordinary(2, 6, dtype="float64"), x64=True)
    yield from _each("transforms", np.zeros((0, 3), np.float32))
    yield from _each("of_places", ordinary(3, 4), np.int32([2, 0, 1]))
    yield from _each("of_places", ordinary(3, 4, dtype="uint8"), np.uint8([0, 1, 2]))
    yield from _each("of_places", ordinary(3, 4, dtype="bool"), np.int8([-1, 0, -3]))
    yield from _each("of_places", ordinary(3, 4, dtype="int64"), np.int64([-1, 5, -9]), x64=True)
    for dtype in ("float32", "int32", "uint8", "bool", BF16, "complex64"):
        yield from _each("sampled", one.astype(dtype), two.astype(dtype))
    yield from _each("sampled", one.astype("float64"), two.astype("int64"), x64=True)
    yield from _each("selected", ordinary(3, 4), np.int32([2, 0, 1]))
    yield from _each("selected", ordinary(3, 4, dtype="uint8"), np.int8([-1, 5, -9]))
    yield from _each("selected", ordinary(3, 4, dtype="complex64"), np.uint8([1, 2, 7]))
    yield from _each("selected", ordinary(3, 4, dtype="float64"), np.int64([2, -1, 9]), x64=True)
    for dtype in ("float32", "int32", "float16", BF16, "uint8", "bool", "complex64"):
        yield from _each("parts_of_numbers", values(dtype))
    yield from _each("parts_of_numbers", values("float64"), x64=True)


def all_rows() -> list[Row]:
    """Every row, once."""
    rows = [*_unary(), *_binary(), *_reductions(), *_others()]
    return list({str(row): row for row in rows}.values())


def composed() -> list[str]:
    """The functions that the topics of functions composed of others name."""
    topics = ("sampled", "selected", "parts_of_numbers")
    texts = " ".join((_FOLDER / f"{topic}.txt").read_text() for topic in topics)
    return sorted(
        set(re.findall(r"jnp\.(\w+)", texts))
        - {"arange", "array", "eye", "outer", "sort", "stack", "sum"}
    )


def named(row: Row) -> list[str]:
    """The functions of `jnp` that a row names, without `jnp.`."""
    return re.findall(r"jnp\.((?:fft\.)?\w+)", row.text)
