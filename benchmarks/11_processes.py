"""How long does a step take whose devices belong to two processes?"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import time
from typing import Any

import numpy as np
from versus import Target, compare

_STEPS = int(os.environ.get("BENCH_STEPS", "100"))
_LOOPS = 3
# Both libraries read this when their first client starts; fewer threads than programs in flight starve collectives.
os.environ["PJRT_NPROC"] = "16"


class Steps:
    """The steps of one process in a job of two; both processes call the same methods in the same order."""

    def __init__(self, library: Any, address: str, process: int) -> None:
        library.distributed.initialize(address, num_processes=2, process_id=process)
        jnp = library.numpy
        mesh = library.sharding.Mesh(np.array(library.devices()), ("x",))
        over_x, alike = (
            library.sharding.NamedSharding(mesh, library.sharding.PartitionSpec(*axes))
            for axes in (("x",), ())
        )
        make_global = library.make_array_from_process_local_data
        self.library = library
        self.row = make_global(over_x, np.ones(1, np.float32))
        self.inputs = make_global(over_x, np.ones((32, 64), np.float32))
        self.weights = [make_global(alike, np.ones((64, 64), np.float32) * 0.01) for _ in range(2)]

        def tiny(x: Any) -> Any:
            return x * 0.5 / x.sum()

        def loss(weights: Any, x: Any) -> Any:
            for w in weights:
                x = jnp.tanh(x @ w)
            return (x**2).mean()

        def train(weights: Any, x: Any) -> Any:
            grads = library.grad(loss)(weights, x)
            return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]

        self._tiny, self._train = library.jit(tiny), library.jit(train)

    def tiny(self) -> float:
        """Seconds of a step that divides a row by its sum."""
        x = self.row

        def step() -> Any:
            nonlocal x
            x = self._tiny(x)
            return x

        return self._seconds(step)

    def train(self) -> float:
        """Seconds of a gradient step of two layers over a batch that is cut over the devices."""
        weights = self.weights

        def step() -> Any:
            nonlocal weights
            weights = self._train(weights, self.inputs)
            return weights

        return self._seconds(step)

    def _seconds(self, step: Any) -> float:
        """Best seconds of a step. Each is waited for: with programs in flight jax may hang."""
        best = float("inf")
        for _ in range(_LOOPS):
            start = time.perf_counter()
            for _ in range(_STEPS):
                self.library.block_until_ready(step())
            best = min(best, (time.perf_counter() - start) / _STEPS)
        return best


MEASUREMENTS = {
    "a tiny step": lambda steps: steps.tiny(),
    "a gradient step of two layers": lambda steps: steps.train(),
}


def measurements(library: Any) -> dict[str, Any]:
    """Seconds of each, in process 0; process 1 does the same."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    other = subprocess.Popen(
        [sys.executable, __file__, "--process-1", library.__name__, address],
        stdin=subprocess.PIPE, text=True,
    )  # fmt: skip
    steps = Steps(library, address, 0)

    @atexit.register
    def end() -> None:
        """Both leave the job together; the exit of one alone would be a failure to the other."""
        assert other.stdin is not None
        other.stdin.close()
        library.distributed.shutdown()
        other.wait()

    def measured(name: str) -> float:
        assert other.stdin is not None
        other.stdin.write(name + "\n")
        other.stdin.flush()
        return MEASUREMENTS[name](steps)

    return {name: lambda name=name: measured(name) for name in MEASUREMENTS}


def process_1(library: str, address: str) -> None:
    """Measurements of process 0, done along with it."""
    if library == "jax":
        import jax as chosen
    else:
        import pellucid as chosen
    steps = Steps(chosen, address, 1)
    for line in sys.stdin:
        MEASUREMENTS[line.strip()](steps)
    chosen.distributed.shutdown()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process-1"]:
        process_1(*sys.argv[2:])
    else:
        compare(__file__, {name: Target(1.05) for name in MEASUREMENTS})
