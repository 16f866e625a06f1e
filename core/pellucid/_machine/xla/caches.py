"""jaxlib's cache of results by an object that it doesn't keep alive, and further arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib import weakref_lru_cache


def by_weak_first_argument(function: Callable[..., Any], size: int) -> Any:
    """`function`, remembering `size` results; those for a first argument that has gone are dropped.

    Calls raise TypeError where the first argument can't be referred to weakly or another one can't be hashed.
    """
    return weakref_lru_cache.weakref_lru_cache(lambda: None, function, size)
