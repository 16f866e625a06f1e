"""Grids within a kernel."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid.kernels.simulator.call import recorded

X = np.arange(15, dtype=np.float32).reshape(3, 5)
HBM = BlockSpec(memory_space=pallas.ANY)


def test_sums_over_an_axis_of_blocks_beyond_the_edge():
    def add(x_ref, o_ref):
        @pallas.when(pallas.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        column = pallas.program_id(1) * 2 + jnp.arange(2)
        o_ref[...] += jnp.where(column < 5, x_ref[...], 0).sum()

    def kernel(x_ref, o_ref):
        tpu.emit_pipeline(
            add,
            grid=(3, 3),
            in_specs=[BlockSpec((None, 2), lambda i, j: (i, j))],
            out_specs=[BlockSpec((1,), lambda i, j: (i,))],
        )(x_ref, o_ref)

    call = pallas_call(kernel, pl.ShapeDtypeStruct((3,), np.float32))
    np.testing.assert_array_equal(call(X), X.sum(1))
    np.testing.assert_array_equal(pl.grad(lambda x: call(x).sum())(X), np.ones_like(X))


def test_slices_with_traced_bounds():
    """The first n columns of each row."""
    copy = lambda x_ref, o_ref: o_ref.set(x_ref[...])

    def kernel(n_ref, x_ref, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)
        bounded = BlockSpec((None, pallas.BoundedSlice(4)), lambda i: (i, pallas.ds(1, n_ref[i])))
        tpu.emit_pipeline(copy, grid=(3,), in_specs=[bounded], out_specs=[bounded])(x_ref, o_ref)

    n = np.array([0, 2, 4], np.int32)
    column = np.arange(5) - 1
    kept = (column >= 0) & (column < n[:, None])
    np.testing.assert_array_equal(pallas_call(kernel, X)(n, X), np.where(kept, X, 0))


def test_without_references():
    """A body that reads nothing of the pipeline runs once for each point of the grid."""
    seen = pl.new_ref(np.zeros((2, 3), np.int32))

    def mark():
        i, j = pallas.program_id(0), pallas.program_id(1)
        seen[i, j] = seen[i, j] + 1 + i * 3 + j

    tpu.emit_pipeline(mark, grid=(2, 3))()
    np.testing.assert_array_equal(seen[...], np.arange(1, 7).reshape(2, 3))


def test_mistakes():
    copy = lambda x_ref, o_ref: o_ref.set(x_ref[...])
    spec = BlockSpec((1, 5), lambda i: (i, 0))
    refs = pl.new_ref(X), pl.new_ref(X)
    with pytest.raises(ValueError, match="one spec for each reference"):
        tpu.emit_pipeline(copy, grid=(3,), in_specs=[spec])(*refs)

    def of_array(x_ref, o_ref):
        tpu.emit_pipeline(copy, grid=(3,), in_specs=[spec], out_specs=[spec])(x_ref[...], o_ref)

    with pytest.raises(TypeError, match="takes references, not arrays"):
        pallas_call(of_array, X)(X)
    short = BlockSpec((1, 5), lambda i: (i,))
    with pytest.raises(ValueError, match="one index for each dimension"):
        tpu.emit_pipeline(copy, grid=(3,), in_specs=[short], out_specs=[spec])(*refs)
    no_bound = BlockSpec((1, 5), lambda i: (pallas.ds(i, 1), 0))
    with pytest.raises(TypeError, match="that are a BoundedSlice"):
        tpu.emit_pipeline(copy, grid=(3,), in_specs=[no_bound], out_specs=[spec])(*refs)
    with pytest.raises(NotImplementedError, match="cores"):
        tpu.emit_pipeline(copy, grid=(3,), core_axis=0)


# In the simulator -----------------------------------------------------------------------------------------------


def multiplied(x_ref, y_ref, o_ref):
    """Blocks of 8 x 8, summed over the last axis of the grid."""

    def body(x_ref, y_ref, o_ref):
        @pallas.when(pallas.program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] @ y_ref[...]

    tpu.emit_pipeline(
        body,
        grid=(3, 2, 4),
        in_specs=[
            BlockSpec((8, 8), lambda i, j, k: (i, k)),
            BlockSpec((8, 8), lambda i, j, k: (k, j)),
        ],
        out_specs=[BlockSpec((8, 8), lambda i, j, k: (i, j))],
    )(x_ref, y_ref, o_ref)


def simulated(kernel, out, n_in, **options):
    anywhere = BlockSpec(memory_space=pallas.ANY)
    params = tpu.InterpretParams(**{"detect_races": True, **options})
    return pallas_call(
        kernel, out, in_specs=[anywhere] * n_in, out_specs=anywhere, interpret=params
    )


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
def test_blocks_are_copied_beside_the_programs(mode):
    rng = np.random.default_rng(0)
    x, y = [rng.integers(0, 5, shape).astype(np.float32) for shape in ((24, 32), (32, 16))]
    call = simulated(
        multiplied, pl.ShapeDtypeStruct((24, 16), np.float32), 2, dma_execution_mode=mode
    )
    with recorded() as machines:
        np.testing.assert_array_equal(call(x, y), x @ y)
    events = machines[0].trace
    copies = [e for e in events if e.kind == "copy"]
    # Each input for each program; each block of the result to its buffer, since the body reads it, and back.
    assert len(copies) == 2 * 24 + 2 * 6
    computed = [e for e in events if e.kind == "compute"]
    beside = [c for c in copies if any(e.start < c.end and c.start < e.end for e in computed)]
    assert len(beside) > 40


def test_buffers_of_results_that_are_read_begin_as_the_blocks():
    def adds(x_ref, o_ref):
        o_ref[...] += x_ref[...]

    def kernel(x_ref, o_ref):
        tpu.sync_copy(x_ref, o_ref)
        block = BlockSpec((2,), lambda i: (i,))
        tpu.emit_pipeline(adds, grid=(2,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(simulated(kernel, x, 1)(x), 2 * x)


def test_pipelines_of_traced_length_and_odd_sizes():
    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def kernel(n_ref, x_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...]
        for size, out in ((2, o_ref), (4, p_ref)):
            block = BlockSpec((size,), lambda i: (i,))
            n = n_ref[0] if size == 2 else 2
            tpu.emit_pipeline(double, grid=(n,), in_specs=[block], out_specs=[block])(x_ref, out)

    x = np.arange(6, dtype=np.float32)
    call = pallas_call(kernel, [x, x], interpret=tpu.InterpretParams(detect_races=True))
    for n in (0, 1, 3):
        o, p = call(np.array([n], np.int32), x)
        np.testing.assert_array_equal(o, np.where(np.arange(6) < 2 * n, 2 * x, x))
        np.testing.assert_array_equal(p, 2 * x)


def test_bodies_are_traced_twice_in_kernels():
    """For what is done in turn, and for what has buffers."""
    traced = []

    def double(x_ref, o_ref):
        traced.append(x_ref)
        o_ref[...] = x_ref[...] * 2

    def kernel(x_ref, o_ref):
        block = BlockSpec((2,), lambda i: (i,))
        tpu.emit_pipeline(double, grid=(2,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(pallas_call(kernel, x)(x), 2 * x)
    assert len(traced) == 2


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
@pytest.mark.parametrize("shape", [(12, 5), (13, 8), (23, 7), (9, 4)], ids=str)
def test_edges_are_copied_beside_programs(shape, mode):
    """The simulator copies parts of blocks at edges, rows in whole tiles and what is left of them."""
    rows, columns = shape

    def kernel(x_ref, o_ref, last_ref):
        def body(x_ref, o_ref, last_ref):
            o_ref[...] = x_ref[...] * 2
            last_ref[...] += x_ref[:, :1]

        here = lambda i, j: (i, j)
        blocks = [
            BlockSpec((9, 4), here),
            BlockSpec((9, 4), here),
            BlockSpec((9, 1), lambda i, j: (i, 0)),
        ]
        grid = (-(-rows // 9), -(-columns // 4))
        run = tpu.emit_pipeline(body, grid=grid, in_specs=blocks[:1], out_specs=blocks[1:])
        run(x_ref, o_ref, last_ref)

    x = np.arange(rows * columns, dtype=np.float32).reshape(shape)
    begun = np.ones((rows, 1), np.float32)
    simulated = tpu.InterpretParams(detect_races=True, dma_execution_mode=mode)

    def copied(x_ref, begun_ref, o_ref, last_ref):
        kernel(x_ref, o_ref, last_ref)

    for interpret in (False, simulated):
        call = pallas_call(
            copied, (x, begun), in_specs=[HBM, HBM], out_specs=(HBM, HBM), input_output_aliases={1: 1},
            interpret=interpret,
        )  # fmt: skip
        double, sums = call(x, begun)
        np.testing.assert_array_equal(double, 2 * x)
        np.testing.assert_array_equal(sums, 1 + x[:, ::4].sum(1, keepdims=True))
