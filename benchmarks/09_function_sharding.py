"""Is asking how 512 devices would share a train step, without having them, about as quick as compiling it for them?

pellucid's amount is `analysis.sharding` over an abstract mesh; jax's is tracing, lowering and compiling the same step
for 512 virtual devices.
"""

from __future__ import annotations

import importlib
import itertools
import os
import time
from typing import Any

# Read when the first client starts.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=512"

import numpy as np
import transformer
from versus import Target, compare

DEVICES = 512
ROW = f"sharding of a 12-layer step on {DEVICES} devices, to compiling it"
transformer.BATCH, transformer.WIDTH = DEVICES // 4, 128


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds to know the layout of the step (pellucid), or to compile it (jax)."""
    sharding = jax.sharding
    shape, names = (DEVICES // 8, 8), ("data", "model")
    is_ours = jax.__name__ == "pellucid"
    mesh = sharding.AbstractMesh(shape, names) if is_ours else jax.make_mesh(
        shape, names, axis_types=(sharding.AxisType.Auto,) * 2
    )  # fmt: skip

    def struct(x: Any, *spec: Any) -> Any:
        placed = sharding.NamedSharding(mesh, sharding.PartitionSpec(*spec))
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placed)

    columns, rows = (None, "model"), ("model",)
    cut = {"q": columns, "k": columns, "v": columns, "up": columns, "o": rows, "down": rows}
    parameters = jax.tree_util.tree_map_with_path(
        lambda path, x: struct(x, *cut.get(path[-1].key, ())), transformer.parameters(jax)
    )
    ids = struct(np.zeros((transformer.BATCH, transformer.LENGTH), np.int32), "data")
    rates = itertools.count(1)

    def measured() -> float:
        step = transformer.train_step(jax, learning_rate=next(rates) * 1e-3)
        start = time.perf_counter()
        if is_ours:
            importlib.import_module("pellucid.analysis").sharding(step, parameters, ids)
        else:
            jax.jit(step).lower(parameters, ids).compile()
        return time.perf_counter() - start

    return {ROW: measured}


if __name__ == "__main__":
    compare(__file__, {ROW: Target(1.5, "s")})
