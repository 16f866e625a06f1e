"""jaxlib's cache of function results, keyed by a weakly referenced object and further arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib import weakref_lru_cache


def by_weak_first_argument(function: Callable[..., Any], size: int) -> Any:
    """Caches `size` results of `function`; entries are dropped when their first argument is deleted.

    Calls raise TypeError if the first argument isn't weakly referenceable, or another one isn't hashable.
    """
    return weakref_lru_cache.weakref_lru_cache(lambda: None, function, size)
