"""How long does a call over eight devices take, a transfer to them, and tracing and lowering of a sharded step?"""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

# Both libraries read these when their first client starts; fewer threads than devices starve collectives.
os.environ["PELLUCID_NUM_CPU_DEVICES"] = "8"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["PJRT_NPROC"] = "16"

import numpy as np
import transformer
from versus import Target, compare, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of one call, or of one trace or lowering."""
    sharding = jax.sharding
    auto = (sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=auto)

    def over(*spec: Any) -> Any:
        return sharding.NamedSharding(mesh, sharding.PartitionSpec(*spec))

    x = jax.device_put(np.ones((8, 8), np.float32), over("data", "model"))
    found = {}
    for n in (1, 10, 100):
        function = jax.jit(lambda *xs: [v + 1 for v in xs])
        arguments = [x] * n
        found[f"call, {n} sharded argument{'s' * (n > 1)}"] = lambda f=function, a=arguments: (
            per_call(lambda: jax.block_until_ready(f(*a)), seconds=0.2)
        )
    placed = jax.jit(lambda x: x + 1, in_shardings=over("data"), out_shardings=over("data"))
    host = np.ones((8, 8), np.float32)
    found["call, one host argument with in_shardings"] = lambda: per_call(
        lambda: jax.block_until_ready(placed(host)), seconds=0.2
    )

    large = np.ones((4096, 4096), np.float32)
    for name, cut in (("rows", over(("data", "model"))), ("tiles", over("data", "model"))):
        found[f"device_put 64 MiB in {name}"] = lambda s=cut: per_call(
            lambda: jax.block_until_ready(jax.device_put(large, s)), seconds=0.3
        )

    # A rate of its own for each function, so that no cache of programs helps.
    rates = itertools.count(1)
    parameters = jax.device_put(transformer.parameters(jax), over())
    ids = jax.device_put(transformer.tokens(jax), over("data"))

    def fresh() -> Any:
        step = transformer.train_step(jax, learning_rate=next(rates) * 1e-3)

        def sharded(p: Any, ids: Any) -> Any:
            p, loss = step(p, jax.lax.with_sharding_constraint(ids, over("data")))
            return jax.lax.with_sharding_constraint(p, over()), loss

        return jax.jit(sharded)

    def traced() -> float:
        best = float("inf")
        for _ in range(3):
            function = fresh()
            start = time.perf_counter()
            function.trace(parameters, ids)
            best = min(best, time.perf_counter() - start)
        return best

    def lowered() -> float:
        best = float("inf")
        for _ in range(3):
            program = fresh().trace(parameters, ids)
            start = time.perf_counter()
            program.lower()
            best = min(best, time.perf_counter() - start)
        return best

    found["trace a sharded train step"] = traced
    found["lower a sharded train step"] = lowered
    return found


if __name__ == "__main__":
    targets = {
        "device_put 64 MiB in rows": Target(1.0, "ms"),
        "device_put 64 MiB in tiles": Target(1.0, "ms"),
        "trace a sharded train step": Target(0.35, "ms"),
        "lower a sharded train step": Target(0.6, "ms"),
    }
    compare(__file__, targets)
