"""How long does the simulator of kernels take: 256 programs of a sum of blocks, without and with races, and a ring over eight devices?"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from versus import Target, compare, per_call

ADD, RACES, RING = (
    "add, 256 programs of 8 x 128",
    "the same, looking for races",
    "ring all-gather, 8 devices of 8 x 128",
)
TARGETS = {ADD: Target(0.2, "ms"), RACES: Target(0.2, "ms"), RING: Target(0.2, "ms")}
N = 8
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={N}"


def add(library: Any, races: bool) -> tuple[Callable[..., Any], list[Any]]:
    """A sum of matrices by rows of blocks."""
    pallas = importlib.import_module(f"{library.__name__}.experimental.pallas")
    tpu = importlib.import_module(f"{library.__name__}.experimental.pallas.tpu")

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    x = library.numpy.asarray(np.random.default_rng(0).standard_normal((2048, 128), np.float32))
    rows = pallas.BlockSpec((8, 128), lambda i: (i, 0))
    call = pallas.pallas_call(
        kernel,
        library.ShapeDtypeStruct(x.shape, x.dtype),
        grid=256,
        in_specs=[rows, rows],
        out_specs=rows,
        interpret=tpu.InterpretParams(detect_races=races),
    )
    return call, [x, x]


def ring(library: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Each device sends to its right neighbour what it got last."""
    pallas = importlib.import_module(f"{library.__name__}.experimental.pallas")
    tpu = importlib.import_module(f"{library.__name__}.experimental.pallas.tpu")
    sharding = importlib.import_module(f"{library.__name__}.sharding")
    lax = library.lax

    def kernel(x_ref: Any, o_ref: Any, local_sem: Any, send_sem: Any, recv_sems: Any) -> None:
        me = lax.axis_index("ring")
        tpu.async_copy(x_ref, o_ref.at[me], local_sem).wait()
        for step in range(N - 1):
            block = o_ref.at[lax.rem(me + N - step, N)]
            copy = tpu.make_async_remote_copy(
                block, block, send_sem, recv_sems.at[step], lax.rem(me + 1, N)
            )
            copy.start()
            copy.wait()

    mesh = library.make_mesh((N,), ("ring",), axis_types=(sharding.AxisType.Auto,))
    anywhere, dma = pallas.BlockSpec(memory_space=pallas.ANY), tpu.SemaphoreType.DMA
    call = pallas.pallas_call(
        kernel,
        library.ShapeDtypeStruct((N, 8, 128), np.float32),
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[dma, dma, dma((N - 1,))],
        interpret=tpu.InterpretParams(),
    )
    spec = sharding.PartitionSpec("ring")
    run = library.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    return run, [np.zeros((8 * N, 128), np.float32)]


def measurements(library: Any) -> dict[str, Callable[[], float]]:
    """Seconds of one jitted call of each."""
    found: dict[str, Callable[[], float]] = {}
    cases = {ADD: add(library, False), RACES: add(library, True), RING: ring(library)}
    for name, (function, operands) in cases.items():
        jitted = library.jit(function)
        found[name] = lambda jitted=jitted, operands=operands: per_call(
            lambda: library.block_until_ready(jitted(*operands)), warm_up=1
        )
    return found


if __name__ == "__main__":
    compare(__file__, TARGETS)
