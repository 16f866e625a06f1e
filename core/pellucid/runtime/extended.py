"""Attributes of `ExtendedArray`: where it is and how it is read; all that has data is left to its words."""

from __future__ import annotations

from typing import Any

from pellucid.base.errors import ArrayConversionError
from pellucid.ir.avals import aval_at, shaped_array
from pellucid.runtime.array import shards_of
from pellucid.runtime.transfer import put_leaf
from pellucid.sharding.layout import Format
from pellucid.sharding.named_sharding import NamedSharding
from pellucid.tracing.array_methods import add_late_methods, late_attribute
from pellucid.xla import arrays
from pellucid.xla.arrays import ExtendedArray

_OF_TYPE = ("shape", "dtype", "ndim", "size", "weak_type", "nbytes")
_OF_WORDS = (
    "_committed", "_sharding", "_taken_by", "committed", "device", "is_fully_addressable", "is_fully_replicated",
    "sharding",
)  # fmt: skip
_METHODS_OF_WORDS = (
    "copy_to_host_async", "delete", "devices", "is_deleted", "is_ready", "on_device_size_in_bytes",
    "platform", "unsafe_buffer_pointer",
)  # fmt: skip


def of_words(dtype: Any, words: Any) -> ExtendedArray:
    """The array of extended `dtype` whose elements are along the last axes of array `words`; elements are never cut."""
    ndim = words.ndim - len(dtype.element_shape)
    sharding = words._sharding
    if type(sharding) is NamedSharding and len(sharding.spec) > ndim:
        spec = sharding.spec
        words = put_leaf(words, sharding.with_spec(spec.update(spec.partitions[:ndim])))
    return ExtendedArray(aval_at(shaped_array(words.shape[:ndim], dtype), words._sharding), words)


def _install() -> None:
    for name in _OF_TYPE:
        setattr(ExtendedArray, name, property(lambda array, _n=name: getattr(array.aval, _n)))
    for name in _OF_WORDS:
        setattr(ExtendedArray, name, property(lambda array, _n=name: getattr(array.words, _n)))
    for name in _METHODS_OF_WORDS:
        setattr(ExtendedArray, name, lambda array, _n=name: getattr(array.words, _n)())
    for name in ("__array__", "__bool__", "__int__", "__float__", "__complex__", "__index__"):
        setattr(ExtendedArray, name, _not_numbers)
    for name in ("item", "tolist", "tobytes", "__dlpack__"):
        setattr(ExtendedArray, name, _not_numbers)


def _not_numbers(array: ExtendedArray, *_: Any, **__: Any) -> Any:
    raise ArrayConversionError(
        f"elements of dtype {array.dtype} are no numbers.",
        got=array.aval.text(),
        do="Take their words: `random.key_data(keys)`.",
    )


def _property(function: Any) -> None:
    setattr(ExtendedArray, function.__name__, property(function))


def _method(function: Any) -> None:
    setattr(ExtendedArray, function.__name__, function)


@_property
def itemsize(array: Any) -> int:
    """Bytes of one element."""
    return array.dtype.itemsize


@_property
def format(array: Any) -> Format:
    """The sharding; the order of elements in memory is the device's own."""
    return Format(None, array.sharding)


@_property
def _arrays(array: Any) -> list[Any]:
    return [of_words(array.dtype, words) for words in arrays.shards_of(array.words)]


@_property
def addressable_shards(array: Any) -> list[Any]:
    """The parts on this process's devices."""
    return shards_of(array, addressable_only=True)


@_property
def global_shards(array: Any) -> list[Any]:
    """The parts on all devices; those of other processes have no data here."""
    return shards_of(array, addressable_only=False)


@_method
def addressable_data(array: Any, index: int) -> Any:
    """The data of this process's shard number `index`, as an array on one device."""
    return of_words(array.dtype, array.words.addressable_data(index))


@_method
def clone(array: Any) -> Any:
    """Another array over the same memory."""
    return ExtendedArray(array.aval, array.words.clone())


@_method
def block_until_ready(array: Any) -> Any:
    """Wait until the array is computed; gives the array itself."""
    array.words.block_until_ready()
    return array


@_method
def __len__(array: Any) -> int:
    return len(array.aval)


@_method
def __reduce__(array: Any) -> Any:
    return of_words, (array.dtype, array.words)


@_method
def __repr__(array: Any) -> str:
    return f"Array({array.shape}, dtype={array.dtype}) overlaying:\n{array.words}"


setattr(ExtendedArray, "__str__", ExtendedArray.__repr__)
setattr(ExtendedArray, "__hash__", None)
setattr(ExtendedArray, "__array_priority__", 100)
_install()
add_late_methods(ExtendedArray)
setattr(ExtendedArray, "__getattr__", late_attribute)  # until the NumPy API is there
