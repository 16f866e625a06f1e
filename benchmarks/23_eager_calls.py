"""How long do eager calls of the library take: one of each function of numpy, and calls of scipy, nn, linalg, random and image?"""

from __future__ import annotations

import functools
import importlib
import pathlib
import re
import statistics
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from versus import compare, per_call

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from corpus import api_calls, library_calls, numpy_calls

SECONDS = 0.002
"""About how long one call is repeated."""
MODULES = (
    "scipy.cluster.vq", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.ndimage", "scipy.optimize",
    "scipy.signal", "scipy.sparse.linalg", "scipy.spatial.transform", "scipy.special", "scipy.stats", "experimental.ode",
    "experimental.sparse.linalg",
)  # fmt: skip


def texts() -> dict[str, tuple[str, tuple[Any, ...]]]:
    """(expression, operands) by name: the first row of each function of numpy, then those of other modules."""
    chosen: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for row in numpy_calls.all_rows():
        names = numpy_calls.named(row)
        if len(names) == 1 and not row.x64:
            chosen.setdefault(f"jnp.{names[0]}", (row.text, row.operands))
    for call in (*library_calls._own(), *api_calls.all_rows()):
        chosen.setdefault(call.text, (call.text, call.operands))
    return chosen


def family(text: str) -> str:
    """Module of the first function that a text calls: `jsp.special`, `jax.random`, `jnp`."""
    found = re.search(r"\b(?:jsp|jax|jnp|lax)[\w.]*(?=\.\w+)", text)
    return "jnp" if found is None else ".".join(found[0].split(".")[:2])


def measurements(jax: Any) -> dict[str, Any]:
    """Geometric mean of the seconds of an eager call, by module, without those that the library refuses."""
    warnings.simplefilter("ignore")
    for name in MODULES:
        importlib.import_module(f"{jax.__name__}.{name}")
    room = {"jax": jax, "jnp": jax.numpy, "jsp": jax.scipy, "lax": jax.lax, "np": np}
    families: dict[str, list[Callable[[], Any]]] = {}
    for name, (text, operands) in texts().items():
        arrays = [jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for x in operands]
        names = dict(zip(numpy_calls.NAMES, arrays, strict=False))
        call = eval(f"lambda: {text}", {**room, **names})
        try:
            call()
        except Exception:  # rows that a library refuses
            continue
        families.setdefault(family(name), []).append(call)
    return {name: functools.partial(_mean, calls) for name, calls in families.items()}


def _mean(calls: list[Callable[[], Any]]) -> float:
    return statistics.geometric_mean([per_call(call, seconds=SECONDS) for call in calls])


if __name__ == "__main__":
    compare(__file__, {}, rounds=1)
