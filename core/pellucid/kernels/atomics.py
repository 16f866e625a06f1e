"""Atomic operations: each combines a part of a reference with a value, in one step, and gives what was there before.

Programs of a kernel for a GPU run at once, so that a load and a store are two steps, between which other programs write.
Everywhere else programs run one after another, and an operation is what `updated` computes.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, cached, dtypes, strict_zip
from pellucid._machine.checks.automatic import MASKED, NOWHERE
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import Operands, read_effect, write_effect
from pellucid._machine.primitives import (
    broadcast_to,
    convert_element_type,
    reshape,
    select_n,
    zero_of,
)
from pellucid._machine.primitives.arithmetic import max as larger, min as smaller
from pellucid._machine.primitives.logical import bitwise_and, bitwise_or, bitwise_xor
from pellucid._machine.primitives.reduction import reduce_or
from pellucid._machine.primitives.scatter import scatter_add, scatter_max, scatter_min
from pellucid._machine.refs import index as indexing
from pellucid._machine.refs.access import (
    RefView,
    get,
    part_of,
    places_of,
    replace_part,
    set as set_part,
)
from pellucid._machine.refs.index import RefIndex, has_vectors
from pellucid._machine.refs.primitives import Write
from pellucid._machine.tracing import bind, bind1, type_of, use_lineage
from pellucid._machine.transforms.jvp import jvp

from .inside import fitting, points

COMBINE = {
    "add": lambda old, new: old + new,
    "max": larger,
    "min": smaller,
    "and": bitwise_and,
    "or": bitwise_or,
    "xor": bitwise_xor,
    "xchg": lambda old, new: new,
}
"""By operation what it makes of an element and a new value."""

BITWISE = ("and", "or", "xor")
"""Operations on integers alone."""

SCATTER = {"add": scatter_add, "max": scatter_max, "min": scatter_min}
"""By operation the scatter that combines repeated positions as it does."""


class AtomicParams(NamedTuple):
    """The part of the reference, and what is done with it: a key of `COMBINE`, or "cas", compare and swap."""

    index: RefIndex
    operation: str


class AtomicUpdate(Write[AtomicParams]):
    """Combines a part of a reference with a value, and returns the previous part.

    Operands: the reference, the value, where it counts (booleans; for "cas" what the element is compared with), the index.
    """

    name = "atomic_update"
    n_values = 2
    own_effects = frozenset({read_effect, write_effect})

    def abstract_eval(self, avals, params):
        return [self.check(avals, params)]

    def run(self, operands, params):
        ref, *rest = operands
        ref.value, old = _compiled(params)(ref.value, *rest)
        return [old]

    def discharge(self, operands, params):
        cell, *rest = operands
        cell.value, old = updated(params, cell.value, *rest)
        return [old]

    def jvp(self, primals, tangents, params):
        ref, value, *rest = primals
        tangent = self.tangent(primals, tangents)
        if tangent is None:
            results = bind(self, *primals, params=params)
            return results, [*map(zero_of, results)]
        (new, old), (new_tangent, old_tangent) = jvp(
            lambda whole, value: updated(params, whole, value, *rest),
            (get(ref), value),
            (get(tangents[0]), tangent),
        )
        set_part(ref, ..., new)
        set_part(tangents[0], ..., new_tangent)
        return [old], [old_tangent]


atomic_update_p = AtomicUpdate()


@cached(2048)
def _compiled(params: AtomicParams) -> Any:
    """`updated` as a compiled program on arrays."""
    return jit(functools.partial(updated, params), donate_argnums=(0,))


def updated(
    params: AtomicParams, whole: Any, value: Any, which: Any, *operands: Any
) -> tuple[Any, Any]:
    """(an array after an atomic operation on its part, the part before it).

    Repeated positions are combined one after another, positions out of bounds dropped.
    """
    index, operation = params
    old = indexing.read(whole, index, operands)
    if operation == "cas":
        return indexing.write(whole, index, operands, select_n(old == which, old, value)), old
    if not has_vectors(operands):  # no position is repeated
        new = select_n(which, old, COMBINE[operation](old, value))
        return indexing.write(whole, index, operands, new), old
    if operation in SCATTER:
        nothing = np.broadcast_to(_neutral(operation, whole.dtype), value.shape)
        value = select_n(which, nothing, value)
        return indexing.scatter_at(whole, index, operands, value, SCATTER[operation]), old
    if not value.size:
        return whole, old
    return _one_by_one(operation, whole, index, operands, value, which), old


def _neutral(operation: str, dtype: Any) -> np.generic:
    """The number that an addition, a maximum or a minimum leaves any other as it is with."""
    dtype = np.dtype(dtype)
    if operation == "add":
        return dtype.type(-0.0) if dtypes.is_inexact(dtype) else dtype.type(0)
    if dtype == np.bool_:
        return np.bool_(operation == "min")
    if dtypes.is_inexact(dtype):
        sign = -1 if operation == "max" else 1
        [infinite] = np.array([sign * np.inf]).astype(dtype)
        # Some dtypes of 8 bits and fewer have no infinite number, but a largest one.
        return infinite if np.isinf(infinite) else dtype.type(sign * dtypes.finfo(dtype).max)
    limits = dtypes.iinfo(dtype)
    return dtype.type(limits.min if operation == "max" else limits.max)


def _one_by_one(
    operation: str, whole: Any, index: RefIndex, operands: Operands, value: Any, which: Any
) -> Any:
    """An array after its elements at an index are combined with values in turn."""
    places = places_of(whole.shape, [(index, tuple(operands))])
    places = reshape(select_n(which, np.broadcast_to(NOWHERE, value.shape), places), (value.size,))
    values = reshape(value, (value.size,))

    def step(k: Any, flat: Any) -> Any:
        place = places[k]
        with use_lineage(MASKED):
            new = COMBINE[operation](flat.at[place].get(mode="clip"), values[k])
            return flat.at[place].set(new, mode="drop")

    flat = fori_loop(np.int32(0), np.int32(value.size), step, reshape(whole, (whole.size,)))
    return reshape(flat, whole.shape)


def _update(operation: str, ref: Any, idx: Any, value: Any, mask: Any) -> Any:
    name = f"atomic_{operation}"
    view = part_of(name, ref, idx)
    if operation in BITWISE and view.dtype.kind not in "iub":
        raise ArgumentTypeError(f"{name} takes integers.", got=_text(view))
    value = fitting(name, "value", convert_element_type(value, view.dtype), view.shape)
    which = fitting(name, "mask", True if mask is None else mask, view.shape)
    if mask is not None:
        view = _inside_where_masked(name, view, which)
    return _bound(operation, view, value, which)


def _inside_where_masked(name: str, view: RefView, which: Any) -> RefView:
    """`view` with positions inside of the reference where `which` is false: nothing is done there, and checks of indices pass.

    A slice with a traced start becomes positions, so that it isn't moved where it reaches over the end.
    """
    (index, operands), *more = view.steps
    if more or not isinstance(index, RefIndex) or not operands:
        return view

    def inside_unless(counts: Any, x: Any, least: int, dim: int) -> Any:
        return select_n(counts, smaller(larger(x, np.int32(least)), np.int32(dim - 1)), x)

    if any(entry is not None and entry.start is None for entry in index.entries):
        _, positions, _ = points(name, view)
        if positions is None:
            return view
        rows = [inside_unless(which, x, 0, dim) for x, dim in strict_zip(positions, index.shape)]
        return part_of(name, view.ref, tuple(rows))
    # All operands are scalars or arrays of positions: their common dimensions are those of the part but for its slices.
    ndim = type_of(which).ndim
    vector = range(index.position, index.position + ndim - len(index.windows))
    counts = reduce_or(which, [i for i in range(ndim) if i not in vector])
    dims = [dim for entry, dim in strict_zip(index.entries, index.shape) if entry is None]
    moved = []
    for x, dim in strict_zip(operands, dims):
        x = broadcast_to(convert_element_type(x, np.dtype(np.int32)), type_of(counts).shape)
        moved.append(inside_unless(counts, x, -dim, dim))
    return RefView(view.ref, ((index, tuple(moved)),))


def _bound(operation: str, view: RefView, value: Any, which: Any) -> Any:
    """The part that is viewed, before its operation with `value`."""
    (index, operands), *inner = view.steps
    if not inner:
        params = AtomicParams(index, operation)
        return bind1(atomic_update_p, view.ref, value, which, *operands, params=params)
    # A view of a view isn't in memory as it is seen.
    return replace_part(view, value, functools.partial(_changed, operation, which))


def _changed(
    operation: str, which: Any, part: Any, index: RefIndex, operands: Operands, value: Any
) -> Any:
    """An array after an atomic operation on its part at an index."""
    return updated(AtomicParams(index, operation), part, value, which, *operands)[0]


def _text(view: RefView) -> str:
    return f"{type_of(view.ref).text()}, part of shape {list(view.shape)}"


def atomic_add(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Adds `val` to a part of a reference, once per repeated position, and returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> atomic_add(ref, np.array([1, 1]), np.float32(1))
    Array([0., 0.], dtype=float32)
    >>> ref
    Ref([0., 2.], dtype=float32)
    """
    return _update("add", x_ref_or_view, idx, val, mask)


def atomic_max(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Replaces elements of a part of a reference by `val` if that is larger, and returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.arange(3))
    >>> atomic_max(ref, np.array([0, 0]), np.array([2, 5]))
    Array([0, 0], dtype=int32)
    >>> ref
    Ref([5, 1, 2], dtype=int32)
    """
    return _update("max", x_ref_or_view, idx, val, mask)


def atomic_min(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Replaces elements of a part of a reference by `val` if that is smaller, and returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> atomic_min(new_ref(np.arange(3)), 1, -1)
    Array(1, dtype=int32)
    """
    return _update("min", x_ref_or_view, idx, val, mask)


def atomic_and(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Bitwise and of a part of a reference with `val`; returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.array([7, 7]))
    >>> atomic_and(ref, np.array([0, 0]), np.array([3, 6]))
    Array([7, 7], dtype=int32)
    >>> ref
    Ref([2, 7], dtype=int32)
    """
    return _update("and", x_ref_or_view, idx, val, mask)


def atomic_or(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Bitwise or of a part of a reference with `val`; returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.array([0, 8]))
    >>> atomic_or(ref, np.array([0, 0]), np.array([1, 4]))
    Array([0, 0], dtype=int32)
    >>> ref
    Ref([5, 8], dtype=int32)
    """
    return _update("or", x_ref_or_view, idx, val, mask)


def atomic_xor(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Bitwise xor of a part of a reference with `val`; returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.array([7, 7]))
    >>> atomic_xor(ref, 1, 5)
    Array(7, dtype=int32)
    >>> ref
    Ref([7, 2], dtype=int32)
    """
    return _update("xor", x_ref_or_view, idx, val, mask)


def atomic_xchg(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Replaces a part of a reference where `mask` is true, and returns the previous part.

    >>> from pellucid._machine.refs.access import new_ref
    >>> atomic_xchg(new_ref(np.arange(3)), 1, 7)
    Array(1, dtype=int32)
    """
    return _update("xchg", x_ref_or_view, idx, val, mask)


def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Compare and swap: replaces the element of a reference by `val` if it equals `cmp`, and returns the previous one.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.int32(3))
    >>> atomic_cas(ref, 3, 4), atomic_cas(ref, 3, 5), ref
    (Array(3, dtype=int32), Array(4, dtype=int32), Ref(4, dtype=int32))
    """
    view = part_of("atomic_cas", ref, ...)
    if view.shape:
        raise ArgumentTypeError("atomic_cas takes a reference to one element.", got=_text(view))
    value, compared = (convert_element_type(x, view.dtype) for x in (val, cmp))
    return _bound("cas", view, value, compared)
