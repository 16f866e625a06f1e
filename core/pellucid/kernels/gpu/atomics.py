"""Atomic operations on a part of a reference, whose previous value nobody asks for."""

from __future__ import annotations

from typing import Any

from pellucid.kernels import atomics


def atomic_add(ref: Any, val: Any) -> None:
    """Add `val` to a reference, or to a part of one, as one step for each element.

    >>> import numpy as np
    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> atomic_add(ref.at[0], np.float32(3))
    >>> ref
    Ref([3., 0.], dtype=float32)
    """
    atomics.atomic_add(ref, ..., val)


def atomic_and(ref: Any, val: Any) -> None:
    """Replace a reference, or a part of one, by its bits that `val` has, too."""
    atomics.atomic_and(ref, ..., val)


def atomic_max(ref: Any, val: Any) -> None:
    """Replace elements of a reference, or of a part of one, by `val` where that is larger."""
    atomics.atomic_max(ref, ..., val)


def atomic_min(ref: Any, val: Any) -> None:
    """Replace elements of a reference, or of a part of one, by `val` where that is smaller."""
    atomics.atomic_min(ref, ..., val)


def atomic_or(ref: Any, val: Any) -> None:
    """Replace a reference, or a part of one, by its bits and those of `val`."""
    atomics.atomic_or(ref, ..., val)


def atomic_xor(ref: Any, val: Any) -> None:
    """Replace a reference, or a part of one, by the bits in which it differs from `val`."""
    atomics.atomic_xor(ref, ..., val)
