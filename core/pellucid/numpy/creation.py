"""New arrays: from Python values, filled, in sequence."""

from __future__ import annotations

import math
import operator
from array import ArrayType
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    ConcretizationTypeError,
    DtypeError,
    DTypeLike,
    ShapeError,
    StaticScalar,
    Symbol,
    canonical_size,
    dtypes,
    is_static,
    larger,
    public_functions,
)
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives import arithmetic, creation, logical, transcendental
from pellucid._machine.primitives.assembly import concatenate
from pellucid._machine.primitives.conversion import (
    convert_element_type,
    copy as copy_of,
    size_scalar,
)
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.movement import (
    broadcast_in_dim,
    canonical_axis,
    expand_dims,
    move_axis,
    reshape,
)
from pellucid._machine.primitives.placement import device_put
from pellucid._machine.primitives.reshard import reshard as laid_out
from pellucid._machine.runtime.array import default_sharding
from pellucid._machine.runtime.extended import of_words
from pellucid._machine.runtime.transfer import (
    copy_array,
    from_host,
    out_of_range,
    put_everywhere,
    put_host,
)
from pellucid._machine.sharding import make_single_device_sharding
from pellucid._machine.sharding.explicit_types import type_sharding
from pellucid._machine.sharding.stated import (
    check_fits,
    sharding_for,
    stated_result,
    stated_sharding,
)
from pellucid._machine.tracing import (
    Tracer,
    as_operand,
    context,
    is_array_like,
    operand_lines,
    traced_lines,
    type_of,
    without_mask,
)
from pellucid._machine.tracing.operands import DTYPES_OF_NUMBERS
from pellucid._machine.xla.arrays import ARRAY_TYPES, Array
from pellucid._machine.xla.shardings import Device

from .annotations import DeviceLike, OutSharding, ShapeLike
from .compiled import numpy_function
from .promotion import (
    as_tuple,
    aval_of,
    broadcast_arrays,
    canonical,
    check_promotion,
    convert,
    known_int,
    promote_dtypes_inexact,
)

# From Python values ---------------------------------------------------------------------------------


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of the values in `object`: a number, an array, or nested sequences of such.

    Result: dtype `dtype`, or what the values promote to; shape of the nesting, with ones in front up to `ndmin`
    dimensions. `device` is a device or a sharding, `out_sharding` a sharding or a PartitionSpec; without `copy`, an
    array stays itself.
    Raises: ArgumentTypeError for texts and other values that aren't numbers, ArgumentValueError and ShapeError for
    ragged sequences, ArgumentValueError for None, for NumPy's masked arrays in which something is masked, and for an
    `order` other than "K" and "C", DtypeError for an unknown `dtype`, IntegerRangeError for Python integers that the
    dtype can't hold.

    >>> array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    if isinstance(object, np.ma.MaskedArray):
        object = without_mask(object)
    return _array(object, dtype, copy, order, ndmin, device, out_sharding)


def _array(
    object: Any,
    dtype: DTypeLike | None,
    copy: bool | None,
    order: str | None,
    ndmin: int,
    device: DeviceLike,
    out_sharding: OutSharding,
) -> Array:
    """`array`, called by library code."""
    if order not in (None, "K", "C"):
        raise ArgumentValueError(
            f"arrays have no memory order, got order={order!r}.", do="Leave it out."
        )
    new_dtype = None if dtype is None else dtypes.check_user_dtype(dtype, "array")
    place = device if out_sharding is None else _place(device, out_sharding)
    value, aval = _with_type(object, new_dtype)
    if isinstance(value, _HOST):
        result = _from_host(value, aval, place)
    else:
        if copy and value is object:
            value = copy_array(value) if type(value) in ARRAY_TYPES else copy_of(value)
        result = value if place is None else _place_result(value, place, "array")
    return result if aval.ndim >= ndmin else expand_dims(result, range(ndmin - aval.ndim))


_HOST = bool, int, float, complex, np.ndarray, np.generic
"""Types of values that are on no device yet."""


def _from_host(value: Any, aval: Any, place: Any) -> Any:
    """An array of type `aval` with the contents of a host value, transferred once to its `place`."""
    if place is not None:
        sharding = _sharding_of(place, "array", aval.shape)
        if context.trace.is_eager and type_sharding(sharding, aval.ndim) is None:
            return put_everywhere(value, aval, sharding_for(sharding))
    result = put_host(value, aval, default_sharding(), committed=False)
    return result if place is None else _place_result(result, place, "array")


def _as_array(x: Any, dtype: Any) -> Any:
    value, aval = _with_type(x, dtype)
    return _from_host(value, aval, None) if isinstance(value, _HOST) else value


def _with_type(x: Any, dtype: Any) -> tuple[Any, Any]:
    """(`x` as an array, or as a NumPy array or a number if it contains no array; its type, of dtype `dtype` if that
    is given).
    """
    if isinstance(x, (bool, int, float, complex)):
        return x, type_of(x) if dtype is None else shaped_array((), dtype)
    if is_array_like(x):
        x = x.as_value() if isinstance(x, Symbol) else as_operand(x)
        aval = type_of(x)
        if dtype is None or (aval.dtype == dtype and not aval.weak_type):
            return x, aval
        if isinstance(x, (np.ndarray, np.generic)):
            return np.asarray(x).astype(dtype), shaped_array(aval.shape, dtype)
        x = convert_element_type(x, dtype)
        return x, type_of(x)
    if isinstance(x, (list, tuple)):
        return _typed_sequence(x, dtype)
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return _with_type(np.asarray(x), dtype)
    if isinstance(x, (memoryview, bytes, bytearray, ArrayType, range)):
        return _with_type(np.asarray(x), dtype)
    refused = ArgumentValueError if x is None else ArgumentTypeError
    raise refused(
        "jnp.array needs numbers, arrays, or nested sequences of such.",
        got=f"got {type(x).__name__}",
    )


def _typed_sequence(x: Any, dtype: Any) -> tuple[Any, Any]:
    leaves = _leaves(x)
    kinds = set(map(type, leaves))
    is_of_numbers = kinds <= DTYPES_OF_NUMBERS.keys()
    if dtype is None and leaves:
        # One number per Python type suffices: all numbers of a type have the same dtype.
        typical = (
            dict(zip(map(type, leaves), leaves, strict=True)).values() if is_of_numbers else leaves
        )
        dtype, _ = dtypes.promote(tuple([_type_pair(leaf) for leaf in typical]))
    if is_of_numbers or not any(
        isinstance(leaf, (Tracer, Symbol, *ARRAY_TYPES)) for leaf in leaves
    ):
        host = _host_array(x, leaves, dtypes.default_float_dtype() if dtype is None else dtype)
        return host, shaped_array(host.shape, host.dtype)
    parts = [_as_array(part, dtype) for part in x]
    shapes = {type_of(p).shape for p in parts}
    if len(shapes) > 1:
        raise ShapeError(
            "jnp.array got a ragged sequence.", got=f"shapes of its items: {sorted(shapes)}"
        )
    result = concatenate([expand_dims(p, (0,)) for p in parts], 0)
    return result, type_of(result)


def _host_array(x: Any, leaves: list[Any], dtype: Any) -> np.ndarray:
    try:
        return np.asarray(x, dtype=dtype)
    except ValueError as error:
        raise ArgumentValueError(
            "jnp.array got a ragged or unreadable sequence.", got=str(error)
        ) from None


def _type_pair(x: Any) -> tuple[Any, bool]:
    aval = type_of(x)
    return aval.dtype, aval.weak_type


def _leaves(x: Any) -> list[Any]:
    leaves: list[Any] = []
    todo = [x]
    while todo:
        item = todo.pop()
        if isinstance(item, (list, tuple)):
            todo.extend(reversed(item))
        elif type(item) in DTYPES_OF_NUMBERS:
            leaves.append(item)
        elif isinstance(item, np.ma.MaskedArray):
            leaves.append(without_mask(item))
        elif is_array_like(item):
            leaves.append(as_operand(item))
        elif hasattr(item, "__array__"):
            leaves.append(np.asarray(item))
        else:
            refused = ArgumentValueError if item is None else ArgumentTypeError
            raise refused(
                "jnp.array needs numbers, arrays, or nested sequences of such.",
                got=f"an item of type {type(item).__name__}",
            )
    return leaves


def _place(device: DeviceLike, out_sharding: OutSharding) -> Any:
    """The placement requested for a result; None if neither argument requests one."""
    return stated_result("out_sharding", out_sharding) if device is None else device


def _place_result(x: ArrayLike, place: DeviceLike, name: str) -> Any:
    """`x`, a result of the function `name`, with the requested placement."""
    sharding = _sharding_of(place, name, np.shape(x))
    if type_sharding(sharding, type_of(x).ndim) is not None:
        return laid_out(x, sharding)
    return device_put(x, sharding)


def _sharding_of(place: DeviceLike, name: str, shape: tuple[int, ...]) -> Any:
    """The sharding that `place` describes (a device, or an argument of `stated_sharding`) for a result of `shape`."""
    if isinstance(place, Device):
        return make_single_device_sharding(place)
    sharding = stated_sharding(f"jnp.{name}", place)
    if sharding is not None:
        check_fits(f"jnp.{name}", "a result", sharding, shape)
    return sharding


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """`a` as an array, without a copy where it already is one of that dtype.

    Result: shape and dtype as of `array`, whose parameters it has.
    Raises: the errors of `array`.

    >>> asarray(1.5)
    Array(1.5, dtype=float32, weak_type=True)
    """
    return _array(a, dtype, copy, order or "K", 0, device, out_sharding)


def of_sequence(x: Any) -> Any:
    """`x`, converted to an array if it is a list or tuple: for functions whose arguments may be sequences in the
    reference.

    >>> of_sequence([1.0, 2.0]), of_sequence(1.0)
    (Array([1., 2.], dtype=float32), 1.0)
    """
    return asarray(x) if isinstance(x, (list, tuple)) else x


# Filled ---------------------------------------------------------------------------------------------


def canonical_shape(shape: ShapeLike, name: str) -> tuple[int, ...]:
    """`shape`, an int or a sequence of ints, as a tuple."""
    for size in shape if isinstance(shape, (tuple, list)) else (shape,):
        if isinstance(size, Tracer):
            what = f"jnp.{name} needs a shape that is known when tracing."
            raise ConcretizationTypeError(
                what, got=traced_lines(size), do="Pass Python ints, or mark the argument static."
            )
    try:
        sizes = tuple([canonical_size(s) for s in as_tuple(shape)])
    except TypeError:
        raise ArgumentTypeError(
            f"jnp.{name} needs a shape of ints.", got=f"got {shape!r}"
        ) from None
    if any(s < 0 for s in sizes):
        raise ShapeError(f"jnp.{name} got a negative size.", got=f"shape {sizes}")
    return sizes


def _dtype(dtype: Any, default: Any, name: str) -> Any:
    return dtypes.check_user_dtype(dtype, name) if dtype is not None else default


def zeros(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros of `shape`, float32 by default.

    Result: shape `shape`; dtype `dtype`. `device` and `out_sharding` place it, as of `array`.
    Raises: ArgumentTypeError for sizes that aren't ints known when tracing, ShapeError for negative ones, DtypeError
    for an unknown dtype.

    >>> zeros(2)
    Array([0., 0.], dtype=float32)
    """
    chosen = _dtype(dtype, dtypes.default_float_dtype(), "zeros")
    return _all_equal("zeros", shape, 0, chosen, device, out_sharding)


def ones(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Ones of `shape`, float32 by default.

    Result: shape `shape`; dtype `dtype`. `device` and `out_sharding` place it, as of `array`.
    Raises: ArgumentTypeError for sizes that aren't ints known when tracing, ShapeError for negative ones, DtypeError
    for an unknown dtype.

    >>> ones(2)
    Array([1., 1.], dtype=float32)
    """
    chosen = _dtype(dtype, dtypes.default_float_dtype(), "ones")
    return _all_equal("ones", shape, 1, chosen, device, out_sharding)


def empty(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of `shape` whose values do not matter; they are zeros.

    Result: shape `shape`; dtype `dtype`, float32 by default. `device` and `out_sharding` place it, as of `array`.
    Raises: ArgumentTypeError for sizes that aren't ints known when tracing, ShapeError for negative ones, DtypeError
    for an unknown dtype.

    >>> empty(2)
    Array([0., 0.], dtype=float32)
    """
    chosen = _dtype(dtype, dtypes.default_float_dtype(), "empty")
    return _all_equal("empty", shape, 0, chosen, device, out_sharding)


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of `shape` filled with `fill_value`, which may itself be an array that broadcasts to it.

    Result: shape `shape`; dtype `dtype`, or that of `fill_value`. `device` and `out_sharding` place it, as of `array`.
    Raises: ArgumentTypeError for sizes that aren't ints known when tracing and for a `fill_value` that isn't an array,
    ShapeError for negative sizes and a `fill_value` that doesn't broadcast, DtypeError for an unknown dtype.

    >>> full(2, 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    return _all_equal("full", shape, fill_value, dtype, device, out_sharding)


def number_for(x: Any, dtype: Any) -> Any:
    """`x` as operand of a result of `dtype`: a number becomes a scalar of `dtype` if that has 64 bits while they are
    off.
    """
    is_wide = dtypes.canonicalize(dtype) != dtype
    return scalar(x, dtype) if is_wide and isinstance(x, (int, float, complex, np.generic)) else x


def _numbers_for(name: str, dtype: DTypeLike | None, *values: ArrayLike) -> list[Any]:
    """`values` as operands of a computation whose result has the requested `dtype`."""
    if dtype is None:
        return [*values]
    computed = dtypes.to_inexact_dtype(_dtype(dtype, None, name))
    return [number_for(x, computed) for x in values]


def _all_equal(
    name: str,
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None,
    device: DeviceLike,
    out_sharding: OutSharding,
) -> Any:
    """The result of the function `name`: an array of `shape` filled with `fill_value`."""
    place = _place(device, out_sharding)
    sizes = canonical_shape(shape, name)
    aval = aval_of(name, fill_value)
    weak_type = dtype is None and aval.weak_type
    chosen = _dtype(dtype, aval.dtype, name)
    _check_fill(name, fill_value, chosen)
    if type(fill_value) is int and not weak_type:
        fill_value = _wrapped_scalar(fill_value, chosen)
    result = _full(number_for(fill_value, chosen), sizes, chosen, weak_type)
    return result if place is None else _place_result(result, place, name)


def _check_fill(name: str, value: Any, dtype: Any) -> None:
    """Raises DtypeError if `value` is a complex Python number and `dtype` isn't complex."""
    if type(value) is complex and dtype not in dtypes.KINDS["complex floating"]:
        raise DtypeError(
            f"jnp.{name} can't fill an array of {dtype} with a complex number.",
            got=f"fill_value: {value}",
            do="Pass its real part, or a complex dtype.",
        )


def _wrapped_scalar(value: int | float, dtype: Any) -> Any:
    """`value` as a NumPy scalar of `dtype`; an integer of any size wraps."""
    if isinstance(dtype, dtypes.ExtendedDType):
        return of_words(dtype, from_host(np.full(dtype.element_shape, value, dtype.base_dtype)))
    if isinstance(value, Symbol):
        return size_scalar(value, dtype)
    return np.asarray(value).astype(dtype)[()]


@numpy_function(static=("shape", "dtype", "weak_type"))
def _full(fill_value: ArrayLike, shape: tuple[int, ...], dtype: Any, weak_type: bool) -> Any:
    aval = type_of(fill_value)
    value = convert(fill_value, aval, dtype, weak_type)
    ndim = aval.ndim
    return broadcast_in_dim(value, shape, tuple(range(len(shape) - ndim, len(shape))))


def _full_like(
    a: ArrayLike,
    value: ArrayLike,
    dtype: DTypeLike | None,
    shape: ShapeLike | None,
    device: DeviceLike,
    out_sharding: OutSharding,
    name: str,
) -> Any:
    try:
        aval = creation.type_of_like(a)
    except ArgumentTypeError:
        aval = aval_of(name, a)
    place = _place(device, out_sharding)
    weak_type = dtype is None and aval.weak_type
    sizes = aval.shape if shape is None else canonical_shape(shape, name)
    chosen = _dtype(dtype, aval.dtype, name)
    _check_fill(name, value, chosen)
    if place is None and not weak_type:
        place = creation.layout_of(a, sizes)
    if place is not None and np.ndim(value) == 0:
        return creation.full(sizes, value, chosen, sharding=_sharding_of(place, name, sizes))
    if type(value) is int and not weak_type:
        value = _wrapped_scalar(value, chosen)
    result = _full(value, sizes, chosen, weak_type)
    return result if place is None else _place_result(result, place, name)


def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros of the shape and dtype of `a`.

    Result: shape `shape`, or that of `a`; dtype `dtype`, or that of `a`; laid out as `a`, if its shape stays.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for negative sizes, DtypeError
    for an unknown dtype.

    >>> zeros_like(np.array([1, 2]), shape=3)
    Array([0, 0, 0], dtype=int32)
    """
    return _full_like(a, 0, dtype, shape, device, out_sharding, "zeros_like")


def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Ones of the shape and dtype of `a`.

    Result: shape `shape`, or that of `a`; dtype `dtype`, or that of `a`; laid out as `a`, if its shape stays.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for negative sizes, DtypeError
    for an unknown dtype.

    >>> ones_like(np.array([1, 2]))
    Array([1, 1], dtype=int32)
    """
    return _full_like(a, 1, dtype, shape, device, out_sharding, "ones_like")


def empty_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of the shape and dtype of `prototype` whose values do not matter; they are zeros.

    Result: shape `shape`, or that of `prototype`; dtype `dtype`, or its own; laid out alike, if the shape stays.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for negative sizes, DtypeError
    for an unknown dtype.

    >>> empty_like(np.array([1, 2]), dtype=float)
    Array([0., 0.], dtype=float32)
    """
    return _full_like(prototype, 0, dtype, shape, device, out_sharding, "empty_like")


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """`fill_value` in the shape and dtype of `a`.

    Result: shape `shape`, or that of `a`; dtype `dtype`, or that of `a`, to which `fill_value` is converted.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for negative sizes and a
    `fill_value` that doesn't broadcast, DtypeError for an unknown dtype.

    >>> full_like(np.array([1, 2]), 7)
    Array([7, 7], dtype=int32)
    """
    return _full_like(a, fill_value, dtype, shape, device, out_sharding, "full_like")


# Sequences --------------------------------------------------------------------------------------------


def arange(
    start: ArrayLike | StaticScalar,
    stop: ArrayLike | StaticScalar | None = None,
    step: ArrayLike | StaticScalar | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers from `start` up to, not including, `stop`, `step` apart.

    The bounds must be known when tracing, because they decide the shape.

    Raises: IntegerRangeError where numbers don't fit into the default integer dtype and no `dtype` is given.

    >>> arange(1, 4)
    Array([1, 2, 3], dtype=int32)
    """
    start, stop, step = (as_operand(v) for v in (start, stop, step))
    for value in (start, stop, step):
        if isinstance(value, Tracer):
            raise ConcretizationTypeError(
                "jnp.arange needs bounds that are known when tracing, because they decide the shape.",
                got=traced_lines(value), do="Pass Python numbers, or mark the argument static.",
            )  # fmt: skip
    bounds = [v for v in (start, stop, step) if v is not None]
    chosen = dtype
    if chosen is None:
        chosen, _ = dtypes.promote(tuple([_type_pair(v) for v in bounds]))
    chosen = _dtype(chosen, None, "arange")
    if stop is None:
        start, stop = 0, start
    first, end, delta = map(_number, (start, stop, 1 if step is None else step))
    n = _count(first, end, delta)
    if dtype is None and is_static((n, first, delta)) and n and chosen.kind in "iu":
        limits = dtypes.iinfo(chosen)
        for bound in (first, first + (n - 1) * delta):
            if not limits.min <= bound <= limits.max:
                raise out_of_range(bound, chosen)
    result = _arange(n, chosen, first, delta)
    place = _place(device, out_sharding)
    return result if place is None else _place_result(result, place, "arange")


def _number(x: ArrayLike) -> Any:
    """The value of `x` as a Python number; a symbolic size is returned unchanged."""
    return x if isinstance(x, Symbol) else np.asarray(x).item()


def _count(first: Any, end: Any, delta: Any) -> int:
    """The number of elements of `arange(first, end, delta)`."""
    if any(isinstance(v, complex) for v in (first, end, delta)):
        raise ArgumentValueError(
            "jnp.arange needs real bounds.", got=f"start: {first}, stop: {end}, step: {delta}"
        )
    if delta == 0:
        raise ZeroDivisionError("jnp.arange needs a step that isn't zero.")
    if all(isinstance(v, (int, Symbol)) for v in (first, end, delta)):
        return larger(-((first - end) // delta), 0)
    if not is_static((first, end, delta)):
        raise ArgumentTypeError(
            "jnp.arange needs integers beside symbolic dimensions.",
            got=f"start: {first}, stop: {end}, step: {delta}",
        )
    count = (end - first) / delta
    if not math.isfinite(count):
        raise ArgumentValueError(
            "jnp.arange needs finite bounds.", got=f"start: {first}, stop: {end}, step: {delta}"
        )
    return max(0, math.ceil(count))


@numpy_function(static=("n", "dtype", "first", "delta"))
def _arange(n: int, dtype: Any, first: Any, delta: Any) -> Any:
    counts = creation.iota(dtype, n)
    if delta != 1:
        counts = arithmetic.mul(_wrapped_scalar(delta, dtype), counts)
    return counts if first == 0 else arithmetic.add(_wrapped_scalar(first, dtype), counts)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: DeviceLike = None,
) -> Any:
    """`num` numbers evenly spaced from `start` to `stop` (included if `endpoint`).

    Result: the shape that `start` and `stop` broadcast to, with `num` at `axis`; dtype `dtype` (integers are rounded
    down), or the floating or complex one that both promote to. With `retstep`, a pair with the step.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for a `num` that is no int,
    ArgumentValueError for a negative one, AxisError for axes out of bounds, ShapeError for shapes that don't broadcast,
    DtypeError for random keys.

    >>> linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    num = known_int("linspace", "num", num, canonical_size)
    axis = known_int("linspace", "axis", axis)
    if num < 0:
        raise ArgumentValueError(
            f"jnp.linspace needs a number of samples that is not negative, got {num}."
        )
    chosen = None if dtype is None else _dtype(dtype, None, "linspace")
    start, stop = _numbers_for("linspace", dtype, start, stop)
    values, step = _linspace(start, stop, num, endpoint, chosen, axis)
    values = values if device is None else _place_result(values, device, "linspace")
    return (values, step) if retstep else values


@numpy_function(static=("num", "endpoint", "dtype", "axis"))
def _linspace(
    start: ArrayLike, stop: ArrayLike, num: int, endpoint: bool, dtype: np.dtype | None, axis: int
) -> tuple[Any, Any]:
    check_promotion("linspace", start, stop)
    ends = promote_dtypes_inexact("linspace", start, stop)
    ends = [canonical("linspace", x) for x in ends]
    computed = ends[0][1].dtype  # results are never weakly typed
    start, stop = broadcast_arrays("linspace", *(convert(x, aval, computed) for x, aval in ends))
    aval = type_of(start)
    gaps = num - 1 if endpoint else num
    one = scalar(1, computed)
    if gaps > 0:
        step = arithmetic.div(arithmetic.sub(stop, start), size_scalar(gaps, computed))
    else:
        step = broadcast_in_dim(scalar(np.nan, computed), aval.shape, ())
    if num > 1:
        # Both ends are weighted, so that the last number is exactly `stop`.
        t = arithmetic.div(creation.iota(computed, gaps), size_scalar(gaps, computed))
        t = reshape(t, (gaps, *[1] * aval.ndim))
        left = arithmetic.mul(expand_dims(start, (0,)), arithmetic.sub(one, t))
        values = arithmetic.add(left, arithmetic.mul(expand_dims(stop, (0,)), t))
        if endpoint:
            values = concatenate([values, expand_dims(stop, (0,))], 0)
    elif num == 1:
        values = expand_dims(start, (0,))
    else:
        values = broadcast_in_dim(scalar(0, computed), (0, *aval.shape), ())
    values = move_axis(values, 0, canonical_axis(axis, aval.ndim + 1))
    if dtype is not None and dtype != computed:
        values = arithmetic.floor(values) if dtype.kind in "iu" else values
        values = convert_element_type(values, dtype)
    return values, step


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers whose logarithms to `base` are evenly spaced from `start` to `stop`.

    Result: the shape that `start` and `stop` broadcast to, with `num` at `axis`; dtype `dtype`, or the floating or
    complex one that the arguments promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for a `num` that is no int,
    ArgumentValueError for a negative one, AxisError for axes out of bounds, ShapeError for shapes that don't broadcast,
    DtypeError for random keys.

    >>> logspace(0, 3, 4)
    Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    start, stop, base = _numbers_for("logspace", dtype, start, stop, base)
    num = known_int("logspace", "num", num, canonical_size)
    result = _logspace(start, stop, base, num, endpoint, known_int("logspace", "axis", axis))
    return _convert_inexact("logspace", result, dtype)


@numpy_function(static=("num", "endpoint", "axis"))
def _logspace(
    start: ArrayLike, stop: ArrayLike, base: ArrayLike, num: int, endpoint: bool, axis: int
) -> Any:
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    base, exponents = promote_dtypes_inexact("logspace", base, exponents)
    return arithmetic.pow(base, exponents)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers in geometric progression from exactly `start` to exactly `stop` (included if `endpoint`).

    Result: the shape that `start` and `stop` broadcast to, with `num` at `axis`; dtype `dtype`, or the floating or
    complex one that both promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for a `num` that is no int,
    ArgumentValueError for a negative one, AxisError for axes out of bounds, ShapeError for shapes that don't broadcast,
    DtypeError for random keys.

    >>> geomspace(1, 256, 5)
    Array([  1.,   4.,  16.,  64., 256.], dtype=float32)
    """
    check_promotion("geomspace", start, stop)
    start, stop = _numbers_for("geomspace", dtype, start, stop)
    num = known_int("geomspace", "num", num, canonical_size)
    result = _geomspace(start, stop, num, endpoint, known_int("geomspace", "axis", axis))
    return _convert_inexact("geomspace", result, dtype)


@numpy_function(static=("num", "endpoint", "axis"))
def _geomspace(start: ArrayLike, stop: ArrayLike, num: int, endpoint: bool, axis: int) -> Any:
    start, stop = broadcast_arrays("geomspace", *promote_dtypes_inexact("geomspace", start, stop))
    sign = arithmetic.sign(start)
    logs = linspace(
        transcendental.log(arithmetic.div(start, sign)), transcendental.log(arithmetic.div(stop, sign)),
        num, endpoint, axis=axis,
    )  # fmt: skip
    along = canonical_axis(axis, type_of(logs).ndim)
    sign, start, stop = (expand_dims(x, (along,)) for x in (sign, start, stop))
    result = arithmetic.mul(sign, transcendental.exp(logs))
    place = creation.broadcasted_iota(np.dtype(np.int32), type_of(result).shape, along)
    for at, end in ((num - 1, stop), (0, start)) if endpoint else ((0, start),):
        end = broadcast_in_dim(end, type_of(result).shape, range(type_of(result).ndim))
        result = logical.select(logical.eq(place, np.int32(at)), end, result)
    return result


def _convert_inexact(name: str, x: ArrayLike, dtype: DTypeLike | None) -> Any:
    """The inexact array `x` converted to the requested `dtype`; for an integer dtype, values within rounding error of
    an integer become that integer.
    """
    if dtype is None:
        return x
    chosen = _dtype(dtype, None, name)
    computed = type_of(x).dtype
    if dtypes.issubdtype(chosen, np.integer) and computed.kind == "f":
        whole = arithmetic.round(x, arithmetic.RoundingMethod.TO_NEAREST_EVEN)
        error = arithmetic.abs(arithmetic.sub(x, whole))
        bound = arithmetic.mul(arithmetic.abs(x), scalar(16 * dtypes.finfo(computed).eps, computed))
        x = logical.select(logical.le(error, bound), whole, x)
    return convert_element_type(x, chosen)


def eye(
    N: int,
    M: int | None = None,
    k: ArrayLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike = None,
) -> Array:
    """A matrix of `N` rows and `M` columns with ones on its diagonal number `k`, which may be traced.

    Result: shape [N, M], square if `M` is None; dtype `dtype`, float32 by default.
    Raises: ArgumentTypeError for sizes that are no ints, ShapeError for negative ones, ArgumentValueError for `k` that
    isn't an integer, DtypeError for an unknown dtype.

    >>> eye(2, 3, 1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    rows, columns = canonical_shape((N, N if M is None else M), "eye")
    chosen = _dtype(dtype, dtypes.default_float_dtype(), "eye")
    result = _diagonal_band(rows, columns, diagonal_number("eye", k), chosen, "eq")
    return result if device is None else _place_result(result, device, "eye")


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix of size `n`.

    Result: shape [n, n]; dtype `dtype`, float32 by default.
    Raises: ArgumentTypeError for a size that is no int, ShapeError for a negative one, DtypeError for an unknown dtype.

    >>> identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: ArrayLike = 0, dtype: DTypeLike | None = None) -> Array:
    """A matrix with ones at and below its diagonal number `k`, which may be traced, zeros above; float32 by default.

    Result: shape [N, M], square if `M` is None.
    Raises: ArgumentTypeError for sizes that are no ints, ShapeError for negative ones, ArgumentValueError for `k` that
    isn't an integer, DtypeError for an unknown dtype.

    >>> tri(2)
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    rows, columns = canonical_shape((N, N if M is None else M), "tri")
    chosen = _dtype(dtype, np.dtype(np.float32), "tri")
    return _diagonal_band(rows, columns, diagonal_number("tri", k), chosen, "ge")


def diagonal_number(name: str, k: Any) -> Any:
    """`k`, the number of a diagonal, as an int, or as a tracer; raises ArgumentValueError unless it is an integer
    scalar.
    """
    k = as_operand(k)
    aval = type_of(k) if is_array_like(k) else None
    if aval is None or aval.shape != () or aval.dtype.kind not in "iu":
        raise ArgumentValueError(
            f"jnp.{name} needs an integer as the number of a diagonal.",
            got=f"k: {type(k).__name__ if aval is None else aval.text()}",
        )
    return k if isinstance(k, Tracer) else operator.index(k)


@numpy_function(static=("rows", "columns", "dtype", "compare"))
def _diagonal_band(rows: int, columns: int, k: ArrayLike, dtype: Any, compare: str) -> Any:
    return band(rows, columns, k, dtype, compare)


def band(rows: int, columns: int, k: ArrayLike, dtype: np.dtype, compare: str) -> Any:
    """A matrix [rows, columns] of ones on ("eq"), or on and below ("ge"), diagonal number `k`, and zeros; for use
    under a trace.
    """
    index = np.dtype(np.int32)
    row = creation.broadcasted_iota(index, (rows, columns), 0)
    column = creation.broadcasted_iota(index, (rows, columns), 1)
    shifted = arithmetic.add(row, convert(k, type_of(k), index))
    mask = logical.eq(shifted, column) if compare == "eq" else logical.ge(shifted, column)
    return convert_element_type(mask, dtype) if dtype != np.bool_ else mask


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Any]:
    """Coordinate arrays of the grid spanned by the vectors `xi`.

    Result: a list of arrays of shape [n1, n0, n2, ...], with `indexing` "ij" [n0, n1, n2, ...], each of the dtype of
    its vector; with `sparse`, of size 1 along the other axes.
    Raises: ArgumentTypeError for values that `jnp.asarray` doesn't take, ArgumentValueError for arrays of several
    dimensions, an unknown `indexing`, and copy=False.

    >>> columns, rows = meshgrid(np.arange(3), np.arange(2))
    >>> rows
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentValueError(f"jnp.meshgrid: indexing is 'xy' or 'ij', got {indexing!r}.")
    if not copy:
        raise ArgumentValueError("jnp.meshgrid can't give views, so copy=False is refused.")
    vectors = [asarray(x) for x in xi]
    if any(v.ndim > 1 for v in vectors):
        raise ArgumentValueError(
            "jnp.meshgrid needs vectors.",
            got=operand_lines(vectors),
        )
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) >= 2:
        axes[0], axes[1] = 1, 0
    sizes = [v.size for v in vectors]
    shape = [0] * len(vectors)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    grids = []
    for axis, v in zip(axes, vectors, strict=True):
        sparse_shape = [shape[i] if i == axis else 1 for i in range(len(vectors))]
        target = sparse_shape if sparse else shape
        grids.append(broadcast_in_dim(reshape(v, sparse_shape), target, range(len(target))))
    return grids


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """For a grid of the given sizes, the index of each point along each axis.

    Result: shape [number of sizes, *sizes]; dtype `dtype`, or the default integer dtype. With `sparse`, a tuple of
    arrays that broadcast to the grid.
    Raises: ArgumentTypeError for sizes that are no ints, ShapeError for negative ones, DtypeError for an unknown dtype.

    >>> indices((2, 3))[1]
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    sizes = canonical_shape(dimensions, "indices")
    chosen = _dtype(dtype, dtypes.default_int_dtype(), "indices")
    counts = [creation.iota(chosen, size) for size in sizes]
    if sparse:
        return tuple(
            reshape(c, [size if j == i else 1 for j in range(len(sizes))])
            for i, (c, size) in enumerate(zip(counts, sizes, strict=True))
        )
    grids = [broadcast_in_dim(c, sizes, (i,)) for i, c in enumerate(counts)]
    if not grids:
        return zeros((0,), chosen)
    return concatenate([expand_dims(g, (0,)) for g in grids], 0)


__all__ = [
    "arange", "array", "asarray", "empty", "empty_like", "eye", "full", "full_like", "geomspace", "identity",
    "indices", "linspace", "logspace", "meshgrid", "ones", "ones_like", "tri", "zeros", "zeros_like",
]  # fmt: skip

public_functions(__all__, globals())
