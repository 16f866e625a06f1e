"""Rows for arithmetic."""

import numpy as np

from tests.laws.sample import COMPLEXES, FLOATS, INTEGERS, Sample, array, python, rows

NUMBERS = (*FLOATS, *COMPLEXES, *INTEGERS)
PAIR = ((-2.0, 2.0), (-2.0, 2.0))

samples = [
    *rows("lax.neg(x)", NUMBERS, np.negative),
    *rows("lax.add(x, y)", NUMBERS, np.add, ranges=PAIR),
    *rows("lax.sub(x, y)", NUMBERS, np.subtract, ranges=PAIR),
    *rows("lax.mul(x, y)", NUMBERS, np.multiply, ranges=PAIR),
    Sample("lax.add(x, y)", (array((2, 3)), array(()))),
    Sample("lax.add(x, y)", (array(()), array((2, 3)))),
    Sample("lax.mul(x, y)", (array((2, 3)), python(2.0))),
    Sample("lax.mul(x, y)", (python(3), array((2, 3), "int32"))),
    Sample("lax.mul(x, y)", (array((0, 3)), array((0, 3)))),
]
