"""Creation: full, iota and empty arrays; zeros and ones of a given type, also for known-zero tangents."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    Ints,
    Shape,
    ShapeError,
    Size,
    canonical_shape,
    dtypes,
    ints,
    is_static,
)
from pellucid._machine.base.dtypes import ExtendedDType
from pellucid._machine.ir import (
    LaidOut,
    Primitive,
    ShapedArray,
    Traits,
    Zero,
    narrow_type,
    shaped_array,
    words,
)
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.sharding.errors import ShardingTypeError
from pellucid._machine.sharding.explicit_types import type_sharding
from pellucid._machine.sharding.stated import sharding_for
from pellucid._machine.tracing import Tracer, as_array, bind1, bottom, context, type_of
from pellucid._machine.xla import Array

from .conversion import convert_element_type
from .families import NUMBER, constant_like, kind_of, scalar, scalar_of
from .movement import broadcast_in_dim, broadcast_shapes, broadcast_to, expand_dims
from .reshard import ReshardParams, reshard_p
from .sharding_constraint import constrain_leaf
from .varying import Marks, vary, with_marks

_PYTHON_SCALARS = (bool, int, float, complex)


def checked_shape(shape: Ints, what: str) -> Shape:
    """`shape` as a tuple of ints; raises ShapeError for sizes that are negative or no integers."""
    try:
        sizes = canonical_shape(shape)
    except TypeError:
        raise ShapeError(f"{what} needs a shape of integers.", got=f"shape: {shape!r}") from None
    if any(size < 0 for size in sizes):
        raise ShapeError(f"{what} needs a shape without negative sizes.", got=f"shape: {sizes}")
    return sizes


# iota ---------------------------------------------------------------------------------------------


class IotaParams(NamedTuple):
    dtype: Any
    shape: Shape
    dimension: int
    sharding: Any


class Iota(LaidOut, Primitive[IotaParams]):
    name = "iota"
    traits = Traits(kind="creation", flops=0.0, cheap=True)

    def abstract_eval(self, avals, params):
        if kind_of(params.dtype) not in NUMBER:
            raise DtypeError("iota needs a numeric dtype.", got=f"dtype: {params.dtype}")
        if not 0 <= params.dimension < len(params.shape):
            raise ArgumentValueError(
                "iota needs a dimension of its shape.",
                got=f"dimension: {params.dimension}, shape: {params.shape}",
            )
        return [shaped_array(params.shape, params.dtype)]

    def factors(self, avals, results, params):
        return [], [words(len(params.shape))]

    def lower(self, ctx, operands, params):
        dimension = {"iota_dimension": params.dimension}
        return [ctx.as_result("stablehlo.iota", [], dimension)]


iota_p = Iota()


def iota(dtype: DTypeLike | ExtendedDType, size: int) -> Array:
    """The numbers 0, 1, … `size - 1`.

    `dtype` is integer, floating-point or complex; the result has shape [size].
    Raises: ShapeError for a `size` that isn't an integer from 0, DtypeError for another dtype.
    Source: StableHLO specification, `iota`.

    >>> iota(np.int32, 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: DTypeLike | ExtendedDType,
    shape: Ints,
    dimension: int,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """An array of `shape` whose elements are their positions along `dimension`.

    `dtype` is integer, floating-point or complex.
    Raises: ShapeError for a `shape` of anything but integers from 0, ArgumentValueError for a dimension out of bounds,
    TypeError for one that isn't an integer, DtypeError for another dtype.
    Source: StableHLO specification, `iota`.

    >>> broadcasted_iota(np.int32, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    dtype = dtypes.check_user_dtype(dtype, "iota")
    sizes = checked_shape(shape, "iota")
    params = IotaParams(dtype, sizes, *ints([dimension]), iota_p.stated_layout(out_sharding))  # pyright: ignore[reportCallIssue]
    return bind1(iota_p, params=params)


# empty --------------------------------------------------------------------------------------------


class EmptyParams(NamedTuple):
    shape: Shape
    dtype: Any
    out_sharding: Any


class Empty(LaidOut, Primitive[EmptyParams]):
    name = "empty"
    traits = Traits(kind="creation", flops=0.0)

    def abstract_eval(self, avals, params):
        return [shaped_array(params.shape, params.dtype)]

    def factors(self, avals, results, params):
        return [], [words(len(params.shape))]

    def lower(self, ctx, operands, params):
        return [ctx.zeros(ctx.avals_out[0])]  # StableHLO has no array without contents


empty_p = Empty()


def empty(
    shape: Ints,
    dtype: DTypeLike | ExtendedDType,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """An array whose elements may be anything; at present they are zeros.

    The result has the given `shape` and `dtype`.
    Raises: ShapeError for a `shape` of anything but integers from 0, DtypeError for anything that isn't a dtype.

    >>> empty((2, 3), np.float32).shape
    (2, 3)
    """
    dtype = dtypes.check_user_dtype(dtype, "empty")
    return bind1(
        empty_p,
        params=EmptyParams(
            checked_shape(shape, "empty"), dtype, empty_p.stated_layout(out_sharding)
        ),
    )


# Functions ----------------------------------------------------------------------------------------


def full(
    shape: Ints,
    fill_value: ArrayLike,
    dtype: DTypeLike | ExtendedDType | None = None,
    *,
    sharding: Sharding | None = None,
) -> Array:
    """An array of `shape` whose elements are all the scalar `fill_value`.

    Without `dtype` it has the dtype of `fill_value`, and its weak type. `sharding` places the result.

    Raises: ShapeError for a `shape` of anything but integers from 0 and for a `fill_value` that isn't a scalar,
    DtypeError for anything that isn't a dtype, ArgumentTypeError for lists and strings.

    >>> full((2,), 3, np.float32)
    Array([3., 3.], dtype=float32)
    """
    sizes = checked_shape(shape, "full")
    aval = type_of(fill_value)
    if aval.shape != ():
        raise ShapeError(
            "full needs a scalar to fill the array with.",
            got=f"fill_value: {aval.text()}",
            do="Use `jnp.full`, or `lax.broadcast_in_dim`.",
        )
    if sharding is not None and not isinstance(sharding, Sharding):
        sharding = sharding_for(sharding, "full")
    if dtype is not None:
        dtype = dtypes.check_user_dtype(dtype, "full")
        if rules := getattr(dtype, "_rules", None):
            return rules.full(sizes, fill_value, dtype)
        _check_real(fill_value, dtype, "full")
        if isinstance(dtype, np.dtype) and isinstance(fill_value, (*_PYTHON_SCALARS, np.generic)):
            fill_value = scalar(np.asarray(fill_value).astype(dtype), dtype)
        else:
            fill_value = convert_element_type(fill_value, dtype)
    return _broadcast_to_sharding(sizes, fill_value, sharding)


def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | ExtendedDType | None = None,
    shape: Ints | None = None,
    sharding: Sharding | None = None,
) -> Array:
    """An array like `x` whose elements are all `fill_value`; `dtype` and `shape` are those of `x` unless given.

    Raises: ShapeError for a `shape` of anything but integers from 0 and for a `fill_value` that isn't a scalar,
    DtypeError for anything that isn't a dtype, ArgumentTypeError for lists and strings.

    >>> full_like(np.arange(2), 3)
    Array([3, 3], dtype=int32)
    """
    aval = type_of_like(x)
    sizes = aval.shape if shape is None else checked_shape(shape, "full_like")
    if sharding is None:
        sharding = layout_of(x, sizes)
    if dtype is None and aval.weak_type:
        _check_real(fill_value, aval.dtype, "full_like")
        if type(fill_value) in _PYTHON_SCALARS:
            fill_value = constant_like(x, fill_value)
        return _broadcast_to_sharding(
            sizes, convert_element_type(fill_value, aval.dtype, weak_type=True), sharding
        )
    return full(sizes, fill_value, aval.dtype if dtype is None else dtype, sharding=sharding)


def type_of_like(x: Any) -> ShapedArray:
    """The type of arrays like `x`: its own type, or that of its shape and dtype if it has only these, as a view of a
    reference.
    """
    try:
        return type_of(x)
    except ArgumentTypeError:
        if isinstance(x, type) or not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise
    return narrow_type(shaped_array(tuple(x.shape), np.dtype(x.dtype)))


def _check_real(x, dtype, name: str) -> None:
    """Raises DtypeError if `x` is complex and `dtype` is real."""
    if kind_of(type_of(x).dtype) == "complex" and kind_of(dtype) not in ("complex", "bool"):
        raise DtypeError(
            f"{name} can't fill an array of {dtype} with a complex number.",
            got=f"fill_value: {type_of(x).text()}",
            do="Pass its real part, or a complex dtype.",
        )


def layout_of(x: Any, shape: Shape) -> Any:
    """The sharding for an array of `shape` like `x`: that of a committed `x`, or the one in its type; else None.

    `x` may have a sharding without being an array, as a ShapeDtypeStruct. An array of another shape shares the device of
    `x` only, not how it is cut.
    """
    aval = type_of_like(x)
    same = aval.shape == shape
    if not context.trace.is_eager:
        return aval.shown_sharding if same else None
    sharding = None if isinstance(x, Tracer) else getattr(x, "sharding", None)
    if not isinstance(sharding, Sharding) or not getattr(x, "_committed", True):
        return None
    if getattr(sharding, "is_abstract", False):
        return None
    return sharding if same or sharding.num_devices == 1 else None


def _broadcast_to_sharding(sizes: Shape, scalar, sharding):
    """`scalar` broadcast to `sizes` and placed by `sharding`; each device creates its own shard only."""
    if not context.trace.is_eager:
        if sharding is None or type_sharding(sharding, len(sizes)) is not None:
            return broadcast_in_dim(scalar, sizes, (), out_sharding=sharding)
        return constrain_leaf(broadcast_in_dim(scalar, sizes, ()), sharding)
    if sharding is not None and sharding.num_devices > 1:
        element = np.asarray(scalar, type_of(scalar).dtype)
        part = np.broadcast_to(element, sharding.shard_shape(sizes))
        return bottom().from_callback(sizes, sharding, lambda index: part)
    if sharding is not None:
        scalar = bottom().put(scalar, sharding)
    elif not hasattr(scalar, "aval"):
        scalar = bottom().from_host(scalar, weak_type=type_of(scalar).weak_type)
    filled = broadcast_in_dim(scalar, sizes, ())
    return filled if sharding is None else bottom().put(filled, sharding)


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """`arr` repeated to the shape of `like_arr`, by NumPy's rules.

    The result has the dtype of `arr`.
    Raises: ShapeError for shapes that cannot be broadcast, ArgumentTypeError for lists and strings.

    >>> broadcast_like(np.int32(1), np.zeros(2))
    Array([1, 1], dtype=int32)
    """
    aval = type_of(arr)
    shape = type_of(like_arr).shape
    if broadcast_shapes(aval.shape, shape) != shape:
        raise ShapeError(
            "broadcast_like can't repeat the array to that shape.",
            got=[f"array: {aval.text()}", f"shape wanted: {shape}"],
        )
    return broadcast_to(arr, shape)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """`x` with new leading axes of size 1, so that it has at least `rank` axes.

    The result has the dtype of `x`.
    Raises: TypeError for a rank that isn't an integer, ArgumentTypeError for lists and strings.

    >>> broadcast_to_rank(np.zeros(3), 2).shape
    (1, 3)
    """
    missing = ints([rank])[0] - type_of(x).ndim
    return expand_dims(x, range(missing)) if missing > 0 else as_array(x)


# Zeros and ones ------------------------------------------------------------------------------------


def zeros(aval: Any) -> Any:
    """An array of zeros of type `aval`; a NumPy array for float0, which devices don't support.

    >>> zeros(pl.typeof(np.float32(1)))
    Array(0., dtype=float32)
    """
    if aval.dtype == dtypes.float0:
        if is_static(aval.shape):
            return np.zeros(aval.shape, dtypes.float0)
        return broadcast_in_dim(np.zeros((), dtypes.float0), aval.shape, ())
    if rules := getattr(aval.dtype, "_rules", None):
        return full(aval.shape, rules.zero(aval.dtype))
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        # Extended dtypes have no host scalars.
        params = EmptyParams(aval.shape, aval.dtype, aval.shown_sharding)
        return vary(bind1(empty_p, params=params), aval.varying)
    return full_of_type(aval, 0)


def instantiate(tangent: Any) -> Any:
    """`tangent` as an array: a known zero becomes zeros.

    >>> instantiate(Zero(pl.typeof(np.float32(1)))), instantiate(2.0)
    (Array(0., dtype=float32), 2.0)
    """
    return zeros(tangent.aval) if type(tangent) is Zero else tangent


def ones(aval: Any) -> Any:
    """An array of ones of type `aval`."""
    return full_of_type(aval, 1)


def full_of_type(aval: Any, value: int) -> Any:
    """An array of type `aval` whose elements are all `value`."""
    shown = aval.shown_sharding
    if shown is not None and shown.spec.unreduced:
        return _filled_addends(aval, value)
    element = shaped_array((), aval.dtype, aval.weak_type)
    is_eager = context.trace.is_eager
    x = bottom().scalar(value, element) if is_eager else scalar_of(element, value)
    repeated = broadcast_in_dim(x, aval.shape, (), out_sharding=shown)
    return vary(repeated, aval.varying)


def _filled_addends(aval, value: int):
    """An array of `value`, unreduced over the axes in `aval`: the addends of 0 are 0; any other value is held whole by
    one device along these axes, which XLA chooses.
    """
    shown = aval.shown_sharding
    if value and shown.spec.unreduced.intersection(shown.mesh.manual_axes):
        raise ShardingTypeError(
            "no array of ones can be made whose addends positions in shard_map hold.",
            got=aval.text(),
            do="Sum the addends with psum first.",
        )
    whole = full_of_type(with_marks(aval, Marks(reduced=shown.spec.reduced)), value)
    return bind1(reshard_p, whole, params=ReshardParams(shown))


def zero_like_elements(x: Any) -> Any:
    """A scalar zero of the dtype of `x`, unreduced over the same axes, so that results of both can be unreduced."""
    aval = type_of(x)
    shown = aval.shown_sharding
    if shown is None or not shown.spec.unreduced:
        return np.zeros((), aval.dtype)
    element = shaped_array((), aval.dtype)
    return zeros(with_marks(element, Marks(shown.spec.unreduced), shown.mesh))


class DimAsValueParams(NamedTuple):
    dim: Size


class DimAsValue(Primitive[DimAsValueParams]):
    """The value of a symbolic dimension, computed from the shapes of the program's arguments."""

    name = "dim_as_value"
    traits = Traits(kind="creation", flops=0.0, cheap=True)

    def abstract_eval(self, avals, params):
        dtype = dtypes.canonicalize_dtype(np.int64)
        return [shaped_array((), dtype, weak_type=True)]

    def factors(self, avals, results, params):
        return [], [[]]

    def lower(self, ctx, operands, params):
        return [ctx.convert(ctx.size(params.dim), ctx.avals_out[0])]


dim_as_value_p = DimAsValue()


def dim_as_value(dim: Size) -> Any:
    """The value of a symbolic dimension, an integer scalar of the program that is being traced.

    >>> (b,) = pl.export.symbolic_shape("b")
    >>> pl.make_jaxpr(lambda: dim_as_value(2 * b))().jaxpr
    { lambda ; . let a:i32[] = dim_as_value[dim=2*b]  in (a,) }
    """
    return bind1(dim_as_value_p, params=DimAsValueParams(dim))
