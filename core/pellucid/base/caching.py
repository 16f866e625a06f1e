"""Caches: bounded, counted, shown by `explain_misses`, emptied by `clear_caches`.

What must stay the same object for the whole process (types, devices' shardings) is interned, not cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pellucid.xla.caches import by_weak_first_argument

F = TypeVar("F", bound=Callable[..., Any])
_clearers: list[Callable[[], None]] = []


class Cache:
    """The results of `function` by its arguments; of more than `size`, those used last are kept.

    `remembered` is called instead of the function; a result is found by C code. With `weakly`, entries go with
    their first argument.
    """

    def __init__(self, function: Callable[..., Any], size: int, *, weakly: bool = False) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.remembered: Any = (
            by_weak_first_argument(function, size)
            if weakly
            else functools.lru_cache(maxsize=size)(function)  # noqa: TID251  (here alone)
        )
        clearing(self.remembered.cache_clear)

    def use(self) -> CacheUse:
        """How much the cache holds, and how often it was asked since it was cleared."""
        info = self.remembered.cache_info()
        return CacheUse(self.name, info.currsize, info.maxsize, info.hits, info.misses)


class CacheUse(NamedTuple):
    """Entries of a cache and the number that it may have; calls that found a result, and that made one."""

    name: str
    entries: int
    size: int
    hits: int
    misses: int


_caches: list[Cache] = []


def cached(size: int, *, weakly: bool = False) -> Callable[[F], F]:
    """Decorator for functions of a module's level: a `Cache` of their results.

    >>> @cached(8)
    ... def square(x):
    ...     return x * x
    >>> square(3), square(3), cache_uses()[-1][1:]
    (9, 9, (1, 8, 1, 1))
    """

    def decorate(function: F) -> F:
        cache = Cache(function, size, weakly=weakly)
        _caches.append(cache)
        return cache.remembered

    return decorate


def cache_uses() -> list[CacheUse]:
    """How each cache of the process is used, in the order in which they were made."""
    return [cache.use() for cache in _caches]


def clearing(function: F) -> F:
    """Call `function` whenever caches are cleared."""
    _clearers.append(function)
    return function


def clear_caches() -> None:
    """Forget all traced programs and compiled executables of this process, and all that is remembered of others."""
    for function in _clearers:
        function()
