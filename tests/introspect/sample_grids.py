"""Sample grids of kernels, of 1 to a million programs, some of them wrong."""

from __future__ import annotations

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.analysis import kernel_grids, kernel_memories
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, Element, pallas_call, tpu
from pellucid.introspect.schema import KernelGridsRecord, KernelMemoriesRecord


def like(*shape: int) -> pl.ShapeDtypeStruct:
    return pl.ShapeDtypeStruct(shape, np.float32)


def product(n: int, size: int, semantics: tuple[str, ...] | None = None):
    """A product of `n` × `n` matrices in blocks, with a sum along the last axis of the grid."""

    def multiply(x_ref, y_ref, o_ref, sum_ref):
        @pallas.when(pallas.program_id(2) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...] @ y_ref[...]

        @pallas.when(pallas.program_id(2) == pallas.num_programs(2) - 1)
        def _():
            o_ref[...] = sum_ref[...]

    return pallas_call(
        multiply, like(n, n), grid=(n // size,) * 3,
        in_specs=[BlockSpec((size, size), lambda i, j, k: (i, k)), BlockSpec((size, size), lambda i, j, k: (k, j))],
        out_specs=BlockSpec((size, size), lambda i, j, k: (i, j)),
        scratch_shapes=[tpu.VMEM((size, size), np.float32)],
        compiler_params=None if semantics is None else tpu.CompilerParams(dimension_semantics=semantics),
    )  # fmt: skip


def matmul(n: int, size: int, semantics: tuple[str, ...] | None = None) -> KernelGridsRecord:
    """The grid of a product of matrices."""
    return kernel_grids(product(n, size, semantics), like(n, n), like(n, n))


def single() -> KernelGridsRecord:
    """One program that sees all of everything."""

    def add(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[0]

    return kernel_grids(pallas_call(add, like(6, 8)), like(6, 8), like(8))


def causal() -> KernelGridsRecord:
    """Blocks above the diagonal are skipped, blocks at the edge are cut, and rows are normed before, by a kernel of its own."""

    def norm(x_ref, o_ref):
        o_ref[...] = x_ref[...] / jnp.abs(x_ref[...]).max()

    def scores(q_ref, k_ref, o_ref):
        @pallas.when(pallas.program_id(1) <= pallas.program_id(0))
        def _():
            o_ref[...] = q_ref[...] @ k_ref[...].T

    def f(q, k):
        row = BlockSpec((1, 64), lambda i: (i, 0))
        q = pallas_call(norm, q, grid=1000, in_specs=[row], out_specs=row)(q)
        return pallas_call(
            scores, like(1000, 1000), grid=(8, 8),
            in_specs=[BlockSpec((128, 64), lambda i, j: (i, 0)), BlockSpec((128, 64), lambda i, j: (j, 0))],
            out_specs=BlockSpec((128, 128), lambda i, j: (i, j)),
        )(q, k)  # fmt: skip

    return kernel_grids(f, like(1000, 64), like(1000, 64))


def unseen() -> KernelGridsRecord:
    """One of two planes is never written."""

    def scale(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    plane = BlockSpec((1, 16, 16), lambda i, j: (0, i, j))
    call = pallas_call(scale, like(2, 64, 64), grid=(4, 4), in_specs=[plane], out_specs=plane)
    return kernel_grids(call, like(2, 64, 64))


def race() -> KernelGridsRecord:
    """A sum along an axis that is called parallel."""
    return matmul(64, 16, ("parallel", "parallel", "parallel"))


def overlapping() -> KernelGridsRecord:
    """Parallel programs whose windows overlap, and don't reach the end."""

    def smooth(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    window = BlockSpec((Element(24), 32), lambda i, j: (20 * i, j))
    call = pallas_call(
        smooth, like(70, 96), grid=(3, 3), in_specs=[window], out_specs=window,
        compiler_params=tpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )  # fmt: skip
    return kernel_grids(call, like(70, 96))


# Fast memory --------------------------------------------------------------------------------------------------


def memory_of_product() -> KernelMemoriesRecord:
    """Blocks and scratch of a product, of which some doesn't fit on a v4."""
    return kernel_memories(product(4096, 1024), like(4096, 4096), like(4096, 4096), chip="v4")


def memory_of_small() -> KernelMemoriesRecord:
    """Blocks of 100 columns, scalars and a pipeline's buffers, in two kernels."""

    def add(n_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + n_ref[0]

    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def piped(x_ref, o_ref):
        block = BlockSpec((8, 128), lambda i: (i, 0))
        tpu.emit_pipeline(double, grid=(8,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    def f(n, x, y):
        row = BlockSpec((8, 100), lambda i, n: (i, 0))
        spec = tpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(8,), in_specs=[row], out_specs=row
        )
        anywhere = BlockSpec(memory_space=pallas.ANY)
        added = pallas_call(add, like(64, 100), grid_spec=spec)(n, x)
        return added, pallas_call(piped, like(64, 128), in_specs=[anywhere], out_specs=anywhere)(y)

    return kernel_memories(f, pl.ShapeDtypeStruct((4,), np.int32), like(64, 100), like(64, 128))


def memory_of_none() -> KernelMemoriesRecord:
    """No kernel."""
    return kernel_memories(jnp.sin, like(4))
