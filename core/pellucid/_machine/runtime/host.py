"""Array values on the host: NumPy arrays, Python numbers, text, pickles."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pellucid._machine.base import ArrayConversionError, DeviceError
from pellucid._machine.base.late import late
from pellucid._machine.sharding.named_sharding import is_unreduced, sharding_of_sum
from pellucid._machine.xla import arrays, extend

from . import guards
from .array import ArrayImpl, check_not_deleted, shards_of, wait_for
from .waiting import is_ready


def value_of(array: ArrayImpl) -> np.ndarray:
    """The whole array as a read-only NumPy array, cached after it is first fetched."""
    return fetch(array, explicit=False)


def fetch(array: ArrayImpl, *, explicit: bool) -> np.ndarray:
    """Like `value_of`, for a transfer that the user requested (`explicit`) or an implicit one."""
    cached = array._npy_value
    if cached is None:
        check_not_deleted(array)
        array._npy_value = cached = guards.run_transfer(
            "device_to_host", array.nbytes, array.aval, "the host", lambda: _fetch(array),
            explicit=_is_explicit(array, explicit),
        )  # fmt: skip
        cached.flags.writeable = False
    return cached


def _is_explicit(array: ArrayImpl, explicit: bool) -> bool | None:
    """`explicit`, or None on CPUs, because reading their memory isn't a transfer."""
    return None if array.platform() == "cpu" else explicit


def _fetch(array: ArrayImpl) -> np.ndarray:
    sharding = array._sharding
    if not array.is_fully_addressable and not sharding.is_fully_replicated:
        raise DeviceError(
            "an array whose parts lie on other processes' devices can't be read here.",
            got=f"{array.aval.text()} with {sharding}",
            do="Use `multihost_utils.process_allgather`, or read `array.addressable_shards`.",
        )
    if is_unreduced(sharding):
        return _fetch(late("relaid")(array, sharding_of_sum(sharding)))
    if not is_ready(array):
        wait_for([array])  # unlike reading, Ctrl-C can interrupt it
    if len(sharding._internal_device_list) == 1:
        return arrays.single_device_to_numpy(array)
    if sharding.is_fully_replicated:
        return arrays.single_device_to_numpy(arrays.shards_of(array)[0])
    whole = np.empty(array.shape, array.dtype)
    for shard in shards_of(array, addressable_only=True):
        if shard.replica_id == 0:
            whole[shard.index] = arrays.single_device_to_numpy(shard.data)
    return whole


def copy_to_host_async(array: ArrayImpl) -> None:
    """Start copying to the host; a later `np.asarray` waits less."""
    check_not_deleted(array)
    if array._npy_value is None:
        explicit = _is_explicit(array, True)
        with guards.guard_transfer("device_to_host", array.aval, "the host", explicit=explicit):
            arrays.copy_to_host_async(array)


def _scalar(array: ArrayImpl, python_type: type) -> Any:
    if array.shape != ():
        raise ArrayConversionError(
            f"only arrays without dimensions can be converted by `{python_type.__name__}()`.",
            got=array.aval.text(),
            do="Take one element first: `.item()`, or an index for each dimension.",
        )
    if array.dtype.kind == "c" and python_type is not complex:
        raise ArrayConversionError(
            f"a complex number can't be converted by `{python_type.__name__}()`.",
            got=array.aval.text(),
            do="Take its real part first: `.real`.",
        )
    return python_type(value_of(array)[()])


def _from_pickle(function, arguments, state, facts: dict[str, Any]):
    """The unpickled array, on the default device of this process."""
    value = function(*arguments)
    value.__setstate__(state)
    return late("bottom trace").from_host(value, weak_type=facts["weak_type"])


_PREFIX = "Array("


class _Methods(ArrayImpl if TYPE_CHECKING else object):
    """Attributes of arrays that need their values on the host."""

    _value = property(value_of)
    copy_to_host_async = copy_to_host_async

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        _raise_interruption(self)
        # NumPy's own rules apply: copy=False raises if the dtype requires a copy, None copies only then.
        return np.array(value_of(self), dtype=dtype, copy=copy)

    def __bool__(self) -> bool:
        if self.size != 1:
            what = "an empty array" if self.size == 0 else "an array with more than one element"
            raise ArrayConversionError(
                f"the truth value of {what} is ambiguous.",
                got=self.aval.text(),
                do="Use `array.size > 0` to ask whether it has elements."
                if self.size == 0
                else "Use `.any()` or `.all()`.",
            )
        return bool(value_of(self))

    def __int__(self) -> int:
        return _scalar(self, int)

    def __float__(self) -> float:
        return _scalar(self, float)

    def __complex__(self) -> complex:
        return _scalar(self, complex)

    def __index__(self) -> int:
        if self.shape != () or self.dtype.kind not in "iu":
            raise ArrayConversionError(
                "only integer arrays without dimensions can be used as a Python index.",
                got=self.aval.text(),
            )
        return int(value_of(self))

    def tolist(self) -> Any:
        """Nested Python lists of Python numbers."""
        return value_of(self).tolist()

    def item(self, *index: int) -> bool | int | float | complex:
        """The only element, or the one at `index`, as a Python number."""
        return value_of(self).item(*index)

    def tobytes(self, order: Literal["C", "F"] = "C") -> bytes:
        """The elements' bytes, in C or Fortran order."""
        return value_of(self).tobytes(order)

    def __reduce__(self) -> Any:
        return _from_pickle, (*value_of(self).__reduce__(), {"weak_type": self.weak_type})

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        tail = f"dtype={self.dtype}{weak})"
        if self.is_deleted():
            return f"Array(shape={self.shape}, {tail[:-1]}, deleted)"
        if is_unreduced(self.sharding):
            return f"Array(shape={self.shape}, {tail[:-1]}, sharding={self.sharding})"
        if not self.is_fully_addressable and not self.is_fully_replicated:
            return f"Array(shape={self.shape}, {tail}"
        if self.size == 0:
            return f"Array([], shape={self.shape}, {tail}"
        body = np.array2string(value_of(self), prefix=_PREFIX, separator=", ", suffix=",")
        last_line = len(body) - body.rfind("\n") - 1
        # Like the reference, a dtype that doesn't fit on the line is set off by spaces instead of a line break.
        fits = last_line + len(tail) + 3 <= np.get_printoptions()["linewidth"]
        return f"{_PREFIX}{body},{' ' if fits else ' ' * len(_PREFIX)}{tail}"

    def __str__(self) -> str:
        if self.is_deleted() or is_unreduced(self.sharding):
            return repr(self)
        is_readable = self.is_fully_addressable or self.is_fully_replicated
        return str(value_of(self)) if is_readable else repr(self)

    def __format__(self, spec: str) -> str:
        if self.shape == () and not self.is_deleted():
            return format(value_of(self)[()], spec)
        return format(value_of(self), spec) if spec else str(self)


extend(ArrayImpl, _Methods)

# The memory that NumPy reads -----------------------------------------------------------------------------

_interrupted: list[tuple[ArrayImpl, KeyboardInterrupt]] = []
"""The array whose memory NumPy requested when Ctrl-C ended the wait, with the error; cleared by the next request."""


def _raise_interruption(array: ArrayImpl) -> None:
    """Raise the KeyboardInterrupt of `__buffer__`, which NumPy takes for an array without memory and asks `__array__`."""
    found = [error for x, error in _interrupted if x is array]
    _interrupted.clear()
    if found:
        raise found[0]


if sys.version_info >= (3, 12):  # since when a class in Python gives its memory
    _memory_of = ArrayImpl.__buffer__

    class _Memory(ArrayImpl if TYPE_CHECKING else object):
        def __buffer__(self, flags: int, /) -> memoryview:
            """The array's memory on a CPU, computed: Ctrl-C ends the wait for it."""
            _interrupted.clear()
            if not is_ready(self):
                try:
                    wait_for([self])
                except KeyboardInterrupt as error:
                    _interrupted.append((self, error))
                    raise
            return _memory_of(self, flags)

    extend(ArrayImpl, _Memory)
