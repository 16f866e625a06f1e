"""`isinstance` tests whose generic types are known to type checkers; after plain `isinstance`, item types are unknown.

In frequently executed code, `type(value) is ...` narrows the type without a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_tuple(value: object) -> TypeIs[tuple[Any, ...]]:
    """Whether `value` is a tuple, including named tuples."""
    return isinstance(value, tuple)


def is_list(value: object) -> TypeIs[list[Any]]:
    """Whether `value` is a list."""
    return isinstance(value, list)


def is_list_or_tuple(value: object) -> TypeIs[tuple[Any, ...] | list[Any]]:
    """Whether `value` is a list or a tuple."""
    return isinstance(value, (tuple, list))


def is_iterable(value: object) -> TypeIs[Iterable[Any]]:
    """Whether `value` can be iterated over."""
    return isinstance(value, Iterable)


def is_mapping(value: object) -> TypeIs[Mapping[Any, Any]]:
    """Whether `value` is a mapping."""
    return isinstance(value, Mapping)


def is_dict(value: object) -> TypeIs[dict[Any, Any]]:
    """Whether `value` is a dictionary."""
    return isinstance(value, dict)


def is_set(value: object) -> TypeIs[set[Any] | frozenset[Any]]:
    """Whether `value` is a set, frozen or not."""
    return isinstance(value, (set, frozenset))


def is_frozenset(value: object) -> TypeIs[frozenset[Any]]:
    """Whether `value` is a frozen set."""
    return isinstance(value, frozenset)


def is_ndarray(value: object) -> TypeIs[np.ndarray]:
    """Whether `value` is a NumPy array."""
    return isinstance(value, np.ndarray)


def is_host_array(value: object) -> TypeIs[np.ndarray | np.generic[Any]]:
    """Whether `value` is a NumPy array or scalar."""
    return isinstance(value, (np.ndarray, np.generic))


def is_numpy_scalar(value: object) -> TypeIs[np.generic[Any]]:
    """Whether `value` is a NumPy scalar."""
    return isinstance(value, np.generic)


def is_dtype(value: object) -> TypeIs[np.dtype[Any]]:
    """Whether `value` is a NumPy dtype."""
    return isinstance(value, np.dtype)
