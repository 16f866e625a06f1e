"""Attributes of `ExtendedArray` about placement and reading; its words have the data."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from pellucid._machine.base import ArrayConversionError
from pellucid._machine.base.late import late
from pellucid._machine.ir import aval_at, shaped_array
from pellucid._machine.sharding import NamedSharding
from pellucid._machine.sharding.layout import Format
from pellucid._machine.xla import ExtendedArray, arrays, extend

from .transfer import put_leaf

_OF_WORDS = (
    "_committed", "_sharding", "_taken_by", "committed", "device", "is_fully_addressable", "is_fully_replicated",
    "sharding",
)  # fmt: skip
_METHODS_OF_WORDS = (
    "copy_to_host_async", "delete", "devices", "is_deleted", "is_ready", "on_device_size_in_bytes",
    "platform", "unsafe_buffer_pointer",
)  # fmt: skip
_OF_NUMBERS = (
    "__array__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "item", "tolist", "tobytes",
    "__dlpack__",
)  # fmt: skip


def of_words(dtype: Any, words: Any) -> ExtendedArray:
    """The array of extended `dtype` whose elements are along the last axes of array `words`, which aren't sharded."""
    ndim = words.ndim - len(dtype.element_shape)
    sharding = words._sharding
    if type(sharding) is NamedSharding and len(sharding.spec) > ndim:
        spec = sharding.spec
        words = put_leaf(words, sharding.with_spec(spec.update(spec.partitions[:ndim])))
    return ExtendedArray(aval_at(shaped_array(words.shape[:ndim], dtype), words._sharding), words)


def _not_numbers(array: ExtendedArray, *_, **__):
    raise ArrayConversionError(
        f"elements of dtype {array.dtype} are no numbers.",
        got=array.aval.text(),
        do="Take their words: `random.key_data(keys)`.",
    )


class _Methods(ExtendedArray if TYPE_CHECKING else object):
    """Attributes of arrays of extended dtypes that belong neither to their type nor to their words."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def format(self) -> Format:
        """The sharding; the memory layout is the device's default."""
        return Format(None, self.sharding)

    @property
    def _arrays(self) -> list[ExtendedArray]:
        return [of_words(self.dtype, words) for words in arrays.shards_of(self.words)]

    def addressable_data(self, index: int) -> ExtendedArray:
        """The data of this process's shard number `index`, as an array on one device."""
        return of_words(self.dtype, self.words.addressable_data(index))

    def clone(self) -> ExtendedArray:
        """Another array over the same memory."""
        return ExtendedArray(self.aval, self.words.clone())

    def block_until_ready(self) -> ExtendedArray:
        """Wait until the array is computed, and return it."""
        self.words.block_until_ready()
        return self

    def __reduce__(self) -> Any:
        return late("how keys are pickled")(self)

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{self.words}"

    __str__ = __repr__


for _name in _OF_WORDS:
    setattr(ExtendedArray, _name, property(operator.attrgetter(f"words.{_name}")))
for _name in _METHODS_OF_WORDS:
    setattr(ExtendedArray, _name, lambda array, _n=_name: getattr(array.words, _n)())
for _name in _OF_NUMBERS:
    setattr(ExtendedArray, _name, _not_numbers)
extend(ExtendedArray, _Methods)
