"""Arrays over meshes, and a function whose intermediates are sharded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tests.introspect.program_builder import ITEM_BYTES, ProgramBuilder, schema

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


def function():
    """Two matrix products of a sharded layer: a contraction that sums, and a reshard."""
    b = ProgramBuilder("sharded_layer", "layer")
    cell = b.source(
        "In[9]",
        "def layer(x, w1, w2):\n"
        "    h = jax.nn.relu(x @ w1)\n"
        "    y = h @ w2\n"
        "    y = lax.with_sharding_constraint(y, P('data', None))\n"
        "    z = y.T\n"
        "    return z / jnp.linalg.norm(z)\n",
        cell_id="s9",
    )
    specs = [
        spec([["data"], []]),
        spec([[], ["model"]]),
        spec([["model"], []]),
        spec([["data"], ["model"]]),
        spec([["data"], []], ["model"]),
        spec([[], ["data"]]),
        spec([]),
    ]
    values: dict[int, int] = {}
    why: dict[int, list] = {}

    def known(value: int, index: int, *hops) -> int:
        values[value] = index
        why[value] = list(hops)
        return value

    def hop(rule: str, value: int = -1, equation: int = -1, span: int = -1, *, user: bool = False):
        return schema.WhyRecord(
            value=value, equation=equation, rule=rule, span=span, is_user_written=user
        )

    run = b.source("In[10]", "pl.viz.sharding(layer)(x, w1, w2)\n", cell_id="s10")
    written = b.span(run, "pl.viz.sharding(layer)(x, w1, w2)", "<module>")
    x = known(b.input("f32", (512, 1024), "x"), 0, hop("in_shardings", span=written, user=True))
    w1 = known(b.input("f32", (1024, 4096), "w1"), 1, hop("in_shardings", span=written, user=True))
    w2 = known(b.input("f32", (4096, 1024), "w2"), 2, hop("in_shardings", span=written, user=True))
    at = b.span(cell, "x @ w1", "layer")
    h = b.equation(
        "dot_general",
        [x, w1],
        shape=(512, 4096),
        span=at,
        params={"dimension_numbers": "(([1], [0]), ([], []))"},
        flops=4.3e9,
    )
    known(h, 3, hop("dimension 0 follows x, dimension 1 follows w1", x, 0, at), *why[x])
    at = b.span(cell, "jax.nn.relu(x @ w1)", "layer")
    h2 = b.equation("max", [h, b.literal("0.0")], shape=(512, 4096), user="h", span=at, flops=2e6)
    known(h2, 3, hop("elementwise: as its operand", h, 1, at), *why[h])
    at = b.span(cell, "h @ w2", "layer")
    y = b.equation(
        "dot_general",
        [h2, w2],
        shape=(512, 1024),
        user="y",
        span=at,
        params={"dimension_numbers": "(([1], [0]), ([], []))"},
        flops=4.3e9,
    )
    known(y, 4, hop("contracts a dimension divided by model: sums stay open", h2, 2, at), *why[h2])
    constraint = b.span(cell, "lax.with_sharding_constraint(y, P('data', None))", "layer")
    y2 = b.equation("sharding_constraint", [y], shape=(512, 1024), user="y", span=constraint)
    known(y2, 0, hop("with_sharding_constraint", y, 3, constraint, user=True))
    at = b.span(cell, "y.T", "layer")
    z = b.equation(
        "transpose", [y2], shape=(1024, 512), user="z", span=at, params={"permutation": "(1, 0)"}
    )
    known(z, 5, hop("transposed with its operand", y2, 4, at), *why[y2])
    norm = b.span(cell, "jnp.linalg.norm(z)", "layer")
    s = b.equation("mul", [z, z], shape=(1024, 512), span=norm, flops=5e5)
    known(s, 5, hop("elementwise: as its operands", z, 5, norm), *why[z])
    r = b.equation("reduce_sum", [s], span=norm, params={"axes": "(0, 1)"}, flops=5e5)
    known(r, 6, hop("a scalar is replicated", s, 6, norm))
    q = b.equation("sqrt", [r], span=norm, flops=1)
    known(q, 6, hop("elementwise: as its operand", r, 7, norm))
    at = b.span(cell, "z / jnp.linalg.norm(z)", "layer")
    out = b.equation("div", [z, q], shape=(1024, 512), span=at, flops=5e5)
    known(out, 5, hop("elementwise: as its operands", z, 8, at), *why[z])
    b.main.outputs.append(out)
    program = b.record()
    count = len(b.value_names)
    return schema.FunctionShardingRecord(
        name="layer",
        program=program,
        mesh=mesh({"data": 2, "model": 4}),
        shardings=specs,
        value_shardings=[values.get(value, -1) for value in range(count)],
        why_counts=[len(why.get(value, [])) for value in range(count)],
        why=[each for value in range(count) for each in why.get(value, [])],
        collectives=[
            schema.CollectiveRecord(
                operation="all-reduce", axes=["model"], group_count=2, group_size=4,
                bytes_per_device=2 * 256 * 1024 * 4, runs=1, equation=3, span=constraint,
                reason="reshard",
                note="P('data', 'model') here would make it a reduce-scatter of a quarter of the bytes.",
            ),
            schema.CollectiveRecord(
                operation="all-reduce", axes=["data"], group_count=4, group_size=2,
                bytes_per_device=4, runs=1, equation=6, span=norm, reason="contraction", note="",
            ),
        ],
        device_peak_bytes=[14_680_064 + 4096 * (i % 3) for i in range(8)],
        basis="estimate",
    )  # fmt: skip
