"""What the guides to kernels do: positions and blocks, sums over an axis, products of matrices, blocks that data choose."""

import functools

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import checkify, pallas
from pellucid.experimental.pallas import BlockSpec, Element, pallas_call, tpu

F32, I32 = np.float32, np.int32
RNG = np.random.default_rng(0)


def like(shape, dtype=F32):
    return pl.ShapeDtypeStruct(shape, dtype)


def small(*shape, dtype=F32):
    """Small integers, whose sums are exact in every dtype."""
    return RNG.integers(-4, 5, shape).astype(dtype)


# Positions and blocks ---------------------------------------------------------------------------------------


def test_a_program_writes_at_its_position():
    def kernel(o_ref):
        i = pallas.program_id(0)
        o_ref[i] = i * i

    np.testing.assert_array_equal(
        pallas_call(kernel, like((6,), I32), grid=(6,))(), np.arange(6) ** 2
    )


def numbered(shape, block, grid, index_map=lambda i, j, *_: (i, j)):
    """In each element the digits of the position of the program that wrote it last."""

    def kernel(o_ref):
        number = jnp.int32(0)
        for axis in range(len(grid)):
            number = number * 10 + pallas.program_id(axis)
        o_ref[...] = jnp.full(o_ref.shape, number)

    return np.asarray(
        pallas_call(kernel, like(shape, I32), grid=grid, out_specs=BlockSpec(block, index_map))()
    )


def rows_and_columns(shape, size, last=0):
    """`10 i + j` for the block (i, j) of each element; with the digit `last` behind."""
    i, j = np.ix_(*[np.arange(n) // s for n, s in zip(shape, size, strict=True)])
    number = 10 * i + j
    return number * 10 + last if last else number


@pytest.mark.parametrize(
    ("shape", "block", "grid"),
    [((8, 6), (2, 3), (4, 2)), ((7, 5), (2, 3), (4, 2)), ((1, 2), (2, 3), (1, 1))],
)
def test_blocks_that_divide_an_array_or_reach_beyond_it(shape, block, grid):
    np.testing.assert_array_equal(numbered(shape, block, grid), rows_and_columns(shape, block))


def test_the_last_program_that_sees_a_block_decides():
    np.testing.assert_array_equal(
        numbered((8, 6), (2, 3), (4, 2, 10)), rows_and_columns((8, 6), (2, 3), 9)
    )
    for block in (None, (4, 4)):
        np.testing.assert_array_equal(numbered((4, 4), block, (2, 3), None), np.full((4, 4), 12))


def test_blocks_by_their_first_element_in_results():
    by_element = lambda i, j: (2 * i, 3 * j)
    plain = numbered((8, 6), (Element(2), Element(3)), (4, 2), by_element)
    np.testing.assert_array_equal(plain, rows_and_columns((8, 6), (2, 3)))
    padded = numbered((7, 7), (Element(2, (1, 0)), Element(3, (2, 0))), (4, 3), by_element)
    np.testing.assert_array_equal(padded, rows_and_columns((8, 9), (2, 3))[1:, 2:])


def test_a_dimension_that_the_kernel_does_not_see():
    def kernel(o_ref):
        assert o_ref.shape == (2,)
        o_ref[...] = jnp.full(2, 10 * pallas.program_id(1) + pallas.program_id(0))

    spec = BlockSpec((None, 2), lambda i, j: (i, j))
    y = pallas_call(kernel, like((3, 4), I32), grid=(3, 2), out_specs=spec)()
    np.testing.assert_array_equal(y, [[i, i, 10 + i, 10 + i] for i in range(3)])


# Products of matrices -----------------------------------------------------------------------------------------


def by_halves(x, y, activation):
    """`activation(x @ y)`, a quarter of it in each program."""

    def kernel(x_ref, y_ref, z_ref, *, activation):
        z_ref[...] = activation(x_ref[...] @ y_ref[...])

    (m, k), n = x.shape, y.shape[1]
    return pallas_call(
        functools.partial(kernel, activation=activation),
        like((m, n), x.dtype),
        grid=(2, 2),
        in_specs=[
            BlockSpec((m // 2, k), lambda i, j: (i, 0)),
            BlockSpec((k, n // 2), lambda i, j: (0, j)),
        ],
        out_specs=[BlockSpec((m // 2, n // 2), lambda i, j: (i, j))],
    )(x, y)


def test_a_fused_activation_and_its_batch():
    x, y = small(3, 4, 6), small(3, 6, 8)
    np.testing.assert_array_equal(by_halves(x[0], y[0], pl.nn.relu), np.maximum(x[0] @ y[0], 0))
    many = pl.vmap(functools.partial(by_halves, activation=pl.nn.relu))
    np.testing.assert_array_equal(many(x, y), np.maximum(x @ y, 0))


def blockwise(x, y, size, *, is_transposed=False, activation=lambda z: z):
    """`activation(x @ y)` with sums in scratch of another dtype; `y` may be given transposed."""
    sums = I32 if x.dtype == np.int8 else F32
    contracted = (((1,), (1 if is_transposed else 0,)), ((), ()))

    def kernel(x_ref, y_ref, z_ref, sum_ref, *, n_steps):
        @pallas.when(pallas.program_id(2) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += lax.dot_general(
            x_ref[...], y_ref[...], contracted, preferred_element_type=sums
        )

        @pallas.when(pallas.program_id(2) == n_steps - 1)
        def _():
            z_ref[...] = activation(sum_ref[...]).astype(z_ref.dtype)

    (m, k), n = x.shape, y.shape[0 if is_transposed else 1]
    y_block = (lambda i, j, k: (j, k)) if is_transposed else (lambda i, j, k: (k, j))
    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=(m // size, n // size, k // size),
        in_specs=[
            BlockSpec((size, size), lambda i, j, k: (i, k)),
            BlockSpec((size, size), y_block),
        ],
        out_specs=BlockSpec((size, size), lambda i, j, k: (i, j)),
        scratch_shapes=[tpu.VMEM((size, size), sums)],
    )
    order = tpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"))
    call = pallas_call(
        functools.partial(kernel, n_steps=k // size),
        like((m, n), sums if sums == I32 else x.dtype),
        grid_spec=spec,
        compiler_params=order,
    )
    return call(x, y)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_sums_in_scratch_of_another_dtype(dtype, is_transposed):
    x, y = small(4, 8), small(8, 6)
    given = jnp.asarray(y.T if is_transposed else y, dtype)
    z = blockwise(
        jnp.asarray(x, dtype), given, 2, is_transposed=is_transposed, activation=lambda z: z * 2
    )
    assert z.dtype == (I32 if dtype == "int8" else dtype)
    np.testing.assert_array_equal(z.astype(F32), 2 * (x @ y))


# Sums over an axis ------------------------------------------------------------------------------------------


def summed(x, begins, **options):
    """The sum over the first axis of an array, one row of matrices at a time."""

    def kernel(x_ref, o_ref):
        if begins:

            @pallas.when(pallas.program_id(1) == 0)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    n, m, k = x.shape
    return pallas_call(
        kernel,
        like((m, k), x.dtype),
        grid=(m // 2, n),
        in_specs=[BlockSpec((None, 2, k), lambda i, j: (j, i, 0), memory_space=tpu.VMEM)],
        out_specs=BlockSpec((2, k), lambda i, j: (i, 0)),
        **options,
    )(x)


def test_sums_over_an_axis_begin_at_zero():
    x = small(3, 4, 5)
    np.testing.assert_array_equal(summed(x, True), x.sum(0))
    assert np.isnan(summed(x, False)).all()  # a result begins undefined
    with pytest.raises(ValueError, match="parallel axis 1"):
        summed(
            x,
            True,
            compiler_params=tpu.CompilerParams(dimension_semantics=("arbitrary", "parallel")),
        )


def test_a_loop_over_parts_of_a_reference():
    def kernel(x_ref, y_ref, o_ref):
        def body(k, total):
            part = pallas.ds(pallas.multiple_of(k * 2, 2), 2)
            return total + x_ref[:, part] @ y_ref[part, :]

        o_ref[...] = lax.fori_loop(
            0, x_ref.shape[1] // 2, body, jnp.zeros(o_ref.shape, o_ref.dtype)
        )

    x, y = small(4, 6), small(6, 3)
    anywhere = BlockSpec(memory_space=pallas.ANY)
    rows = BlockSpec((2, 6), lambda i: (i, 0))
    call = pallas_call(
        kernel,
        like((4, 3)),
        grid=2,
        in_specs=[rows, anywhere],
        out_specs=BlockSpec((2, 3), lambda i: (i, 0)),
    )
    np.testing.assert_array_equal(call(x, y), x @ y)


# Blocks that data choose ----------------------------------------------------------------------------------------


def test_a_block_at_a_checked_start():
    def copy(_, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    @checkify.checkify
    @functools.partial(pl.jit, static_argnums=2)
    def block_at(x, starts, sizes):
        for start, size in zip(starts, sizes, strict=True):
            checkify.check(start % size == 0, "starts are multiples of sizes")
        spec = tpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1, 1),
            in_specs=[BlockSpec(sizes, lambda i, j, block: (block[0], block[1]))],
            out_specs=BlockSpec(sizes, lambda *_: (0, 0)),
        )
        blocks = jnp.array([start // size for start, size in zip(starts, sizes, strict=True)])
        return pallas_call(copy, like(sizes, x.dtype), grid_spec=spec)(blocks, x)

    x = np.arange(64, dtype=I32).reshape(8, 8)
    error, y = block_at(x, (4, 6), (4, 2))
    assert error.get() is None
    np.testing.assert_array_equal(y, x[4:8, 6:8])
    assert "multiples of sizes" in block_at(x, (3, 6), (4, 2))[0].get()


def sparse_product(blocks, rows, columns, y, size, n_rows):
    """The product of a matrix given by its blocks, at (rows, columns) of them in the order of rows, with `y`."""
    n = len(blocks)

    def kernel(row_ref, column_ref, x_ref, y_ref, _, o_ref, sum_ref):
        k = pallas.program_id(1)
        row = row_ref[k]

        @pallas.when((k == 0) | (row != row_ref[jnp.maximum(k - 1, 0)]))
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += jnp.dot(x_ref[0], y_ref[...], preferred_element_type=F32)

        @pallas.when((k == n - 1) | (row != row_ref[jnp.minimum(k + 1, n - 1)]))
        def _():
            o_ref[...] = sum_ref[...].astype(o_ref.dtype)

    result = BlockSpec((size, size), lambda j, k, rows, columns: (rows[k], j))
    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(y.shape[1] // size, n),
        in_specs=[
            BlockSpec((1, size, size), lambda j, k, rows, columns: (k, 0, 0)),
            BlockSpec((size, size), lambda j, k, rows, columns: (columns[k], j)),
            result,
        ],
        out_specs=result,
        scratch_shapes=[tpu.VMEM((size, size), F32)],
    )
    shape = (n_rows * size, y.shape[1])
    call = pallas_call(kernel, like(shape, y.dtype), grid_spec=spec, input_output_aliases={4: 0})
    return call(rows, columns, blocks, y, jnp.zeros(shape, y.dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_product_over_the_blocks_that_are_not_zero(dtype):
    size, rows, columns = 2, np.array([0, 0, 1, 3], I32), np.array([1, 3, 0, 3], I32)
    blocks, y = small(4, size, size), small(8, 6)
    x = np.zeros((8, 8), F32)
    for block, i, j in zip(blocks, rows, columns, strict=True):
        x[i * size : (i + 1) * size, j * size : (j + 1) * size] = block
    product = lambda b, y: sparse_product(b, rows, columns, y, size, 4)
    z = product(jnp.asarray(blocks, dtype), jnp.asarray(y, dtype))
    np.testing.assert_array_equal(z.astype(F32), x @ y)
    if dtype == "float32":
        gradient = pl.grad(lambda y: product(blocks, y).sum())(y)
        np.testing.assert_array_equal(gradient, x.T @ np.ones((8, 6), F32))


def test_blocks_of_dense_data_that_a_mask_skips():
    """A skipped block isn't fetched: the index map names the next one that is needed."""
    mask = np.array([[1, 0, 1], [0, 0, 1]], I32)
    n_rows, n_columns = mask.shape
    needed = np.nonzero(mask.ravel())[0]
    following = np.array([needed[needed >= k].min() for k in range(mask.size)], I32)

    def kernel(mask_ref, _, x_ref, o_ref):
        is_kept = mask_ref[pallas.program_id(0) * n_columns + pallas.program_id(1)] != 0
        o_ref[...] = jnp.zeros_like(o_ref)

        @pallas.when(is_kept)
        def _():
            o_ref[...] = x_ref[...] * 2

    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=mask.shape,
        in_specs=[
            BlockSpec(
                (2, 2),
                lambda i, j, _, following: (
                    following[i * n_columns + j] // n_columns,
                    following[i * n_columns + j] % n_columns,
                ),
            )
        ],
        out_specs=BlockSpec((2, 2), lambda i, j, *_: (i, j)),
    )
    x = small(2 * n_rows, 2 * n_columns)
    y = pallas_call(kernel, like(x.shape), grid_spec=spec)(mask.ravel(), following, x)
    np.testing.assert_array_equal(y, 2 * x * np.kron(mask, np.ones((2, 2))))
