"""`pellucid.scipy`: the SciPy API on arrays that are traced, transformed, compiled and sharded.

Submodules load when they are first used.
"""

import importlib
import types

_SUBMODULES = (
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial",
    "special", "stats",
)  # fmt: skip


def __getattr__(name: str) -> types.ModuleType:
    """Load the submodule `name`."""
    if name not in _SUBMODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"pellucid.scipy.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
