"""The base class of sparse arrays: a shape, buffers, and operators that formats define as far as they can."""

from __future__ import annotations

import math
from typing import Any

from pellucid._machine.base import public_functions
from pellucid._machine.base.dims import canonical_shape
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid._machine.base.tree import tree_leaves
from pellucid._machine.runtime.transfer import block_until_ready


class SparseEfficiencyError(ValueError):
    """An operation on a sparse array that would store many more elements than the array has.

    >>> from pellucid.experimental import sparse
    >>> sparse.bcoo_update_layout(sparse.eye(2), n_batch=1)
    Traceback (most recent call last):
        ...
    pellucid.experimental.sparse.base.SparseEfficiencyError: raising n_batch from 0 to 1 stores many more elements ...
    """


class SparseEfficiencyWarning(UserWarning):
    """Warning about an inefficient sparse operation, if warnings were requested.

    >>> import warnings
    >>> from pellucid.experimental import sparse
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     _ = pl.eval_shape(
    ...         lambda x: sparse.bcoo_update_layout(x, n_batch=1, on_inefficient="warn"), sparse.eye(2)
    ...     )
    >>> caught[0].category.__name__
    'SparseEfficiencyWarning'
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """An operation that could use cuSPARSE with other formats or dtypes.

    >>> import warnings
    >>> from pellucid.experimental import sparse
    >>> warnings.simplefilter("error", sparse.CuSparseEfficiencyWarning)
    """


class JAXSparse:
    """Base class of sparse arrays: buffers in a format, and a `shape`.

    Sparse arrays are trees whose leaves are their buffers, so transformations take and return them.

    >>> from pellucid.experimental import sparse
    >>> isinstance(sparse.eye(2), sparse.JAXSparse)
    True
    """

    data: Any
    shape: tuple[int, ...]
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100
    __array_ufunc__ = None
    """NumPy arrays leave their operators with sparse arrays to these."""

    def __init__(self, args: tuple[Any, ...], *, shape: Any) -> None:
        self.shape = canonical_shape(shape)

    @property
    def nse(self) -> int:
        """The number of stored elements (for each batch)."""
        raise NotImplementedError(f"{type(self).__name__}.nse")

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def size(self) -> int:
        """The number of elements, stored or zero."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def T(self) -> Any:
        """The array with its dimensions in reverse order."""
        return self.transpose()

    def layout(self) -> dict[str, int]:
        """Numbers of batch and dense dimensions, for the text of the array."""
        return {}

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            sizes = "".join(f", {key}={n}" for key, n in self.layout().items() if n)
            return f"{name}({self.dtype}{list(self.shape)}, nse={self.nse}{sizes})"
        except (AttributeError, IndexError, TypeError):  # a tree of other leaves
            return f"{name}(<invalid>)"

    def __len__(self) -> int:
        return self.shape[0]

    def block_until_ready(self) -> Any:
        """The array, when its buffers are computed."""
        block_until_ready(tree_leaves(self))
        return self

    def tree_flatten(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.tree_flatten")

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any:
        """The array of the format with the buffers `children`, which aren't checked."""
        array = object.__new__(cls)
        for name, value in aux_data.items():
            setattr(array, name, value)
        array._set_buffers(*children)
        return array

    def _set_buffers(self, *buffers: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no buffers")

    def with_shape(self, shape: tuple[int, ...]) -> Any:
        """The same buffers in an array of another shape."""
        children, aux = self.tree_flatten()
        return type(self).tree_unflatten({**aux, "shape": shape}, children)

    def transpose(self, axes: Any = None) -> Any:
        """The array with its dimensions in the order `axes`, by default reversed."""
        raise NotImplementedError(f"{type(self).__name__}.transpose")

    def todense(self) -> Any:
        """The array with all elements."""
        raise NotImplementedError(f"{type(self).__name__}.todense")

    @classmethod
    def _empty(cls, shape: Any, **options: Any) -> Any:
        raise UnsupportedError(f"sparse.empty makes no arrays of the format {cls.__name__}.")

    @classmethod
    def _eye(cls, N: int, M: int, k: int, **options: Any) -> Any:
        raise UnsupportedError(f"sparse.eye makes no arrays of the format {cls.__name__}.")


def mapped_shape(array: Any, dims: Any, size: int | None) -> tuple[int, ...]:
    """The shape of `array` without the batch axis of its buffers, or with it where it has a `size`.

    `dims` is the array with batch axes of buffers, or None, in place of them.
    """
    axes = {axis for axis in dims.tree_flatten()[0] if axis is not None}
    if not axes:
        return array.shape
    [axis, *others] = axes
    n_batch = array.n_batch + (size is None)
    if others or not 0 <= axis < n_batch:
        raise ArgumentValueError(
            "vmap: the batch axis of a sparse array must be one of its batch dimensions.",
            got=f"axis {axis}, n_batch: {n_batch}",
            do="Use `update_layout` to make batch dimensions.",
        )
    if size is None:
        return array.shape[:axis] + array.shape[axis + 1 :]
    return (*array.shape[:axis], size, *array.shape[axis:])


def _undefined_operator(name: str) -> Any:
    """An operator that a format doesn't define."""

    def operator(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"{type(self).__name__}.{name} is not defined.",
            got=repr(self),
            do="Convert the array to BCOO, or to a dense array: `todense()`.",
        )

    operator.__name__ = name
    operator.__qualname__ = f"JAXSparse.{name}"
    operator.__doc__ = f"`{name}` of a format that doesn't define it raises UnsupportedError."
    return operator


for _name in (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__matmul__", "__rmatmul__", "__neg__",
    "__pos__", "__getitem__", "sum",
):  # fmt: skip
    setattr(JAXSparse, _name, _undefined_operator(_name))


__all__ = [
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
]

public_functions(__all__, globals())
