"""One object for one value: tables that keep a description alive only while somebody uses it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


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
