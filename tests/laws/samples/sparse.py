"""Rows for sparse primitives: buffers as operands, with rows that occur twice and padding."""

from __future__ import annotations

from tests.laws.sample import Sample, array, values

INDICES = values([[0, 1], [2, 3], [0, 1], [1, 0], [3, 4]], "int32")
"""Rows for a matrix [3, 4]: one twice, one padding."""
BATCHED = values([[[0], [3], [0]], [[2], [1], [4]]], "int32")
"""Rows for an array [2, 4] with one batch dimension."""
ROWS, COLUMNS = values([0, 2, 0, 1, 3], "int32"), values([1, 3, 1, 0, 4], "int32")
STARTS = values([0, 2, 2, 4], "int32")
INFO, INFO1 = "sparse.SparseInfo((3, 4))", "sparse.SparseInfo((2, 4))"
DATA, DATA1 = array((5,)), array((2, 3))


def row(call: str, *operands, **options) -> Sample:
    """A row of this library alone: the names of its primitives take other buffers in the reference."""
    options = {"agrees": "no", "same_text": False} | options
    return Sample(f"sparse.{call}", operands, **options)


def product(name: str, info: str, numbers: str, buffers: str = "x, y, z") -> str:
    return (
        f"{name}.bind({buffers}, dimension_numbers={numbers}, lhs_spinfo={info}, "
        "preferred_element_type=None)"
    )


MATMUL = "(((1,), (0,)), ((), ()))"
TRANSPOSED = "(((0,), (0,)), ((), ()))"


def samples_of_bcoo():
    yield row(f"bcoo_todense_p.bind(x, y, spinfo={INFO})", DATA, INDICES)
    yield row(f"bcoo_todense_p.bind(x, y, spinfo={INFO})", array((5,), "complex64"), INDICES)
    yield row(f"bcoo_todense_p.bind(x, y, spinfo={INFO1})", DATA1, BATCHED)
    yield row(f"bcoo_todense_p.bind(x, y, spinfo={INFO1})", array((1, 3)), BATCHED)
    yield row("bcoo_extract_p.bind(y, x, assume_unique=True)", array((3, 4)), INDICES)
    yield row("bcoo_extract_p.bind(y, x, assume_unique=False)", array((2, 4)), BATCHED)
    yield row(
        "bcoo_fromdense_p.bind(x, nse=5, n_batch=0, n_dense=0, index_dtype=np.dtype('int32'))",
        values([[0, 1.5, 0, 2], [0.5, 0, 0, 0], [0, 0, 0, -1]]),
        smooth=False,
    )
    yield row(f"bcoo_sort_indices_p.bind(x, y, spinfo={INFO})", DATA, INDICES)
    yield row(f"bcoo_sum_duplicates_p.bind(x, y, spinfo={INFO}, nse=3)", DATA, INDICES)
    yield row(f"bcoo_transpose_p.bind(x, y, permutation=(1, 0), spinfo={INFO})", DATA, INDICES)
    yield row(product("bcoo_dot_general_p", INFO, MATMUL), DATA, INDICES, array((4, 2)))
    yield row(product("bcoo_dot_general_p", INFO, TRANSPOSED), DATA, INDICES, array((3,)))
    yield row(product("bcoo_dot_general_p", INFO1, MATMUL), DATA1, BATCHED, array((4, 2)))
    yield row(
        product("bcoo_dot_general_p", INFO1, "(((1,), (1,)), ((0,), (0,)))"), DATA1, BATCHED, array((2, 4, 2))
    )  # fmt: skip
    yield row(product("bcoo_dot_general_p", INFO1, TRANSPOSED), DATA1, BATCHED, array((2,)))
    yield row(
        f"bcoo_dot_general_sampled_p.bind(x, y, z, dimension_numbers={MATMUL})",
        array((3, 2)), array((2, 4)), INDICES,
    )  # fmt: skip
    yield row(
        "bcoo_spdot_general_p.bind(x, y, z, w, dimension_numbers=(((1,), (1,)), ((), ())), "
        f"lhs_spinfo={INFO}, rhs_spinfo={INFO}, preferred_element_type=None)",
        DATA, INDICES, DATA, INDICES,
    )  # fmt: skip


def samples_of_rows():
    yield row(f"bcsr_todense_p.bind(x, y, z, spinfo={INFO})", DATA, COLUMNS, STARTS)
    yield row("bcsr_extract_p.bind(y, z, x)", array((3, 4)), COLUMNS, STARTS)
    yield row(
        product("bcsr_dot_general_p", INFO, MATMUL, "x, y, z, w"), DATA, COLUMNS, STARTS, array((4,))
    )  # fmt: skip
    yield row(f"coo_todense_p.bind(x, y, z, spinfo={INFO})", DATA, ROWS, COLUMNS)
    yield row("csr_todense_p.bind(x, y, z, shape=(3, 4))", DATA, COLUMNS, STARTS)
    for name, dense in (("matvec", array((4,))), ("matmat", array((4, 2)))):
        yield row(f"coo_{name}_p.bind(x, y, z, w, spinfo={INFO}, transpose=False)", DATA, ROWS, COLUMNS, dense)  # fmt: skip
        yield row(f"csr_{name}_p.bind(x, y, z, w, shape=(3, 4), transpose=False)", DATA, COLUMNS, STARTS, dense)  # fmt: skip
    matrix = values([[0, 1.5, 0, 2], [0.5, 0, 0, 0], [0, 0, 0, -1]])
    for name in ("coo", "csr"):
        yield row(
            f"{name}_fromdense_p.bind(x, nse=5, index_dtype=np.dtype('int32'))",
            matrix,
            smooth=False,
        )
    yield row(
        "bcsr_fromdense_p.bind(x, nse=5, n_batch=0, n_dense=0, index_dtype=np.dtype('int32'))",
        matrix,
        smooth=False,
    )
    yield row("todense(sparse.BCOO((x, y), shape=(3, 4)))", DATA, INDICES)


samples = [*samples_of_bcoo(), *samples_of_rows()]
