"""Notebook figures of programs, arrays and shardings: `pellucid.viz`.

A figure shows itself as the last line of a cell; `figure.save("page.html")` writes it as a page that needs nothing else.
"""

import importlib
from typing import Any

_NAMES = (
    "compiled",
    "diff",
    "ladder",
    "lens",
    "memory",
    "misses",
    "profile",
    "program",
    "sharding",
)

__all__ = ["Figure", *_NAMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load a figure when it is first asked for, so that a kernel starts without them."""
    if name not in __all__:
        raise AttributeError(f"module 'pellucid_viz' has no attribute {name!r}")
    module = "pellucid_viz.figure" if name == "Figure" else "pellucid_viz.figures"
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
