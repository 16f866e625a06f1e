"""Caches that `clear_caches` empties."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[[], None])
_clearers: list[Callable[[], None]] = []


def clearing(function: F) -> F:
    """Call `function` whenever caches are cleared."""
    _clearers.append(function)
    return function


def clear_caches() -> None:
    """Forget all traced programs and compiled executables of this process."""
    for function in _clearers:
        function()
