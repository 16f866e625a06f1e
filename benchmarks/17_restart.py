"""How long until the first result of a train step in a process that finds its executable on disk?

Each measurement is a process of its own; the folder of executables was filled by one before. "After idling" waits for
two seconds between the parameters and the step, as a user does who runs one cell after the other.
"""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import transformer
from versus import Target, compare

_IDLE_SECONDS = 2.0


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of the first call of a 12-layer train step after a restart."""
    folder = tempfile.mkdtemp(prefix="restart")
    measure = functools.partial(_first_call_of_a_process, jax.__name__, folder)
    measure(0.0)
    return {
        "first result after a restart": functools.partial(measure, 0.0),
        "first result after a restart, after idling": functools.partial(measure, _IDLE_SECONDS),
    }


def _first_call_of_a_process(library: str, folder: str, idle_seconds: float) -> float:
    command = [sys.executable, __file__, library, folder, str(idle_seconds)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def first_call(library: str, folder: str, idle_seconds: float) -> float:
    """Seconds of the first call of the step in this process."""
    jax = importlib.import_module(library)
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    if library == "pellucid":  # as its kernel does
        jax.config.update("compilation_cache_session", "restart.ipynb")
    p, ids = transformer.parameters(jax), transformer.tokens(jax)
    jax.block_until_ready(p)
    time.sleep(idle_seconds)
    step = jax.jit(transformer.train_step(jax))
    start = time.perf_counter()
    jax.block_until_ready(step(p, ids))
    return time.perf_counter() - start


TARGETS = {
    "first result after a restart": Target(0.25, "s"),
    "first result after a restart, after idling": Target(0.10, "s"),
}

if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(first_call(sys.argv[1], sys.argv[2], float(sys.argv[3])))
    else:
        compare(__file__, TARGETS, rounds=5)
