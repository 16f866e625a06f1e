"""Caches: bounded, counted, shown by `explain_misses`, emptied by `clear_caches`.

What must stay the same object for the whole process (types, devices' shardings) is interned, not cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pellucid._machine.xla.caches import by_weak_first_argument

F = TypeVar("F", bound=Callable[..., Any])
_clearers: list[Callable[[], None]] = []


class CacheUse(NamedTuple):
    """Entries of a cache and the number that it may have; calls that found a result, and that made one."""

    name: str
    entries: int
    size: int
    hits: int
    misses: int


_caches: list[tuple[str, Any]] = []


def cached(size: int, *, weakly: bool = False) -> Callable[[F], F]:
    """Decorator for functions of a module's level: a cache of their results by their arguments.

    Of more than `size` results those used last are kept; they are found by C code. With `weakly`, entries go with their
    first argument.

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
    """How each cache of the process was used since it was cleared, in the order in which they were made."""
    uses = [(name, cache.cache_info()) for name, cache in _caches]
    return [CacheUse(name, u.currsize, u.maxsize, u.hits, u.misses) for name, u in uses]


def clearing(function: F) -> F:
    """Call `function` whenever caches are cleared."""
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
