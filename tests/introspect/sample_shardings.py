"""Arrays over meshes, and a function whose intermediates are sharded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis
from tests.introspect.program_builder import ITEM_BYTES, schema

Axes = dict[str, int]


def mesh(axes: Axes, *, processes: int = 1, abstract: bool = False):
    count = math.prod(axes.values())
    return schema.MeshRecord(
        axis_names=list(axes),
        axis_sizes=list(axes.values()),
        axis_types=["auto"] * len(axes),
        device_ids=[] if abstract else list(range(count)),
        process_indices=[] if abstract else [i * processes // count for i in range(count)],
        device_coordinates=[],
        platform="cpu",
        device_kind="cpu",
    )


def spec(dims: Sequence[Sequence[str]], unreduced: Sequence[str] = ()):
    def entry(axes: Sequence[str]) -> str:
        names = [repr(axis) for axis in axes]
        return "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"

    parts = [entry(axes) for axes in dims]
    if unreduced:
        parts.append(f"unreduced={{{', '.join(map(repr, unreduced))}}}")
    return schema.SpecRecord(
        text=f"P({', '.join(parts)})",
        mesh=0,
        dim_axes=[list(axes) for axes in dims],
        unreduced_axes=list(unreduced),
        memory_kind=None,
    )


def array(
    name: str,
    dtype: str,
    shape: Sequence[int],
    axes: Axes,
    dims: Sequence[Sequence[str]],
    *,
    unreduced: Sequence[str] = (),
    processes: int = 1,
    abstract: bool = False,
):
    """An array of `shape`, each dimension divided by the axes that `dims` names for it."""
    parts = [math.prod(axes[axis] for axis in names) for names in dims]
    sizes = [math.ceil(size / count) for size, count in zip(shape, parts)]
    starts, stops = [], []
    for tile in itertools.product(*map(range, parts)):
        for index, size, extent in zip(tile, sizes, shape):
            starts.append(min(extent, index * size))
            stops.append(min(extent, (index + 1) * size))
    tiles = []
    for place in itertools.product(*map(range, axes.values())):
        at = dict(zip(axes, place))
        tile = 0
        for names, count in zip(dims, parts):
            index = 0
            for axis in names:
                index = index * axes[axis] + at[axis]
            tile = tile * count + index
        tiles.append(tile)
    return schema.ShardingRecord(
        name=name,
        type=f"{dtype}[{','.join(map(str, shape))}]",
        dtype=dtype,
        shape=list(shape),
        item_bytes=float(ITEM_BYTES[dtype]),
        mesh=mesh(axes, processes=processes, abstract=abstract),
        spec=spec(dims, unreduced),
        tile_starts=starts,
        tile_stops=stops,
        device_tiles=tiles,
    )


def simple():
    return array("x", "f32", (1024, 512), {"data": 2, "model": 4}, [["data"], ["model"]])


def replicated():
    return array("w", "bf16", (512, 2048), {"data": 4, "model": 2}, [[], ["model"]], processes=2)


def uneven():
    return array("ids", "i32", (10, 7), {"x": 4, "y": 2}, [["x"], ["y"]])


def unreduced():
    return array("partial", "f32", (64, 64), {"x": 2, "y": 4}, [["x"], []], unreduced=["y"])


def vector():
    return array("bias", "f32", (4096,), {"data": 2, "model": 4}, [["data", "model"]])


def scalar():
    return array("step", "i32", (), {"data": 2, "model": 4}, [])


def four_dims():
    return array(
        "attention",
        "bf16",
        (16, 12, 256, 256),
        {"data": 2, "model": 2, "sequence": 2},
        [["data"], ["model"], ["sequence"], []],
    )


def large():
    return array(
        "embedding",
        "bf16",
        (65536, 16384),
        {"replica": 4, "data": 32, "model": 32},
        [["data"], ["model"]],
        processes=512,
    )


def layer(x, w1, w2):
    h = jnp.tanh(x @ w1)
    y = h @ w2
    y = pl.lax.with_sharding_constraint(y, pl.NamedSharding(PAIR, pl.P("data")))
    z = y.T
    s = jnp.sort(z, axis=1)
    return z / jnp.sqrt((s * s).sum())


PAIR = pl.sharding.AbstractMesh((2, 4), ("data", "model"))


def placed(mesh, shape: Sequence[int], *entries):
    return pl.ShapeDtypeStruct(shape, np.float32, sharding=pl.NamedSharding(mesh, pl.P(*entries)))


def function():
    """A layer of two products: one that sums, one resharding, a sort that needs what is divided."""
    return analysis.sharding(
        layer,
        placed(PAIR, (512, 1024), "data"),
        placed(PAIR, (1024, 4096), None, "model"),
        placed(PAIR, (4096, 1024), "model"),
    )


LINE = pl.sharding.AbstractMesh((8,), ("line",))


def uneven_constraint():
    """A constraint that asks for 8 parts of 17 rows."""

    def scaled(x):
        rows = pl.lax.with_sharding_constraint(jnp.tanh(x), pl.NamedSharding(LINE, pl.P("line")))
        return rows * 2

    return analysis.sharding(scaled, placed(LINE, (17, 1024)))


@pl.jit
def block(x, w):
    h = jnp.tanh(x @ w)
    return h / jnp.sqrt((h * h).sum() + 1)


def calls():
    """One program called with three layouts, then values over another mesh of the same devices, in a loop too."""

    def steps(x, w, v):
        y = block(x, w)
        z = block(block(y.T, v), w)
        z = pl.lax.with_sharding_constraint(z, pl.NamedSharding(LINE, pl.P("line")))
        z, _ = pl.lax.scan(lambda c, _: (jnp.cos(c) * 2, c.sum()), z, None, length=3)
        total = pl.shard_map(
            lambda part: pl.lax.psum(jnp.exp(part), "line"),
            mesh=LINE, in_specs=pl.P("line"), out_specs=pl.P(),
        )  # fmt: skip
        return total(z)

    return analysis.sharding(
        steps,
        placed(PAIR, (512, 512), "data"),
        placed(PAIR, (512, 512), None, "model"),
        placed(PAIR, (512, 512), "model"),
    )


def layers(mesh, count: int):
    """The gradient of a network of `count` layers, cut along both axes of `mesh`."""

    def loss(weights, x):
        for up, down in weights:
            x = x + jnp.tanh(x @ up) @ down
        return (x * x).mean()

    weights = [
        (placed(mesh, (1024, 4096), None, "model"), placed(mesh, (4096, 1024), "model"))
        for _ in range(count)
    ]
    return analysis.sharding(pl.grad(loss), weights, placed(mesh, (8192, 1024), "data"))


def function_4096():
    return layers(pl.sharding.AbstractMesh((64, 64), ("data", "model")), 12)


def function_10k():
    return layers(PAIR, 670)
