"""Rows for ragged contraction and products of scaled blocks."""

import numpy as np

from tests.laws.sample import Sample, array, values

SIZES = values([2, 3], "int32")


def numbers(contract, batch, ragged, group):
    """Dimension numbers as text."""
    return f"lax.RaggedDotDimensionNumbers(({contract}, {batch}), {ragged}, {group})"


def general(lhs, rhs, sizes, *dims, dtype="float32", **options):
    """A use of ragged_dot_general."""
    call = f"lax.ragged_dot_general(x, y, z, {numbers(*dims)})"
    options = {"agrees": "close"} | options
    sizes = values(sizes, "int32")
    return Sample(call, (array(lhs, dtype), array(rhs, dtype), sizes), **options)


def by_rows(x, y, sizes):
    """Each row times the matrix of its group."""
    ends = np.cumsum(sizes)
    rows = []
    for i, row in enumerate(x):
        group = int(np.searchsorted(ends, i, side="right"))
        rows.append(row @ y[group] if group < len(y) else np.zeros(y.shape[2], row.dtype))
    return np.stack(rows) if rows else np.zeros((0, y.shape[2]))


def over_groups(x, y, sizes):
    """For each group, the product over its elements."""
    starts = np.cumsum(sizes) - sizes
    return np.stack([x[s : s + n].T @ y[s : s + n] for s, n in zip(starts, sizes, strict=True)])


FREE = ("((1,), (1,))", "((), ())", [0], [0])
CONTRACTED = ("((0,), (0,))", "((), ())", [0], [])

samples = [
    *(
        Sample("lax.ragged_dot(x, y, z)", (array((6, 3), dtype), array((2, 3, 4), dtype), SIZES), by_rows,
               agrees="close")
        for dtype in ("float32", "bfloat16", "float64", "complex64", "int32")
    ),
    Sample("lax.ragged_dot(x, y, z)", (array((6, 3)), array((2, 3, 4)), values([0, 9], "int32")), by_rows,
           agrees="close"),
    Sample("lax.ragged_dot(x, y, z)", (array((300, 1)), array((2, 1, 1)), values([200, 99], "uint8")), by_rows,
           agrees="no"),
    Sample("lax.ragged_dot(x, y, z)", (array((0, 3)), array((2, 3, 4)), SIZES), by_rows, agrees="close"),
    Sample("lax.ragged_dot(x, y, z, 'highest', np.float32)", (array((6, 3), "bfloat16"), array((2, 3, 4), "bfloat16"),
           SIZES), by_rows, (), agrees="close", same_text=False),
    general((6, 3), (2, 3, 4), [1, 2], *FREE),
    # permuted axes, batch axes, group sizes for each element of them
    general((3, 6, 2), (4, 3, 2, 2), [1, 3], "((0,), (1,))", "((2,), (3,))", [1], [2]),
    general((3, 6, 2), (4, 3, 2, 2), [[1, 3], [2, 4]], "((0,), (1,))", "((2,), (3,))", [1], [2]),
    general((2, 5, 3), (2, 3, 4), [2, 3], "((2,), (1,))", "((), ())", [1], [0]),
    general((2, 5, 3), (2, 3, 4), [[2, 3], [1, 1]], "((2,), (1,))", "((), ())", [1], [0]),
    general((5, 2, 3), (2, 3, 4), [2, 3], "((2,), (1,))", "((), ())", [0], [0]),
    # contracted; the reference library has no derivatives
    Sample(f"lax.ragged_dot_general(x, y, z, {numbers(*CONTRACTED)})", (array((6, 3)), array((6, 4)), SIZES), over_groups,
           (), agrees="close"),
    *(
        general(lhs, rhs, sizes, *dims, agrees="no")
        for lhs, rhs, sizes, dims in (
            ((6, 3), (6, 4), [2, 3], CONTRACTED),
            ((3, 6, 2), (4, 6, 2), [2, 3], ("((1,), (1,))", "((2,), (2,))", [1], [])),
            ((3, 6, 2), (4, 6, 2), [[2, 3], [1, 4]], ("((1,), (1,))", "((2,), (2,))", [1], [])),
            ((2, 6, 3), (6, 4, 2), [[2, 3], [1, 4]], ("((0, 1), (2, 0))", "((), ())", [1], [])),
            ((6, 2, 3), (6, 4, 2), [2, 3], ("((1, 0), (2, 0))", "((), ())", [0], [])),
        )
    ),
    # a batch axis
    general((6, 2, 3), (6, 3, 4), [2, 3], "((2,), (1,))", "((0,), (0,))", [0], [], agrees="no"),
    # scaled blocks
    Sample(
        "lax.scaled_dot(x, y, lhs_scale=z, rhs_scale=w)",
        (array((2, 8), "float8_e4m3fn"), array((8, 3), "float8_e4m3fn"), values([[1, 2], [4, 0.5]], "float8_e8m0fnu"),
         values([[1, 2, 4]], "float8_e8m0fnu")),
        lambda x, y, z, w: (x * np.repeat(z, 4, 1)) @ (y * w), wrt=(), agrees="close",
    ),
    Sample("lax.scaled_dot(x, y)", (array((2, 3, 8), "bfloat16"), array((2, 8, 3), "bfloat16")), np.matmul, wrt=(),
           agrees="close"),
    Sample(
        "lax.scaled_dot(x, y, rhs_scale=z, preferred_element_type=np.float32, dimension_numbers=(((0,), (1,)), ((), ())))",
        (array((4, 2), "bfloat16"), array((3, 4), "bfloat16"), array((3, 2), "bfloat16")),
        lambda x, y, z: x.T @ (y * np.repeat(z, 2, 1)).T, wrt=(), agrees="close", tolerance=0.05,
    ),
]  # fmt: skip
