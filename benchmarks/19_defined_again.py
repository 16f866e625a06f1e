"""How long does a cell take that defines its functions anew, as when it is run again in a notebook?

The reference compiles a function that is defined again. Here it is traced and lowered again, and finds the executable of its
program; a function object that is jitted again finds its program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import transformer
from versus import Target, compare, per_call

TARGETS = {
    "`jit(lambda x: …)(x)`": Target(0.1, "ms"),
    "`jit(f)(x)` of one `f`": Target(1.0),
    "a training step of 12 layers, defined again": Target(0.1, "s"),
}


def measurements(library: Any) -> dict[str, Callable[[], float]]:
    """Seconds of one run of each cell that was run before."""
    jax, x = library, library.numpy.asarray(np.ones(3, np.float32))

    def one(x: Any) -> Any:
        return x * 2.0 + 1.0

    parameters, ids = transformer.parameters(jax), transformer.tokens(jax)

    def cell() -> None:
        step = jax.jit(transformer.train_step(jax))
        jax.block_until_ready(step(parameters, ids))

    def seconds_of_cell() -> float:
        start = time.perf_counter()
        cell()
        return time.perf_counter() - start

    cell()
    return dict(
        zip(
            TARGETS,
            (
                lambda: per_call(lambda: jax.jit(lambda x: x * 2.0 + 1.0)(x)),
                lambda: per_call(lambda: jax.jit(one)(x)),
                seconds_of_cell,
            ),
            strict=True,
        )
    )


if __name__ == "__main__":
    compare(__file__, TARGETS)
