"""Rows for putting arrays together and taking them apart."""

import numpy as np

from tests.laws.sample import Sample, array, python

DTYPES = ("bfloat16", "int8", "uint32", "bool", "complex64", "float64")

samples = [
    Sample("lax.concatenate([x, y, z], 1)", (array((3, 4)), array((3, 2)), array((3, 0))),
           lambda x, y, z: np.concatenate([x, y, z], 1)),
    Sample("lax.concatenate([x, y], 0)", (array((2, 3)), array((1, 3)))),
    Sample("lax.concatenate([x, x], 2)", (array((2, 1, 3, 2)),)),
    Sample("lax.concatenate([x], 0)", (array((2, 3)),)),
    *(Sample("lax.concatenate([x, y], 0)", (array((2,), dtype), array((3,), dtype))) for dtype in DTYPES),
    Sample("lax.split(x, (1, 0, 3), 1)", (array((3, 4)),), lambda x: np.split(x, [1, 1], 1)),
    Sample("lax.split(x, (2, 1), -2)", (array((3, 2)),)),
    *(Sample("lax.split(x, (2, 3))", (array((5,), dtype),)) for dtype in DTYPES),
    Sample("lax.stack([x, y], 1)", (array((3, 4)), array((3, 4))), lambda x, y: np.stack([x, y], 1)),
    Sample("lax.stack([x, y])", (array(()), array(()))),
    Sample("lax.stack([x, y])", (array(()), python(2.0))),
    Sample("lax.stack([x, x, y], -1)", (array((2, 3)), array((2, 3)))),
    *(Sample("lax.stack([x, y], 1)", (array((2,), dtype), array((2,), dtype))) for dtype in DTYPES),
    Sample("lax.unstack(x, 1)", (array((3, 4)),), lambda x: list(x.T)),
    Sample("lax.unstack(x)", (array((2, 3, 1)),)),
    *(Sample("lax.unstack(x, 1)", (array((2, 3), dtype),)) for dtype in DTYPES),
    Sample("lax.tile(x, (2, 3))", (array((3, 4)),), lambda x: np.tile(x, (2, 3))),
    Sample("lax.tile(x, (0, 2))", (array((3, 4)),)),
    Sample("lax.tile(x, ())", (array(()),)),
    Sample("lax.tile(x, (1, 2, 1))", (array((2, 1, 3)),)),
    *(Sample("lax.tile(x, (2,))", (array((3,), dtype),)) for dtype in DTYPES),
    Sample("lax.collapse(x, 1)", (array((2, 3, 4)),), lambda x: x.reshape(2, 12)),
    Sample("lax.collapse(x, 0, -1)", (array((2, 3, 4)),), lambda x: x.reshape(6, 4)),
]  # fmt: skip
