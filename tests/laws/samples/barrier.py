"""Rows for the barrier of optimizations."""

from tests.laws.sample import Sample, array, python

samples = [
    Sample("lax.optimization_barrier(x)", (array((2, 3)),), lambda x: x),
    Sample(
        "lax.optimization_barrier((x, y))",
        (array((2, 3)), array((), "complex64")),
        lambda x, y: (x, y),
    ),
    Sample(
        "lax.optimization_barrier((x, [y, z]))[1]", (array((2, 3)), array((2,), "int32"), array(()))
    ),
    Sample("lax.optimization_barrier(x)", (python(1.0),)),
]
