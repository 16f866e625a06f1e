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
    timed = {}
    for n in (1, 10, 100):
        function = jax.jit(lambda *xs: [v + 1 for v in xs])
        arguments = [x] * n
        timed[f"call, {n} sharded argument{'s' * (n > 1)}"] = lambda f=function, a=arguments: (
            per_call(lambda: jax.block_until_ready(f(*a)), seconds=0.2)
        )
    placed = jax.jit(lambda x: x + 1, in_shardings=over("data"), out_shardings=over("data"))
    host = np.ones((8, 8), np.float32)
    timed["call, one host argument with in_shardings"] = lambda: per_call(
        lambda: jax.block_until_ready(placed(host)), seconds=0.2
    )

    timed |= manual_measurements(jax, mesh, x)

    large = np.ones((4096, 4096), np.float32)
    for name, cut in (("rows", over(("data", "model"))), ("tiles", over("data", "model"))):
        timed[f"device_put 64 MiB in {name}"] = lambda s=cut: per_call(
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

    timed["trace a sharded train step"] = traced
    timed["lower a sharded train step"] = lowered
    return timed


def manual_measurements(jax: Any, mesh: Any, x: Any) -> dict[str, Any]:
    """Seconds of one call of functions that run once for each device, and of tracing one with its gradient."""
    P = jax.sharding.PartitionSpec
    whole = jax.sharding.NamedSharding(mesh, P())
    spec, both = P("data", "model"), ("data", "model")

    def summed(w: Any, x: Any) -> Any:
        return jax.lax.psum(w * x, both)

    reduced = jax.jit(jax.shard_map(summed, mesh=mesh, in_specs=(P(), spec), out_specs=P()))
    on_each = jax.pmap(lambda w, x: jax.lax.psum(w * x, "d"), axis_name="d", in_axes=(None, 0))
    w, rows = (
        jax.device_put(np.float32(2.0), whole),
        jax.pmap(lambda x: x)(np.ones((8, 8), np.float32)),
    )
    host = np.ones((8, 8), np.float32)

    def call(function: Any, *arguments: Any) -> Any:
        return lambda: per_call(lambda: jax.block_until_ready(function(*arguments)), seconds=0.2)

    # A scale of its own for each function, so that no cache of programs helps.
    scales = itertools.count(1)

    def traced() -> float:
        best = float("inf")
        for _ in range(3):
            loss = ring_attention(jax, mesh, 1.0 / next(scales))
            queries = [np.ones((64, 16), np.float32)] * 3
            start = time.perf_counter()
            jax.jit(jax.grad(loss, (0, 1, 2))).trace(*queries)
            best = min(best, time.perf_counter() - start)
        return best

    return {
        "call, jitted shard_map with a psum": call(reduced, w, x),
        "call, pmap with a psum": call(on_each, w, rows),
        "call, pmap of a host argument": call(on_each, w, host),
        "trace the gradient of ring attention": traced,
    }


def ring_attention(jax: Any, mesh: Any, scale: float) -> Any:
    """A loss of attention whose keys and values go round the axis `model`."""
    P = jax.sharding.PartitionSpec
    ring = [(i, (i + 1) % 4) for i in range(4)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        def turn(carry: Any, _: None) -> Any:
            k, v, total, norm = carry
            weights = jax.numpy.exp(scale * (q @ k.T))
            total, norm = total + weights @ v, norm + weights.sum(1, keepdims=True)
            k, v = jax.lax.ppermute((k, v), "model", ring)
            return (k, v, total, norm), None

        start = (k, v, q * 0, q[:, :1] * 0)
        (_, _, total, norm), _ = jax.lax.scan(turn, start, None, length=4)
        return total / norm

    cut = P("model")
    mapped = jax.shard_map(
        attend, mesh=mesh, in_specs=(cut,) * 3, out_specs=cut, axis_names={"model"}
    )
    return lambda q, k, v: (mapped(q, k, v) ** 2).sum()


if __name__ == "__main__":
    targets = {
        "device_put 64 MiB in rows": Target(1.0, "ms"),
        "device_put 64 MiB in tiles": Target(1.0, "ms"),
        "trace a sharded train step": Target(0.35, "ms"),
        "trace the gradient of ring attention": Target(0.35, "ms"),
        "lower a sharded train step": Target(0.6, "ms"),
    }
    compare(__file__, targets)
