"""How long until the first result of a train step, how fast is it then, how much memory does it take?"""

from __future__ import annotations

import time
from typing import Any

import transformer
from versus import Target, compare, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds and bytes of a 12-layer train step whose layer is a jitted function, and of one in a plain loop."""
    jitted, plain = _measurements(jax, jit_layers=True), _measurements(jax, jit_layers=False)
    return jitted | {f"{name}, plain loop": measure for name, measure in plain.items()}


def _measurements(jax: Any, *, jit_layers: bool) -> dict[str, Any]:
    p, ids = transformer.parameters(jax), transformer.tokens(jax)
    steps: list[Any] = []

    def first_result() -> float:
        # A rate of its own each time, so that no cache of programs helps.
        rate = 0.1 + len(steps) / 1024
        step = jax.jit(transformer.train_step(jax, jit_layers=jit_layers, learning_rate=rate))
        start = time.perf_counter()
        jax.block_until_ready(step(p, ids))
        seconds = time.perf_counter() - start
        steps.append(step)
        return seconds

    def steady() -> float:
        step = steps[-1]
        return per_call(lambda: jax.block_until_ready(step(p, ids)), seconds=1.0)

    def peak() -> float:
        statistics = steps[-1].lower(p, ids).compile().memory_analysis()
        return float(
            statistics.temp_size_in_bytes
            + statistics.argument_size_in_bytes
            + statistics.output_size_in_bytes
        )

    return {"first result": first_result, "steady state": steady, "peak memory": peak}


TARGETS = {
    "first result": Target(0.45, "s"),
    "steady state": Target(1.03, "ms"),
    "peak memory": Target(1.0, "MiB"),
    "first result, plain loop": Target(0.40, "s"),
    "steady state, plain loop": Target(1.02, "ms"),
    "peak memory, plain loop": Target(1.0, "MiB"),
}

if __name__ == "__main__":
    compare(__file__, TARGETS, rounds=3)
