"""Rows for static windows: slice and pad, and slices along one axis."""

import numpy as np

from tests.laws.sample import Sample, array, python, values

PADS = (
    "((1, 2, 0), (-1, 0, 3))",
    "((-1, -1, 2), (0, 0, 0))",
    "((0, 0, 0), (0, 0, 0))",
    "((3, -2, 1), (-2, 5, 1))",
    "((-1, -2, 0), (1, 0, 0))",
)

samples = [
    Sample("lax.slice(x, (1, 0), (3, 4), (1, 3))", (array((3, 4)),), lambda x: x[1:3, 0:4:3]),
    Sample("lax.slice(x, (1, 2), (1, 4))", (array((3, 4)),), lambda x: x[1:1, 2:4]),
    Sample("lax.slice(x, (0, 1, 0, 2), (1, 3, 2, 3))", (array((2, 3, 2, 3)),)),
    Sample("lax.slice(x, (), ())", (array(()),)),
    *(Sample("lax.slice(x, (1,), (6,), (2,))", (array((7,), dtype),), lambda x: x[1:6:2])
      for dtype in ("bfloat16", "int8", "uint32", "bool", "complex64", "float64", "float8_e4m3fn")),
    Sample("lax.slice_in_dim(x, -3, None, 2, axis=-1)", (array((2, 5)),), lambda x: x[:, -3::2]),
    Sample("lax.slice_in_dim(x, None, -1, axis=0)", (array((3, 2)),), lambda x: x[:-1]),
    Sample("lax.index_in_dim(x, -1, 1)", (array((2, 3)),), lambda x: x[:, -1:]),
    Sample("lax.index_in_dim(x, 1, 0, keepdims=False)", (array((2, 3), "int32"),), lambda x: x[1]),
    *(Sample(f"lax.pad(x, y, {pad})", (array((3, 4)), array(()))) for pad in PADS),
    Sample("lax.pad(x, y, ((1, 2, 2),))", (array((0,)), array(()))),
    Sample("lax.pad(x, y, ())", (array(()), array(()))),
    Sample("lax.pad(x, y, ((1, 0, 0), (0, 1, 0), (0, 0, 1)))", (array((2, 1, 3)), array(()))),
    Sample("lax.pad(x, y, ((1, 1, 1),))", (array((3,)), python(1.5))),
    *(Sample("lax.pad(x, y, ((1, -1, 1),))", (array((3,), dtype), values(1, dtype)))
      for dtype in ("bfloat16", "int32", "uint8", "bool", "complex64", "float64")),
    Sample("lax.pad(x, y, ((2, 1, 0),))", (array((3,)), array(())), lambda x, y: np.pad(x, (2, 1), constant_values=y)),
]  # fmt: skip
