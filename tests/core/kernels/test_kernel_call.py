"""`pallas_call`: what kernels compute, how they are transformed, and which mistakes are found before they run."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.errors import CheckError
from pellucid.experimental import checkify, pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu

X = np.arange(8, dtype=np.float32)
F32 = np.float32


def like(shape, dtype=F32):
    return pl.ShapeDtypeStruct(shape, dtype)


BLOCK = BlockSpec((2,), lambda i: (i,))
THREE = BlockSpec((3,), lambda i: (i,))
APART = BlockSpec((pallas.Element(2),), lambda i: (3 * i,))


def squared(x_ref, o_ref):
    o_ref[...] = x_ref[...] ** 2


def square(x, **options):
    return pallas_call(
        squared, like(x.shape), grid=4, in_specs=[BLOCK], out_specs=BLOCK, **options
    )(x)


def matmul(m, k, n, size, dtype=F32):
    """A product of matrices in blocks, with a sum in scratch."""

    def multiply(x_ref, y_ref, o_ref, sum_ref):
        @pallas.when(pallas.program_id(2) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...] @ y_ref[...]

        @pallas.when(pallas.program_id(2) == pallas.num_programs(2) - 1)
        def _():
            o_ref[...] = sum_ref[...]

    return pallas_call(
        multiply,
        like((m, n), dtype),
        grid=(m // size, n // size, k // size),
        in_specs=[
            BlockSpec((size, size), lambda i, j, k: (i, k)),
            BlockSpec((size, size), lambda i, j, k: (k, j)),
        ],
        out_specs=BlockSpec((size, size), lambda i, j, k: (i, j)),
        scratch_shapes=[tpu.VMEM((size, size), dtype)],
    )


A = np.random.default_rng(0).integers(-4, 5, (4, 6)).astype(F32)
B = np.random.default_rng(1).integers(-4, 5, (6, 8)).astype(F32)


def primitives_of(jaxpr):
    names = set()
    for equation in jaxpr.eqns:
        names.add(equation.primitive.name)
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    names |= primitives_of(inner)
    return names


def program_of(call, *args):
    return pl.make_jaxpr(call)(*args).eqns[0].params["jaxpr"]


# Results ------------------------------------------------------------------------------------------------


def test_product_of_matrices():
    np.testing.assert_array_equal(matmul(4, 6, 8, 2)(A, B), A @ B)


def test_eager_jitted_in_loops_and_branches():
    np.testing.assert_array_equal(square(X), X**2)
    np.testing.assert_array_equal(pl.jit(square)(X), X**2)
    np.testing.assert_array_equal(lax.fori_loop(0, 2, lambda i, x: square(x), X), X**4)
    np.testing.assert_array_equal(lax.cond(True, square, lambda x: x, X), X**2)
    xs = np.stack([X, X + 1])
    np.testing.assert_array_equal(lax.scan(lambda c, x: (c, square(x)), 0, xs)[1], xs**2)


@pytest.mark.parametrize(
    ("rank", "dtype"),
    [(n, "float32") for n in range(5)]
    + [(2, d) for d in ("bfloat16", "int8", "uint32", "bool", "complex64")],
)
def test_ranks_and_dtypes(rank, dtype):
    shape = (5, 3, 4, 2)[:rank]
    block = (2, 3, 3, 1)[:rank]
    x = (np.arange(np.prod(shape, dtype=int)) % 7).reshape(shape).astype(dtype)
    spec = BlockSpec(block, lambda *ids: ids)
    grid = tuple(pallas.cdiv(n, b) for n, b in zip(shape, block, strict=True))

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    call = pallas_call(copy, like(shape, dtype), grid=grid, in_specs=[spec], out_specs=spec)
    y = call(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y), x)


def test_arrays_without_elements_and_grids_without_programs():
    call = pallas_call(squared, like((0, 3)))
    assert call(np.zeros((0, 3), F32)).shape == (0, 3)
    call = pallas_call(squared, like((0,)), grid=1, in_specs=[BLOCK], out_specs=BLOCK)
    assert call(np.zeros(0, F32)).shape == (0,)
    call = pallas_call(squared, like((0,)), grid=0, in_specs=[BLOCK], out_specs=BLOCK)
    assert call(np.zeros(0, F32)).shape == (0,)
    call = pallas_call(squared, like((8,)), grid=0, in_specs=[BLOCK], out_specs=BLOCK)
    assert np.isnan(call(X)).all()


def test_arguments_that_are_none():
    def kernel(x_ref, missing, o_ref):
        assert missing is None
        o_ref[...] = x_ref[...] * 2

    call = pallas_call(kernel, like((8,)), grid=4, in_specs=[BLOCK, None], out_specs=BLOCK)
    np.testing.assert_array_equal(call(X, None), 2 * X)


def test_named_axes():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + pallas.program_id("rows") * pallas.num_programs("rows")

    call = pallas_call(kernel, like((8,)), grid=(("rows", 4),), in_specs=[BLOCK], out_specs=BLOCK)
    np.testing.assert_array_equal(call(X), X + 4 * (np.arange(8) // 2))


@pytest.mark.parametrize("semantics", ["arbitrary", "parallel"])
def test_elements_at_multiples_of_the_size_of_blocks(semantics):
    """Blocks by their first element that lie as blocks by number would, in another order than programs run."""

    def shifted(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 10 * pallas.program_id(0)

    turned = BlockSpec((pallas.Element(2),), lambda i: (6 - 2 * i,))
    order = tpu.CompilerParams(dimension_semantics=(semantics,))
    run_with = lambda ins, outs: pallas_call(
        shifted, X, grid=4, in_specs=[ins], out_specs=outs, compiler_params=order
    )
    position = np.arange(8) // 2
    blocks = X.reshape(4, 2)
    for call, wanted in [
        (run_with(turned, BLOCK), blocks[::-1].ravel() + 10 * position),
        (run_with(BLOCK, turned), (blocks + 10 * np.arange(4)[:, None])[::-1].ravel()),
        (run_with(turned, turned), X + 10 * (3 - position)),
    ]:
        np.testing.assert_array_equal(call(X), wanted)
        np.testing.assert_array_equal(pl.vmap(call)(np.stack([X, X + 1])), [wanted, wanted + 1])
        np.testing.assert_array_equal(pl.grad(lambda x, call=call: call(x).sum())(X), np.ones(8))


def test_a_bound_of_a_slice_ends_it():
    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    call = pallas_call(
        copy,
        like((3, 4)),
        grid=3,
        in_specs=[BlockSpec((pallas.BoundedSlice(4),), lambda i: (pallas.ds(2 * i, 3),))],
        out_specs=BlockSpec((None, 4), lambda i: (i, 0)),
    )
    nan = np.nan
    np.testing.assert_array_equal(call(X), [[0, 1, 2, nan], [2, 3, 4, nan], [4, 5, 6, nan]])


def test_bounds_of_slices_may_be_traced():
    """Parts of different lengths, one after the other in one array, as rows of another one; and back."""
    ends, parts = np.array([0, 3, 4, 8], np.int32), BlockSpec((None, 4), lambda i, _: (i, 0))

    def part(i, ends):
        return (pallas.ds(ends[i], ends[i + 1] - ends[i]),)

    ragged = BlockSpec((pallas.BoundedSlice(4),), part)
    rows = np.array([[0, 1, 2, np.nan], [3, np.nan, np.nan, np.nan], [4, 5, 6, 7]], F32)
    prefetching = lambda ins, outs: tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(3,), in_specs=[ins], out_specs=outs
    )
    split = pallas_call(copy, like((3, 4)), grid_spec=prefetching(ragged, parts))
    np.testing.assert_array_equal(split(ends, X), rows)
    joined = pallas_call(copy, like((8,)), grid_spec=prefetching(parts, ragged))
    np.testing.assert_array_equal(joined(ends, rows), X)
    np.testing.assert_array_equal(pl.grad(lambda x: jnp.nansum(split(ends, x) ** 2))(X), 2 * X)


def copy(s_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...]


CHOSEN = pallas_call(
    copy,
    like((8,)),
    grid_spec=tpu.PrefetchScalarGridSpec(
        1, (4,), [BlockSpec((2,), lambda i, s: (s[i],))], BlockSpec((2,), lambda i, s: (i,))
    ),
)
INSIDE, OUTSIDE = np.array([0, 3, 0, 3], np.int32), np.array([0, 4, -1, 3], np.int32)


def test_blocks_outside_that_data_choose_raise_when_the_program_runs():
    np.testing.assert_array_equal(CHOSEN(INSIDE, X), [0, 1, 6, 7, 0, 1, 6, 7])
    message = r"`copy`: a block of in_specs\[0\] lies outside[^@]*program \(1,\) asks for the one that begins at \(8,\)"
    for run in (
        CHOSEN,
        pl.jit(lambda s, x: CHOSEN(s, x) + 1),
        pl.grad(lambda s, x: CHOSEN(s, x).sum(), 1),
        lambda s, x: pl.vmap(CHOSEN, (0, None))(np.stack([INSIDE, s]), x),
        lambda s, x: lax.scan(lambda c, s: (c, CHOSEN(s, x)), 0, np.stack([INSIDE, s])),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            run(OUTSIDE, X)
        assert "BlockSpec((2,), lambda i, s: (s[i],))" in str(caught.value)  # its line
    error, y = checkify.checkify(CHOSEN, checkify.index_checks)(OUTSIDE, X)
    assert "out-of-bounds" in error.get()
    np.testing.assert_array_equal(y, [0, 1, *[np.nan] * 4, 6, 7])


def test_blocks_outside_count_only_where_their_kernel_is_chosen():
    def chosen(n, s):
        return lax.cond(n > 0, lambda: CHOSEN(s, X), lambda: X)

    def repeated(n, s):
        return lax.while_loop(lambda n: n[0] > 0, lambda n: (n[0] - 1, CHOSEN(s, n[1])), (n, X))[1]

    n, s = np.array([0, 1], np.int32), np.stack([OUTSIDE, INSIDE])
    for function in (chosen, repeated):
        for run in (pl.vmap(function), pl.jit(pl.vmap(function))):
            np.testing.assert_array_equal(run(n, s), [X, CHOSEN(INSIDE, X)])
            with pytest.raises(ValueError, match=r"in_specs\[0\] lies outside"):
                run(n[::-1], s)


def test_blocks_outside_of_traced_grids_raise_when_the_program_runs():
    call = pl.jit(
        lambda n, x: pallas_call(
            squared, x, grid=n, in_specs=[BLOCK], out_specs=BLOCK, input_output_aliases={0: 0}
        )(x)
    )
    np.testing.assert_array_equal(call(3, X), [*X[:6] ** 2, *X[6:]])
    with pytest.raises(ValueError, match=r"in_specs\[0\] lies outside"):
        call(5, X)


def test_blocks_that_a_traced_grid_leaves_out_raise_when_the_program_runs():
    def run(n, x):
        return pallas_call(squared, like((8,)), grid=(n,), in_specs=[BLOCK], out_specs=BLOCK)(x)

    np.testing.assert_array_equal(run(jnp.asarray(4), X), X**2)
    message = r"no program writes some blocks of out_specs[^@]*4 along axis 0 of the grid, whose size is (3|0)"
    over_sizes = lambda n, x: lax.scan(lambda c, n: (c, run(n, x)), 0, jnp.stack([n * 0 + 4, n]))
    for function in (
        run,
        pl.jit(run),
        lambda n, x: pl.vmap(run, (0, None))(n[None], x),
        over_sizes,
    ):
        for n in map(jnp.asarray, (3, 0)):
            with pytest.raises(ValueError, match=message) as caught:
                pl.block_until_ready(function(n, X))
            assert "BLOCK = BlockSpec((2,), lambda" in str(caught.value)
    error, _ = checkify.checkify(pl.jit(run), checkify.user_checks)(np.int32(3), X)
    assert "no program writes" in error.get()


def test_blocks_that_no_traced_grid_reaches_raise_at_once():
    first = BlockSpec((2,), lambda i: (0,))
    with pytest.raises(ValueError, match="whatever the size of the grid is"):
        pl.jit(lambda n: pallas_call(squared, X, grid=n, in_specs=[BLOCK], out_specs=first)(X))(4)
    rows = BlockSpec((1, 2), lambda i, j: (i, j))
    x = X.reshape(2, 4)
    with pytest.raises(ValueError, match="whatever the size of the grid is"):
        pl.jit(lambda n: pallas_call(squared, x, grid=(n, 1), in_specs=[rows], out_specs=rows)(x))(
            2
        )


def test_visits_of_traced_grids_are_checked_when_the_program_runs():
    def run(n, m, semantics=None, revisit=None, index=lambda i, j: (j,)):
        mode = revisit and pallas.Buffered(2, revisit=revisit)
        params = semantics and tpu.CompilerParams(dimension_semantics=semantics)
        return pallas_call(
            squared, like((8,)), grid=(n, m), in_specs=[BlockSpec((2,), index)], out_specs=BlockSpec((2,), index, pipeline_mode=mode),
            compiler_params=params,
        )(X)  # fmt: skip

    one, two, four = map(jnp.asarray, (1, 2, 4))
    np.testing.assert_array_equal(run(one, four), X**2)
    np.testing.assert_array_equal(run(two, 4, revisit=pallas.RevisitMode.ANY), X**2)
    np.testing.assert_array_equal(run(four, two, index=lambda i, j: (i,)), X**2)
    for n, m in ((two, 4), (two, four), (2, four)):
        with pytest.raises(
            ValueError, match=r"left and visited again[^@]*axis 0 of the grid[^@]*2 programs"
        ):
            run(n, m)
    share = lambda n, m: run(n, m, ("arbitrary", "parallel"), index=lambda i, j: (i,))
    np.testing.assert_array_equal(share(four, one), X**2)
    with pytest.raises(ValueError, match="along the parallel axis 1 write the same block"):
        share(four, two)


def test_kernels_whose_blocks_data_choose_are_mapped_and_exported():
    mesh = pl.make_mesh((2,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    P = pl.sharding.PartitionSpec
    mapped = pl.jit(
        pl.shard_map(
            lambda s, x: CHOSEN(s[0], x), mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i")
        )
    )
    y = mapped(np.stack([INSIDE, INSIDE[::-1]]), X)
    np.testing.assert_array_equal(y, np.concatenate([CHOSEN(INSIDE, X), CHOSEN(INSIDE[::-1], X)]))
    with pytest.raises(ValueError, match="lies outside"):
        mapped(np.stack([INSIDE, OUTSIDE]), X)
    exported = pl.export.export(pl.jit(CHOSEN))(OUTSIDE, X)
    np.testing.assert_array_equal(exported.call(OUTSIDE, X), [0, 1, *[np.nan] * 4, 6, 7])


def test_blocks_outside_are_not_looked_for_where_checks_are_disabled():
    def copy(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    gathered = BlockSpec((2,), lambda i, order: (order[i],))
    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[gathered], out_specs=BlockSpec((2,), lambda i, order: (i,))
    )  # fmt: skip
    params = tpu.CompilerParams(disable_bounds_checks=True)
    call = pallas_call(copy, like((4,)), grid_spec=spec, compiler_params=params)
    np.testing.assert_array_equal(call(np.array([3, 9]), X), [6, 7, np.nan, np.nan])
    assert "callback" not in pl.jit(call).lower(np.array([3, 0]), X).as_text()


def test_prefetched_trees():
    def copy(order, n_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + n_ref[0] + order["second"][0]

    block = BlockSpec((2,), lambda i, order, n: (order["first"][i],))
    spec = tpu.PrefetchScalarGridSpec(2, (4,), [block], BlockSpec((2,), lambda i, order, n: (i,)))
    order = {"first": np.array([3, 2, 1, 0], np.int32), "second": np.array([10], np.int32)}
    y = pallas_call(copy, like((8,)), grid_spec=spec)(order, np.array([5], np.int32), X)
    np.testing.assert_array_equal(y, X.reshape(4, 2)[::-1].ravel() + 15)


def test_programs_print_in_the_order_of_the_grid(capfd):
    def kernel(x_ref, o_ref):
        pallas.debug_print("program", pallas.program_id(0))
        o_ref[...] = x_ref[...]

    pl.block_until_ready(
        pallas_call(kernel, like((8,)), grid=4, in_specs=[BLOCK], out_specs=BLOCK)(X)
    )
    pl.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:-1] == [f"program {i}" for i in range(4)]


# Batches and loops ------------------------------------------------------------------------------------------


def test_programs_that_write_blocks_of_their_own_are_one_batch():
    assert "scan" not in primitives_of(program_of(square, X))


def test_a_sum_in_scratch_is_a_loop_over_its_axis_alone():
    program = program_of(matmul(4, 6, 8, 2), A, B)
    [loop] = [e for e in program.eqns if e.primitive.name == "scan"]
    assert loop.params["length"] == 3


def test_scratch_that_passes_between_programs_makes_a_loop():
    def count(x_ref, o_ref, n_ref):
        @pallas.when(pallas.program_id(0) == 0)
        def _():
            n_ref[...] = jnp.zeros_like(n_ref)

        n_ref[...] += 1
        o_ref[...] = x_ref[...] + n_ref[...]

    def call(**options):
        return pallas_call(
            count,
            like((8,)),
            grid=4,
            in_specs=[BLOCK],
            out_specs=BLOCK,
            scratch_shapes=[tpu.SMEM((1,), F32)],
            **options,
        )(X)

    np.testing.assert_array_equal(call(), X + 1 + np.arange(8) // 2)
    assert "scan" in primitives_of(program_of(call))
    parallel = tpu.CompilerParams(dimension_semantics=("parallel",))
    assert "scan" not in primitives_of(program_of(lambda: call(compiler_params=parallel)))


# Transformations --------------------------------------------------------------------------------------------------


def test_forward_mode_where_one_tangent_is_zero():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] + pallas.program_id(0)

    call = pallas_call(kernel, like((8,)), grid=4, in_specs=[BLOCK, BLOCK], out_specs=BLOCK)
    y, tangent = pl.jvp(lambda x: call(x, X), (X,), (np.ones_like(X),))
    np.testing.assert_array_equal(y, X * X + np.arange(8) // 2)
    np.testing.assert_array_equal(tangent, X)


def test_reverse_mode():
    np.testing.assert_array_equal(pl.grad(lambda x: square(x).sum())(X), 2 * X)
    np.testing.assert_array_equal(pl.grad(pl.checkpoint(lambda x: square(x).sum()))(X), 2 * X)
    loss = lambda product: lambda a, b: (product(a, b) ** 2).sum()
    ours = pl.grad(loss(matmul(4, 6, 8, 2)), (0, 1))(A, B)
    for x, y in zip(ours, pl.grad(loss(jnp.matmul), (0, 1))(A, B), strict=True):
        np.testing.assert_array_equal(x, y)


def test_derivatives_of_blocks_beyond_the_edge():
    def multiply(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] @ y_ref[...]

    def product(x, y):
        specs = [BlockSpec((3, 6), lambda i, j: (i, 0)), BlockSpec((6, 3), lambda i, j: (0, j))]
        out = BlockSpec((3, 3), lambda i, j: (i, j))
        return pallas_call(multiply, like((4, 8)), grid=(2, 3), in_specs=specs, out_specs=out)(x, y)

    loss = lambda f: lambda a, b: (f(a, b) ** 2).sum()
    batched = lambda f: loss(lambda a, b: pl.vmap(f, (0, None))(jnp.stack([a, 2 * a]), b))
    forward = lambda f: loss(lambda a, b: pl.jvp(lambda a: f(a, b), (a,), (2 * a,))[1])
    for outer in (loss, batched, forward):
        ours = pl.value_and_grad(outer(product), (0, 1))(A, B)
        for x, y in zip(
            pl.tree.leaves(ours),
            pl.tree.leaves(pl.value_and_grad(outer(jnp.matmul), (0, 1))(A, B)),
            strict=True,
        ):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "function", [jnp.log, lambda x: x / jnp.sqrt((x * x).sum(1, keepdims=True))]
)
def test_gradients_where_the_function_is_infinite_beyond_the_edge(function):
    def multiply(x_ref, w_ref, o_ref):
        o_ref[...] = function(x_ref[...]) @ w_ref[...]

    def product(x, w):
        specs = [BlockSpec((2, 4), lambda i: (i, 0)), BlockSpec((4, 3), lambda i: (0, 0))]
        out = BlockSpec((2, 3), lambda i: (i, 0))
        return pallas_call(multiply, like((5, 3)), grid=3, in_specs=specs, out_specs=out)(x, w)

    x = np.linspace(0.5, 2, 20, dtype=np.float32).reshape(5, 4)
    w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    loss = lambda f: lambda x, w: (f(x, w) ** 2).sum()
    batch = lambda f: loss(lambda x, w: pl.vmap(f, (0, None))(jnp.stack([x, 2 * x]), w))
    slope = lambda f: loss(lambda x, w: pl.grad(loss(f), 1)(x, w))
    for outer in (loss, batch, slope):
        ours, plain = [
            pl.grad(outer(f), (0, 1))(x, w) for f in (product, lambda x, w: function(x) @ w)
        ]
        for found, expected in zip(ours, plain, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_reverse_mode_of_a_grid_known_only_when_it_runs_names_custom_vjp():
    def loss(n, x):
        call = pallas_call(squared, like((8,)), grid=(n,), in_specs=[BLOCK], out_specs=BLOCK)
        return call(x).sum()

    with pytest.raises(Exception, match="custom_vjp"):
        pl.jit(pl.grad(loss, 1))(4, X)


def test_batches_of_calls_and_of_scalars():
    xs = np.stack([X, X + 1, X + 2])
    np.testing.assert_array_equal(pl.vmap(square)(xs), xs**2)
    np.testing.assert_array_equal(pl.vmap(square, 1, 1)(xs.T), xs.T**2)
    np.testing.assert_array_equal(pl.vmap(pl.grad(lambda x: square(x).sum()))(xs), 2 * xs)


def test_batches_of_bounds():
    def run(n, x):
        call = pallas_call(
            squared,
            like((8,)),
            grid=(n,),
            in_specs=[BLOCK],
            out_specs=BLOCK,
            input_output_aliases={0: 0},
        )
        return call(x)

    y = pl.vmap(run, (0, None))(np.array([1, 3], np.int32), X)
    expected = np.stack([X, X])
    expected[0, :2], expected[1, :6] = X[:2] ** 2, X[:6] ** 2
    np.testing.assert_array_equal(y, expected)


def whole_blocks(x):
    return pallas_call(squared, like(x.shape))(x)


def rows(x):
    row = BlockSpec((1, x.shape[1]), lambda i: (i, 0))
    return pallas_call(squared, like(x.shape), grid=x.shape[0], in_specs=[row], out_specs=row)(x)


def with_edges(x):
    grid = pallas.cdiv(x.shape[0], 3)
    return pallas_call(squared, like(x.shape), grid=grid, in_specs=[THREE], out_specs=THREE)(x)


def grouped(x):
    block = BlockSpec((None, 2), lambda i, j: (i, j))
    grid = (x.shape[0], x.shape[1] // 2)
    return pallas_call(squared, like(x.shape), grid=grid, in_specs=[block], out_specs=block)(x)


@pytest.mark.parametrize(
    ("function", "symbols", "constraints", "shapes"),
    [
        (whole_blocks, "n, m", [], [(2, 3)]),
        (rows, "n, m", [], [(2, 3), (1, 1)]),
        (with_edges, "n", [], [(1,), (6,), (8,)]),
        (with_edges, "3*n", [], [(6,)]),
        (with_edges, "n", ["mod(n, 3) == 0"], [(3,), (6,)]),
        (grouped, "n, 2*m", [], [(3, 4)]),
        (grouped, "n, m", ["mod(m, 2) == 0"], [(3, 4), (1, 2)]),
    ],
)
def test_symbolic_sizes(function, symbols, constraints, shapes):
    symbolic = pl.export.symbolic_shape(symbols, constraints=constraints)
    exported = pl.export.export(pl.jit(function))(like(symbolic))
    for shape in shapes:
        x = np.arange(np.prod(shape), dtype=F32).reshape(shape)
        np.testing.assert_array_equal(exported.call(x), x**2)


def test_shapes_dead_code_and_export():
    assert pl.eval_shape(square, X).shape == (8,)
    program = pl.make_jaxpr(lambda x: [square(x), 1][1])(X)
    assert pl.jit(lambda x: [square(x), x][1]).lower(X).compile() is not None
    assert program.eqns[0].primitive.name == "pallas_call"
    exported = pl.export.export(pl.jit(square))(X)
    np.testing.assert_array_equal(pl.export.deserialize(exported.serialize()).call(X), X**2)


def test_shard_map():
    mesh = pl.make_mesh((2,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    spec = pl.sharding.PartitionSpec("i")
    half = lambda x: pallas_call(squared, like((4,)), grid=2, in_specs=[BLOCK], out_specs=BLOCK)(x)
    for check_vma in (False, True):
        call = pl.shard_map(half, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)
        np.testing.assert_array_equal(pl.jit(call)(X), X**2)


def test_checks_in_kernels_are_reported():
    def kernel(x_ref, o_ref):
        pallas.debug_check((x_ref[...] < 6).all(), "too large")
        o_ref[...] = x_ref[...]

    def call(x):
        return pallas_call(kernel, like((8,)), grid=4, in_specs=[BLOCK], out_specs=BLOCK)(x)

    with pallas.enable_debug_checks(True):
        error, _ = pl.jit(checkify.checkify(call))(X)
        assert "too large" in error.get()
        error, _ = pl.jit(checkify.checkify(call))(X / 2)
        assert error.get() is None
    np.testing.assert_array_equal(call(X), X)


def test_a_kernel_takes_the_references_that_it_gets():
    def one(x_ref):
        pass

    message = r"`one`: the kernel takes other arguments[^@]*too many positional arguments; it gets those of 1 inputs, 1 results"
    with pytest.raises(TypeError, match=message):
        pallas_call(one, like((8,)))(X)
    with pytest.raises(TypeError, match=r"missing a required argument: 's_ref'"):
        pallas_call(lambda x_ref, o_ref, s_ref: None, like((8,)))(X)
    with pytest.raises(TypeError, match=r"a kernel must return None[^@]*returned f32\[8\]"):
        pallas_call(lambda x_ref, o_ref: x_ref[...], like((8,)))(X)


# Mistakes ----------------------------------------------------------------------------------------------------------


def run(kernel=squared, out=(8,), x=X, aliases=None, **options):
    return pallas_call(kernel, like(out), input_output_aliases=aliases or {}, **options)(x)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (
            {"grid": 5, "in_specs": [BLOCK], "out_specs": BLOCK},
            [
                "in_specs[0] lies outside",
                "program (4,) asks for block (4,)",
                "BLOCK = BlockSpec((2,), lambda",
                "grid of 4",
            ],
        ),
        (
            {"grid": 3, "in_specs": [BLOCK], "out_specs": BLOCK},
            [
                "no program writes block (3,) of out_specs",
                "block of (3,) fits the grid",
                "BLOCK = ",
            ],
        ),
        (
            {
                "grid": (2, 4),
                "in_specs": [BlockSpec((2,), lambda i, j: (j,))],
                "out_specs": BlockSpec((2,), lambda i, j: (j,)),
            },
            [
                "left and visited again",
                "program (1, 0) comes back to block (0,)",
                "RevisitMode.ANY",
            ],
        ),
        (
            {
                "grid": (4, 2),
                "in_specs": [BlockSpec((2,), lambda i, j: (i,))],
                "out_specs": BlockSpec((2,), lambda i, j: (i,)),
                "compiler_params": tpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
            },
            ["along the parallel axis 1 write the same block"],
        ),
        (
            {"grid": 3, "in_specs": [BLOCK], "out_specs": APART},
            [
                "no program writes element (2,) of out_specs",
                "2 elements are in none of a grid of (3,)",
                "APART = BlockSpec((pallas.Element(2),)",
                "A block of (3,) reaches all",
            ],
        ),
        (
            {
                "grid": 7,
                "in_specs": [BlockSpec((pallas.Element(2),), lambda i: (i,))],
                "out_specs": BlockSpec((pallas.Element(2),), lambda i: (i,)),
                "compiler_params": tpu.CompilerParams(dimension_semantics=("parallel",)),
            },
            ["along the parallel axis 0 write the same elements", "element (1,), blocks of (2,)"],
        ),
        (
            {
                "grid": 2,
                "in_specs": [BLOCK],
                "out_specs": BlockSpec((pallas.BoundedSlice(2),), lambda i: (pallas.ds(4 * i, 2),)),
            },
            ["no program writes element (2,) of out_specs", "A block of (4,) reaches all"],
        ),
        (
            {
                "grid": 4,
                "in_specs": [BlockSpec((pallas.Element(2),), lambda i: (4 * i,))],
                "out_specs": BLOCK,
            },
            [
                "array of shape (8,), blocks of (2,)",
                "program (2,) asks for the one that begins at (8,)",
                "Let the index map give 0 to 7 for dimension 0",
            ],
        ),
        (
            {
                "grid": 3,
                "in_specs": [BLOCK],
                "out_specs": BlockSpec((pallas.Element(2),), lambda i: (2 * i,)),
            },
            ["no program writes block (3,)", "A grid of 4 along axis 0 fits these blocks"],
        ),
        (
            {"grid": 4, "in_specs": [BlockSpec((2, 2), lambda i: (i, 0))], "out_specs": BLOCK},
            ["as many dimensions"],
        ),
        (
            {"grid": 4, "in_specs": [BlockSpec((2,), lambda i: (i, i))], "out_specs": BLOCK},
            ["one index for each dimension"],
        ),
        (
            {"grid": 4, "in_specs": [BlockSpec((2,), lambda i, j: (i,))], "out_specs": BLOCK},
            ["one argument for each"],
        ),
        (
            {"grid": 4, "in_specs": [BlockSpec((2,), lambda i: (i * 1.0,))], "out_specs": BLOCK},
            ["gives integers"],
        ),
        (
            {
                "grid": 4,
                "in_specs": [BlockSpec((pallas.Indirect(2),), lambda i: (i,))],
                "out_specs": BLOCK,
            },
            ["an array of 2 integers for an Indirect dimension"],
        ),
        (
            {"grid": 4.0, "in_specs": [BLOCK], "out_specs": BLOCK},
            ["a size of the grid is an integer"],
        ),
        (
            {"grid": 4, "in_specs": [BLOCK, BLOCK], "out_specs": BLOCK},
            ["in_specs: got tuple of 2, expected tuple of 1"],
        ),
        ({"kernel": lambda x_ref, o_ref: x_ref[...]}, ["must return None"]),
        ({"kernel": lambda x_ref, o_ref: None}, ["never writes out_specs"]),
        ({"aliases": {0: 1}}, ["by number"]),
        ({"aliases": {0: 0}, "out": (4,)}, ["aliased that have other types"]),
    ],
)
def test_mistakes_are_found_before_anything_runs(options, messages):
    with pytest.raises((TypeError, ValueError)) as error:
        run(**options)
    for message in messages:
        assert message in str(error.value), str(error.value)


def test_arrays_from_outside_are_refused():
    y = jnp.arange(8.0)
    with pytest.raises(ValueError, match="uses arrays from outside"):
        run(lambda x_ref, o_ref: o_ref.set(x_ref[...] + y))
    n = jnp.int32(1)
    with pytest.raises(ValueError, match="index map uses arrays from outside"):
        run(grid=4, in_specs=[BlockSpec((2,), lambda i: (i * n,))], out_specs=BLOCK)


def test_arrays_of_numpy_are_constants():
    call = lambda x: run(
        lambda x_ref, o_ref: o_ref.set(x_ref[...] * X[:3]),
        x=x,
        grid=3,
        in_specs=[THREE],
        out_specs=THREE,
    )
    np.testing.assert_array_equal(call(X), X * np.resize(X[:3], 8))
    np.testing.assert_array_equal(pl.grad(lambda x: call(x).sum())(X), np.resize(X[:3], 8))


def test_a_block_may_be_visited_again_where_the_spec_says_so():
    def add(x_ref, o_ref):
        @pallas.when(pallas.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    spec = BlockSpec((2,), lambda i, j: (j,), pallas.Buffered(2, revisit=pallas.RevisitMode.ANY))
    y = run(add, grid=(3, 4), in_specs=[BlockSpec((2,), lambda i, j: (j,))], out_specs=spec)
    np.testing.assert_array_equal(y, 3 * X)


def test_one_block_for_all_programs_may_be_written_by_parallel_ones():
    def total(x_ref, o_ref):
        @pallas.when(pallas.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    parallel = tpu.CompilerParams(dimension_semantics=("parallel",))
    spec = BlockSpec((2,), lambda i: (0,))
    y = run(total, out=(2,), grid=4, in_specs=[BLOCK], out_specs=spec, compiler_params=parallel)
    np.testing.assert_array_equal(y, X.reshape(4, 2).sum(0))


@pytest.mark.parametrize(
    ("order", "options", "message"),
    [
        ([0, 1, 0, 2, 3], {}, r"program \(2,\) comes back to block \(0,\)"),
        (
            [0, 0, 1, 2, 3],
            {"compiler_params": tpu.CompilerParams(dimension_semantics=("parallel",))},
            r"along the parallel axis 0 write the same block of out_specs.\n  block \(0,\) of \(2,\)",
        ),
        ([0, 0, 1, 2, 2], {}, None),  # blocks are left out, which data may choose
        ([3, 2, 1, 0, 0], {}, None),
    ],
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_blocks_of_results_that_data_choose(order, options, message, is_batch):
    def fill(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + order_ref[pallas.program_id(0)]

    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=5,
        in_specs=[BlockSpec((2,), lambda i, order: (0,))],
        out_specs=BlockSpec((2,), lambda i, order: (order[i],)),
    )
    call = pallas_call(fill, like((10,)), grid_spec=spec, **options)
    given = np.array(order)
    if is_batch:
        # The first element of the batch is right.
        call, given = pl.vmap(call, (0, None)), np.array([range(5), order])
    if message is not None:
        with pytest.raises(CheckError, match=message):
            np.asarray(call(given, X))
        return
    expected = np.full(10, np.nan, F32)
    for k in order:
        expected[2 * k : 2 * k + 2] = X[:2] + k
    result = np.asarray(call(given, X))
    np.testing.assert_array_equal(result[-1] if result.ndim == 2 else result, expected)


def test_blocks_that_overlap_may_be_written_one_after_another():
    spec = BlockSpec((pallas.Element(2),), lambda i: (i,))
    double = lambda x_ref, o_ref: o_ref.set(2 * x_ref[...])
    np.testing.assert_array_equal(run(double, grid=7, in_specs=[spec], out_specs=spec), 2 * X)


def test_positions_have_a_meaning_only_in_kernels():
    with pytest.raises(TypeError, match="only in a kernel"):
        pallas.program_id(0)
    with pytest.raises(ValueError, match="no such axis"):
        run(lambda x_ref, o_ref: o_ref.set(x_ref[...] + pallas.program_id(1)), grid=1)


def test_references_and_both_kinds_of_grid_are_refused():
    with pytest.raises(TypeError, match="got a reference"):
        run(x=pl.new_ref(X))
    with pytest.raises(ValueError, match="either a grid_spec"):
        run(grid=4, grid_spec=pallas.GridSpec(grid=4))


def test_jitted_functions_see_the_position_of_the_kernel_that_calls_them():
    @pl.jit
    def shifted(x):
        return x + pallas.program_id(0)

    def kernel(x_ref, o_ref):
        o_ref[...] = shifted(x_ref[...]) + shifted(x_ref[...])

    for _ in range(2):
        y = run(kernel, grid=4, in_specs=[BLOCK], out_specs=BLOCK)
        np.testing.assert_array_equal(y, 2 * (X + np.arange(8) // 2))
