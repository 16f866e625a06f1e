"""Notebook figures of programs, arrays and shardings: `pellucid.viz`.

Figures display themselves as the last line of a cell; `figure.save("page.html")` writes a self-contained page.
"""

import importlib
from typing import Any

_NAMES = (
    "array",
    "compiled",
    "diff",
    "function",
    "grid",
    "kernel_memory",
    "ladder",
    "lens",
    "memory",
    "misses",
    "passes",
    "profile",
    "profile_comparison",
    "program",
    "sharding",
    "timeline",
    "what_if",
)

__all__ = ["Figure", *_NAMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]

_MODULES = {"Figure": "pellucid_viz.figure", "what_if": "pellucid_viz.placements"}
"""Modules of the names that are not in `pellucid_viz.figures`."""


def __getattr__(name: str) -> Any:
    """Imports a figure's module on first access, so that a kernel starts without them."""
    if name not in __all__:
        raise AttributeError(f"module 'pellucid_viz' has no attribute {name!r}")
    module = _MODULES.get(name, "pellucid_viz.figures")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
