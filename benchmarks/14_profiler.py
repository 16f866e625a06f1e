"""How long does it take from the end of a recorded run to its first view, and how much slower is what is recorded?

Of pellucid the first view is the table of lines; of jax the directory that `stop_trace` writes, which a viewer has yet
to read.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

from transformer import loss, parameters, tokens
from versus import Target, compare

STEPS = 60


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds from the end of `STEPS` steps to the first view; seconds of a step, recorded and not."""
    weights, batch = parameters(jax), tokens(jax)

    @jax.jit
    def step(weights: Any) -> Any:
        gradients = jax.grad(lambda weights: loss(jax, weights, batch))(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    def run() -> float:
        """Seconds of `STEPS` steps."""
        state = jax.block_until_ready(step(weights))
        start = time.perf_counter()
        for _ in range(STEPS):
            state = step(state)
        jax.block_until_ready(state)
        return time.perf_counter() - start

    if hasattr(jax.profiler, "profile"):

        def recorded() -> tuple[float, float]:
            with jax.profiler.profile() as session:
                seconds = run()
                start = time.perf_counter()
            assert session.wait().lines
            return seconds, time.perf_counter() - start

    else:

        def recorded() -> tuple[float, float]:
            with tempfile.TemporaryDirectory() as folder:
                with jax.profiler.trace(folder):
                    seconds = run()
                    start = time.perf_counter()
                return seconds, time.perf_counter() - start

    return {
        "first view of 60 steps": lambda: recorded()[1],
        "a recorded step": lambda: recorded()[0] / STEPS,
        "a step": lambda: run() / STEPS,
    }


TARGETS = {
    "first view of 60 steps": Target(0.5, "ms"),
    "a recorded step": Target(1.0, "ms"),
    "a step": Target(1.0, "ms"),
}

if __name__ == "__main__":
    compare(__file__, TARGETS)
