"""Values of arrays on the host: NumPy arrays, Python numbers, text, pickles."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np

from pellucid.base import config
from pellucid.base.errors import ArrayConversionError, DeviceError
from pellucid.base.events import TransferFinished, on, publish
from pellucid.base.late import late
from pellucid.runtime import guards
from pellucid.runtime.array import attribute, check_not_deleted, method, shards_of
from pellucid.runtime.failures import runtime_error
from pellucid.sharding.named_sharding import is_unreduced, summed
from pellucid.xla import arrays
from pellucid.xla.compile import JaxRuntimeError

_guard_level = config.transfer_guard_device_to_host


@attribute("_value")
def value_of(array: Any) -> np.ndarray:
    """The whole array as a read-only NumPy array, kept once fetched."""
    return fetched(array, explicit=False)


def fetched(array: Any, *, explicit: bool) -> np.ndarray:
    """`value_of`, for a transfer that the user asked for (`explicit`) or that just happens."""
    cached = array._npy_value
    if cached is None:
        check_not_deleted(array)
        start = time.perf_counter()
        try:
            # Reading a CPU's memory is no transfer.
            if _guard_level.value == "allow" or array.platform() == "cpu":
                cached = _fetch(array)
            else:
                with guards.passed("device_to_host", array.aval, "the host", explicit=explicit):
                    cached = _fetch(array)
        except JaxRuntimeError as error:
            failure = runtime_error("Array", error)
            raise failure from failure.__cause__
        cached.flags.writeable = False
        array._npy_value = cached
        if on.transfer_finished:
            seconds = time.perf_counter() - start
            publish(
                on.transfer_finished, TransferFinished("device_to_host", cached.nbytes, seconds)
            )
    return cached


def _fetch(array: Any) -> np.ndarray:
    sharding = array._sharding
    if not array.is_fully_addressable and not sharding.is_fully_replicated:
        raise DeviceError(
            "an array whose parts lie on other processes' devices can't be read here.",
            got=f"{array.aval.text()} with {sharding}",
            do="Use `multihost_utils.process_allgather`, or read `array.addressable_shards`.",
        )
    if is_unreduced(sharding):
        return _fetch(late("relaid")(array, summed(sharding)))
    if len(sharding._internal_device_list) == 1:
        return arrays.single_device_to_numpy(array)
    if sharding.is_fully_replicated:
        array.block_until_ready()
        return arrays.single_device_to_numpy(arrays.shards_of(array)[0])
    whole = np.empty(array.shape, array.dtype)
    for shard in shards_of(array, addressable_only=True):
        if shard.replica_id == 0:
            whole[shard.index] = arrays.single_device_to_numpy(shard.data)
    return whole


@method("__array__")
def _to_numpy(array: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    # NumPy's own rules decide: copy=False raises where the dtype asks for one, None copies only then.
    return np.array(value_of(array), dtype=dtype, copy=copy)


@method("copy_to_host_async")
def copy_to_host_async(array: Any) -> None:
    """Start copying to the host; a later `np.asarray` waits less."""
    check_not_deleted(array)
    if array._npy_value is None:
        level = _guard_level.value
        allowed = level == "allow" or array.platform() == "cpu"
        with (
            contextlib.nullcontext()
            if allowed
            else guards.passed("device_to_host", array.aval, "the host", explicit=True)
        ):
            arrays.copy_to_host_async(array)


# Python values ------------------------------------------------------------------------------------


@method("__bool__")
def _bool(array: Any) -> bool:
    if array.size != 1:
        what = "an empty array" if array.size == 0 else "an array with more than one element"
        raise ArrayConversionError(
            f"the truth value of {what} is ambiguous.",
            got=array.aval.text(),
            do="Use `array.size > 0` to ask whether it has elements."
            if array.size == 0
            else "Use `.any()` or `.all()`.",
        )
    return bool(value_of(array))


def _scalar(array: Any, python_type: type) -> Any:
    if array.shape != ():
        raise ArrayConversionError(
            f"only arrays without dimensions can be converted by `{python_type.__name__}()`.",
            got=array.aval.text(),
            do="Take one element first: `.item()`, or an index for each dimension.",
        )
    return python_type(value_of(array)[()])


@method("__int__")
def _int(array: Any) -> int:
    return _real(array, int)


@method("__float__")
def _float(array: Any) -> float:
    return _real(array, float)


def _real(array: Any, python_type: type) -> Any:
    if array.dtype.kind == "c" and array.shape == ():
        raise ArrayConversionError(
            f"a complex number can't be converted by `{python_type.__name__}()`.",
            got=array.aval.text(),
            do="Take its real part first: `.real`.",
        )
    return _scalar(array, python_type)


@method("__complex__")
def _complex(array: Any) -> complex:
    return _scalar(array, complex)


@method("__index__")
def _index(array: Any) -> int:
    if array.shape != () or array.dtype.kind not in "iu":
        raise ArrayConversionError(
            "only integer arrays without dimensions can be used as a Python index.",
            got=array.aval.text(),
        )
    return int(value_of(array))


@method("tolist")
def _tolist(array: Any) -> Any:
    """Nested Python lists of Python numbers."""
    return value_of(array).tolist()


@method("item")
def _item(array: Any, *index: int) -> bool | int | float | complex:
    """The only element, or the one at `index`, as a Python number."""
    return value_of(array).item(*index)


@method("tobytes")
def _tobytes(array: Any, order: str = "C") -> bytes:
    """The elements' bytes, in C or Fortran order."""
    return value_of(array).tobytes(order)


# Pickles ------------------------------------------------------------------------------------------


@method("__reduce__")
def _reduce(array: Any) -> Any:
    function, arguments, state = value_of(array).__reduce__()
    return _from_pickle, (function, arguments, state, {"weak_type": array.weak_type})


def _from_pickle(function: Any, arguments: Any, state: Any, facts: dict[str, Any]) -> Any:
    """The array that was pickled, on the default device of this process."""
    value = function(*arguments)
    value.__setstate__(state)
    return from_host(value, weak_type=facts["weak_type"])


def from_host(value: np.ndarray, *, weak_type: bool = False, sharding: Any = None) -> Any:
    """Bound by `transfer`, which imports this module."""
    raise RuntimeError("pellucid.runtime.transfer is not loaded")


# Text ---------------------------------------------------------------------------------------------


_PREFIX = "Array("


@method("__repr__")
def _repr(array: Any) -> str:
    weak = ", weak_type=True" if array.weak_type else ""
    tail = f"dtype={array.dtype}{weak})"
    if array.is_deleted():
        return f"Array(shape={array.shape}, {tail[:-1]}, deleted)"
    if is_unreduced(array.sharding):
        return f"Array(shape={array.shape}, {tail[:-1]}, sharding={array.sharding})"
    if not array.is_fully_addressable and not array.is_fully_replicated:
        return f"Array(shape={array.shape}, {tail}"
    if array.size == 0:
        return f"Array([], shape={array.shape}, {tail}"
    body = np.array2string(value_of(array), prefix=_PREFIX, separator=", ", suffix=",")
    last_line = len(body) - body.rfind("\n") - 1
    # The reference separates a dtype that doesn't fit by the width of the prefix, without a new line.
    fits = last_line + len(tail) + 3 <= np.get_printoptions()["linewidth"]
    return f"{_PREFIX}{body},{' ' if fits else ' ' * len(_PREFIX)}{tail}"


@method("__str__")
def _str(array: Any) -> str:
    if array.is_deleted() or is_unreduced(array.sharding):
        return repr(array)
    is_readable = array.is_fully_addressable or array.is_fully_replicated
    return str(value_of(array)) if is_readable else repr(array)


@method("__format__")
def _format(array: Any, spec: str) -> str:
    if array.shape == () and not array.is_deleted():
        return format(value_of(array)[()], spec)
    return format(value_of(array), spec) if spec else str(array)
