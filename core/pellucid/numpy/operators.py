"""Operators and methods of arrays and tracers: the NumPy API, installed by `install`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    DTypeLike,
    ShapeError,
    UnsupportedError,
    dtypes,
    library_code,
)
from pellucid._machine.ir import AbstractRef
from pellucid._machine.primitives import conversion
from pellucid._machine.primitives.conversion import bitcast_convert_type
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.placement import device_put
from pellucid._machine.primitives.reshard import reshard
from pellucid._machine.primitives.slicing import dynamic_slice_in_dim
from pellucid._machine.runtime.calls import make_call
from pellucid._machine.tracing import (
    Tracer,
    as_operand,
    context,
    is_array_like,
    is_reference,
    type_of,
)
from pellucid._machine.xla.arrays import ARRAY_TYPES, Array, ArrayImpl, ExtendedArray

from . import (
    creation,
    cumulative,
    elementwise,
    index_update,
    indexing,
    joining,
    manipulation,
    number_kinds,
    products,
    reductions,
    searching,
    selection,
    sorting,
    statistics,
)
from .annotations import DeviceLike, OutSharding
from .compiled import numpy_function
from .namespace import namespace_for
from .promotion import convert

_BINARY: dict[str, Any] = {
    "add": elementwise.add, "sub": elementwise.subtract, "mul": elementwise.multiply,
    "truediv": elementwise.divide, "floordiv": elementwise.floor_divide, "mod": elementwise.remainder,
    "divmod": elementwise.divmod, "and": elementwise.bitwise_and,
    "or": elementwise.bitwise_or, "xor": elementwise.bitwise_xor, "lshift": elementwise.left_shift,
    "rshift": elementwise.right_shift,
}  # fmt: skip
_COMPARISONS: dict[str, Any] = {
    "eq": elementwise.equal, "ne": elementwise.not_equal, "lt": elementwise.less,
    "le": elementwise.less_equal, "gt": elementwise.greater, "ge": elementwise.greater_equal,
}  # fmt: skip
_UNARY: dict[str, Any] = {
    "neg": elementwise.negative, "pos": elementwise.positive, "abs": elementwise.absolute,
    "invert": elementwise.invert,
}  # fmt: skip


def _operator_method(function: Callable[..., Any], *, swapped: bool) -> Any:
    """An operator of arrays as a C++ callable that binds as a method; it returns NotImplemented for foreign operands."""
    python = function.python
    jitted = function.jitted if not swapped else _swap_operands(function).jitted

    def cache_miss(x: ArrayLike, y: ArrayLike) -> Any:
        if not is_array_like(y):
            return _not_implemented(y), None
        y = as_operand(y)
        if not context.trace.is_eager or isinstance(y, Tracer) or isinstance(x, Tracer):
            return (python(y, x) if swapped else python(x, y)), None
        return jitted.cache_miss(x, y)

    return make_call(function.__name__, None, cache_miss, (), (), (function, swapped))


def _not_implemented(y: Any) -> Any:
    """NotImplemented, as the operand may define the operator itself.

    Raises: ArgumentTypeError for Python's containers, which don't; Python would answer comparisons with them by False.
    """
    if isinstance(y, (list, tuple, set, dict)):
        raise ArgumentTypeError(
            "operators of arrays need arrays or numbers.",
            got=f"{type(y).__name__}: {y!r:.60}",
            do="Make an array of it with `jnp.asarray`, or an array of each element with `tree.map`.",
        )
    return NotImplemented


def _swap_operands(function: Callable[..., Any]) -> Any:
    def call_swapped(x: ArrayLike, y: ArrayLike) -> Any:
        return function.python(y, x)

    call_swapped.__name__ = function.__name__
    return numpy_function(call_swapped)


def _tracer_operator(function: Callable[..., Any], *, swapped: bool) -> Callable[[Any, Any], Any]:
    """An operator of tracers; the reflected one if `call_swapped`."""
    python = function.python

    def forward(x: ArrayLike, y: ArrayLike) -> Any:
        return python(x, y) if is_array_like(y) else _not_implemented(y)

    def backward(x: ArrayLike, y: ArrayLike) -> Any:
        return python(y, x) if is_array_like(y) else _not_implemented(y)

    return backward if swapped else forward


@library_code
def _power(x: ArrayLike, y: ArrayLike) -> Any:
    if type(y) is int:  # the most common exponent: a Python int
        return elementwise.integer_power(x, y)
    return elementwise.raise_to_power(x, y) if is_array_like(y) else _not_implemented(y)


@library_code
def _reflected_power(x: ArrayLike, y: ArrayLike) -> Any:
    return elementwise.raise_to_power(y, x) if is_array_like(y) else _not_implemented(y)


def astype(
    x: Array, dtype: DTypeLike | None, copy: bool = False, device: DeviceLike = None
) -> Array:
    """`x` converted to `dtype`; complex to real drops the imaginary part, as NumPy does."""
    new_dtype = (
        dtypes.check_user_dtype(dtype, "astype")
        if dtype is not None
        else dtypes.default_float_dtype()
    )
    result = creation.array(_convert_elements(x, new_dtype), copy=copy)
    return result if device is None else creation.asarray(result, device=device)


@numpy_function(static="dtype")
def _convert_elements(x: Array, dtype: Any) -> Any:
    aval = type_of(x)
    if aval.dtype.kind == "c" and dtype.kind != "c" and dtype != np.bool_:
        x = number_kinds.real(x)
        aval = type_of(x)
    if dtype == np.bool_ and aval.dtype != np.bool_:
        return elementwise.not_equal(x, scalar(0, aval.dtype))
    return convert(x, aval, dtype)


def _iterate(x: Array) -> Any:
    if not x.shape:
        raise TypeError("iteration over a 0-dimensional array")
    if isinstance(x, Tracer):
        return iter(joining.unstack(x))
    shown = x.aval.shown_sharding
    if shown is not None and shown.spec.axes_per_dim[0]:
        # The type of a row can't tell which shard it comes from: the first dimension is gathered first.
        spec = x.sharding.spec.padded(x.ndim)
        x = reshard(x, x.sharding.with_spec(spec.update((None, *spec.partitions[1:]))))
    n = x.shape[0]
    if n <= _MAX_UNSTACKED_ROWS or not context.trace.is_eager:
        return iter(joining.unstack(x))
    starts = range(0, n, _MAX_UNSTACKED_ROWS)
    if x.size < n * _MIN_ROW_SIZE:
        blocks = (joining.unstack(x[i : i + _MAX_UNSTACKED_ROWS]) for i in starts)
    else:
        blocks = (_rows_from(x, i)[i - n :] for i in starts)
    return itertools.chain.from_iterable(blocks)


@numpy_function
def _rows_from(x: Array, start: int) -> tuple[Array, ...]:
    """The `_MAX_UNSTACKED_ROWS` rows of `x` from `start` on; the last ones of `x` where it has fewer."""
    return joining.unstack(dynamic_slice_in_dim(x, start, _MAX_UNSTACKED_ROWS))


_MAX_UNSTACKED_ROWS = 20
"""Maximum number of rows that one compiled program returns to an iteration: its compile time grows with them."""
_MIN_ROW_SIZE = 8
"""Minimum number of elements of a row for which one program slices a block and unstacks it.

XLA counts a whole array for each row. Smaller rows are cut in two programs, which it runs in the calling thread.
"""


def _contains(x: Array, item: Any) -> Any:
    return bool((x == item).any())


def _reshape(
    x: ArrayLike,
    *args: Any,
    order: str = "C",
    copy: bool | None = None,
    out_sharding: OutSharding = None,
) -> Any:
    if is_reference(x):
        return AbstractRef.methods["reshape"](x, *args)
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(x, shape, order, copy=copy, out_sharding=out_sharding)


def _transpose(x: ArrayLike, *args: Any) -> Any:
    if is_reference(x):
        return AbstractRef.methods["transpose"](x, *args)
    axes = (
        None
        if not args or args == (None,)
        else args[0]
        if len(args) == 1 and np.ndim(args[0])
        else args
    )
    return manipulation.transpose(x, axes)


def _round(x: ArrayLike, ndigits: int | None = None) -> Any:
    rounded = elementwise.round(x, ndigits or 0)
    return astype(rounded, int) if ndigits is None else rounded


def _view(x: ArrayLike, dtype: DTypeLike | None = None, type: None = None) -> Any:
    """The bytes of `x` read as elements of `dtype`: the last axis grows or shrinks with their size."""
    del type
    return x if dtype is None else _view_as_dtype(x, dtypes.check_user_dtype(dtype, "view"))


@numpy_function(static="dtype")
def _view_as_dtype(x: ArrayLike, dtype: Any) -> Any:
    aval = type_of(x)
    if aval.dtype == dtype:
        return x
    old, new = dtypes.itemsize_bits(aval.dtype), dtypes.itemsize_bits(dtype)
    if old != new and (not aval.ndim or aval.shape[-1] * old % new):
        raise ShapeError(
            f"x.view can't read elements of {old} bits as elements of {new}.",
            got=f"{aval.text()} as {dtype}",
            do=f"The last axis must hold a multiple of {new} bits.",
        )
    if aval.dtype == np.bool_:
        return _view_as_dtype(convert(x, aval, np.dtype(np.uint8)), dtype)
    if aval.dtype.kind == "c":
        parts = [number_kinds.real(x), number_kinds.imag(x)]
        return _view_as_dtype(joining.stack(parts, -1).reshape(*aval.shape[:-1], -1), dtype)
    if dtype == np.bool_:
        return elementwise.not_equal(_view_as_dtype(x, np.dtype(np.uint8)), 0)
    if dtype.kind == "c":
        parts = _view_as_dtype(x, dtypes.to_floating_dtype(dtype))
        return conversion.complex(parts[..., ::2], parts[..., 1::2])
    if new > old:
        x = manipulation.reshape(x, (*aval.shape[:-1], -1, new // old))
    bits = bitcast_convert_type(x, dtype)
    return manipulation.reshape(bits, (*aval.shape[:-1], -1)) if new < old else bits


def _matmul(x: ArrayLike, y: ArrayLike) -> Any:
    return products.matmul(x, y) if is_array_like(y) else _not_implemented(y)


def _reflected_matmul(x: ArrayLike, y: ArrayLike) -> Any:
    return products.matmul(y, x) if is_array_like(y) else _not_implemented(y)


def _byteswap(x: Array) -> Any:
    """`x` with the bytes of each element in reverse order."""
    aval = type_of(x)
    if aval.dtype.kind == "c":
        return conversion.complex(_byteswap(x.real), _byteswap(x.imag))
    size = dtypes.item_bytes(aval.dtype)
    if size == 1:
        return x
    each = _view(manipulation.expand_dims(x, -1), np.uint8)
    return _view(manipulation.flip(each, -1), aval.dtype).reshape(aval.shape)


def _copy(x: ArrayLike) -> Any:
    return creation.array(x, copy=True)


def _to_device(x: ArrayLike, device: DeviceLike, *, stream: Any = None) -> Any:
    """The array on `device`, a device or a sharding; of the array API standard.

    Raises: UnsupportedError for a `stream`.
    """
    if stream is not None:
        raise UnsupportedError(
            "to_device takes no stream: transfers are ordered by the data they need."
        )
    return device_put(x, device)


def _compress(
    x: ArrayLike,
    condition: ArrayLike,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: Any = 0,
) -> Any:
    """Slices of the array along `axis` where `condition` is true."""
    return selection.compress(condition, x, axis, size=size, fill_value=fill_value, out=out)


def _array_namespace(x: Any, /, *, api_version: str | None = None) -> Any:
    """`pellucid.numpy`, which implements the array API standard."""
    return namespace_for(api_version)


METHODS: dict[str, Any] = {
    "astype": astype, "byteswap": _byteswap, "clip": elementwise.clip, "conj": number_kinds.conjugate, "conjugate": number_kinds.conjugate,
    "copy": _copy, "diagonal": manipulation.diagonal,
    "flatten": manipulation.ravel, "nonzero": manipulation.nonzero, "ravel": manipulation.ravel,
    "repeat": manipulation.repeat, "reshape": _reshape, "round": elementwise.round, "squeeze": manipulation.squeeze,
    "swapaxes": manipulation.swapaxes, "transpose": _transpose, "view": _view, "__iter__": _iterate,
    "__contains__": _contains, "__round__": _round, "__getitem__": indexing.getitem,
    "__setitem__": index_update.setitem, "__array_namespace__": _array_namespace, "__pow__": _power, "__rpow__": _reflected_power, "__matmul__": _matmul, "__rmatmul__": _reflected_matmul,
    "all": reductions.all, "any": reductions.any, "argmax": reductions.argmax, "argmin": reductions.argmin,
    "argpartition": searching.argpartition, "choose": selection.choose, "compress": _compress,
    "searchsorted": searching.searchsorted, "take": selection.take,
    "argsort": sorting.argsort, "cumprod": cumulative.cumprod, "cumsum": cumulative.cumsum, "dot": products.dot,
    "max": reductions.max, "mean": statistics.mean, "min": reductions.min, "prod": reductions.prod,
    "ptp": reductions.ptp, "sort": sorting.sort, "std": statistics.std, "sum": reductions.sum,
    "to_device": _to_device, "trace": reductions.trace, "var": statistics.var,
}  # fmt: skip
PROPERTIES: dict[str, Any] = {
    "T": _transpose, "mT": manipulation.matrix_transpose, "real": number_kinds.real,
    "imag": number_kinds.imag, "at": index_update.indexer,
}  # fmt: skip


def add_methods(methods: dict[str, Any], properties: dict[str, Any]) -> None:
    """Install more methods and properties on arrays and tracers."""
    for cls in (*ARRAY_TYPES, Tracer):
        for name, function in methods.items():
            setattr(cls, name, function)
        for name, function in properties.items():
            setattr(cls, name, property(function))


def install() -> None:
    """Installs operators and methods on arrays and tracers."""
    for name, function in _BINARY.items():
        for prefix, swapped in (("", False), ("r", True)):
            method = f"__{prefix}{name}__"
            setattr(Tracer, method, _tracer_operator(function, swapped=swapped))
            _set_on_arrays(method, _operator_method(function, swapped=swapped))
    for name, function in _COMPARISONS.items():
        setattr(Tracer, f"__{name}__", _tracer_operator(function, swapped=False))
        _set_on_arrays(f"__{name}__", _operator_method(function, swapped=False))
    for name, function in _UNARY.items():
        setattr(Tracer, f"__{name}__", lambda x, _f=function.python: _f(x))
        _set_on_arrays(f"__{name}__", function)
    for cls in (Tracer, *ARRAY_TYPES):
        cls.__hash__ = None  # type: ignore[assignment]
    add_methods(METHODS, PROPERTIES)
    for cls in ARRAY_TYPES:
        # Removes the lazy hook of `runtime.array`, which imported this module.
        if "__getattr__" in vars(cls):
            delattr(cls, "__getattr__")
    _show_on_base()


_OF_CLASSES = frozenset(
    ("__module__", "__doc__", "__init__", "__new__", "__slots__", "__weakref__")
)


def _show_on_base() -> None:
    """Copies to `Array`, on which users look up methods (`Array.sum`), the attributes that all classes of device
    arrays have.
    """
    for name in vars(ArrayImpl).keys() & vars(ExtendedArray).keys() - _OF_CLASSES:
        if not name.startswith("_") or name.endswith("__"):
            setattr(Array, name, vars(ArrayImpl)[name])


def _set_on_arrays(name: str, function: Callable[..., Any]) -> None:
    for cls in ARRAY_TYPES:
        setattr(cls, name, function)
