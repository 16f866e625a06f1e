"""Kernels run program by program on plain arrays: blocks are gathered by positions, and written back after each program."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import (
    BlockSpec,
    BoundedSlice,
    Element,
    Indirect,
    pallas_call,
    tpu,
    triton,
)
from pellucid.kernels.grid import GridPosition, within

F32, I32 = np.float32, np.int32
_NOWHERE = 10**6


class Case(NamedTuple):
    """A kernel: `body` takes lists of references to scalars, inputs, results, scratch, and arrays from outside."""

    grid: tuple[int, ...]
    traced: tuple[int, ...]
    """Axes whose sizes are traced."""
    in_specs: list[BlockSpec]
    out_specs: list[BlockSpec]
    shapes: list[tuple[int, ...]]
    dtype: Any
    scratch: list[tuple[int, ...]]
    aliases: dict[int, int]
    params: Any
    body: Any


def undefined(shape, dtype):
    return jnp.full(shape, np.nan if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min, dtype)


# Program by program ---------------------------------------------------------------------------------------


def places(spec: BlockSpec, shape, ids, scalars):
    """(positions along each dimension, as of `np.ix_`, the shape that the kernel sees); `_NOWHERE` outside."""
    if spec.block_shape is None:
        return None, shape
    given = spec.index_map(*[jnp.int32(i) for i in ids], *scalars)
    positions, seen = [], []
    for dim, index, n in zip(spec.block_shape, given, shape, strict=True):
        if dim is None:
            found = np.array([int(index)])
        elif isinstance(dim, int):
            found = int(index) * dim + np.arange(dim)
        elif isinstance(dim, Element):
            found = int(index) - dim.padding[0] + np.arange(dim.block_size)
        elif isinstance(dim, BoundedSlice):
            found = int(index.start) + np.arange(dim.block_size)
            found[int(index.size) :] = _NOWHERE
        else:
            found = np.asarray(index)
        if dim is not None:
            seen.append(len(found))
        positions.append(np.where((found < 0) | (found >= n), _NOWHERE, found))
    return np.ix_(*positions), tuple(seen)


def one_by_one(case: Case, scalars, inputs, outside):
    """The results, then the last contents of references from outside."""
    arrays = [jnp.asarray(x) for x in inputs]
    results = [
        arrays[case.aliases[k]] if k in case.aliases else undefined(shape, case.dtype)
        for k, shape in enumerate(case.shapes)
    ]
    scratch = [pl.new_ref(undefined(shape, F32)) for shape in case.scratch]
    outer, scalar_refs = [[pl.new_ref(jnp.asarray(x)) for x in xs] for xs in (outside, scalars)]
    for ids in itertools.product(*map(range, case.grid)):

        def read(x, spec, ids=ids):
            at, seen = places(spec, x.shape, ids, scalar_refs)
            if at is None:
                return x
            nothing = undefined((), x.dtype)
            return x.at[at].get(mode="fill", fill_value=nothing[()]).reshape(seen)

        def written(x, spec, block, ids=ids):
            at, _ = places(spec, x.shape, ids, scalar_refs)
            if at is None:
                return block
            return x.at[at].set(block.reshape([i.size for i in at]), mode="drop")

        ins, outs = [
            [pl.new_ref(read(x, spec)) for x, spec in zip(xs, specs, strict=True)]
            for xs, specs in ((arrays, case.in_specs), (results, case.out_specs))
        ]
        with within(GridPosition(tuple(map(I32, ids)), case.grid, None)):
            case.body(scalar_refs, ins, outs, scratch, outer)
        arrays, results = [
            [written(x, spec, ref[...]) for x, spec, ref in zip(xs, specs, refs, strict=True)]
            for xs, specs, refs in ((arrays, case.in_specs, ins), (results, case.out_specs, outs))
        ]
    return [*results, *[ref[...] for ref in outer]]


def as_kernel(case: Case, scalars, inputs, outside):
    """The same by `pallas_call`."""
    outer = [pl.new_ref(x) for x in outside]
    # References come in this order: scalars, inputs, results, scratch.
    ends = np.cumsum([0, len(scalars), len(inputs), len(case.shapes), len(case.scratch)])

    def kernel(*refs):
        case.body(*[refs[a:b] for a, b in itertools.pairwise(ends)], outer)

    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=len(scalars),
        grid=tuple(
            [jnp.int32(n) if axis in case.traced else n for axis, n in enumerate(case.grid)]
        ),
        in_specs=case.in_specs,
        out_specs=case.out_specs,
        scratch_shapes=[tpu.VMEM(shape, F32) for shape in case.scratch],
    )
    call = pallas_call(
        kernel,
        [pl.ShapeDtypeStruct(shape, case.dtype) for shape in case.shapes],
        grid_spec=spec,
        input_output_aliases={len(scalars) + i: k for k, i in case.aliases.items()},
        compiler_params=case.params,
    )
    return [*call(*scalars, *inputs), *[ref[...] for ref in outer]]


# Random kernels --------------------------------------------------------------------------------------------


def random_case(seed: int) -> tuple[Case, list[Any], list[Any], list[Any]]:
    """(a kernel, its prefetched scalars, its inputs, arrays from outside).

    Results are written through blocks along some axes of the grid, in any order; a block may be visited again.
    """
    rng = np.random.default_rng(seed)
    below = lambda low, high: int(rng.integers(low, high))
    pick = lambda *choices: choices[below(0, len(choices))]
    grid = tuple([below(1, 4) for _ in range(below(0, 4))])
    axes, n_programs = range(len(grid)), int(np.prod(grid, dtype=int))
    scalars = [rng.integers(0, 3, n_programs).astype(I32) for _ in range(below(0, 2))]
    dtype = F32 if rng.random() < 0.8 else I32

    def number(ids):
        """The number of the program at a position, row by row."""
        t = jnp.int32(0)
        for n, i in zip(grid, ids, strict=True):
            t = t * n + i
        return t

    def input_spec():
        shape, block, rules = [], [], []
        for _ in range(below(0, 4)):
            n, kind = (
                below(1, 7),
                pick("blocks", "blocks", "one", "elements", "bounded", "gathered"),
            )
            size, padding = below(1, n + 1), (below(0, 3), below(0, 3))
            if kind == "gathered":
                size = below(1, 4)
            # How many values the index may have.
            count = {
                "blocks": -(-n // size),
                "elements": n + sum(padding) - size + 1,
                "bounded": n - size + 1,
            }.get(kind, n)
            shape.append(n)
            block.append(
                {
                    "one": None,
                    "elements": Element(size, padding),
                    "bounded": BoundedSlice(size),
                    "gathered": Indirect(size),
                }.get(kind, size)
            )
            rules.append(
                (
                    kind,
                    size,
                    count,
                    rng.integers(0, 3, len(grid)).tolist(),
                    bool(scalars) and rng.random() < 0.3,
                )
            )
        if not shape or rng.random() < 0.2:
            return tuple(shape), BlockSpec()

        def index_map(*given):
            ids, refs, indices = given[: len(grid)], given[len(grid) :], []
            for kind, size, count, weights, reads in rules:
                index = jnp.int32(0)
                for weight, i in zip(weights, ids, strict=True):
                    index = index + weight * i
                index = (index + refs[0][number(ids)] if reads else index) % count
                if kind == "bounded":
                    index = pallas.ds(index, jnp.minimum(size, index + 1))
                if kind == "gathered":
                    index = (index + 2 * jnp.arange(size, dtype=I32)) % count
                indices.append(index)
            return tuple(indices)

        return tuple(shape), BlockSpec(tuple(block), index_map)

    def result_spec():
        """(shape, spec, axes on which the block depends)."""
        dims = [*[a for a in axes if rng.random() < 0.6], *[None] * below(0, 2)]
        rng.shuffle(dims)
        shape, block, rules = [], [], []
        for axis in dims:
            size = below(1, 4)
            if axis is None:
                shape.append(size)
                block.append(size + (rng.random() < 0.3))
                rules.append(None)
                continue
            kind = pick("blocks", "elements", "one" if size == 1 else "elements")
            short = below(0, size) if kind == "blocks" else 0
            shape.append(grid[axis] * size - short)
            block.append({"one": None, "elements": Element(size)}.get(kind, size))
            rules.append((axis, rng.random() < 0.4, size if kind == "elements" else 1))

        def index_map(*ids):
            turned = lambda axis, is_turned: grid[axis] - 1 - ids[axis] if is_turned else ids[axis]
            return tuple([0 if r is None else turned(*r[:2]) * r[2] for r in rules])

        again = pallas.Buffered(2, revisit=pallas.RevisitMode.ANY)
        spec = BlockSpec(tuple(block), index_map, again) if block else BlockSpec()
        return tuple(shape), spec, [a for a in dims if a is not None]

    inputs = [input_spec() for _ in range(below(0, 4))]
    results = [result_spec() for _ in range(below(1, 3))]
    aliases: dict[int, int] = {}
    if rng.random() < 0.35:
        k = below(0, len(results))
        inputs.append((results[k][0], pick(results[k][1], BlockSpec())))
        aliases[k] = len(inputs) - 1
    shapes_of = lambda *counts: [
        tuple([below(1, 4) for _ in range(below(0, 3))]) for _ in range(pick(*counts))
    ]
    scratch, outside = shapes_of(0, 0, 1, 2), shapes_of(0, 0, 0, 1)
    ways = [pick("sum", "set", "masked", "when", "loop", "cond", "scoped") for _ in results]
    resets = [pick("first", "first along the last axis", "each") for _ in scratch]
    writes_outside, writes_input = rng.random() < 0.5, rng.random() < 0.15
    traced = tuple([a for a in axes if rng.random() < 0.12])
    params = None
    if not (scratch or outside or writes_input) and rng.random() < 0.3:
        shared = [a for a in axes if all(a in depends for *_, depends in results)]
        params = tpu.CompilerParams(
            dimension_semantics=tuple(["parallel" if a in shared else "arbitrary" for a in axes])
        )

    def body(scalar_refs, ins, outs, scratch_refs, outer):
        ids = [pallas.program_id(a) for a in axes]
        t = jnp.asarray(number(ids))
        value = (t % 3).astype(F32)
        parts = []
        for ref in ins:
            x = ref[...].astype(F32)
            x = jnp.where(
                jnp.isfinite(x) & (jnp.abs(x) < 1e6), x, 0
            )  # undefined elements count as 0
            parts.append(jnp.sin(x) + x * x)
        for ref in scalar_refs:
            value = value + ref[t].astype(F32)
        if writes_input and ins:
            ins[0][...] = ins[0][...] + 1
        for ref, reset in zip(scratch_refs, resets, strict=True):
            if reset == "each":
                ref[...] = jnp.full(ref.shape, value, F32)
            else:
                is_first = t == 0 if reset == "first" or not ids else ids[-1] == 0
                pallas.when(is_first)(
                    lambda ref=ref: ref.__setitem__(..., jnp.zeros(ref.shape, F32))
                )
            for part in parts[:2]:
                ref[...] += part.sum() / 8
            value = value + ref[...].sum() / 8
        for ref in outer:
            value = value + ref[...].sum() / 8
            if writes_outside:
                ref[...] = ref[...] / 2 + value
        for k, (ref, way, (*_, depends)) in enumerate(zip(outs, ways, results, strict=True)):
            new = jnp.full(ref.shape, value + k, F32)
            for part in parts:
                new = new + (part if part.shape == ref.shape else part.sum() / 8)
            new = new.astype(ref.dtype)
            if way == "masked" and ref.shape:
                mask = lax.broadcasted_iota(I32, ref.shape, 0) % 2 == t % 2
                triton.store(ref.at[...], new, mask=mask)
            elif way == "sum":
                is_first = jnp.bool_(True)
                for axis in set(axes) - set(depends):
                    is_first = is_first & (ids[axis] == 0)
                pallas.when(is_first)(
                    lambda ref=ref: ref.__setitem__(..., jnp.zeros(ref.shape, ref.dtype))
                )
                ref[...] += new
            elif way == "when":
                ref[...] = new
                pallas.when(t % 2 == 1)(lambda ref=ref, new=new: ref.__setitem__(..., new * 2))
            elif way == "loop" and ref.shape:
                ref[...] = new
                pallas.loop(0, ref.shape[0])(
                    lambda i, ref=ref: ref.__setitem__(i, ref[i] * 2 + ref[(i + 1) % ref.shape[0]])
                )
            elif way == "cond":
                ref[...] = lax.cond(t % 2 == 0, lambda x: x * 2, lambda x: x + 1, new)
            elif way == "scoped":

                def through(own, ref=ref, new=new):
                    own[...] = new
                    pallas.when(t % 3 == 0)(lambda: own.__setitem__(..., own[...] + 1))
                    ref[...] = own[...]

                pallas.run_scoped(through, tpu.VMEM(ref.shape, ref.dtype))
            else:
                ref[...] = new

    def without_scalars(spec):
        if spec.index_map is None:
            return spec
        index_map = spec.index_map
        return spec.replace(index_map=lambda *given: index_map(*given[: len(grid)]))

    in_specs = [
        without_scalars(s) if i in aliases.values() else s for i, (_, s) in enumerate(inputs)
    ]
    case = Case(
        grid, traced, in_specs, [without_scalars(s) for _, s, _ in results], [s for s, *_ in results], dtype,
        scratch, aliases, params, body,
    )  # fmt: skip
    arrays = [rng.integers(-2, 4, shape).astype(dtype) for shape, _ in inputs]
    return case, scalars, arrays, [rng.integers(-2, 4, shape).astype(F32) for shape in outside]
