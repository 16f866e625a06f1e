"""Programs of called functions that a function being traced takes from caches: are they what the functions are now?

A function keeps its program when a global that it reads changes. What calls it is then of new content with an old
program inside, and must not be shared with other functions of that content.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pellucid.tracing.fingerprint import fingerprint

T = TypeVar("T")

_local = threading.local()
"""`reuses`: by function, the fingerprints of its reused programs, while a function is traced; else missing or None."""


def note_reuse(function: Callable[..., Any], content: Any) -> None:
    """Note that a program of `function` was reused that was traced when its fingerprint was `content`."""
    reuses = getattr(_local, "reuses", None)
    if reuses is not None:
        reuses[id(function), content] = function


def traced_with_reuses(trace: Callable[[], T]) -> tuple[T, bool]:
    """(`trace()`, whether all programs that it reused are those of their functions as these are now)."""
    outer = getattr(_local, "reuses", None)
    reuses: dict[tuple[int, Any], Callable[..., Any]] = {}
    _local.reuses = reuses
    try:
        result = trace()
    finally:
        _local.reuses = outer
    if outer is not None:
        outer.update(reuses)
    return result, all(fingerprint(f) == content for (_, content), f in reuses.items())
