"""Rows for reductions over sliding windows and for selection from windows."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tests.laws.sample import Sample, array, values

JAX = {
    "sum": "lax.reduce_window(x, np.asarray(0, x.dtype), lax.add, {})",
    "max": "lax.reduce_window(x, np.asarray(-np.inf, x.dtype), lax.max, {})",
    "min": "lax.reduce_window(x, np.asarray(np.inf, x.dtype), lax.min, {})",
}
WINDOWS = (
    "(3,), (2,), 'SAME'",
    "(3,), (1,), 'VALID'",
    "(2,), (3,), [(1, 2)]",
    "(3,), (1,), [(0, 0)], (2,), (1,)",
)
DILATED = (
    ((7,), "(3,), (2,), 'SAME_LOWER', (2,), (2,)"),
    ((4, 5), "(2, 3), (1, 2), 'SAME', (1, 2), (2, 1)"),
)


def window(monoid, arguments, shape, dtype="float32", **options):
    """A reduction over windows."""
    options = {"agrees": "close"} | options
    return Sample(
        f"lax.reduce_window_by({monoid!r}, x, {arguments})", (array(shape, dtype),),
        jax_call=JAX[monoid].format(arguments), **options,
    )  # fmt: skip


samples = [
    *(window(monoid, arguments, (7,)) for monoid in JAX for arguments in WINDOWS),
    *(window("sum", arguments, shape) for shape, arguments in DILATED),
    # the reference library can't transpose these
    *(
        window(monoid, arguments, shape, **options)
        for monoid in ("max", "min")
        for shape, arguments in DILATED
        for options in ({"agrees": "no"}, {"wrt": ()})
    ),
    *(window(monoid, "(1, 2), (1, 2)", (3, 4), dtype) for monoid in JAX for dtype in ("bfloat16", "float16", "float64")),
    *(
        window(monoid, "(2,), (1,)", (5,), "complex64", smooth=monoid == "sum", wrt=None if monoid == "sum" else ())
        for monoid in JAX
    ),
    window("sum", "(2,), (1,), [(-1, 1)]", (5,), "int32"),
    window("sum", "(2, 1), (1, 1)", (3, 0)),
    window("max", "(2,), (1,)", (1,)),
    window("sum", "(), ()", ()),
    *(
        Sample(
            f"lax.reduce_window_by({monoid!r}, x, (2,), (1,), [(1, 0)])", (array((5,), dtype),),
            lambda x, f=f: f(sliding_window_view(np.concatenate([x[:1], x]), 2), axis=1), agrees="no",
        )
        for monoid, f in (("max", np.max), ("min", np.min))
        for dtype in ("int32", "uint8", "bool", "float32")
    ),
    # ties and NaN
    *(
        Sample(
            f"lax.reduce_window_by({monoid!r}, x, (3,), (1,))", (values([1.0, 1.0, 0.0, 0.0, 1.0, 0.0]),),
            jax_call=JAX[monoid].format("(3,), (1,), 'VALID'"), smooth=False,
        )
        for monoid in ("max", "min")
    ),
    Sample(
        "lax.reduce_window_by('max', x, (2,), (1,))", (values([1.0, np.nan, 0.0, 0.0]),),
        jax_call=JAX["max"].format("(2,), (1,), 'VALID'"), wrt=(),
    ),
]  # fmt: skip
