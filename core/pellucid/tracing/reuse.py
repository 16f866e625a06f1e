"""Programs of called functions that a function being traced takes from caches: are they what the functions are now?

A function keeps its program when a global that it reads changes. What calls it is then of new content with an old
program inside, and must not be shared with other functions of that content.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

from .fingerprint import fingerprint

_local = threading.local()
"""`reuses`: by function, the fingerprints of its reused programs, while a function is traced; else missing or None."""


def note_reuse(function: Callable[..., Any], content: Any) -> None:
    """Note that a program of `function` was reused that was traced when its fingerprint was `content`."""
    reuses = getattr(_local, "reuses", None)
    if reuses is not None:
        reuses[id(function), content] = function


class Reuses:
    """The programs that functions reuse while the `with` block traces one; those of an outer block include them."""

    def __enter__(self) -> Self:
        self._outer = getattr(_local, "reuses", None)
        self._contents: dict[tuple[int, Any], Callable[..., Any]] = {}
        _local.reuses = self._contents
        return self

    def __exit__(self, *_: object) -> None:
        _local.reuses = self._outer
        if self._outer is not None:
            self._outer.update(self._contents)

    def are_current(self) -> bool:
        """Whether all these programs are those of their functions as these are now."""
        return all(fingerprint(f) == content for (_, content), f in self._contents.items())
