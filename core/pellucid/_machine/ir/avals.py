"""Abstract values: the types of values in a program.

Avals are interned: equal avals are one object, so they compare and hash by identity. Make them with
`shaped_array`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from pellucid._machine.base import ShapeError, dtypes, insert_at, replace_axis_size, strict_zip
from pellucid._machine.sharding import (
    ManualAxisType,
    NamedSharding,
    PartitionSpec,
    check_without_addends,
    get_abstract_mesh,
)
from pellucid._machine.sharding.explicit_types import (
    check_divisible,
    explicit_part,
    shown_sharding,
    type_sharding,
    type_text,
)
from pellucid._machine.sharding.memory import MemorySpace, space_of_kind

Shape = tuple[Any, ...]
_NOT_VARYING: frozenset[str] = frozenset()
_FIELDS = ("shape", "dtype", "weak_type", "shown_sharding", "memory_space", "varying")


class AbstractValue:
    """Base class of types of values: arrays, tokens, references.

    >>> isinstance(pl.typeof(1.0), pl.core.AbstractValue)
    True
    """

    __slots__ = ()

    def str_short(self, short_dtypes: bool = False) -> str:
        """The type on one line, with full names of dtypes or, if `short_dtypes`, with those of printed programs."""
        raise NotImplementedError(type(self))

    def text(self) -> str:
        """The type in the form of printed programs."""
        return self.str_short(short_dtypes=True)

    def tangent(self) -> AbstractValue:
        """Type of a tangent of a value of this type."""
        raise NotImplementedError(type(self))

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that represent a value of this type."""
        return [self]

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that represent a value of this type."""
        return [hi_val]

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that the arrays `lo_vals` represent; the inverse of `lower_val`."""
        return lo_vals[0]

    def __repr__(self) -> str:
        return self.str_short()


class ShapedArray(AbstractValue):
    """Type of an array: shape, dtype, weak type, explicit sharding, memory space, varying axes.

    `shown_sharding` is None if the type contains no sharding. `memory_space` is None for the device's default.
    `varying` are the manual mesh axes over which the value differs (inside `shard_map`).

    >>> pl.typeof(np.ones((2, 3), np.float32)), pl.typeof(2)
    (ShapedArray(float32[2,3]), ShapedArray(int32[], weak_type=True))
    """

    __slots__ = (*_FIELDS, "ndim", "size", "_tangent", "__weakref__")

    shape: Shape
    dtype: Any
    weak_type: bool
    shown_sharding: NamedSharding | None
    memory_space: Any
    varying: frozenset[str]
    ndim: int
    size: int

    def __new__(  # noqa: PYI034  (interned: the one object with these fields)
        cls,
        shape: Any,
        dtype: Any,
        weak_type: bool = False,
        *,
        sharding: NamedSharding | None = None,
        manual_axis_type: ManualAxisType | None = None,
        memory_space: MemorySpace | None = None,
        varying: frozenset[Any] = _NOT_VARYING,
    ) -> ShapedArray:
        if manual_axis_type is not None:
            check_without_addends("ShapedArray", manual_axis_type)
            varying = manual_axis_type.varying
        memory_space = None if memory_space is MemorySpace.Device else memory_space
        dtype = dtype if isinstance(dtype, dtypes.ExtendedDType) else np.dtype(dtype)
        shape = tuple(shape)
        shown = _shown_part(sharding, shape)
        return shaped_array(shape, dtype, weak_type, shown, memory_space, varying)

    def __reduce__(self) -> Any:
        fields = tuple([getattr(self, name) for name in _FIELDS])
        if fields[3:] == (None, None, _NOT_VARYING):
            return ShapedArray, fields[:3]  # the form in which the reference unpickles it
        return shaped_array, fields

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional array")
        return self.shape[0]

    def str_short(self, short_dtypes: bool = False) -> str:
        is_short = short_dtypes or self.dtype == dtypes.float0
        name = dtypes.short_name(self.dtype) if is_short else self.dtype.name
        space = f"<{self.memory_space}>" if self.memory_space is not None else ""
        spec = None if self.shown_sharding is None else self.shown_sharding.spec
        return type_text(f"{name}{space}", self.shape, spec, self.varying)

    def __str__(self) -> str:
        return ("~" if self.weak_type else "") + self.str_short()

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' if self.weak_type else ''})"

    def tangent(self) -> ShapedArray:
        try:
            return self._tangent
        except AttributeError:
            dtype = dtypes.tangent_dtype(self.dtype)
            self._tangent = (
                shaped_array(self.shape, dtype, varying=self.varying)
                if dtype == dtypes.float0
                else self.update(dtype=dtype)
            )
            return self._tangent

    to_tangent_aval = at_least_vspace = tangent

    def cotangent(self) -> ShapedArray:
        """Type of a cotangent of a value of this type: `unreduced` and `reduced` are swapped."""
        tangent, shown = self.tangent(), self.shown_sharding
        if shown is None or not (shown.spec.unreduced or shown.spec.reduced):
            return tangent
        mesh = shown.mesh.abstract_mesh
        return tangent.update(shown_sharding=shown_sharding(mesh, shown.spec.to_ct_spec()))

    @property
    def sharding(self) -> NamedSharding:
        """The sharding in the type, with one entry per dimension.

        If the type contains none, the value is replicated over the current mesh, or over a mesh without axes.
        """
        if self.shown_sharding is not None:
            return self.shown_sharding
        return NamedSharding(get_abstract_mesh(), PartitionSpec().padded(self.ndim))

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """The value's relation to the surrounding Manual mesh axes, inside `shard_map`."""
        shown = self.shown_sharding
        if shown is None:
            return ManualAxisType(varying=self.varying)
        manual = frozenset(shown.mesh.manual_axes)
        unreduced, reduced = shown.spec.unreduced & manual, shown.spec.reduced & manual
        return ManualAxisType(varying=self.varying, unreduced=unreduced, reduced=reduced)

    mat = manual_axis_type

    def update(self, **changes: Any) -> ShapedArray:
        """This type with some fields changed: those of the constructor, or `shown_sharding`.

        Raises: ShardingError if the value can't have the new `sharding`.
        """
        if "sharding" in changes:
            shape = changes.get("shape", self.shape)
            changes["shown_sharding"] = _shown_part(changes.pop("sharding"), shape)
        fields: dict[str, Any] = {
            "shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type,
            "shown_sharding": self.shown_sharding, "memory_space": self.memory_space,
            "varying": self.varying,
        }  # fmt: skip
        return shaped_array(**(fields | changes))

    def with_dim(
        self, dim: int, size: int, axes: Any = None, explicit: NamedSharding | None = None
    ) -> ShapedArray:
        """This type with a new dimension of `size` at `dim`, sharded over the mesh `axes` if types contain shardings.

        Without `axes` it is sharded as `explicit`, the sharding of one dimension, unless other dimensions use its axes.
        """
        shape = insert_at(self.shape, dim, size)
        shown = self.shown_sharding
        if shown is None and explicit is not None:
            shown = explicit.with_spec(PartitionSpec(*[None] * self.ndim))
        if shown is None:
            return self.update(shape=shape)
        mesh, spec = shown.mesh.abstract_mesh, shown.spec
        if axes is None and explicit is not None and explicit.mesh is mesh:
            axes = explicit.spec.axes_per_dim[0]
        is_shown = axes is not None and set(axes) <= set(mesh.explicit_axes) - spec.axis_names
        spec = spec.update(insert_at(spec.partitions, dim, axes if is_shown else None))
        return self.update(shape=shape, shown_sharding=shown_sharding(mesh, spec))

    def without_dim(self, dim: int) -> ShapedArray:
        """This type without the dimension `dim`."""
        shape, shown = replace_axis_size(self.shape, dim), self.shown_sharding
        if shown is not None:
            spec = shown.spec.update(replace_axis_size(shown.spec.partitions, dim))
            shown = shown_sharding(shown.mesh.abstract_mesh, spec)
        return self.update(shape=shape, shown_sharding=shown)

    def strip_weak_type(self) -> ShapedArray:
        """This type with `weak_type` false."""
        return self.update(weak_type=False) if self.weak_type else self

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array; sub-byte elements count as one byte, as on the host."""
        return self.size * self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes per element; sub-byte elements count as one byte."""
        return dtypes.item_bytes(self.dtype)


_interned: dict[tuple[Any, ...], ShapedArray] = {}


MAX_ELEMENTS = 2**63 // 16 - 1
"""Maximum number of elements: with 16 bytes each, sizes in bytes fit into 64 bits. XLA aborts the process otherwise."""


def shaped_array(
    shape: Shape,
    dtype: Any,
    weak_type: bool = False,
    shown_sharding: NamedSharding | None = None,
    memory_space: Any = None,
    varying: frozenset[str] = _NOT_VARYING,
) -> ShapedArray:
    """The interned aval with these fields; `shape` is a tuple of ints, `dtype` a NumPy or extended dtype."""
    key = (shape, dtype, weak_type, shown_sharding, memory_space, varying)
    aval = _interned.get(key)
    if aval is None:
        size = math.prod(shape)
        if type(size) is int and size > MAX_ELEMENTS:
            raise ShapeError(
                "an array can't have so many elements: its bytes are counted with 64 bits.",
                got=f"shape {shape}",
            )
        aval = object.__new__(ShapedArray)
        for name, value in strict_zip(_FIELDS, key):
            setattr(aval, name, value)
        aval.ndim, aval.size = len(shape), size
        aval = _interned.setdefault(key, aval)
    return aval


class Described:
    """Base class of values with an attribute `aval`, from which they take shape and dtype."""

    __slots__ = ()

    aval: Any

    shape, dtype, weak_type, ndim, size, itemsize, nbytes = (
        property(operator.attrgetter(f"aval.{name}"), doc=f"`{name}` of the type.")
        for name in ("shape", "dtype", "weak_type", "ndim", "size", "itemsize", "nbytes")
    )


def _shown_part(sharding: NamedSharding | None, shape: Shape) -> NamedSharding | None:
    """The part of `sharding` that the type of a value with `shape` contains."""
    if sharding is None:
        return None
    mesh = sharding.mesh.abstract_mesh
    check_divisible(shape, sharding.spec, mesh)
    return shown_sharding(mesh, explicit_part(sharding.spec, mesh, len(shape)))


def physical(aval: ShapedArray) -> ShapedArray:
    """The type in which a device stores values of `aval`: keys as arrays of their words, float0 as bool."""
    dtype = aval.dtype
    if isinstance(dtype, dtypes.ExtendedDType):
        return shaped_array((*aval.shape, *dtype.element_shape), dtype.base_dtype)
    if dtype == dtypes.float0:
        return shaped_array(aval.shape, np.dtype(bool))
    return aval


def narrow_type(aval: ShapedArray) -> ShapedArray:
    """`aval` with the dtype that arrays can have: a 32-bit one if 64-bit dtypes are disabled."""
    dtype = dtypes.canonicalize(aval.dtype)
    return aval if dtype is aval.dtype else aval.update(dtype=dtype)


def element_shape(aval: ShapedArray) -> Shape:
    """The trailing axes with which a device stores each element of `aval`; () for ordinary dtypes."""
    dtype = aval.dtype
    return dtype.element_shape if isinstance(dtype, dtypes.ExtendedDType) else ()


class AbstractRef(AbstractValue):
    """Type of a reference to a mutable array of type `inner_aval`. Only `abstract_ref` creates it.

    The content of references of the `kind` "no_grad_no_remat" is never differentiated; other kinds are types of memory in kernels.

    >>> aval = pl.typeof(pl.new_ref(jnp.zeros(3)))
    >>> aval, aval.inner_aval
    (Ref{float32[3]}, ShapedArray(float32[3]))
    """

    __slots__ = ("inner_aval", "kind", "_tangent", "__weakref__")

    inner_aval: ShapedArray
    kind: Hashable
    methods: ClassVar[dict[str, Any]] = {}
    """Methods of traced references, by name."""

    def str_short(self, short_dtypes: bool = False) -> str:
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __reduce__(self) -> Any:
        return abstract_ref, (self.inner_aval, self.kind)

    shape, dtype, ndim, size, itemsize, nbytes, shown_sharding, sharding, memory_space, varying = (
        property(operator.attrgetter(f"inner_aval.{name}"), doc=f"`{name}` of the array.")
        for name in (
            "shape", "dtype", "ndim", "size", "itemsize", "nbytes", "shown_sharding", "sharding", "memory_space", "varying",
        )
    )  # fmt: skip
    weak_type = False

    def update(self, **changes: Any) -> AbstractRef:
        """The type of references to arrays of another type."""
        return abstract_ref(self.inner_aval.update(**changes), self.kind)

    def with_dim(
        self, dim: int, size: int, axes: Any = None, explicit: NamedSharding | None = None
    ) -> AbstractRef:
        """The type of references to arrays with a new dimension; see `ShapedArray.with_dim`."""
        return abstract_ref(self.inner_aval.with_dim(dim, size, axes, explicit), self.kind)

    def without_dim(self, dim: int) -> AbstractRef:
        """The type of references to arrays without the dimension `dim`."""
        return abstract_ref(self.inner_aval.without_dim(dim), self.kind)

    def strip_weak_type(self) -> AbstractRef:
        """This type itself: the content of a reference is never weakly typed."""
        return self

    @property
    def is_differentiable(self) -> bool:
        """Whether such a reference has a tangent, which is a reference to the tangent of its content."""
        return type(self.tangent()) is AbstractRef

    def tangent(self):
        if self.kind == "no_grad_no_remat":
            return shaped_array(self.shape, dtypes.float0)
        inner = self.inner_aval.tangent()
        return inner if inner.dtype == dtypes.float0 else abstract_ref(inner, self.kind)

    to_tangent_aval = tangent


_interned_refs: dict[tuple[ShapedArray, Hashable], AbstractRef] = {}


def abstract_ref(inner: ShapedArray, kind: Hashable = None) -> AbstractRef:
    """The interned type of references of a `kind` to arrays of type `inner`, with `weak_type` false."""
    key = inner.strip_weak_type(), kind
    aval = _interned_refs.get(key)
    if aval is None:
        aval = object.__new__(AbstractRef)
        aval.inner_aval, aval.kind = key
        aval = _interned_refs.setdefault(key, aval)
    return aval


class AbstractToken(AbstractValue):
    """Type of a token, which only orders effects.

    >>> pl.make_jaxpr(lax.create_token)()
    { lambda ; . let a:Tok = create_token  in (a,) }
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a token has no `{name}`: it orders effects, and is no array.")

    def str_short(self, short_dtypes: bool = False) -> str:
        return "Tok"

    def tangent(self):
        return shaped_array((), dtypes.float0)


abstract_token = AbstractToken()


def aval_at(aval: Any, sharding: Any) -> Any:
    """The type of an array like `aval` with `sharding`: it includes Explicit mesh axes and host memory."""
    if aval is abstract_token:
        return aval
    shown = type_sharding(sharding, aval.ndim)
    space = space_of_kind(sharding.memory_kind)
    if aval.shown_sharding is shown and aval.memory_space is space:
        return aval
    return aval.update(shown_sharding=shown, memory_space=space)
