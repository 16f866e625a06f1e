"""Dimensions of blocks whose elements are gathered from several positions, or scattered to them."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.experimental.pallas import BlockSpec, Indirect, ds, pallas_call, tpu

F32, I32 = np.float32, np.int32
X = np.arange(24, dtype=F32).reshape(6, 4)
ROWS, COLUMNS = np.array([3, 1, 0, 5], I32), np.array([3, 0], I32)
OUTSIDE = [np.array([3, 1, 0, 6], I32), np.array([3, -1, 0, 2], I32)]


def like(*shape):
    return pl.ShapeDtypeStruct(shape, F32)


def copy(*refs):
    """The last reference but one, of an input, in the last one."""
    refs[-1][...] = refs[-2][...]


def prefetching(n, grid, in_specs, out_specs):
    return tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=n, grid=grid, in_specs=in_specs, out_specs=out_specs
    )


GATHER = pallas_call(
    copy,
    like(4, 4),
    grid_spec=prefetching(
        1,
        (2, 2),
        [BlockSpec((Indirect(2), 2), lambda i, j, rows: (rows[ds(2 * i, 2)], j))],
        BlockSpec((2, 2), lambda i, j, _: (i, j)),
    ),
)


def add(_, x_ref, __, o_ref):
    o_ref[...] += x_ref[...]


SCATTER = pallas_call(
    add,
    like(6, 4),
    input_output_aliases={2: 0},
    grid_spec=prefetching(
        1,
        (2, 2),
        [BlockSpec((2, 2), lambda i, j, _: (i, j)), BlockSpec()],
        BlockSpec((Indirect(2), 2), lambda i, j, rows: (rows.at[ds(2 * i, 2)], j)),
    ),
)


def added(rows, x, start):
    result = start.copy()
    result[rows] += x
    return result


def test_inputs_are_gathered_and_results_scattered():
    for run in (GATHER, pl.jit(GATHER)):
        np.testing.assert_array_equal(run(ROWS, X), X[ROWS])
    ones = np.ones_like(X)
    for run in (SCATTER, pl.jit(SCATTER)):
        np.testing.assert_array_equal(run(ROWS, X[:4], ones), added(ROWS, X[:4], ones))


def test_positions_along_several_dimensions_mean_all_pairs():
    rows, block = lambda i, rows, columns: (rows[ds(2 * i, 2)], columns[...]), lambda i, *_: (i, 0)
    pairs = BlockSpec((Indirect(2), Indirect(2)), rows)
    gather = prefetching(2, 2, [pairs], BlockSpec((2, 2), block))
    np.testing.assert_array_equal(
        pallas_call(copy, like(4, 2), grid_spec=gather)(ROWS, COLUMNS, X), X[np.ix_(ROWS, COLUMNS)]
    )
    scatter = prefetching(2, 2, [BlockSpec(), BlockSpec((2, 2), block)], pairs)
    wanted = X.copy()
    wanted[np.ix_(ROWS, COLUMNS)] = -X[:4, :2]
    call = pallas_call(copy, like(6, 4), grid_spec=scatter, input_output_aliases={2: 0})
    np.testing.assert_array_equal(call(ROWS, COLUMNS, X, -X[:4, :2]), wanted)


def test_transformations_of_gathered_blocks():
    batch = np.stack([X, X + 100])
    np.testing.assert_array_equal(pl.vmap(GATHER, (None, 0))(ROWS, batch), batch[:, ROWS])
    rows = np.stack([ROWS, ROWS[::-1]])
    np.testing.assert_array_equal(
        pl.vmap(GATHER)(rows, batch), [batch[0, rows[0]], batch[1, rows[1]]]
    )
    gradient = pl.grad(lambda x: (GATHER(ROWS, x) ** 2).sum())(X)
    np.testing.assert_array_equal(gradient, added(ROWS, 2 * X[ROWS], np.zeros_like(X)))
    ones = np.ones_like(X)
    for i, wanted in [(0, 2 * added(ROWS, X[:4], ones)[ROWS]), (1, 2 * added(ROWS, X[:4], ones))]:
        np.testing.assert_array_equal(
            pl.grad(lambda *xs: (SCATTER(ROWS, *xs) ** 2).sum(), i)(X[:4], ones), wanted
        )


@pytest.mark.parametrize("rows", OUTSIDE)
def test_positions_outside_raise_when_the_program_runs(rows):
    bad = rows[(rows < 0) | (rows > 5)][0]
    with pytest.raises(
        ValueError, match=rf"in_specs\[0\] lies outside(.|\n)*begins at \({bad}, 0\)"
    ):
        GATHER(rows, X)
    with pytest.raises(ValueError, match=r"out_specs lies outside"):
        SCATTER(rows, X[:4], X)


def test_index_maps_give_as_many_positions_as_the_block_has():
    for give in (lambda i: (i, 0), lambda i: (jnp.arange(3), 0), lambda i: (jnp.arange(2.0), 0)):
        specs = {
            "in_specs": [BlockSpec((Indirect(2), 4), give)],
            "out_specs": BlockSpec((2, 4), lambda i: (i, 0)),
        }
        with pytest.raises(TypeError, match="an array of 2 integers for an Indirect dimension"):
            pallas_call(copy, like(4, 4), grid=2, **specs)(X)


def test_pipelines_gather_and_scatter():
    def kernel(rows_ref, x_ref, o_ref, p_ref):
        tpu.emit_pipeline(
            copy,
            grid=(2, 2),
            in_specs=[BlockSpec((Indirect(2), 3), lambda i, j: (rows_ref[ds(2 * i, 2)], j))],
            out_specs=[BlockSpec((2, 3), lambda i, j: (i, j))],
        )(x_ref, o_ref)
        p_ref[...] = jnp.zeros_like(p_ref)
        tpu.emit_pipeline(
            copy,
            grid=(2, 4),
            in_specs=[BlockSpec((2, None), lambda i, j: (i, j))],
            out_specs=[BlockSpec((Indirect(2), None), lambda i, j: (rows_ref.at[ds(2 * i, 2)], j))],
        )(o_ref, p_ref)

    gathered, scattered = pallas_call(kernel, [like(4, 4), like(6, 4)])(ROWS, X)
    np.testing.assert_array_equal(gathered, X[ROWS])
    np.testing.assert_array_equal(scattered, added(ROWS, X[ROWS], np.zeros_like(X)))


def test_figures_say_that_blocks_are_gathered():
    assert "its blocks are gathered from several positions" in str(pl.viz.grid(GATHER)(ROWS, X))
