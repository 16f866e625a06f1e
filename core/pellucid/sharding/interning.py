"""One object for one value: tables that keep a description alive only while somebody uses it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")


class Interned:
    """An object that stands for all equal ones, so that nothing may change it once `made` has set its attributes."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        kind = type(self).__name__
        raise AttributeError(
            f"a {kind} can't be changed; make another with `update`. ({name!r} was set.)"
        )


def made(new: T, **attributes: Any) -> T:
    """`new`, an object of an `Interned` class, with these attributes."""
    for name, value in attributes.items():
        object.__setattr__(new, name, value)
    return new


class InternTable(Generic[T]):
    """Objects by the key that describes them; equal keys give one object, so `is` means equal."""

    def __init__(self) -> None:
        self._objects: weakref.WeakValueDictionary[Hashable, T] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self.get = self._objects.get

    def add(self, key: Hashable, new: T) -> T:
        """The object for `key`: `new`, unless another thread was first."""
        with self._lock:
            return self._objects.setdefault(key, new)
