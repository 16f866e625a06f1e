"""Rows for comparison, choice, and operations on bits."""

import numpy as np

from tests.laws.sample import COMPLEXES, FLOATS, INTEGERS, Sample, array, python, rows, values

ORDERED = (*FLOATS, *INTEGERS, "bool")
PAIR = ((-2.0, 2.0), (-2.0, 2.0))
BITS = ("int32", "uint8", "int8", "uint32", "int64")
NAN, INF = np.nan, np.inf
X = values(np.repeat([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN, -NAN], 8))
Y = values(np.tile([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN, -NAN], 8))
TOTAL_ORDER = {
    name: (f"lax.{name}_p.bind(x, y)", f"lax.bind1(lax.{name}_p, x, y)")
    for name in ("eq_to", "le_to", "lt_to")
}
COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal, "lt": np.less,
}  # fmt: skip


def chosen(which, *cases):
    """Cases by index, one for each element."""
    which = np.broadcast_to(which, cases[0].shape).astype(int)
    return np.choose(which, cases)


samples = [
    *[row for name, reference in COMPARISONS.items() for row in rows(f"lax.{name}(x, y)", ORDERED, reference, ranges=PAIR)],
    *[row for name in ("eq", "ne") for row in rows(f"lax.{name}(x, y)", COMPLEXES, COMPARISONS[name], ranges=PAIR)],
    *[Sample(f"lax.{name}(x, y)", (X, Y), reference, smooth=False) for name, reference in COMPARISONS.items()],
    Sample("lax.lt(x, y)", (array((2, 3)), python(0.5)), np.less),
    Sample("lax.eq(x, y)", (python(1.0), python(2.0))),
    *[Sample(ours, operands, jax_call=theirs) for theirs, ours in TOTAL_ORDER.values()
      for operands in ((X, Y), (array((3,), "int32"), array((3,), "int32")), (array((3,), "bool"), array((3,), "bool")))],
    *rows("lax.is_finite(x)", FLOATS, np.isfinite),
    Sample("lax.is_finite(x)", (X,), np.isfinite),
    Sample("lax.is_finite(x)", (python(1.0),)),
    # Bits
    *rows("lax.bitwise_and(x, y)", (*BITS, "bool"), np.bitwise_and, ranges=((-100, 100),) * 2),
    *rows("lax.bitwise_or(x, y)", (*BITS, "bool"), np.bitwise_or, ranges=((-100, 100),) * 2),
    *rows("lax.bitwise_xor(x, y)", (*BITS, "bool"), np.bitwise_xor, ranges=((-100, 100),) * 2),
    *rows("lax.bitwise_not(x)", (*BITS, "bool"), np.bitwise_not, ranges=((-100, 100),)),
    *rows("lax.shift_left(x, y)", BITS, np.left_shift, ranges=((-100, 100), (0, 7))),
    *rows("lax.shift_right_arithmetic(x, y)", ("int32", "int8", "int64"), np.right_shift, ranges=((-100, 100), (0, 7))),
    *rows("lax.shift_right_arithmetic(x, y)", ("uint8",), ranges=((0, 255), (0, 7))),
    *rows("lax.shift_right_logical(x, y)", ("uint8", "uint32"), np.right_shift, ranges=((0, 255), (0, 7))),
    *rows("lax.shift_right_logical(x, y)", ("int32", "int8"), ranges=((-100, 100), (0, 7))),
    *[Sample(f"lax.{name}(x, y)", (values([1, -1, 5, -5], "int32"), values([32, 40, -1, 31], "int32")))
      for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical")],
    *rows("lax.population_count(x)", BITS, np.vectorize(lambda n: (int(n) % 256).bit_count()), ranges=((0, 100),)),
    *rows("lax.clz(x)", BITS, ranges=((-100, 100),)),
    Sample("lax.clz(x)", (values([0, 1, -1, 2**30], "int32"),), lambda x: np.array([32, 31, 0, 1])),
    # Choice
    Sample("lax.select_n(x, y, z)", (array((2, 3), "bool"), array((2, 3)), array((2, 3))), chosen),
    Sample("lax.select_n(x, y, z)", (array((), "bool"), array((2, 3)), array((2, 3))), chosen),
    Sample("lax.select_n(x, y, z)", (array((), "bool"), array(()), array(())), chosen),
    Sample("lax.select_n(x, y, z)", (array((0, 2), "bool"), array((0, 2)), array((0, 2)))),
    Sample("lax.select_n(x, y, z)", (array((3,), "int32", 0, 1), array((3,)), array((3,))), chosen),
    Sample("lax.select_n(x, y, z, w)", (array((4,), "int32", 0, 2), *[array((4,))] * 3), chosen),
    Sample("lax.select_n(x, y, z, w, v, u)", (array((2, 3, 2), "int32", 0, 4), *[array((2, 3, 2))] * 5), chosen),
    Sample("lax.select_n(x, y, z, w)", (array((), "int32", 0, 2), *[array((4,), "complex64")] * 3), chosen),
    Sample("lax.select_n(x, y, z, w)", (array((4,), "uint8", 0, 2), *[array((4,), "bfloat16")] * 3)),
    Sample("lax.select_n(x, y)", (array((4,), "bool"), array((4,))), agrees="no"),
    Sample("lax.select_n(x, y, z)", (array((3,), "bool"), array((3,), "bool"), array((3,), "bool")), chosen),
    Sample("lax.select(x, y, z)", (array((3,), "bool"), array((3,), "int8"), array((3,), "int8")), np.where),
    Sample("lax.select(True, x, y)", (python(2.0), python(3.0))),
    # clamp
    *rows("lax.clamp(x, y, z)", (*FLOATS, *INTEGERS), lambda a, x, b: np.clip(x, a, b),
          ranges=((-1.0, -0.5), (-2.0, 2.0), (0.5, 1.0))),
    Sample("lax.clamp(x, y, z)", (array((), low=-1, high=-0.5), array((2, 3)), array((), low=0.5, high=1)), wrt=(1,)),
    Sample("lax.clamp(x, y, z)", (array((2, 3), low=-1, high=-0.5), array((2, 3)), array((), low=0.5, high=1)), wrt=(0, 1)),
    # The reference can't differentiate by scalar bounds.
    Sample("lax.clamp(x, y, z)", (array((), low=-1, high=0), array((2, 3)), array((), low=0, high=1)), agrees="no"),
    Sample("lax.clamp(x, y, z)", (python(0.0), array((2, 3)), python(1.0)), wrt=(1,)),
    Sample("lax.clamp(x, y, z)", (python(0.0), python(2.0), python(1.0))),
    Sample("lax.clamp(x, y, z)", (values([0.0, 1.0, 2.0, 2.0]), values([0.0, 1.0, 3.0, 0.5]), values([1.0, 1.0, 3.0, 1.0])),
           smooth=False),
    Sample("lax.clamp(x, y, z)", (array((3,), "bool"), array((3,), "bool"), array((3,), "bool"))),
]  # fmt: skip
