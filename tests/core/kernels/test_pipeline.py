"""Grids within a kernel."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu

X = np.arange(15, dtype=np.float32).reshape(3, 5)


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
    short = BlockSpec((1, 5), lambda i: (i,))
    with pytest.raises(ValueError, match="one index for each dimension"):
        tpu.emit_pipeline(copy, grid=(3,), in_specs=[short], out_specs=[spec])(*refs)
    no_bound = BlockSpec((1, 5), lambda i: (pallas.ds(i, 1), 0))
    with pytest.raises(TypeError, match="that are a BoundedSlice"):
        tpu.emit_pipeline(copy, grid=(3,), in_specs=[no_bound], out_specs=[spec])(*refs)
    with pytest.raises(NotImplementedError, match="cores"):
        tpu.emit_pipeline(copy, grid=(3,), core_axis=0)
