"""Rows for windows whose place is known only when the program runs."""

from tests.laws.sample import Sample, array, values


def index(value: int, dtype: str = "int32"):
    return values(value, dtype)


samples = [
    *(Sample("lax.dynamic_slice(x, (y, z), (2, 3))", (array((3, 4)), index(i), index(1)))
      for i in (-9, -2, 0, 1, 3, 7)),
    *(Sample("lax.dynamic_slice(x, (y,), (2,), allow_negative_indices=False)", (array((5,)), index(i)))
      for i in (2, 9)),
    Sample("lax.dynamic_slice(x, (y, 0, y), (1, 2, 1))", (array((3, 4, 2)), index(1))),
    Sample("lax.dynamic_slice(x, (-1, y), (1, 1), allow_negative_indices=(True, False))", (array((3, 4)), index(2))),
    Sample("lax.dynamic_slice(x, y, (1, 2))", (array((3, 4)), values([1, -2], "int32"))),
    Sample("lax.dynamic_slice(x, (1, -1), (1, 1))", (array((3, 4)),)),
    Sample("lax.dynamic_slice(x, (), ())", (array(()),)),
    Sample("lax.dynamic_slice(x, (y,), (0,))", (array((0,)), index(1))),
    *(Sample("lax.dynamic_slice(x, (y,), (2,))", (array((5,), dtype), index(1)))
      for dtype in ("bfloat16", "int8", "uint32", "bool", "complex64", "float64")),
    *(Sample("lax.dynamic_slice(x, (y,), (2,))", (array((5,)), index(3, dtype)))
      for dtype in ("uint8", "int8", "uint32", "int64")),
    Sample("lax.dynamic_slice(x, (y,), (2,))", (array((300,)), index(-120, "int8")), agrees="no"),
    Sample("lax.dynamic_slice_in_dim(x, y, 2, 1)", (array((2, 4)), index(-3))),
    # The reference calls a function of its own here, which only its program shows.
    Sample("lax.dynamic_index_in_dim(x, y, 1, False)", (array((2, 4)), index(-1)), same_text=False),
    Sample("lax.dynamic_index_in_dim(x, y)", (array((2, 4)), index(1)), same_text=False),
    Sample("lax.index_take(x, (y, z), (0, 1))",
           (array((3, 4, 2)), values([0, -1, 7], "int32"), values([1, 2, -6], "int32")), same_text=False),
    Sample("lax.index_take(x, (y,), (1,))", (array((3, 4)), values([3, -3], "int32")), same_text=False),
    *(Sample("lax.dynamic_update_slice(x, y, (z,))", (array((6,)), array((2,)), index(i))) for i in (-9, -2, 1, 5)),
    Sample("lax.dynamic_update_slice(x, y, (z, w))", (array((3, 4)), array((2, 3)), index(1), index(0))),
    Sample("lax.dynamic_update_slice(x, y, (z,))", (array((3,)), array((0,)), index(1))),
    Sample("lax.dynamic_update_slice(x, y, ())", (array(()), array(()))),
    *(Sample("lax.dynamic_update_slice(x, y, (z,))", (array((5,), dtype), array((2,), dtype), index(1)))
      for dtype in ("bfloat16", "int8", "uint32", "bool", "complex64", "float64")),
    Sample("lax.dynamic_update_slice_in_dim(x, y, z, 1)", (array((2, 4)), array((2, 2)), index(-3))),
    Sample("lax.dynamic_update_index_in_dim(x, y, z, 0)", (array((3, 4)), array((4,)), index(1)), same_text=False),
    Sample("lax.dynamic_update_index_in_dim(x, y, z, 1)", (array((3, 4)), array((3, 1)), index(-1)), same_text=False),
]  # fmt: skip
