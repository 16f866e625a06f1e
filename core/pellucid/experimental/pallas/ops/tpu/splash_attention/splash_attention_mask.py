"""Masks of attention that are known before a program runs, looked at in parts: which keys each query sees.

A mask is indexed by slices of queries and keys, and gives booleans of NumPy. Masks with a formula are evaluated in the kernel from positions, others
as blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ShapeError,
    public_functions,
)


class Mask:
    """Base class of masks [queries, keys], which `&` and `|` combine."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of queries and keys."""
        raise NotImplementedError(f"{type(self).__name__} does not define `shape`")

    def __getitem__(self, idx: Any) -> np.ndarray:
        """A part, as booleans."""
        raise NotImplementedError(f"{type(self).__name__} does not define `__getitem__`")

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "a mask has no truth value.", do="Combine masks by `&` and `|`, not by `and` and `or`."
        )

    def __and__(self, other: Mask) -> Mask:
        return LogicalAnd(self, other)

    def __or__(self, other: Mask) -> Mask:
        return LogicalOr(self, other)


class FormulaMask(Mask):
    """Base class of masks that follow from the positions of query and key alone."""

    def visible(self, queries: Any, keys: Any) -> Any:
        """Whether queries at these positions see keys at these; the arrays broadcast against each other."""
        raise NotImplementedError(f"{type(self).__name__} does not define `visible`")

    def __getitem__(self, idx: Any) -> np.ndarray:
        rows, columns = _positions(self.shape, idx)
        return np.broadcast_to(
            np.asarray(self.visible(rows[:, None], columns[None, :])), (len(rows), len(columns))
        )


def _positions(shape: tuple[int, ...], idx: Any) -> tuple[np.ndarray, np.ndarray]:
    if not (isinstance(idx, tuple) and len(idx) == 2):
        raise ArgumentTypeError("a mask is indexed by queries and keys.", got=f"got {idx!r:.60}")
    rows, columns = [np.atleast_1d(np.arange(n)[i]) for n, i in zip(shape, idx, strict=True)]
    return rows, columns


def _check_shape(name: str, shape: Sequence[int], shard_count: int) -> tuple[int, int]:
    if len(shape) != 2:
        raise ShapeError(f"{name} needs numbers of queries and keys.", got=f"shape {tuple(shape)}")
    if shard_count < 1 or shape[0] % shard_count:
        raise ArgumentValueError(
            f"{name}: `shard_count` must divide the queries.",
            got=f"shape {tuple(shape)}, shard_count {shard_count}",
        )
    return int(shape[0]), int(shape[1])


@dataclass(frozen=True, init=False)
class CausalMask(FormulaMask):
    """Query i sees keys up to i + offset.

    >>> CausalMask((2, 4), offset=1)[:, :].astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0]])
    """

    _shape: tuple[int, int]
    offset: int

    def __init__(self, shape: tuple[int, int], offset: int = 0, shard_count: int = 1) -> None:
        object.__setattr__(self, "_shape", _check_shape("CausalMask", shape, shard_count))
        object.__setattr__(self, "offset", offset)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and keys."""
        return self._shape

    def visible(self, queries: Any, keys: Any) -> Any:
        """Whether a query sees a key."""
        return keys <= queries + self.offset


@dataclass(frozen=True, init=False)
class LocalMask(FormulaMask):
    """Query i sees keys from i + offset - left to i + offset + right; a side that is None has no end.

    >>> LocalMask((3, 3), (1, 0), 0)[:, :].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """

    _shape: tuple[int, int]
    window_size: tuple[int | None, int | None]
    offset: int

    def __init__(
        self,
        shape: tuple[int, int],
        window_size: tuple[int | None, int | None],
        offset: int,
        shard_count: int = 1,
    ) -> None:
        object.__setattr__(self, "_shape", _check_shape("LocalMask", shape, shard_count))
        object.__setattr__(self, "window_size", tuple(window_size))
        object.__setattr__(self, "offset", offset)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and keys."""
        return self._shape

    def visible(self, queries: Any, keys: Any) -> Any:
        """Whether a query sees a key."""
        left, right = self.window_size
        places = queries + self.offset
        result = (keys >= 0) & (queries >= 0)
        if left is not None:
            result = result & (keys >= places - left)
        return result if right is None else result & (keys <= places + right)


@dataclass(frozen=True, init=False)
class ChunkedCausalMask(FormulaMask):
    """Query i sees keys up to i that are in its chunk.

    Raises: ArgumentValueError for chunks without elements.

    >>> ChunkedCausalMask((4, 4), 2)[2:, :].astype(int)
    array([[0, 0, 1, 0],
           [0, 0, 1, 1]])
    """

    _shape: tuple[int, int]
    chunk_size: int

    def __init__(self, shape: tuple[int, int], chunk_size: int, shard_count: int = 1) -> None:
        if chunk_size <= 0:
            raise ArgumentValueError(
                "ChunkedCausalMask: `chunk_size` must be positive.", got=f"got {chunk_size}"
            )
        object.__setattr__(self, "_shape", _check_shape("ChunkedCausalMask", shape, shard_count))
        object.__setattr__(self, "chunk_size", chunk_size)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and keys."""
        return self._shape

    def visible(self, queries: Any, keys: Any) -> Any:
        """Whether a query sees a key."""
        return (keys <= queries) & (queries // self.chunk_size == keys // self.chunk_size)


@dataclass(frozen=True)
class FullMask(FormulaMask):
    """Every query sees every key.

    >>> FullMask((1, 2))[:, :]
    array([[ True,  True]])
    """

    _shape: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and keys."""
        return self._shape

    def visible(self, queries: Any, keys: Any) -> Any:
        """True for all."""
        return (queries >= 0) & (keys >= 0)


@dataclass(frozen=True, eq=False)
class NumpyMask(Mask):
    """A mask that is given as booleans [queries, keys].

    Raises: ShapeError, ArgumentTypeError for an array that is none.

    >>> (NumpyMask(np.eye(2, dtype=bool)) | CausalMask((2, 2)))[:, :].astype(int)
    array([[1, 0],
           [1, 1]])
    """

    array: np.ndarray

    def __post_init__(self) -> None:
        if self.array.ndim != 2:
            raise ShapeError(
                "NumpyMask needs booleans [queries, keys].", got=f"shape {self.array.shape}"
            )
        if self.array.dtype != np.bool_:
            raise ArgumentTypeError("NumpyMask needs booleans.", got=f"dtype {self.array.dtype}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of queries and keys."""
        return self.array.shape

    def __getitem__(self, idx: Any) -> np.ndarray:
        return self.array[idx]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyMask) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((NumpyMask, self.array.shape, self.array.tobytes()))


@dataclass(frozen=True)
class _Combined(Mask):
    left: Mask
    right: Mask

    def __post_init__(self) -> None:
        if self.left.shape != self.right.shape:
            raise ShapeError(
                "masks that are combined need the same shape.",
                got=f"{self.left.shape}, {self.right.shape}",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of queries and keys."""
        return self.left.shape


class LogicalAnd(_Combined):
    """Queries see the keys that both masks allow.

    >>> LogicalAnd(CausalMask((2, 2)), LocalMask((2, 2), (0, 0), 0))[:, :].astype(int)
    array([[1, 0],
           [0, 1]])
    """

    def __getitem__(self, idx: Any) -> np.ndarray:
        return self.left[idx] & self.right[idx]


class LogicalOr(_Combined):
    """Queries see the keys that one of the masks allows.

    >>> LogicalOr(CausalMask((2, 2)), FullMask((2, 2)))[:, :].astype(int)
    array([[1, 1],
           [1, 1]])
    """

    def __getitem__(self, idx: Any) -> np.ndarray:
        return self.left[idx] | self.right[idx]


@dataclass(frozen=True, init=False)
class MultiHeadMask(Mask):
    """A mask [heads, queries, keys], of one mask for each head.

    Raises: ArgumentValueError, ShapeError for masks that don't go together.

    >>> MultiHeadMask([CausalMask((2, 2)), FullMask((2, 2))])[:, 0, :].astype(int)
    array([[1, 0],
           [1, 1]])
    """

    masks: tuple[Mask, ...]

    def __init__(self, masks: Sequence[Mask]) -> None:
        if not masks or any(isinstance(mask, MultiHeadMask) for mask in masks):
            raise ArgumentValueError(
                "MultiHeadMask needs a mask for each head, of one head each.",
                got=f"{len(masks)} masks",
            )
        if len({mask.shape for mask in masks}) > 1:
            raise ShapeError(
                "MultiHeadMask needs masks of one shape.", got=f"{[mask.shape for mask in masks]}"
            )
        object.__setattr__(self, "masks", tuple(masks))

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of heads, queries and keys."""
        return (len(self.masks), *self.masks[0].shape)

    def __getitem__(self, idx: Any) -> np.ndarray:
        head, *rest = idx if isinstance(idx, tuple) else (idx, slice(None), slice(None))
        rows, columns = rest
        masks = self.masks[head]
        # An index of one query or key takes the dimension away, as in NumPy.
        part = [mask[rows, columns] for mask in (masks if isinstance(masks, tuple) else (masks,))]
        squeezed = [i for i, r in enumerate((rows, columns)) if isinstance(r, (int, np.integer))]
        part = [np.squeeze(p, tuple(i for i in squeezed if p.ndim == 2)) for p in part]
        return np.stack(part) if isinstance(masks, tuple) else part[0]


def make_causal_mask(shape: tuple[int, int], offset: int = 0) -> np.ndarray:
    """`CausalMask` as booleans.

    >>> make_causal_mask((2, 2)).astype(int)
    array([[1, 0],
           [1, 1]])
    """
    return CausalMask(shape, offset)[:, :]


def make_local_attention_mask(
    shape: tuple[int, int], window_size: tuple[int | None, int | None], *, offset: int = 0
) -> np.ndarray:
    """`LocalMask` as booleans.

    >>> make_local_attention_mask((2, 2), (0, 1)).astype(int)
    array([[1, 1],
           [0, 1]])
    """
    return LocalMask(shape, window_size, offset)[:, :]


def make_chunk_attention_mask(shape: tuple[int, int], chunk_size: int) -> np.ndarray:
    """`ChunkedCausalMask` as booleans.

    >>> make_chunk_attention_mask((2, 2), 1).astype(int)
    array([[1, 0],
           [0, 1]])
    """
    return ChunkedCausalMask(shape, chunk_size)[:, :]


def make_random_mask(shape: tuple[int, int], sparsity: float, seed: int) -> np.ndarray:
    """Booleans that are true with probability `1 - sparsity`, those of NumPy's `binomial` for this seed.

    >>> make_random_mask((1, 4), 0.5, 0).astype(int)
    array([[1, 1, 1, 1]])
    """
    return np.random.RandomState(seed).binomial(1, 1 - sparsity, shape).astype(np.bool_)


__all__ = [
    "CausalMask", "ChunkedCausalMask", "FullMask", "LocalMask", "LogicalAnd", "LogicalOr", "Mask", "MultiHeadMask", "NumpyMask",
    "make_causal_mask", "make_chunk_attention_mask", "make_local_attention_mask", "make_random_mask",
]  # fmt: skip

public_functions(__all__, globals())
