"""Rows for exponentials, logarithms, trigonometric and hyperbolic functions."""

import numpy as np
import scipy.special

from tests.laws.sample import COMPLEXES, FLOATS, Sample, array, edges, python, rows, values

NUMBERS = (*FLOATS, *COMPLEXES)
INSIDE = ((-0.9, 0.9),)
ABOVE_ONE = ((1.2, 3.0),)
SPECIAL = values([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 1e30, 89.0, -104.0])
EXTREME = values(
    [0, 1e-20 + 1e-20j, 50 + 1j, 1j, complex(1, 1e-8), complex(0, 89), complex(np.inf, 0)],
    "complex64",
)
UNARY = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "atan": np.arctan,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
RESTRICTED = {
    "log1p": (np.log1p, ((-0.5, 3.0),)), "asin": (np.arcsin, INSIDE), "acos": (np.arccos, INSIDE),
    "atanh": (np.arctanh, INSIDE), "acosh": (np.arccosh, ABOVE_ONE),
}  # fmt: skip
WITH_ACCURACY = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "logistic",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sqrt",
    "rsqrt",
    "cbrt",
)

samples = [
    *[row for name, reference in UNARY.items() for row in rows(f"lax.{name}(x)", NUMBERS, reference, shapes=((2, 3),))],
    *[row for name, (reference, ranges) in RESTRICTED.items()
      for row in rows(f"lax.{name}(x)", NUMBERS, reference, ranges=ranges, shapes=((2, 3),))],
    *[edges(f"lax.{name}(x)", SPECIAL) for name in (*UNARY, *RESTRICTED)],
    *[edges(f"lax.{name}(x)", EXTREME, wrt=()) for name in (*UNARY, *RESTRICTED, "log", "sqrt")],
    edges("lax.rsqrt(x)", EXTREME, wrt=(), agrees="close"),  # its last bit is the processor's
    *rows("lax.atan2(x, y)", FLOATS, np.arctan2, ranges=((-2.0, 2.0), (0.5, 2.0))),
    Sample("lax.atan2(x, y)", (array((3,), "complex64"), array((3,), "complex64", 0.5, 2.0))),
    edges("lax.atan2(x, y)", values([0.0, -0.0, 0.0, -0.0, 1.0]), values([1.0, 1.0, -1.0, -1.0, 0.0]), reference=np.arctan2),
    edges("lax.logistic(x)", values([-100.0, 0.0, 100.0]), reference=scipy.special.expit),
    *rows("lax.exp(x)", ("float32", "float16"), np.exp, shapes=((), (0, 2))),
    Sample("lax.exp(x)", (python(1.0),)),
    Sample("lax.exp2(x)", (python(1.0),)),
    *[Sample(f"lax.{name}(x, accuracy=lax.AccuracyMode.HIGHEST)", (array((2,), low=0.5),), agrees="close",
             same_text=False, batched=False) for name in WITH_ACCURACY],
    Sample("lax.exp(x, accuracy=lax.AccuracyMode.DEFAULT)", (array((2,)),), same_text=False),
    Sample("lax.exp(x, accuracy=lax.Tolerance(1e-3, 0.0, 2))", (array((2,)),), agrees="close", same_text=False),
]  # fmt: skip
