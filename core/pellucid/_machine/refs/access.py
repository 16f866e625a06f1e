"""The user's interface to references: `new_ref`, `ref[...]`, `swap`, `addupdate`, `freeze`, and views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    Function,
    ShapeError,
    UnsupportedError,
    dtypes,
    register_pytree_node,
    strict_zip,
)
from pellucid._machine.higher_order.bodies import widens
from pellucid._machine.ir import AbstractRef, shaped_array
from pellucid._machine.primitives import (
    bitcast_convert_type,
    broadcast_to,
    canonical_axis,
    convert_element_type,
    inferred_sizes,
    inverse_permutation,
    iota,
    reshape,
    transpose,
    zeros,
)
from pellucid._machine.tracing import bind, bind1, is_array_like, is_reference, type_of, types_of

from . import index as indexing
from .index import RefIndex, parse_index
from .primitives import (
    Accessed,
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

Shape = tuple[int, ...]


class Reshaped(NamedTuple):
    """A reshape, in row-major order, of an array of `shape` to `new_shape`."""

    shape: Shape
    new_shape: Shape

    def result_shape(self, operands: Any) -> Shape:
        return self.new_shape

    def apply(self, array: Any) -> Any:
        return reshape(array, self.new_shape)

    def invert(self, array: Any) -> Any:
        return reshape(array, self.shape)


class Transposed(NamedTuple):
    """An array of `shape` with its axes permuted: axis `i` is axis `permutation[i]` of the array."""

    shape: Shape
    permutation: Shape

    def result_shape(self, operands: Any) -> Shape:
        return tuple([self.shape[i] for i in self.permutation])

    def apply(self, array: Any) -> Any:
        return transpose(array, self.permutation)

    def invert(self, array: Any) -> Any:
        return transpose(array, inverse_permutation(self.permutation))


class Bitcast(NamedTuple):
    """The bits of an array of `shape` and `dtype` as elements of `new_dtype`.

    The last dimension but one takes up another width: to a dtype `n` times narrower each row becomes `n` rows, the
    lowest bits first; to a wider one `n` rows become one.
    """

    shape: Shape
    dtype: Any
    new_dtype: Any

    def result_shape(self, operands: Any) -> Shape:
        return _cast_shape(self.shape, self.dtype, self.new_dtype)

    def apply(self, array: Any) -> Any:
        return _cast(array, self.dtype, self.new_dtype)

    def invert(self, array: Any) -> Any:
        return _cast(array, self.new_dtype, self.dtype)


Transform = Reshaped | Transposed | Bitcast


def _cast_shape(shape: Shape, dtype, new_dtype) -> Shape:
    """The shape after a bitcast. Raises: ShapeError if there are no rows, or if they don't make up whole rows of the
    other width.
    """
    old_bits, new_bits = dtypes.itemsize_bits(dtype), dtypes.itemsize_bits(new_dtype)
    if old_bits == new_bits:
        return shape
    if len(shape) < 2 or shape[-2] * old_bits % new_bits:
        raise ShapeError(
            f"bitcast: the rows of shape {list(shape)} don't make up whole rows of {dtypes.short_name(new_dtype)}.",
            got=f"{dtypes.short_name(dtype)} of {old_bits} bits, {dtypes.short_name(new_dtype)} of {new_bits} bits",
            do="The last dimension but one takes up the change of width; reshape first.",
        )
    return (*shape[:-2], shape[-2] * old_bits // new_bits, shape[-1])


def _cast(array, dtype, new_dtype):
    old_bits, new_bits = dtypes.itemsize_bits(dtype), dtypes.itemsize_bits(new_dtype)
    if old_bits == new_bits:
        return bitcast_convert_type(array, new_dtype)
    *outer, n_rows, n_columns = array.shape
    target = _cast_shape(array.shape, dtype, new_dtype)
    n = max(old_bits, new_bits) // min(old_bits, new_bits)
    lead = tuple(range(len(outer) + 1))
    swapped = (*lead, len(lead) + 1, len(lead))
    if old_bits > new_bits:  # [..., rows, columns, n] to [..., rows, n, columns]
        return reshape(transpose(bitcast_convert_type(array, new_dtype), swapped), target)
    parts = reshape(array, (*outer, n_rows // n, n, n_columns))
    return bitcast_convert_type(transpose(parts, swapped), new_dtype)


# Views ----------------------------------------------------------------------------------------------


Step = tuple[Any, tuple[Any, ...]]
"""(RefIndex or Transform, operands of the index)."""


class RefView(Accessed):
    """A reference to a part of the value of `ref`, selected by `steps`, each from the part before it.

    The first step is an index, which may be that of the whole.

    It is read and written like a reference. It is also a pytree with the reference and the indices' operands as leaves,
    so compiled functions, branches, loops and `checkpoint` accept it in place of a reference.
    """

    __slots__ = ("ref", "steps")

    def __init__(self, ref: Any, steps: tuple[Step, ...]) -> None:
        self.ref = ref
        self.steps = steps

    @property
    def shape(self) -> Shape:
        step, operands = self.steps[-1]
        return step.result_shape(types_of(operands))

    @property
    def dtype(self) -> Any:
        casts = [step.new_dtype for step, _ in self.steps if type(step) is Bitcast]
        return casts[-1] if casts else self.ref.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional reference")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"RefView({self.ref.aval.text()}, shape={list(self.shape)})"


class RefIndexer:
    """The property `at` of references: `ref.at[index]` is a reference to a part."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __getitem__(self, index: Any) -> RefView:
        return view_of("at", self.ref, index)

    def __repr__(self) -> str:
        return f"RefIndexer({self.ref!r})"


def reshape_view(ref: Any, *shape: Any) -> RefView:
    """`ref.reshape(*shape)`: a view of the elements of `ref`, in row-major order, with `shape`; one size may be -1.

    Raises: ShapeError for a shape with another number of elements.
    """
    stated = shape if len(shape) != 1 or type(shape[0]) is int else tuple(shape[0])
    sizes = inferred_sizes("reshape", ref.shape, stated)
    if math.prod(sizes) != ref.size:
        raise ShapeError(
            f"reshape: a reference can't be seen in shape {list(sizes)}, which has another number of elements.",
            got=f"a reference of shape {list(ref.shape)}",
        )
    return _transform_view("reshape", ref, Reshaped(ref.shape, sizes))


def transpose_view(ref: Any, *permutation: Any) -> RefView:
    """`ref.transpose(*permutation)`: a view of `ref` with its axes permuted; reversed by default.

    Raises: ShapeError unless `permutation` has each axis once.
    """
    axes = permutation if len(permutation) != 1 or type(permutation[0]) is int else permutation[0]
    if not permutation or axes is None:
        axes = range(ref.ndim)[::-1]
    order = tuple([canonical_axis(axis, ref.ndim) for axis in axes])
    if sorted(order) != list(range(ref.ndim)):
        raise ShapeError(
            f"transpose needs a permutation of {ref.ndim} axes, got {order}.",
            got=f"a reference of shape {list(ref.shape)}",
        )
    return _transform_view("transpose", ref, Transposed(ref.shape, order))


def bitcast(ref: Any, dtype: Any) -> RefView:
    """`ref.bitcast(dtype)`: a view of the bits of `ref` as elements of `dtype`.

    The last dimension but one takes up another width: to a dtype `n` times narrower each row becomes `n` rows, the
    lowest bits first. Raises: ShapeError for rows that don't make up whole ones of the other width.
    """
    new_dtype = dtypes.check_user_dtype(dtype, "bitcast")
    cast = Bitcast(ref.shape, ref.dtype, new_dtype)
    cast.result_shape(())
    return _transform_view("bitcast", ref, cast)


def _transform_view(caller: str, ref, transform: Transform) -> RefView:
    if type(ref) is not RefView:
        _reference(caller, ref)
    view = view_of(caller, ref, ...)
    return RefView(view.ref, (*view.steps, (transform, ())))


def view_of(caller: str, ref: Any, index: Any) -> RefView:
    """The view `ref[index]` of a reference, or of a view's reference; its last step is an index."""
    last, operands = parse_index(caller, index, ref.shape)
    step: Step = last, tuple(operands)
    if type(ref) is not RefView:
        return RefView(ref, (step,))
    steps = ref.steps
    if steps[0][0].shape != ref.ref.shape:
        raise ArgumentTypeError(
            f"{caller}: the reference has another shape than the one of which this is a part.",
            got=f"a reference of shape {list(ref.ref.shape)}, a part of one of shape {list(steps[0][0].shape)}",
            do="Pass the reference itself where it is batched or cut, and take the part inside.",
        )
    if not last.is_full or type(steps[-1][0]) is not RefIndex:
        joined = None
        if type(steps[-1][0]) is RefIndex and getattr(ref.ref.aval.kind, "joins_views", False):
            joined = indexing.compose(*steps[-1], *step)
        if joined is not None:
            steps = (*steps[:-1], (joined[0], tuple(joined[1])))
        else:
            steps = (*steps, step)
    return RefView(ref.ref, steps)


def _unflatten_view(steps, children) -> RefView:
    return RefView(children[0], tuple(strict_zip(steps, children[1:])))


register_pytree_node(
    RefView,
    lambda view: (
        (view.ref, *(operands for _, operands in view.steps)),
        tuple([step for step, _ in view.steps]),
    ),
    _unflatten_view,
)


# Access ---------------------------------------------------------------------------------------------


def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Any:
    """A new reference: a mutable cell that holds the array `init_val`, whose shape and dtype it keeps.

    `ref[index]` reads, `ref[index] = value` writes. Functions that are compiled, loops and branches may get it as an
    argument or use it from outside, and change what it holds; they may not return it. In a function that is
    differentiated, references made inside pass derivatives on; those from outside take values without derivatives.
    Of the `kind` "no_grad_no_remat", a reference takes differentiated values, too, and passes no derivatives on. Other
    kinds, and `memory_space`, are kept for kernels.

    Raises: ArgumentTypeError for anything that isn't an array.

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
        raise ArgumentTypeError("new_ref needs an array.", got=f"got {kind_of}")
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
            "empty_ref needs a type: something with shape and dtype.",
            got=f"got {type(ty).__name__}",
        )
    aval = shaped_array(tuple(ty.shape), dtypes.canonicalize(ty.dtype))
    return bind1(empty_ref_p, params=EmptyRefParams(memory_space, aval))


def freeze(ref: Any) -> Any:
    """The array that `ref` holds; the reference is deleted.

    Raises: ArgumentTypeError for anything that isn't a reference; DeletedArrayError, now and at later uses, for a deleted one.

    >>> freeze(new_ref(3.0))
    Array(3., dtype=float32)
    """
    return bind1(freeze_p, _reference("freeze", ref))


def free_ref(ref: Any) -> None:
    """Delete `ref` and the array it holds.

    Raises: ArgumentTypeError for anything that isn't a reference; DeletedArrayError, now and at later uses, for a deleted one.

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
    view = part_of("get", ref, idx)
    return _read(_got(view), view.steps[1:])


def set(ref: Any, idx: Any, value: Any) -> None:
    """`ref[idx] = value`; traced positions out of bounds are moved to the nearest inside for integers, dropped in arrays.

    `value` is repeated to the shape of the part. Raises: ShapeError, DtypeError for a value that doesn't fit.

    >>> ref = new_ref(1.0)
    >>> set(ref, ..., 2.0)
    >>> ref
    Ref(2., dtype=float32)
    """
    swap(ref, idx, value, "set")


def swap(ref: Any, idx: Any, value: Any, _function_name: str = "swap") -> Any:
    """Assigns `ref[idx] = value` and returns the old value of `ref[idx]`, an array of the shape of that part.

    Raises: as `set`.

    >>> swap(new_ref(1.0), ..., 2.0)
    Array(1., dtype=float32)
    """
    view = part_of(_function_name, ref, idx)
    return replace_part(view, _fitting(_function_name, view, value), indexing.write)


def replace_part(view: RefView, value: Any, update: Function) -> Any:
    """The previous value of the part that is viewed; `update(array, index, operands, value)` changes the array.

    Raises: UnsupportedError for views of the bits of elements that arrays of positions select.
    """
    (index, operands), *inner = view.steps
    if not inner:
        return bind1(swap_p, view.ref, value, *operands, params=PartParams(index))
    if any(type(s) is RefIndex and indexing.has_vectors(x) for s, x in view.steps[:-1]):
        return _replace_places(view, value, update)
    part = _got(view)
    new = _update_part(part, inner, value, update)
    bind(swap_p, view.ref, new, *operands, params=PartParams(index))
    return _read(part, inner)


def _replace_places(view: RefView, value: Any, update: Function) -> Any:
    """`replace_part` of a view within a part that may have an element several times, and so can't be changed and written back."""
    if any(type(step) is Bitcast for step, _ in view.steps):
        raise UnsupportedError(
            "bits of elements that arrays of positions select can't be changed.",
            got=f"{view.ref.aval.text()}, part of shape {list(view.shape)}",
            do="Give the positions to the view of the bits: `ref.bitcast(dtype).at[positions]`.",
        )
    whole = get(view.ref)
    flat, places = reshape(whole, (whole.size,)), places_of(whole.shape, view.steps)
    if not view.shape:  # an array of positions, so that one outside is dropped
        places, value = reshape(places, (1,)), reshape(value, (1,))
    in_order = RefIndex((whole.size,), (None,), 0)
    swap(view.ref, ..., reshape(update(flat, in_order, [places], value), whole.shape))
    return _read(whole, view.steps)


def places_of(shape: Shape, steps: Sequence[Step]) -> Any:
    """For each element that `steps` lead to its place in an array of `shape`, in row-major order; their number for one outside."""
    size = math.prod(shape)
    found = reshape(iota(np.dtype(np.int32), size), shape)
    for step, operands in steps:
        if type(step) is RefIndex:
            found = indexing.read(found, step, operands, outside=np.int32(size))
        else:
            found = step.apply(found)
    return found


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """`ref[idx] += x`, in one step; repeated positions get every addition. `x` is repeated to the shape of the part.

    Raises: ShapeError, DtypeError for an `x` that doesn't fit.

    >>> import numpy as np
    >>> ref = new_ref(np.zeros(3, np.float32))
    >>> addupdate(ref, np.array([0, 0, 2]), 1.0)
    >>> ref
    Ref([2., 0., 1.], dtype=float32)
    """
    view = part_of("addupdate", ref, idx)
    (index, operands), *inner = view.steps
    x = _fitting("addupdate", view, x)
    if any(type(step) is Bitcast for step, _ in inner):  # a sum of bits isn't the bits of a sum
        replace_part(view, x, indexing.add_at)
        return
    if inner:
        shape = index.result_shape(types_of(operands))
        x = _update_part(zeros(shaped_array(shape, view.ref.dtype)), inner, x, indexing.add_at)
    bind(addupdate_p, view.ref, x, *operands, params=PartParams(index))


def _reference(caller: str, ref):
    if not is_reference(ref):
        kind = type_of(ref).text() if hasattr(ref, "aval") else type(ref).__name__
        raise ArgumentValueError(f"{caller} needs a reference.", got=f"got {kind}")
    return ref


def part_of(caller: str, ref: Any, idx: Any) -> RefView:
    """The view `ref[idx]` of a reference or of a view of one; raises ArgumentValueError for slices out of bounds."""
    if type(ref) is not RefView:
        _reference(caller, ref)
    view = view_of(caller, ref, ... if idx is None else idx)
    for step, _ in view.steps:
        if type(step) is RefIndex:
            indexing.check_inside(caller, step)
    return view


def _got(view: RefView):
    """The value that the first index of `view` reads from its reference."""
    index, operands = view.steps[0]
    return bind1(get_p, view.ref, *operands, params=PartParams(index))


def _read(part, steps: Sequence[Step]):
    for step, operands in steps:
        part = (
            indexing.read(part, step, operands) if isinstance(step, RefIndex) else step.apply(part)
        )
    return part


def _update_part(part, steps: Sequence[Step], value, update: Function):
    """`part`, in which `update(array, index, operands, value)` has changed the part at `steps`."""
    [(step, operands), *rest] = steps
    if not rest:
        return update(part, step, operands, value)
    inner = _update_part(_read(part, steps[:1]), rest, value, update)
    if isinstance(step, RefIndex):
        return indexing.write(part, step, operands, inner)
    return step.invert(inner)


def _fitting(caller: str, view: RefView, value):
    """`value` with the type of the viewed part: broadcast to its shape, weakly typed numbers converted to its dtype."""
    if is_reference(value):
        raise ArgumentTypeError(
            f"{caller}: the new value is a reference.",
            got=type_of(value).text(),
            do="Read what it holds: `ref[...]`.",
        )
    aval = type_of(value)
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


# Methods of references, including traced ones.
AbstractRef.methods.update(
    at=RefIndexer,
    T=transpose_view,
    reshape=reshape_view,
    transpose=transpose_view,
    bitcast=bitcast,
    get=lambda ref, idx=...: get(ref, idx),
    set=lambda ref, value, idx=...: set(ref, idx, value),
    swap=lambda ref, value, idx=...: swap(ref, idx, value),
    addupdate=lambda ref, x, idx=...: addupdate(ref, idx, x),
)
