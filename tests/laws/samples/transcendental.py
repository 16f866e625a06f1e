"""Rows for exponentials, logarithms, trigonometric and hyperbolic functions."""

import numpy as np

from tests.laws.sample import COMPLEXES, FLOATS, rows

NUMBERS = (*FLOATS, *COMPLEXES)

samples = [
    *rows("lax.exp(x)", NUMBERS, np.exp),
    *rows("lax.sin(x)", NUMBERS, np.sin),
    *rows("lax.cos(x)", NUMBERS, np.cos),
]
