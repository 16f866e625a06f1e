"""What kernels for GPUs name that has a meaning on every device: masked access, additions to references, hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentTypeError
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.primitives import convert_element_type, select_n
from pellucid._machine.refs.access import addupdate, get, set as set_part
from pellucid._machine.tracing import type_of
from pellucid.kernels.inside import fitting, load as masked_load, store as masked_store


@dataclass(frozen=True)
class CompilerParams:
    """Options of the compiler of kernels for GPUs: warps of 32 threads of one program, and stages of its loops.

    >>> CompilerParams(num_warps=4)
    CompilerParams(num_warps=4, num_stages=None)
    """

    num_warps: int | None = None
    num_stages: int | None = None


def load(
    ref: Any,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Any:
    """The elements of `ref`, or of a part `ref.at[index]`, where `mask` is True, and `other` elsewhere; the rest are hints.

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
    """Adds `val` to a part of a reference, once per repeated position, and returns the previous part.

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


def _extreme(name: str, x_ref_or_view: Any, idx: Any, val: Any, mask: Any) -> Any:
    """The part of a reference before its elements became the larger or the smaller ones of these and `val`."""
    old = get(x_ref_or_view, idx)
    aval = type_of(old)
    val = fitting(f"atomic_{name}", "value", convert_element_type(val, aval.dtype), aval.shape)
    if mask is not None:  # the part itself changes nothing
        val = select_n(fitting(f"atomic_{name}", "mask", mask, aval.shape), old, val)
    whole = jnp.asarray(get(x_ref_or_view))
    set_part(x_ref_or_view, ..., getattr(whole.at[idx], name)(val))
    return old


def atomic_max(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Replaces elements of a part of a reference by `val` if that is larger, and returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.arange(3))
    >>> atomic_max(ref, np.array([0, 0]), np.array([2, 5]))
    Array([0, 0], dtype=int32)
    >>> ref
    Ref([5, 1, 2], dtype=int32)
    """
    return _extreme("max", x_ref_or_view, idx, val, mask)


def atomic_min(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Replaces elements of a part of a reference by `val` if that is smaller, and returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> atomic_min(new_ref(np.arange(3)), 1, -1)
    Array(1, dtype=int32)
    """
    return _extreme("min", x_ref_or_view, idx, val, mask)


def _bitwise(name: str, x_ref_or_view: Any, idx: Any, val: Any, mask: Any) -> Any:
    """The part of a reference before its elements were combined with `val`, sequentially for repeated positions."""
    old = get(x_ref_or_view, idx)
    aval = type_of(old)
    if aval.dtype.kind not in "iub":
        raise ArgumentTypeError(f"atomic_{name} takes integers.", got=aval.text())
    val = fitting(f"atomic_{name}", "value", convert_element_type(val, aval.dtype), aval.shape)
    holds = fitting(f"atomic_{name}", "mask", True if mask is None else mask, aval.shape)
    whole = jnp.asarray(get(x_ref_or_view))
    # The position in the whole, in row-major order, of each element of the part; the end for elements outside.
    places = (
        jnp.arange(whole.size).reshape(whole.shape).at[idx].get(mode="fill", fill_value=whole.size)
    )
    places = jnp.where(holds, places, whole.size).ravel()
    values, combine = jnp.asarray(val).ravel(), getattr(jnp, f"bitwise_{name}")

    def step(k: Any, flat: Any) -> Any:
        place = places[k]
        new = combine(flat.at[place].get(mode="clip"), values[k])
        return flat.at[place].set(new, mode="drop")

    flat = fori_loop(np.int32(0), np.int32(aval.size), step, whole.ravel())
    set_part(x_ref_or_view, ..., flat.reshape(whole.shape))
    return old


def atomic_and(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Bitwise and of a part of a reference with `val`; returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.array([7, 7]))
    >>> atomic_and(ref, np.array([0, 0]), np.array([3, 6]))
    Array([7, 7], dtype=int32)
    >>> ref
    Ref([2, 7], dtype=int32)
    """
    return _bitwise("and", x_ref_or_view, idx, val, mask)


def atomic_or(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Bitwise or of a part of a reference with `val`; returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.array([0, 8]))
    >>> atomic_or(ref, np.array([0, 0]), np.array([1, 4]))
    Array([0, 0], dtype=int32)
    >>> ref
    Ref([5, 8], dtype=int32)
    """
    return _bitwise("or", x_ref_or_view, idx, val, mask)


def atomic_xor(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Bitwise xor of a part of a reference with `val`; returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.array([7, 7]))
    >>> atomic_xor(ref, 1, 5)
    Array(7, dtype=int32)
    >>> ref
    Ref([7, 2], dtype=int32)
    """
    return _bitwise("xor", x_ref_or_view, idx, val, mask)


def atomic_xchg(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Replaces a part of a reference where `mask` is true, and returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> atomic_xchg(new_ref(np.arange(3)), 1, 7)
    Array(1, dtype=int32)
    """
    part = x_ref_or_view.at[idx]
    old = get(part)
    masked_store(part, val, mask=mask)
    return old


def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Compare and swap: replaces the element of a reference by `val` if it equals `cmp`, and returns the previous one.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.int32(3))
    >>> atomic_cas(ref, 3, 4), atomic_cas(ref, 3, 5), ref
    (Array(3, dtype=int32), Array(4, dtype=int32), Ref(4, dtype=int32))
    """
    old = get(ref)
    aval = type_of(old)
    if aval.shape:
        raise ArgumentTypeError("atomic_cas takes a reference to one element.", got=aval.text())
    set_part(ref, ..., select_n(old == cmp, old, convert_element_type(val, aval.dtype)))
    return old


def debug_barrier() -> None:
    """Wait for the threads of this program, of which there is one."""


def approx_tanh(x: Any) -> Any:
    """tanh(x), in full precision.

    >>> approx_tanh(np.float32(0))
    Array(0., dtype=float32)
    """
    return jnp.tanh(x)


def max_contiguous(x: Any, values: Sequence[int] | int) -> Any:
    """`x`, whose neighbours are stated to be consecutive; a hint.

    >>> max_contiguous(8, 4)
    8
    """
    return x
