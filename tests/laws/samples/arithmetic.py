"""Rows for arithmetic."""

import numpy as np

from tests.laws.sample import (
    COMPLEXES,
    FLOATS,
    INTEGERS,
    Sample,
    array,
    edges,
    python,
    rows,
    values,
)

NUMBERS = (*FLOATS, *COMPLEXES, *INTEGERS)
REALS = (*FLOATS, *INTEGERS)
SIGNED = ("int32", "int8", "int16", "int64")
PAIR = ((-2.0, 2.0), (-2.0, 2.0))
APART = ((-2.0, 2.0), (0.5, 2.0))
INF, NAN = np.inf, np.nan
SPECIAL = values([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, 3e38])
SPECIAL_X = values(np.repeat([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN], 7))
SPECIAL_Y = values(np.tile([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN], 7))
LEAST = np.iinfo(np.int32).min


def truncated_division(x, y):
    """Quotient of integers rounded towards zero, of others as it is."""
    return np.trunc(x / y) if x.dtype.kind in "iu" else x / y


def extremum(lexicographic, real):
    """NumPy's maximum or minimum, which for complex numbers is lexicographic as ours."""
    return lambda x, y: lexicographic(x, y) if x.dtype.kind == "c" else real(x, y)


samples = [
    *rows("lax.neg(x)", NUMBERS, np.negative),
    *rows("lax.add(x, y)", NUMBERS, np.add, ranges=PAIR),
    *rows("lax.sub(x, y)", NUMBERS, np.subtract, ranges=PAIR),
    *rows("lax.mul(x, y)", NUMBERS, np.multiply, ranges=PAIR),
    Sample("lax.add(x, y)", (array((2, 3)), array(()))),
    Sample("lax.add(x, y)", (array(()), array((2, 3)))),
    Sample("lax.add(x, y)", (array((2, 1)), array((1, 3))), np.add),
    Sample("lax.sub(x, y)", (python(2.0), python(3.0))),
    Sample("lax.mul(x, y)", (array((2, 3)), python(2.0))),
    Sample("lax.mul(x, y)", (python(3), array((2, 3), "int32"))),
    Sample("lax.mul(x, y)", (array((0, 3)), array((0, 3)))),
    Sample("lax.mul(x, y)", (array((2, 1, 2, 3)), array((2, 2, 1, 3))), np.multiply),
    Sample("lax.mul(x, y, out_dtype=np.dtype('float32'))", (array((3,), "bfloat16"), array((3,), "bfloat16")),
           agrees="close", adjoint_tolerance=1e-2, smooth=False),
    *rows("lax.mulhi(x, y)", ("int32", "uint32", "int64"), ranges=((-2e9, 2e9), (-2e9, 2e9)), wrt=()),
    # Quotients
    *rows("lax.div(x, y)", (*FLOATS, *COMPLEXES), np.divide, ranges=APART),
    *rows("lax.div(x, y)", INTEGERS, truncated_division, ranges=((-100.0, 100.0), (1.0, 7.0))),
    edges("lax.div(x, y)", values([5, -5, 0, LEAST, LEAST], "int32"), values([0, 0, 0, -1, 0], "int32")),
    edges("lax.div(x, y)", values([5, 0, 255], "uint8"), values([0, 0, 2], "uint8")),
    edges("lax.div(x, y)", SPECIAL_X, SPECIAL_Y),
    Sample("lax.div(x, y)", (array((2, 3)), python(2.0))),
    *rows("lax.rem(x, y)", REALS, np.fmod, ranges=((-8.0, 8.0), (1.0, 3.0)), tolerance=5e-2),
    edges("lax.rem(x, y)", values([5, -5, 0, LEAST, LEAST], "int32"), values([0, 0, 0, -1, 0], "int32")),
    edges("lax.rem(x, y)", SPECIAL_X, SPECIAL_Y),
    # Sign and size
    *rows("lax.abs(x)", (*FLOATS, *COMPLEXES, *SIGNED), np.abs),
    edges("lax.abs(x)", SPECIAL),
    edges("lax.abs(x)", values([0, LEAST], "int32")),
    edges("lax.abs(x)", values([0, 3 + 4j], "complex64"), reference=np.abs),
    Sample("lax.abs(x)", (python(1j),)),
    *rows("lax.sign(x)", (*FLOATS, *INTEGERS), np.sign),
    *rows("lax.sign(x)", COMPLEXES, np.sign, agrees="no"),  # the reference has no derivative
    edges("lax.sign(x)", SPECIAL),
    *rows("lax.max(x, y)", (*FLOATS, *COMPLEXES, *INTEGERS, "bool"), np.maximum, ranges=PAIR),
    *rows("lax.min(x, y)", (*FLOATS, *COMPLEXES, *INTEGERS, "bool"), np.minimum, ranges=PAIR),
    edges("lax.max(x, y)", values([1.0, 2.0, 3.0]), values([1.0, 3.0, 2.0]), reference=np.maximum),
    edges("lax.min(x, y)", values([1.0, 2.0, 3.0]), values([1.0, 3.0, 2.0]), reference=np.minimum),
    edges("lax.max(x, y)", SPECIAL_X, SPECIAL_Y),
    edges("lax.min(x, y)", SPECIAL_X, SPECIAL_Y),
    Sample("lax.max(x, y)", (array((2, 3)), python(0.5)), np.maximum),
    # Powers and roots
    *rows("lax.pow(x, y)", (*FLOATS, *COMPLEXES), np.power, ranges=((0.5, 2.0), (-2.0, 2.0))),
    Sample("lax.pow(x, y)", (array((2, 3)), array((2, 3), "int32", -3, 3)), np.power),
    Sample("lax.pow(x, y)", (array((3,), "bfloat16"), array((3,), "uint8", 0, 3)), np.power),
    Sample("lax.pow(x, y)", (array((3,), "complex64"), array((3,), "int32", 0, 3)), np.power),
    Sample("lax.pow(x, y)", (array((2, 3)), python(2))),
    Sample("lax.pow(x, y)", (array((2, 3)), python(2.0))),
    Sample("lax.pow(x, y)", (python(2.0), array((3,), "int32", 0, 3))),
    Sample("lax.pow(x, y)", (array((2, 1)), array((1, 3), "int32", 0, 3)), np.power),
    edges("lax.pow(x, y)", SPECIAL_X, SPECIAL_Y),
    edges("lax.pow(x, y)", values([0.0, -0.0, 0.0, 2.0]), values([0, 1, 2, 0], "int32")),
    *rows("lax.log(x)", (*FLOATS, *COMPLEXES), np.log, ranges=((0.5, 3.0),)),
    edges("lax.log(x)", SPECIAL),
    *[row for n in (0, 1, 2, 3, 7) for row in rows(f"lax.integer_pow(x, {n})", ("float32", "complex64", "int32"),
      lambda x, n=n: x**n, shapes=((2, 3),))],
    *[row for n in (-1, -2) for row in rows(f"lax.integer_pow(x, {n})", ("float32", "complex64", "bfloat16"),
      lambda x, n=n: x ** float(n), shapes=((2, 3),), ranges=((0.5, 2.0),))],
    Sample("lax.integer_pow(x, 3)", (python(2.0),)),
    *rows("lax.reciprocal(x)", (*FLOATS, *COMPLEXES), np.reciprocal, ranges=((0.5, 3.0),)),
    *rows("lax.square(x)", NUMBERS, np.square),
    *rows("lax.sqrt(x)", (*FLOATS, *COMPLEXES), np.sqrt, ranges=((0.5, 3.0),)),
    edges("lax.sqrt(x)", SPECIAL),
    *rows("lax.rsqrt(x)", (*FLOATS, *COMPLEXES), lambda x: 1 / np.sqrt(x), ranges=((0.5, 3.0),),
          agrees="close"),  # its last bit is the processor's
    edges("lax.rsqrt(x)", SPECIAL, agrees="close"),
    *rows("lax.cbrt(x)", FLOATS, np.cbrt, ranges=((0.5, 3.0),)),
    edges("lax.cbrt(x)", SPECIAL),
    # Rounding
    *rows("lax.round(x)", FLOATS, lambda x: np.trunc(x + np.copysign(0.5, x)), ranges=((-5.0, 5.0),)),
    edges("lax.round(x)", values([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])),
    edges("lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)", values([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]), reference=np.round),
    edges("lax.round(x, 1)", SPECIAL),
    *rows("lax.floor(x)", FLOATS, np.floor, ranges=((-5.0, 5.0),)),
    *rows("lax.ceil(x)", FLOATS, np.ceil, ranges=((-5.0, 5.0),)),
    *rows("lax.nextafter(x, y)", FLOATS, ranges=PAIR, wrt=()),
    Sample("lax.nextafter(x, y)", (SPECIAL_X, SPECIAL_Y), wrt=()),
]  # fmt: skip
