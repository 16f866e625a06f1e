"""Rows for values lifted into the program. The reference makes no equation of it, and has no derivative of some."""

from tests.laws.sample import Sample, array, python

samples = [
    Sample("lax.stage(x)", (array((2, 3)),), lambda x: x, agrees="no"),
    Sample("lax.stage(x)", (array((2,), "complex64"),), lambda x: x, agrees="no"),
    Sample("lax.stage(x) * y", (python(1.0), array((3,))), lambda x, y: x * y, agrees="no"),
]
