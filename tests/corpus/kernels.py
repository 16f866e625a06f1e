"""Kernels over grids, written for the reference's `pallas` and for ours: samples by name, and random ones by number."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

F32, I32 = np.float32, np.int32


def modules(jax: Any) -> tuple[Any, Any, Any]:
    """`pallas`, `pallas.tpu` and `pallas.triton` of a library."""
    name = f"{jax.__name__}.experimental.pallas"
    pallas = importlib.import_module(name)
    return pallas, importlib.import_module(f"{name}.tpu"), importlib.import_module(f"{name}.triton")


def array(shape: Any, dtype: Any = F32, seed: int = 0) -> np.ndarray:
    """Small integers in any dtype, which sums keep exact."""
    return np.random.default_rng(seed).integers(0, 5, shape).astype(dtype)


# Samples: each gives the results of some calls ----------------------------------------------------------------


def edges(jax: Any) -> Any:
    """Blocks that don't divide their arrays: reads beyond the edge are undefined, writes there are dropped."""
    pl, _, _ = modules(jax)

    def total(x_ref, o_ref, s_ref):
        o_ref[...] = x_ref[...] * 2
        s_ref[...] = x_ref[...].sum(keepdims=True, axis=1)

    x = array((5, 7))
    return pl.pallas_call(
        total,
        [jax.ShapeDtypeStruct((5, 7), F32), jax.ShapeDtypeStruct((5, 3), F32)],
        grid=(2, 3),
        in_specs=[pl.BlockSpec((3, 3), lambda i, j: (i, j))],
        out_specs=[
            pl.BlockSpec((3, 3), lambda i, j: (i, j)),
            pl.BlockSpec((3, 1), lambda i, j: (i, j)),
        ],
        interpret=True,
    )(x)


def undefined(jax: Any) -> Any:
    """What a result holds where nothing was written, for each dtype."""
    pl, _, gpu = modules(jax)

    def nothing(o_ref):
        gpu.store(o_ref, jax.numpy.ones(2, o_ref.dtype), mask=jax.numpy.arange(2) < 1)

    return [
        pl.pallas_call(nothing, jax.ShapeDtypeStruct((2,), dtype), interpret=True)()
        for dtype in ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "uint32", "bool")
    ]


def elements(jax: Any) -> Any:
    """Blocks by their first element, which overlap, with padding."""
    pl, _, _ = modules(jax)

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        copy,
        jax.ShapeDtypeStruct((3, 4), F32),
        grid=3,
        in_specs=[pl.BlockSpec((pl.Element(4, (1, 1)),), lambda i: 2 * i)],
        out_specs=pl.BlockSpec((None, 4), lambda i: (i, 0)),
        interpret=True,
    )(np.arange(1, 7, dtype=F32))


def prefetched(jax: Any) -> Any:
    """Index maps that read prefetched scalars."""
    pl, tpu, _ = modules(jax)

    def copy(s_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + s_ref[pl.program_id(0)]

    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((2,), lambda i, s: (s[i],))],
        out_specs=pl.BlockSpec((2,), lambda i, s: (i,)),
    )
    call = pl.pallas_call(copy, jax.ShapeDtypeStruct((8,), F32), grid_spec=spec, interpret=True)
    return call(np.array([3, 1, 1, 0], I32), np.arange(8, dtype=F32))


def bounds(jax: Any) -> Any:
    """A grid whose size is known when the program runs."""
    pl, _, _ = modules(jax)

    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2 + pl.num_programs(0)

    block = pl.BlockSpec((2,), lambda i: (i,))

    def run(n, x):
        return pl.pallas_call(
            double, x, grid=(n,), in_specs=[block], out_specs=block, interpret=True
        )(x)

    return jax.jit(run)(4, np.arange(8, dtype=F32))


def matmul(jax: Any) -> Any:
    """A product of matrices in blocks, with a sum in scratch, and its derivatives by jvp."""
    pl, tpu, _ = modules(jax)

    def multiply(x_ref, y_ref, o_ref, sum_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            sum_ref[...] = jax.numpy.zeros_like(sum_ref)

        sum_ref[...] += jax.numpy.dot(x_ref[...], y_ref[...])

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = sum_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        multiply,
        jax.ShapeDtypeStruct((4, 6), F32),
        grid=(2, 3, 2),
        in_specs=[
            pl.BlockSpec((2, 4), lambda i, j, k: (i, k)),
            pl.BlockSpec((4, 2), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((2, 2), lambda i, j, k: (i, j)),
        scratch_shapes=[tpu.VMEM((2, 2), F32)],
        interpret=True,
    )(array((4, 8)), array((8, 6), seed=1))


def aliased(jax: Any) -> Any:
    """A result that begins as an input, of which one block is written."""
    pl, _, _ = modules(jax)

    def write(x_ref, o_ref):
        o_ref[...] = o_ref[...] + 10 * x_ref[...]

    return pl.pallas_call(
        write,
        jax.ShapeDtypeStruct((6,), F32),
        grid=(1,),
        in_specs=[pl.BlockSpec((2,), lambda i: (1,))],
        out_specs=pl.BlockSpec((2,), lambda i: (2,)),
        input_output_aliases={0: 0},
        interpret=True,
    )(np.arange(6, dtype=F32))


def masked(jax: Any) -> Any:
    """Loads and stores at positions beyond the end of arrays, as kernels for GPUs write them."""
    pl, _, gpu = modules(jax)

    def softened(x_ref, o_ref):
        at = pl.program_id(0) * 4 + jax.numpy.arange(4)
        inside = at < 6
        x = gpu.load(x_ref.at[at], mask=inside, other=-1.0)
        gpu.store(o_ref.at[at], x * 2 + x.sum(), mask=inside)

    return pl.pallas_call(softened, jax.ShapeDtypeStruct((6,), F32), grid=2, interpret=True)(
        np.arange(6, dtype=F32)
    )


def controlled(jax: Any) -> Any:
    """Loops, conditions and scoped references within a kernel."""
    pl, tpu, _ = modules(jax)

    def kernel(x_ref, o_ref):
        def with_scratch(ref):
            ref[...] = x_ref[...]

            @pl.loop(0, 3)
            def _(i):
                ref[i] = ref[i] * 2

                @pl.when(i == 1)
                def _():
                    ref[i] = ref[i] + 100

            o_ref[...] = ref[...]

        pl.run_scoped(with_scratch, tpu.VMEM((4,), F32))
        o_ref[pl.ds(2, 2)] = jax.lax.fori_loop(
            0, pl.program_id(0) + 1, lambda i, v: v + 1, o_ref[pl.ds(2, 2)]
        )

    block = pl.BlockSpec((4,), lambda i: (i,))
    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((8,), F32),
        grid=2,
        in_specs=[block],
        out_specs=block,
        interpret=True,
    )(np.arange(8, dtype=F32))


def written_inputs(jax: Any) -> Any:
    """An input that programs write keeps what they wrote, for later programs of the call."""
    pl, _, _ = modules(jax)

    def kernel(x_ref, o_ref):
        x_ref[...] += 1
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((4,), F32),
        grid=4,
        in_specs=[pl.BlockSpec((1,), lambda i: (0,))],
        out_specs=pl.BlockSpec((1,), lambda i: (i,)),
        interpret=True,
    )(np.ones(1, F32))


def trees(jax: Any) -> Any:
    """Arguments and results that are trees, a spec without a block, no grid, a scalar."""
    pl, _, _ = modules(jax)

    def kernel(x, s_ref, o):
        o["sum"][...] = x["a"][...] + x["b"][0] + s_ref[...]
        o["n"][...] = jax.numpy.int32(3)

    out = {"sum": jax.ShapeDtypeStruct((3,), F32), "n": jax.ShapeDtypeStruct((), I32)}
    return pl.pallas_call(kernel, out, interpret=True)(
        {"a": array(3), "b": array(2)}, np.float32(7)
    )


def views(jax: Any) -> Any:
    """Parts of references, slices with steps, arrays of positions."""
    pl, _, _ = modules(jax)

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.numpy.zeros_like(o_ref)
        o_ref[0, :] = x_ref[1, :]
        o_ref.at[pl.ds(1, 1)][0, pl.ds(1, 2)] = x_ref[0, pl.ds(0, 2)]
        o_ref[2, pl.ds(2, 2)] = x_ref[2, pl.ds(1, 2)]

    return pl.pallas_call(kernel, jax.ShapeDtypeStruct((3, 4), F32), interpret=True)(array((3, 4)))


def batched(jax: Any) -> Any:
    """vmap, of a call that sees its position in the grid, and with scalars that differ between elements."""
    pl, tpu, _ = modules(jax)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] + pl.program_id(0)

    block = pl.BlockSpec((2,), lambda i: (i,))
    call = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((4,), F32),
        grid=2,
        in_specs=[block, block],
        out_specs=block,
        interpret=True,
    )
    x, y = array((3, 4)), array(4, seed=1)

    def copy(s_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((2,), lambda i, s: (s[i],))],
        out_specs=pl.BlockSpec((2,), lambda i, s: (i,)),
    )
    gather = pl.pallas_call(copy, jax.ShapeDtypeStruct((4,), F32), grid_spec=spec, interpret=True)
    order = np.array([[0, 1], [1, 0], [1, 1]], I32)
    return [
        jax.vmap(call, in_axes=(0, None))(x, y),
        jax.vmap(call, in_axes=(1, 0))(x.T, x),
        jax.vmap(gather)(order, x),
    ]


def tangents(jax: Any) -> Any:
    """Forward mode of a kernel."""
    pl, _, _ = modules(jax)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] ** 2

    block = pl.BlockSpec((2,), lambda i: (i,))
    call = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((4,), F32),
        grid=2,
        in_specs=[block, block],
        out_specs=block,
        interpret=True,
    )
    x, y = array(4), array(4, seed=1)
    return jax.jvp(call, (x, y), (y, x))


SAMPLES = [
    edges, undefined, elements, prefetched, bounds, matmul, aliased, masked, controlled, written_inputs, trees, views,
    batched, tangents,
]  # fmt: skip


# Random kernels -------------------------------------------------------------------------------------------------


def random_kernel(jax: Any, seed: int) -> tuple[Any, list[np.ndarray]]:
    """(a kernel over a random grid, with random blocks, maps, masks, scratch and aliases; its arguments).

    Results depend on the first axes of the grid, so that no block is visited again later; every block is written.
    """
    pl, tpu, gpu = modules(jax)
    jnp = jax.numpy
    rng = np.random.default_rng(seed)
    pick = lambda *choices: choices[rng.integers(len(choices))]
    grid = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 4)))
    n_axes = len(grid)
    dtype = pick(F32, F32, I32, np.int8, "bfloat16", np.bool_)

    def result_spec():
        """(shape, spec): dimensions in a random order, one for each of some first axes, the others whole."""
        used = int(rng.integers(0, n_axes + 1))
        dims = [*range(used), *[None] * int(rng.integers(0, 3))][:4]
        rng.shuffle(dims)
        shape, block, rules = [], [], []
        for axis in dims:
            if axis is None:
                n = int(rng.integers(1, 4))
                shape.append(n)
                block.append(n)
                rules.append(None)
                continue
            size = int(rng.integers(1, 4))
            squeezed = size == 1 and rng.random() < 0.6
            shape.append(
                max(grid[axis] * size - int(rng.integers(0, size)), (grid[axis] - 1) * size + 1)
            )
            block.append(None if squeezed else size)
            rules.append((axis, bool(rng.random() < 0.25)))

        def index_map(*ids):
            return tuple(
                0 if rule is None else grid[rule[0]] - 1 - ids[rule[0]] if rule[1] else ids[rule[0]]
                for rule in rules
            )

        covered = set(range(used)) == {rule[0] for rule in rules if rule is not None}
        return tuple(shape), pl.BlockSpec(tuple(block), index_map), used, covered

    def input_spec():
        shape, block, rules = [], [], []
        for _ in range(int(rng.integers(0, 4))):
            n = int(rng.integers(1, 8))
            size = int(rng.integers(1, n + 1))
            shape.append(n)
            block.append(None if size == 1 and rng.random() < 0.5 else size)
            weights = rng.integers(0, 3, n_axes).tolist()
            kind = pick("sum", "axis", "zero")
            rules.append((kind, weights, -(-n // size), int(rng.integers(0, max(n_axes, 1)))))

        def index_map(*ids):
            indices = []
            for kind, weights, count, axis in rules:
                if kind == "axis" and n_axes:
                    indices.append(ids[axis] if grid[axis] <= count else ids[axis] % count)
                elif kind == "sum" and n_axes:
                    indices.append(sum(w * i for w, i in zip(weights, ids, strict=True)) % count)
                else:
                    indices.append(0)
            return tuple(indices)

        return tuple(shape), pl.BlockSpec(tuple(block), index_map)

    while True:
        results = [result_spec() for _ in range(int(rng.integers(1, 3)))]
        if all(covered for *_, covered in results):
            break
    inputs = [input_spec() for _ in range(int(rng.integers(0, 3)))]
    has_alias = rng.random() < 0.3
    if has_alias:
        inputs.insert(0, results[0][:2])
    has_scratch = rng.random() < 0.4
    is_reset = rng.random() < 0.5
    accumulates = [rng.random() < 0.4 for _ in results]
    masks = [rng.random() < 0.3 for _ in results]

    def narrow(x):
        """Sums of small integers that fit every dtype."""
        return x.astype(jnp.bool_) if np.dtype(dtype) == np.bool_ else x.astype(dtype)

    def kernel(*refs):
        in_refs, rest = refs[: len(inputs)], refs[len(inputs) :]
        out_refs, scratch = rest[: len(results)], rest[len(results) :]
        value = jnp.int32(1)
        for axis in range(n_axes):
            value = value * 2 + pl.program_id(axis)
        value = value % 7
        parts = [ref[...].astype(jnp.float32) for ref in in_refs]
        for ref in scratch:
            start = range(results[0][2], n_axes) if is_reset else range(n_axes)
            first = jnp.bool_(True)
            for axis in start:
                first = first & (pl.program_id(axis) == 0)

            @pl.when(first)
            def _(ref=ref):
                ref[...] = jnp.zeros_like(ref)

            ref[...] += value.astype(jnp.float32)
            value = value + ref[0].astype(jnp.int32) % 3
        for (_, _, used, _), ref, accumulate, mask in zip(
            results, out_refs, accumulates, masks, strict=True
        ):
            new = jnp.zeros(ref.shape, jnp.float32) + value.astype(jnp.float32)
            for part in parts:
                whole = part if part.shape == ref.shape else jnp.max(part, initial=0)
                new = new + whole % 5
            if accumulate and np.dtype(dtype) != np.bool_:
                first = jnp.bool_(True)
                for axis in range(used, n_axes):
                    first = first & (pl.program_id(axis) == 0)

                @pl.when(first)
                def _(ref=ref):
                    ref[...] = jnp.zeros_like(ref)

                ref[...] += narrow(new % 4)
            elif mask and ref.shape:
                keep = jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0) % 2 == value % 2
                gpu.store(ref, narrow(new), mask=keep)
            else:
                ref[...] = narrow(new)

    arrays = [array(shape, dtype, seed + i) for i, (shape, _) in enumerate(inputs)]
    call = pl.pallas_call(
        kernel,
        [jax.ShapeDtypeStruct(shape, dtype) for shape, *_ in results],
        grid=grid,
        in_specs=[spec for _, spec in inputs],
        out_specs=[spec for _, spec, *_ in results],
        scratch_shapes=[tpu.VMEM((2,), F32)] if has_scratch else [],
        input_output_aliases={0: 0} if has_alias else {},
        interpret=True,
    )
    return call, arrays


def random_access(jax: Any, seed: int) -> tuple[Any, list[np.ndarray]]:
    """(a kernel whose blocks data choose, or overlap, and that reads and writes parts of references; its arguments).

    Prefetched scalars, elements with padding, grids of traced sizes, loops and branches with traced positions, views, references made
    in the kernel, written inputs.
    """
    pl, tpu, gpu = modules(jax)
    jnp = jax.numpy
    rng = np.random.default_rng(seed)
    pick = lambda *choices: choices[rng.integers(len(choices))]
    n_programs, size, width = (
        int(rng.integers(1, 5)),
        int(rng.integers(1, 4)),
        int(rng.integers(1, 4)),
    )
    n_blocks = n_programs + int(rng.integers(0, 2))
    is_chosen, is_traced, is_reversed = rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.3
    dtype = pick(F32, F32, I32, np.int16)
    padding = (int(rng.integers(0, 3)), int(rng.integers(0, 3)))
    reach = max(n_programs + padding[0] + padding[1] - 1, 1)
    whole_columns = int(rng.integers(1, 6))
    steps = [
        pick("slice", "stride", "rows", "branch", "scoped", "loop", "view", "masked")
        for _ in range(int(rng.integers(1, 4)))
    ]
    numbers = rng.integers(0, 4, 8).tolist()
    order = rng.integers(0, n_blocks, n_programs).astype(I32)
    is_masked = rng.random() < 0.4

    def chosen(i, *scalars):
        return (scalars[0][i] if is_chosen else n_blocks - 1 - i if is_reversed else i, 0)

    inputs = [
        ((n_blocks * size, width), pl.BlockSpec((size, width), chosen)),
        ((n_programs,), pl.BlockSpec((pl.Element(reach, padding),), lambda i, *_: (0,))),
        ((4, whole_columns), None),
    ]
    result = ((n_programs * size, width), pl.BlockSpec((size, width), lambda i, *_: (i, 0)))

    def kernel(*refs):
        refs = refs[1:] if is_chosen else refs
        x_ref, window_ref, whole_ref, o_ref = refs
        i = pl.program_id(0)
        value = x_ref[...].astype(jnp.float32)
        window = jnp.where(jnp.arange(reach) < padding[0], 0, window_ref[...].astype(jnp.float32))
        window = jnp.where(jnp.arange(reach) < padding[0] + n_programs, window, 0)
        value = value + window.sum()
        for step, n in zip(steps, numbers, strict=False):
            if step == "slice":
                start = i % whole_columns
                value = value + whole_ref[n, pl.ds(start, 1)].astype(jnp.float32)
            elif step == "stride":
                value = value + whole_ref[pl.ds(n % 2, 2, 2), pl.ds(0, 1)].astype(jnp.float32).sum()
            elif step == "rows":
                rows = (jax.lax.iota(jnp.int32, 3) + i) % 4
                value = value + whole_ref[rows, n % whole_columns].astype(jnp.float32).max()
            elif step == "branch":
                value = jax.lax.cond(i % 2 == n % 2, lambda v: v + 1, lambda v: v * 2, value)
            elif step == "scoped":
                before = value

                def body(ref, before=before):
                    ref[...] = before
                    ref[0, :] = ref[0, :] + 1
                    return ref[...] * 2

                value = pl.run_scoped(body, tpu.VMEM((size, width), F32))
            elif step == "loop":
                part = lambda k: whole_ref[k % 4, k % whole_columns].astype(jnp.float32)
                value = jax.lax.fori_loop(0, i + n, lambda k, v, part=part: v + part(k), value)
            elif step == "view":
                value = value + x_ref.at[pl.ds(0, 1)][0, pl.ds(width - 1, 1)].astype(jnp.float32)
            else:
                columns = jax.lax.iota(jnp.int32, 4) + n
                row = gpu.load(
                    whole_ref.at[0, columns % whole_columns],
                    mask=columns < 5,
                    other=jnp.asarray(n, dtype),
                )
                value = value + row.astype(jnp.float32).sum()
        value = (value % 97).astype(dtype)
        if is_masked:
            o_ref[...] = jnp.zeros_like(o_ref)
            keep = jax.lax.broadcasted_iota(jnp.int32, (size, width), 0) % 2 == i % 2
            gpu.store(o_ref, value, mask=keep)
        else:
            o_ref[...] = value

    arrays = [array(shape, dtype, seed + k) for k, (shape, _) in enumerate(inputs)]
    specs = [pl.BlockSpec() if spec is None else spec for _, spec in inputs]
    out = jax.ShapeDtypeStruct(result[0], dtype)
    if is_chosen:
        spec = tpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(n_programs,), in_specs=specs, out_specs=result[1]
        )
        call = pl.pallas_call(kernel, out, grid_spec=spec, interpret=True)
        return lambda *xs: [call(*xs)], [order, *arrays]

    def run(n, *xs):
        call = pl.pallas_call(
            kernel, out, grid=(n,), in_specs=specs, out_specs=result[1], interpret=True
        )
        return [call(*xs)]

    if is_traced:
        return lambda *xs: jax.jit(run)(n_programs, *xs), arrays
    return lambda *xs: run(n_programs, *xs), arrays


SECOND = 1000
"""Numbers of random kernels from which on they are those of `random_access`."""


def answer(jax: Any, which: str | int) -> list[np.ndarray]:
    """The leaves of a sample's or random kernel's results as NumPy arrays, those of bfloat16 in float32."""
    if isinstance(which, int):
        make, seed = (random_kernel, which) if which < SECOND else (random_access, which - SECOND)
        call, arrays = make(jax, seed)
        results = call(*arrays)
    else:
        results = globals()[which](jax)
    leaves = [np.asarray(x) for x in jax.tree.leaves(results)]
    return [x.astype(np.float32) if str(x.dtype) == "bfloat16" else x for x in leaves]


def answers(jax: Any, which: list[str | int]) -> list[Any]:
    """`answer` of each, for the oracle."""
    return [answer(jax, x) for x in which]
