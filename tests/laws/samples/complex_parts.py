"""Rows for complex numbers and their parts."""

import numpy as np

from tests.laws.sample import COMPLEXES, Sample, array, python, rows

samples = [
    *rows("lax.real(x)", COMPLEXES, np.real),
    *rows("lax.imag(x)", COMPLEXES, np.imag),
    *rows("lax.conj(x)", (*COMPLEXES, "float32", "float64"), np.conj),
    *rows(
        "lax.complex(x, y)",
        ("float32", "float64"),
        lambda x, y: x + 1j * y,
        ranges=((-2.0, 2.0),) * 2,
    ),
    Sample("lax.complex(x, y)", (array((2, 3)), python(0.0))),
    Sample("lax.complex(x, y)", (array((2, 3)), array(()))),
    Sample("lax.complex(x, y)", (python(1.0), python(2.0))),
    Sample("lax.real(x)", (python(1j),)),
    Sample("lax.conj(x)", (python(1.0),)),
]
