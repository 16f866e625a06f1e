"""Rows for cumulative reductions."""

import numpy as np

from tests.laws.sample import Sample, array, values

NUMPY = {
    "cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
    "cumlogsumexp": np.logaddexp.accumulate,
}  # fmt: skip
INTEGERS = ("int32", "uint8", "int64")


def cumulative(name, shape, arguments="", dtype="float32", **options):
    """A use of a cumulative reduction."""
    options = {"agrees": "close"} | options
    return Sample(f"lax.{name}(x{arguments})", (array(shape, dtype),), **options)


samples = [
    *(
        cumulative(name, (2, n), ", 1", reference=lambda x, f=f: f(x, axis=1))
        for name, f in NUMPY.items()
        for n in (1, 2, 3, 6, 7)
    ),
    *(
        cumulative(
            name,
            (3, 4, 2),
            ", 1, reverse=True",
            reference=lambda x, f=f: f(x[:, ::-1], axis=1)[:, ::-1],
        )
        for name, f in NUMPY.items()
    ),
    *(
        cumulative(name, (5,), dtype=dtype, reference=f)
        for name, f in NUMPY.items()
        for dtype in ("bfloat16", "float16", "float64")
    ),
    *(
        cumulative(name, (5,), dtype=dtype, reference=f)
        for name, f in NUMPY.items()
        for dtype in INTEGERS
        if name != "cumlogsumexp"
    ),
    *(cumulative(name, (4,), dtype="complex64") for name in NUMPY),
    *(cumulative(name, shape, ", 0") for name in NUMPY for shape in ((0,), (0, 3), (3, 0))),
    # ties, zeros, infinities
    *(
        Sample(f"lax.{name}(x)", (values([1.0, 1.0, 3.0, 3.0, -1.0]),), smooth=False)
        for name in ("cummax", "cummin")
    ),
    Sample("lax.cumprod(x)", (values([2.0, 0.0, 3.0, 0.0, 1.0]),), agrees="close"),
    Sample(
        "lax.cumlogsumexp(x)", (values([-np.inf, 1.0, 2.0]),), smooth=False, wrt=(), agrees="close"
    ),
    Sample(
        "lax.cumlogsumexp(x)", (values([1.0, np.inf, 2.0]),), smooth=False, wrt=(), agrees="close"
    ),
    Sample("lax.cummax(x)", (values([1.0, np.nan, 2.0]),), wrt=()),
]
