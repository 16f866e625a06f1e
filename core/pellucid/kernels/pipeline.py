"""Grids within a kernel: a function over blocks of references, run for each point of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    UnsupportedError,
    strict_zip,
    tree_leaves,
)
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.primitives import broadcasted_iota, clamp
from pellucid._machine.primitives.dslice import Slice, ds
from pellucid._machine.refs.access import RefView, get, new_ref
from pellucid._machine.tracing import is_reference, type_of
from pellucid._machine.transforms import check_callable
from pellucid.numpy import arange, asarray

from .buffering import AtEdge, Grid, index_at, number_of_programs, run_pipeline, staged
from .grid import GridPosition, current_position, within
from .inside import load, store
from .programs import position
from .specs import BlockSpec, BoundedSlice, Indirect, Squeezed, block_dims, size_of, step_of


def emit_pipeline(
    body: Function,
    *,
    grid: tuple[Any, ...],
    in_specs: Any = (),
    out_specs: Any = (),
    tiling: Any = None,
    core_axis: Any = None,
    core_axis_name: Any = None,
    dimension_semantics: Any = None,
    trace_scopes: bool = True,
    no_pipelining: bool = False,
    _explicit_indices: bool = False,
) -> Callable[..., None]:
    """A function of references that runs `body` once for each point of a grid, with references to copies of their blocks.

    Blocks of `in_specs` are read before, those of `out_specs` are read before and written after each run; `program_id` in the body
    is the position in this grid. Blocks are as in `pallas_call`; elements beyond the edges are undefined and dropped. On TPUs the
    next blocks are copied meanwhile (`buffering`). The rest are hints. Raises: UnsupportedError for grids that cores share.

    >>> from pellucid._machine.refs.access import new_ref
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> block = BlockSpec((2,), lambda i: (i,))
    >>> result = new_ref(np.zeros(3, np.float32))
    >>> emit_pipeline(double, grid=(2,), in_specs=[block], out_specs=[block])(new_ref(np.ones(3, np.float32)), result)
    >>> result
    Ref([2., 2., 2.], dtype=float32)
    """
    check_callable(body, "emit_pipeline")
    if core_axis is not None or core_axis_name is not None:
        raise UnsupportedError("emit_pipeline: cores can't share a grid yet.")
    is_leaf = lambda x: isinstance(x, BlockSpec)
    in_leaves = tree_leaves(in_specs, is_leaf=is_leaf)
    # In the order of the references: inputs, then results.
    specs = [*in_leaves, *tree_leaves(out_specs, is_leaf=is_leaf)]

    def run(*refs: Any) -> None:
        if len(refs) != len(specs):
            raise ArgumentValueError(
                "emit_pipeline: there is one spec for each reference.",
                got=f"{len(specs)} specs, {len(refs)} references",
            )
        for ref in refs:
            if type(ref) is not RefView and not is_reference(ref):
                raise ArgumentTypeError(
                    "emit_pipeline: the function takes references, not arrays.",
                    got=f"got {type(ref).__name__}",
                    do="Pass the reference, or a part of it: `ref.at[index]`.",
                )
        total = number_of_programs(grid)

        def run_body(ids: Sequence[Any], blocks: Sequence[Any]) -> None:
            outer = current_position()
            failures = None if outer is None else outer.failures
            with within(GridPosition(tuple(ids), tuple(grid), None, failures)):
                body(*([tuple(ids)] if _explicit_indices else []), *blocks)

        def in_order(*refs: Any) -> None:
            def step(t: Any, _: None) -> None:
                ids = position(t, grid)
                # With a mask, elements beyond the edge are undefined when read, and dropped when written.
                seen = [block_view(*each, ids) for each in strict_zip(specs, refs)]
                blocks = [new_ref(load(view, mask=mask)) for view, mask in seen]
                run_body(ids, blocks)
                # Only the blocks of results are written back.
                n = len(in_leaves)
                for (view, mask), block in strict_zip(seen[n:], blocks[n:]):
                    store(view, block[...], mask=mask)

            fori_loop(np.int32(0), np.int32(total) if isinstance(total, int) else total, step, None)

        if current_position() is None:
            in_order(*refs)
            return
        found = staged(run_body, Grid(tuple(grid), total, specs, len(in_leaves)), refs, block_view)
        run_pipeline(in_order, found, refs)

    return run


def block_view(
    spec: BlockSpec, ref: Any, ids: Sequence[Any], at_edge: AtEdge | None = None
) -> tuple[RefView, Any]:
    """(the view of the block of a reference that the program at `ids` sees, mask of the elements that it has).

    `at_edge` has dimensions that blocks don't divide: the view is a part (first, size) of the last block's elements there, or with None a whole block before it.
    """
    dims = block_dims("emit_pipeline", spec, ref.shape)
    indices = (0,) * len(dims) if spec.index_map is None else index_at(spec, ids)
    if len(indices) != len(dims):
        raise ArgumentValueError(
            "emit_pipeline: an index map gives one index for each dimension of the block.",
            got=f"{len(indices)} for block {spec.block_shape} of a reference of shape {ref.shape}",
            where=spec.line,
        )
    # A bounded slice `ds(start, size)` as an index: the block begins at `start` and has `size` elements.
    bounds = {i: x.size for i, x in enumerate(indices) if type(x) is Slice}
    indices = [x.start if type(x) is Slice else x for x in indices]
    kept = [i for i, dim in enumerate(dims) if type(dim) is not Squeezed]
    shape = tuple([size_of(dims[i]) for i in kept])
    mask: Any = np.ones(shape, bool)
    for i, bound in bounds.items():
        if type(dims[i]) is not BoundedSlice:
            raise ArgumentTypeError(
                "emit_pipeline: an index map gives `ds` for dimensions that are a BoundedSlice.",
                got=f"{dims[i]} in block {spec.block_shape}",
                where=spec.line,
            )
        mask = mask & (broadcasted_iota(np.int32, shape, kept.index(i)) < bound)
    if any(type(dim) is Indirect for dim in dims):
        return ref.at[_positions(dims, indices)], mask
    entries = []
    for i, (dim, index) in enumerate(strict_zip(dims, indices)):
        size = size_of(dim)
        if at_edge and i in at_edge:
            last, part = ref.shape[i] // size, at_edge[i]
            # Within bounds that lowerings know.
            inner = clamp(np.int32(0), index, np.int32(last - 1)) * np.int32(size)
            entries.append(ds(inner, size) if part is None else ds(last * size + part[0], part[1]))
            continue
        start = index * np.int32(step_of(dim))  # no int, so that a block may reach beyond the edge
        entries.append(start if type(dim) is Squeezed else ds(start, size))
    return ref.at[tuple(entries)], mask


def _positions(dims: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
    """The positions of a block's elements along each dimension, which together are those of all pairs."""
    # Dimensions of the block as the kernel sees it.
    kept = [i for i, dim in enumerate(dims) if type(dim) is not Squeezed]
    entries = []
    for i, (dim, index) in enumerate(strict_zip(dims, indices)):
        if type(dim) is Indirect:
            x = asarray(get(index) if is_reference(index) or type(index) is RefView else index)
            if x.shape != (dim.block_size,) or x.dtype.kind not in "iu":
                raise ArgumentTypeError(
                    f"emit_pipeline: an index map gives an array of {dim.block_size} integers for an Indirect dimension.",
                    got=type_of(x).text(),
                )
        elif type(dim) is Squeezed:
            x = index
        else:
            x = index * np.int32(step_of(dim)) + arange(size_of(dim), dtype=np.int32)
        if type(dim) is not Squeezed:
            x = x.reshape([-1 if k == i else 1 for k in kept])
        entries.append(x)
    return tuple(entries)
