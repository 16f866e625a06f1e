"""References as users use them: `new_ref`, `ref[...]`, `swap`, `addupdate`, `freeze`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid.base import ArgumentTypeError, DtypeError, ShapeError, dtypes
from pellucid.higher_order.bodies import widens
from pellucid.ir import AbstractRef, shaped_array
from pellucid.primitives.conversion import convert_element_type
from pellucid.primitives.creation import zeros
from pellucid.primitives.movement import broadcast_to
from pellucid.tracing import bind, bind1, is_array_like, is_reference, type_of

from . import index as indexing
from .index import RefIndex
from .primitives import (
    EmptyRefParams,
    NewRefParams,
    PartParams,
    addupdate_p,
    empty_ref_p,
    free_ref_p,
    freeze_p,
    get_p,
    new_ref_p,
    swap_p,
)
from .transforms import Bitcast
from .view import RefIndexer, RefView, Step, bitcast, reshaped, steps_of, transposed


def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Any:
    """A new reference: a mutable cell that holds the array `init_val`, whose shape and dtype it keeps.

    `ref[index]` reads, `ref[index] = value` writes. Functions that are compiled, loops and branches may get it as an
    argument or use it from outside, and change what it holds; they may not return it. In a function that is
    differentiated, references made inside pass derivatives on; those from outside take values without derivatives.
    `memory_space` and `kind` are kept for kernels.

    Raises: ArgumentTypeError for what is no array.

    >>> from pellucid import jit
    >>> total = new_ref(0)
    >>> @jit
    ... def count(x):
    ...     total[...] += x
    >>> count(2)
    >>> count(3)
    >>> total
    Ref(5, dtype=int32)
    """
    if is_reference(init_val) or not is_array_like(init_val):
        kind_of = type_of(init_val).text() if is_reference(init_val) else type(init_val).__name__
        raise ArgumentTypeError("new_ref takes an array.", got=f"got {kind_of}")
    return bind1(new_ref_p, init_val, params=NewRefParams(kind, memory_space))


def empty_ref(ty: Any, memory_space: Any = None) -> Any:
    """A new reference to an array of the shape and dtype of `ty`, with undefined contents.

    Raises: ArgumentTypeError for a `ty` without shape and dtype.

    >>> import numpy as np
    >>> empty_ref(np.zeros(3)).shape
    (3,)
    """
    if not (hasattr(ty, "shape") and hasattr(ty, "dtype")):
        raise ArgumentTypeError(
            "empty_ref takes a type: something with shape and dtype.",
            got=f"got {type(ty).__name__}",
        )
    aval = shaped_array(tuple(ty.shape), dtypes.canonicalize(ty.dtype))
    return bind1(empty_ref_p, params=EmptyRefParams(memory_space, aval))


def freeze(ref: Any) -> Any:
    """The array that `ref` holds; the reference is deleted.

    Raises: ArgumentTypeError for what is no reference; DeletedArrayError, now and at later uses, for a deleted one.

    >>> freeze(new_ref(3.0))
    Array(3., dtype=float32)
    """
    return bind1(freeze_p, _reference("freeze", ref))


def free_ref(ref: Any) -> None:
    """Delete `ref` and the array it holds.

    Raises: ArgumentTypeError for what is no reference; DeletedArrayError, now and at later uses, for a deleted one.

    >>> free_ref(new_ref(3.0))
    """
    bind(free_ref_p, _reference("free_ref", ref))


def get(ref: Any, idx: Any = None) -> Any:
    """`ref[idx]`: an array with the part of the value of `ref` at `idx`; the whole value without an index.

    Integers, slices with positive steps, arrays of integers and `...` are understood. Traced positions out of bounds are
    moved to the nearest inside. Raises: ArgumentValueError for known positions out of bounds.

    >>> import numpy as np
    >>> get(new_ref(np.arange(4)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    base, steps = _steps("get", ref, idx)
    return _read(_get(base, steps[0]), steps[1:])


def set(ref: Any, idx: Any, value: Any) -> None:
    """`ref[idx] = value`; traced positions out of bounds are moved to the nearest inside for integers, dropped in arrays.

    `value` is repeated to the shape of the part. Raises: ShapeError, DtypeError for a value that doesn't fit.

    >>> ref = new_ref(1.0)
    >>> set(ref, ..., 2.0)
    >>> ref
    Ref(2., dtype=float32)
    """
    _swap("set", ref, idx, value)


def swap(ref: Any, idx: Any, value: Any, _function_name: str = "swap") -> Any:
    """Assigns `ref[idx] = value` and returns the old value of `ref[idx]`, an array of the shape of that part.

    Raises: as `set`.

    >>> swap(new_ref(1.0), ..., 2.0)
    Array(1., dtype=float32)
    """
    return _swap(_function_name, ref, idx, value)


def _swap(caller: str, ref, idx, value):
    base, steps = _steps(caller, ref, idx)
    value = _fitting(caller, RefView(base, tuple(steps)), value)
    return _replaced(base, steps, value, indexing.written)


def _replaced(base, steps: list[Step], value, update: Callable[..., Any]):
    """The old part of `base` at `steps`, which `update(array, index, operands, value)` changes."""
    first, *inner = steps
    if not inner:
        return bind1(swap_p, base, value, *first[1], params=_params(first))
    part = _get(base, first)
    new = _updated(part, inner, value, update)
    bind(swap_p, base, new, *first[1], params=_params(first))
    return _read(part, inner)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """`ref[idx] += x`, in one step; repeated positions get every addition. `x` is repeated to the shape of the part.

    Raises: ShapeError, DtypeError for an `x` that doesn't fit.

    >>> import numpy as np
    >>> ref = new_ref(np.zeros(3, np.float32))
    >>> addupdate(ref, np.array([0, 0, 2]), 1.0)
    >>> ref
    Ref([2., 0., 1.], dtype=float32)
    """
    base, steps = _steps("addupdate", ref, idx)
    first, *inner = steps
    x = _fitting("addupdate", RefView(base, tuple(steps)), x)
    if any(type(step) is Bitcast for step, _ in inner):  # sums of bits aren't bits of sums
        _replaced(base, steps, x, indexing.added)
        return
    if inner:
        shape = first[0].result_shape([type_of(i).shape for i in first[1]])
        x = _updated(zeros(shaped_array(shape, base.dtype)), inner, x, indexing.added)
    bind(addupdate_p, base, x, *first[1], params=_params(first))


def _reference(caller: str, ref):
    if not is_reference(ref):
        raise ArgumentTypeError(f"{caller} takes a reference.", got=f"got {type(ref).__name__}")
    return ref


def _steps(caller: str, ref, idx) -> tuple[Any, list[Step]]:
    """(the reference, the steps that lead to its part `ref[idx]`), for a reference or a view of one."""
    if type(ref) is not RefView:
        _reference(caller, ref)
    return steps_of(caller, ref, ... if idx is None else idx)


def _params(step: Step) -> PartParams:
    """Params of the access to a reference by the first of its steps, which is an index."""
    index, _ = step
    assert isinstance(index, RefIndex)
    return PartParams(index)


def _get(ref, step: Step):
    return bind1(get_p, ref, *step[1], params=_params(step))


def _read(part, steps: Sequence[Step]):
    for step, operands in steps:
        part = (
            indexing.read(part, step, operands)
            if isinstance(step, RefIndex)
            else step.applied(part)
        )
    return part


def _updated(part, steps: Sequence[Step], value, update: Callable[..., Any]):
    """`part` with its part at `steps` changed by `update(array, index, operands, value)`."""
    [(step, operands), *rest] = steps
    if not rest:
        return update(part, step, operands, value)
    inner = _updated(_read(part, steps[:1]), rest, value, update)
    if isinstance(step, RefIndex):
        return indexing.written(part, step, operands, inner)
    return step.inverted(inner)


def _fitting(caller: str, view: RefView, value):
    """`value` with the type of the part `view`: repeated to its shape, weak numbers converted to its dtype."""
    if is_reference(value):
        raise ArgumentTypeError(
            f"{caller}: the new value is a reference.",
            got=type_of(value).text(),
            do="Read what it holds: `ref[...]`.",
        )
    aval: Any = type_of(value)
    if aval.dtype != view.dtype and not (aval.weak_type and widens(aval.dtype, view.dtype)):
        raise DtypeError(
            f"{caller}: the new value has another dtype than the reference.",
            got=f"{view.ref.aval.text()}, new value {aval.text()}",
            do=f"Convert it: `value.astype({str(view.dtype)!r})`.",
        )
    if aval.dtype != view.dtype or aval.weak_type:
        value = convert_element_type(value, view.dtype)
    shape = view.shape
    if aval.shape == shape:
        return value
    try:
        return broadcast_to(value, shape)
    except ShapeError:
        raise ShapeError(
            f"{caller}: the new value doesn't fit the part of the reference.",
            got=f"{view.ref.aval.text()}, part of shape {list(shape)}, new value {aval.text()}",
        ) from None


# Methods of references, of those that are traced, too.
AbstractRef.methods.update(
    at=RefIndexer,
    T=transposed,
    reshape=reshaped,
    transpose=transposed,
    bitcast=bitcast,
    get=lambda ref, idx=...: get(ref, idx),
    set=lambda ref, value, idx=...: set(ref, idx, value),
    swap=lambda ref, value, idx=...: swap(ref, idx, value),
    addupdate=lambda ref, x, idx=...: addupdate(ref, idx, x),
)
