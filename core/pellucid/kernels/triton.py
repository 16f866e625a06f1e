"""What kernels for GPUs name that has a meaning on every device: masked access, additions to references, hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.primitives import convert_element_type, select_n
from pellucid._machine.refs.access import addupdate, get
from pellucid._machine.tracing import type_of
from pellucid.numpy import tanh

from .inside import fitting, load as masked_load, store as masked_store


def load(
    ref: Any,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Any:
    """What `ref`, or a part `ref.at[index]`, holds where `mask` holds, and `other` elsewhere; the rest are hints.

    >>> from pellucid._machine.refs.access import new_ref
    >>> load(new_ref(np.arange(2)), mask=np.array([True, False]), other=7)
    Array([0, 7], dtype=int32)
    """
    return masked_load(ref, mask=mask, other=other)


def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write `val` to `ref`, or a part `ref.at[index]`, where `mask` holds; the rest is a hint.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> store(ref, np.float32(1), mask=np.array([True, False]))
    >>> ref
    Ref([1., 0.], dtype=float32)
    """
    masked_store(ref, val, mask=mask)


def atomic_add(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Adds `val` to a part of a reference, every addition where positions are repeated, and gives the part before.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> atomic_add(ref, np.array([1, 1]), np.float32(1))
    Array([0., 0.], dtype=float32)
    >>> ref
    Ref([0., 2.], dtype=float32)
    """
    old = get(x_ref_or_view, idx)
    aval = type_of(old)
    val = fitting("atomic_add", "value", convert_element_type(val, aval.dtype), aval.shape)
    if mask is not None:
        mask = fitting("atomic_add", "mask", mask, aval.shape)
        val = select_n(mask, np.zeros(aval.shape, aval.dtype), val)
    addupdate(x_ref_or_view, idx, val)
    return old


def debug_barrier() -> None:
    """Wait for the threads of this program, of which there is one."""


def approx_tanh(x: Any) -> Any:
    """tanh(x), in full precision.

    >>> approx_tanh(np.float32(0))
    Array(0., dtype=float32)
    """
    return tanh(x)


def max_contiguous(x: Any, values: Sequence[int] | int) -> Any:
    """`x`, whose neighbours are stated to be consecutive; a hint.

    >>> max_contiguous(8, 4)
    8
    """
    return x
