"""Rows for reductions."""

import numpy as np

from tests.laws.sample import Sample, array, values

NUMBERS = ("float32", "bfloat16", "float16", "float64", "int32", "uint8", "int8", "int64")


def extreme(name, numpy):
    """Rows for a maximum or minimum."""
    return [
        Sample(f"lax.{name}(x, (0, 2))", (array((2, 3, 4)),), lambda x: numpy(x, (0, 2))),
        Sample(f"lax.{name}(x, (2, 0))", (array((2, 3, 4, 2)),), lambda x: numpy(x, (0, 2))),
        *(
            Sample(f"lax.{name}(x, (1,))", (array((2, 3), dtype),), lambda x: numpy(x, 1))
            for dtype in NUMBERS
        ),
        Sample(f"lax.{name}(x, (1,))", (array((2, 3), "complex64"),), lambda x: numpy(x, 1)),
        Sample(f"lax.{name}(x, (1,))", (array((2, 3), "bool"),), lambda x: numpy(x, 1)),
        Sample(f"lax.{name}(x, ())", (array((2,)),), smooth=False),
        Sample(f"lax.{name}(x, (0,))", (array((0, 2)),), wrt=()),
        *(
            Sample(f"lax.{name}(x, (0,))", (array((0, 2), dtype),), wrt=())
            for dtype in ("int8", "uint32", "bool", "complex64", "float8_e4m3fn")
        ),
        Sample(f"lax.{name}(x, (0,))", (values([1.0, 1.0, -3.0, 1.0, -3.0]),), smooth=False),
        Sample(f"lax.{name}(x, (0,))", (values([1.0, np.nan, np.inf, -np.inf]),), wrt=()),
        Sample(f"lax.{name}(x, (0,))", (values([0.0, -0.0]),), wrt=()),
        Sample(
            f"lax.{name}(x, (0,))", (values([1 + 2j, 1 - 2j, 1 + 2j], "complex64"),), smooth=False
        ),
    ]


def indexed(name, numpy):
    """Rows for argmax or argmin."""
    call = f"lax.{name}(x, 1, np.int32)"
    return [
        Sample(call, (array((2, 3, 4)),), lambda x: numpy(x, 1)),
        *(
            Sample(call, (array((2, 5), dtype),), lambda x: numpy(x, 1))
            for dtype in (*NUMBERS[1:], "bool")
        ),
        Sample(call, (array((2, 5), "complex64"),), lambda x: numpy(x, 1), agrees="no"),
        Sample(f"lax.{name}(x, 0, np.uint8)", (values([1.0, 3.0, 3.0, -2.0, -2.0]),)),
        Sample(f"lax.{name}(x, 0, np.int64)", (array((4,), "float64"),)),
        Sample(f"lax.{name}(x, 0, np.int32)", (values([1.0, np.nan, np.inf, np.nan, -np.inf]),)),
        Sample(f"lax.{name}(x, 0, np.int32)", (values([np.inf, -np.inf, -np.inf]),)),
        Sample(f"lax.{name}(x, 0, np.int16)", (values([0.0, -0.0]),)),
    ]


samples = [
    *extreme("reduce_max", np.max),
    *extreme("reduce_min", np.min),
    Sample("lax.reduce_prod(x, (0, 2))", (array((2, 3, 4)),), lambda x: x.prod((0, 2)), agrees="close"),
    *(
        Sample("lax.reduce_prod(x, (1,))", (array((2, 3), dtype),), lambda x: x.prod(1), agrees="close")
        for dtype in (*NUMBERS, "complex64")
    ),
    *(Sample("lax.reduce_prod(x, (0,))", (array((n,), "complex64"),), agrees="close") for n in (1, 2, 5, 8)),
    Sample("lax.reduce_prod(x, ())", (array((2,)),)),
    Sample("lax.reduce_prod(x, (0,))", (array((0, 2)),)),
    Sample("lax.reduce_prod(x, (0,))", (values([0.0, 2.0, 3.0]),)),
    Sample("lax.reduce_prod(x, (0,))", (values([0.0, 2.0, 0.0]),)),
    *(
        Sample(f"lax.reduce_{name}(x, (0, 2))", (array((2, 3, 4), dtype),), lambda x, f=f: f(f(x, axis=2), axis=0))
        for name, f in (
            ("and", np.bitwise_and.reduce), ("or", np.bitwise_or.reduce), ("xor", np.bitwise_xor.reduce),
        )
        for dtype in ("bool", "int32", "uint8", "int64")
    ),
    *(
        Sample(f"lax.reduce_{name}(x, (0,))", (array((0, 2), dtype),))
        for name in ("and", "or", "xor")
        for dtype in ("bool", "int8", "uint8")
    ),
    *indexed("argmax", np.argmax),
    *indexed("argmin", np.argmin),
]  # fmt: skip
