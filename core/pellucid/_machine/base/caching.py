"""Bounded caches with statistics; `explain_misses` shows them, `clear_caches` empties them.

Objects that must be unique in the process (types, device shardings) are interned rather than cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pellucid._machine.xla.caches import by_weak_first_argument

F = TypeVar("F", bound=Callable[..., Any])
_clearers: list[Callable[[], None]] = []


class CacheUse(NamedTuple):
    """Statistics of a cache: number of entries, maximum number of entries, hits and misses."""

    name: str
    entries: int
    size: int
    hits: int
    misses: int


_caches: list[tuple[str, Any]] = []


def cached(size: int, *, weakly: bool = False) -> Callable[[F], F]:
    """Decorator for module-level functions: caches their results by their arguments.

    The `size` most recently used results are kept, in a cache implemented in C. With `weakly`, entries are dropped with
    their first argument.

    >>> @cached(8)
    ... def square(x):
    ...     return x * x
    >>> square(3), square(3), cache_uses()[-1][1:]
    (9, 9, (1, 8, 1, 1))
    """

    def decorate(function: F) -> F:
        remembered: Any = (
            by_weak_first_argument(function, size)
            if weakly
            else functools.lru_cache(maxsize=size)(function)  # noqa: TID251  (here alone)
        )
        _caches.append((f"{function.__module__}.{function.__qualname__}", remembered))
        clearing(remembered.cache_clear)
        return remembered

    return decorate


def cache_uses() -> list[CacheUse]:
    """Statistics of each cache since it was last cleared, in the order in which the caches were created."""
    uses = [(name, cache.cache_info()) for name, cache in _caches]
    return [CacheUse(name, u.currsize, u.maxsize, u.hits, u.misses) for name, u in uses]


def clearing(function: F) -> F:
    """Register `function` to be called when caches are cleared."""
    _clearers.append(function)
    return function


def clear_caches() -> None:
    """Forget all traced programs and compiled executables of this process, and all that is remembered of others.

    >>> @pl._machine.base.caching.cached(8)
    ... def square(x):
    ...     print("computing")
    ...     return x * x
    >>> square(3) + square(3)
    computing
    18
    >>> clear_caches()
    >>> square(3)
    computing
    9
    """
    for function in _clearers:
        function()
