"""Rows for values lifted into the program. The reference makes no equation of it."""

from tests.laws.sample import Sample, array, python

samples = [
    Sample("lax.stage(x)", (array((2, 3)),), lambda x: x, same_text=False),
    Sample("lax.stage(x)", (array((2,), "complex64"),), lambda x: x, same_text=False),
    Sample("lax.stage(x) * y", (python(1.0), array((3,))), lambda x, y: x * y, same_text=False),
]
