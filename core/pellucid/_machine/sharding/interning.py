"""Interning of immutable descriptions: equal ones are the same object, held by weak references."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any, Generic, NoReturn, Self, TypeVar

T = TypeVar("T")


class Interned:
    """Base class of interned objects, which are immutable once `set_attributes` has set their attributes."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        kind = type(self).__name__
        raise AttributeError(
            f"a {kind} can't be changed; make another with `update`. ({name!r} was set.)"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def set_attributes(new: T, **attributes: Any) -> T:
    """Sets the attributes of `new`, an object of an `Interned` class, and returns it."""
    for name, value in attributes.items():
        object.__setattr__(new, name, value)
    return new


class InternTable(Generic[T]):
    """Weak table of interned objects by key."""

    def __init__(self) -> None:
        self._objects: weakref.WeakValueDictionary[Hashable, T] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self.get = self._objects.get

    def add(self, key: Hashable, new: T) -> T:
        """The object for `key`: `new`, unless another thread has added one first."""
        with self._lock:
            return self._objects.setdefault(key, new)
