"""Do sharded programs exchange between devices what jax's exchange, and no more bytes?

For each program of the corpora, its gradient and some batches, and for a transformer's train step laid out in three
ways, it compares the optimized programs of both: how many exchanges of each kind, and the bytes of their results, those
of loops counted once. It prints the programs in which the two differ.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

os.environ["PELLUCID_NUM_CPU_DEVICES"] = "8"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["PJRT_NPROC"] = "16"

import transformer
from versus import Worker

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from corpus import exchanges

_COLUMNS, _ROWS, _WHOLE = (None, "model"), ("model",), ()
_TENSOR = {
    "q": _COLUMNS, "k": _COLUMNS, "v": _COLUMNS, "up": _COLUMNS, "o": _ROWS, "down": _ROWS,
    "embedding": _COLUMNS, "head": _COLUMNS, "scale": _WHOLE, "bias": _WHOLE,
}  # fmt: skip
_ALL = (("data", "model"),)
_LAYOUTS: dict[str, tuple[Callable[[str], tuple[Any, ...]], tuple[Any, ...]]] = {
    "data-parallel": (lambda name: _WHOLE, _ALL),
    "tensor-parallel": (lambda name: _TENSOR[name], ("data",)),
    "fully sharded": (lambda name: _ALL, _ALL),
}
"""For each way: the spec of a parameter by its name, and that of the batch."""


def train_step(way: str, jax: Any) -> None:
    """A step of 12 layers over two by four devices."""
    layout, batch = _LAYOUTS[way]
    mesh = jax.make_mesh((2, 4), ("data", "model"), (jax.sharding.AxisType.Auto,) * 2)

    def placed(*spec: Any) -> Any:
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

    def placement(path: Any, _: Any) -> Any:
        return placed(*layout(path[-1].key))

    parameters, ids = transformer.parameters(jax), transformer.tokens(jax, 8)
    shardings = jax.tree_util.tree_map_with_path(placement, parameters)
    step = jax.jit(transformer.train_step(jax), out_shardings=(shardings, placed()))
    step(*jax.device_put((parameters, ids), (shardings, placed(*batch))))


def constrained_step(recompute: bool, jax: Any) -> None:
    """A step of 12 layers over four by two devices, each of which says how its result is laid out."""
    mesh = jax.make_mesh((4, 2), ("data", "model"), (jax.sharding.AxisType.Auto,) * 2)

    def placed(*spec: Any) -> Any:
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

    def layer(p: Any, x: Any) -> Any:
        x = transformer.layer(jax.numpy, p, x)
        return jax.lax.with_sharding_constraint(x, placed("data"))

    each = jax.checkpoint(layer) if recompute else layer

    def loss(p: Any, ids: Any) -> Any:
        x = p["embedding"][ids]
        for q in p["layers"]:
            x = each(q, x)
        return ((x @ p["head"]) ** 2).mean()

    def step(p: Any, ids: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p, ids)
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, gradient), value

    parameters, ids = transformer.parameters(jax), transformer.tokens(jax, 8)
    shardings = jax.tree_util.tree_map_with_path(
        lambda path, _: placed(*_TENSOR[path[-1].key]), parameters
    )
    compiled = jax.jit(step, out_shardings=(shardings, placed()))
    compiled(*jax.device_put((parameters, ids), (shardings, placed("data"))))


def measurements(jax: Any) -> dict[str, Any]:
    """Exchanges of each program."""
    programs = dict(exchanges.PROGRAMS)
    for way in _LAYOUTS:
        step = functools.partial(train_step, way)
        programs[f"train step of 12 layers, {way}"] = step, exchanges.value
    for way, recompute in {"": False, ", computed again": True}.items():
        step = functools.partial(constrained_step, recompute)
        programs[f"train step of 12 constrained layers{way}"] = step, exchanges.value
    return {
        name: functools.partial(exchanges.exchanged, jax, *program)
        for name, program in programs.items()
    }


def main() -> None:
    here = pathlib.Path(__file__)
    ours, theirs = Worker("pellucid", here), Worker("jax", here)
    mine: dict[str, Any] = {}
    other: dict[str, Any] = {}
    try:
        for name in ours.names:
            a = mine[name] = ours.measure(name)
            b = other[name] = theirs.measure(name)
            if a != b and not ("refused" in a and "refused" in b):
                more = exchanges.exceeding({name: a}, {name: b})
                print(f"{'MORE' if more else '    '}  {name}: pellucid {a}, jax {b}", flush=True)
    finally:
        ours.stop()
        theirs.stop()
    compared = [name for name in mine if "bytes" in mine[name] and "bytes" in other[name]]
    totals = [sum(each[name]["bytes"] for name in compared) for each in (mine, other)]
    more = exchanges.exceeding(mine, other)
    met = "MISS" if more else "ok  "
    print(
        f"{met} {len(compared)} programs move {totals[0]} B, jax {totals[1]} B; {len(more)} move more"
    )


if __name__ == "__main__":
    main()
