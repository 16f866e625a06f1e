"""Arrays from buffers, texts, files, functions and other libraries; arrays saved to files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    DTypeLike,
    UnsupportedError,
    public_functions,
)
from pellucid._machine.runtime.interchange import from_dlpack as _from_dlpack
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import Array

from .annotations import DeviceLike, ShapeLike
from .creation import arange, asarray, canonical_shape


def from_dlpack(x: Any, /, *, device: DeviceLike = None, copy: bool | None = None) -> Array:
    """The array of another library that has `__dlpack__` and `__dlpack_device__`, without a copy where possible.

    Result: its shape and dtype, of 32 bits while 64-bit dtypes are off. `device` places it; `copy` True copies, False
    refuses to.
    Raises: ArgumentTypeError for an object without these methods, BufferError of the library for elements that DLPack
    doesn't have.

    >>> from_dlpack(np.arange(2.0, dtype=np.float32))
    Array([0., 1.], dtype=float32)
    """
    return _from_dlpack(x, device=device, copy=copy)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """A vector of the bytes of `buffer` from `offset`, read as elements of `dtype`; `count` of them, -1 for all.

    Result: shape [count]; dtype `dtype`, of 32 bits while 64-bit dtypes are off.
    Raises: TypeError of NumPy for anything that isn't a buffer and for an unknown dtype, ValueError for a size that isn't a multiple
    of an element's.

    >>> frombuffer(b"ab", dtype="uint8")
    Array([97, 98], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, np.dtype(dtype), count, offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """A vector of the numbers in a text, separated by `sep`; `count` of them, -1 for all.

    Result: shape [count]; dtype `dtype`, of 32 bits while 64-bit dtypes are off.
    Raises: TypeError of NumPy for anything that isn't a text, ValueError for a text with something else than numbers.

    >>> fromstring("1 2", dtype=int, sep=" ")
    Array([1, 2], dtype=int32)
    """
    return asarray(np.fromstring(string, np.dtype(dtype), count, sep=sep))


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, **kwargs: Any
) -> Array:
    """`function` of the indices of each element of an array of `shape`, as scalars of `dtype`.

    Result: shape `shape` with the shape of a result of `function` after it; the dtype of that result.
    Raises: ArgumentTypeError for sizes that are no ints, ShapeError for negative ones, and what `function` raises.

    >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    sizes = canonical_shape(shape, "fromfunction")
    mapped: Callable[..., Any] = lambda *indices: function(*indices, **kwargs)
    for i in reversed(range(len(sizes))):
        mapped = vmap(mapped, in_axes=tuple(0 if j == i else None for j in range(len(sizes))))
    return mapped(*(arange(size, dtype=dtype) for size in sizes))


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """Not offered: what a file holds isn't known when a program is traced.

    No shape is known before the file is read; NumPy reads it first.
    Raises: UnsupportedError.

    >>> fromfile("numbers.bin")
    Traceback (most recent call last):
        ...
    pellucid.errors.UnsupportedError: jnp.fromfile isn't offered.
      Use jnp.asarray(np.fromfile(...)).
    """
    raise UnsupportedError("jnp.fromfile isn't offered.", do="Use jnp.asarray(np.fromfile(...)).")


def fromiter(*args: Any, **kwargs: Any) -> Any:
    """Not offered: an iterator can be read once only, a traced program many times.

    No shape is known before the iterator ends; NumPy reads it first.
    Raises: UnsupportedError.

    >>> fromiter(iter([1, 2]))
    Traceback (most recent call last):
        ...
    pellucid.errors.UnsupportedError: jnp.fromiter isn't offered.
      Use jnp.asarray(np.fromiter(...)).
    """
    raise UnsupportedError("jnp.fromiter isn't offered.", do="Use jnp.asarray(np.fromiter(...)).")


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array of a `.npy` file, or an `NpzFile` of NumPy arrays; see `numpy.load`.

    Result: shape and dtype of the file, of 32 bits while 64-bit dtypes are off.
    Raises: OSError where the file can't be read, ArgumentTypeError for a dtype that the file doesn't name (bfloat16,
    float8).

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, jnp.array([1, 2]))
    >>> _ = file.seek(0)
    >>> load(file)
    Array([1, 2], dtype=int32)
    """
    contents = np.load(file, *args, **kwargs)
    if not isinstance(contents, np.ndarray):
        return contents
    if contents.dtype.kind == "V":  # files hold elements of dtypes unknown to NumPy as raw bytes
        raise ArgumentTypeError(
            "jnp.load has a file whose elements have a dtype that it doesn't name.",
            got=f"{contents.dtype.itemsize} bytes an element",
            do="Load it with np.load, and view it with the dtype that it was saved with.",
        )
    return asarray(contents)


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Save an array in NumPy's `.npy` format; see `numpy.save`.

    The file has the shape and the dtype of `arr`; NumPy doesn't name those of ml_dtypes.
    Raises: OSError where the file can't be written, TracerArrayConversionError for a traced array, ArrayConversionError for
    random keys.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, jnp.array([1, 2]))
    >>> np.load(io.BytesIO(file.getvalue()))
    array([1, 2], dtype=int32)
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Save several arrays in one `.npz` file; see `numpy.savez`.

    Each has its own shape and dtype; arrays without a name are called `arr_0`, `arr_1` and so on.
    Raises: OSError where the file can't be written, TracerArrayConversionError for a traced array, ArrayConversionError for
    random keys.

    >>> import io
    >>> file = io.BytesIO()
    >>> savez(file, jnp.array([1, 2]), b=jnp.array(3.0))
    >>> sorted(np.load(io.BytesIO(file.getvalue())))
    ['arr_0', 'b']
    """
    arrays = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *(np.asarray(x) for x in args), allow_pickle=allow_pickle, **arrays)  # type: ignore[arg-type]


__all__ = [
    "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "load", "save", "savez",
]  # fmt: skip

public_functions(__all__, globals())
