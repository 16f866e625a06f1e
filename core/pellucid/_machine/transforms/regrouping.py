"""Parts of masks through movements of dimensions, most of which leave most parts as they are.

reshape [8, 16, 64] -> [8, 16, 4, 16]     a part along the first two dimensions stays what it is
pad [8, 16] -> [8, 20]                    only parts along the second dimension are padded, with False
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid._machine.base import Ints, is_static
from pellucid._machine.ir import Primitive
from pellucid._machine.primitives import full, pad, reshape, rev, slice

from .liveness import Part, moved_part, spread


class Group(NamedTuple):
    """Dimensions of an operand that move together, and those of the result that they become."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    is_same: bool = True
    """Whether elements keep their positions along them."""


def groups_of(primitive: Primitive, aval: Any, result: Any, params: Any) -> list[Group] | None:
    """The dimensions of the operand of a movement, in groups that move independently; None if that isn't known."""
    if aval.shown_sharding is not None:
        return None
    name, shape = primitive.name, aval.shape
    if not is_static(shape) or not is_static(result.shape):
        return None
    if name == "transpose":
        return [Group((d,), (i,)) for i, d in enumerate(params.permutation)]
    if name == "broadcast_in_dim":
        at = enumerate(params.broadcast_dimensions)
        return [Group((d,), (j,) if result.shape[j] == shape[d] else ()) for d, j in at]
    if name in ("reshape", "squeeze"):
        return _reshaped_groups(shape, result.shape)
    if name in ("slice", "pad", "rev"):
        return [Group((d,), (d,), _stays(name, d, shape, params)) for d in range(aval.ndim)]
    return None


def _stays(name: str, d: int, shape: Ints, params: Any) -> bool:
    """Whether elements keep their positions along dimension `d`."""
    if name == "rev":
        return d not in params.dimensions
    if name == "pad":
        return params.padding_config[d] == (0, 0, 0)
    size = params.limit_indices[d] - params.start_indices[d]
    return size == shape[d] and (params.strides is None or params.strides[d] == 1)


def _reshaped_groups(old: Ints, new: Ints) -> list[Group] | None:
    """The shortest groups of neighbouring dimensions that have as many elements before as after a reshape."""
    if 0 in old:
        return None
    groups: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, second = i, j
        if i < len(old) and old[i] == 1:
            i += 1
        elif j < len(new) and new[j] == 1:
            j += 1
        else:
            n, m, i, j = old[i], new[j], i + 1, j + 1
            while n != m:
                if n < m:
                    n, i = n * old[i], i + 1
                else:
                    m, j = m * new[j], j + 1
        dims = tuple(range(first, i)), tuple(range(second, j))
        groups.append(Group(*dims, len(dims[0]) == len(dims[1]) == 1))
    return groups


class TracedMovements:
    """Movements of traced arrays, as equations."""

    slice = staticmethod(slice)
    rev = staticmethod(rev)
    reshape = staticmethod(reshape)

    @staticmethod
    def pad(array: Any, configuration: Sequence[tuple[int, int, int]]) -> Any:
        """Padded with False."""
        return pad(array, full((), False, np.bool_), configuration)


class NumPyMovements:
    """The same movements of NumPy arrays."""

    reshape = staticmethod(np.reshape)
    rev = staticmethod(np.flip)

    @staticmethod
    def slice(array: np.ndarray, starts: Ints, limits: Ints, steps: Ints) -> np.ndarray:
        return array[tuple(map(builtins.slice, starts, limits, steps))]

    @staticmethod
    def pad(array: np.ndarray, configuration: Sequence[tuple[int, int, int]]) -> np.ndarray:
        """Padded with False."""
        for d, (low, high, interior) in enumerate(configuration):
            size: int = array.shape[d]
            # Where each element goes; those beyond the edges are removed.
            at: Any = np.arange(size) * (1 + interior) + low
            n = low + high + size + max(size - 1, 0) * interior
            is_kept: NDArray[Any] = np.logical_and(at >= 0, at < n)
            padded = np.zeros((*array.shape[:d], n, *array.shape[d + 1 :]), bool)
            before = (builtins.slice(None),) * d
            padded[(*before, at[is_kept])] = array[(*before, is_kept)]
            array = padded
        return array


def regroup(
    part: Part, groups: Sequence[Group], primitive: Primitive, aval: Any, shape: Ints, params: Any
) -> Part:
    """`part` after a movement of its dimensions, with those that others of their group bring."""
    touched = [group for group in groups if not {*part.dims}.isdisjoint(group.old)]
    if all(group.is_same and group.new for group in touched):
        return moved_part(part, {g.old[0]: g.new[0] for g in touched})
    old = sorted([d for group in touched for d in group.old])
    new = sorted([d for group in touched for d in group.new])

    def apply(array: Any, of: Any) -> Any:
        """The movement along these dimensions, by `of`: NumPy or operations of the program."""
        if primitive.name == "slice":
            starts, limits = params.start_indices, params.limit_indices
            steps = params.strides or [1] * len(starts)
            return of.slice(array, *([x[d] for d in old] for x in (starts, limits, steps)))
        if primitive.name == "rev":
            return of.rev(array, [i for i, d in enumerate(old) if d in params.dimensions])
        if primitive.name == "pad":
            return of.pad(array, [params.padding_config[d] for d in old])
        return of.reshape(array, [shape[d] for d in new])

    known = None
    if part.known is not None:
        repeated = np.expand_dims(part.known, [i for i, d in enumerate(old) if d not in part.dims])
        known = apply(np.broadcast_to(repeated, [aval.shape[d] for d in old]), NumPyMovements)
    make = lambda: Part(
        lambda: apply(spread(part, old, aval.shape), TracedMovements),
        new,
        known,
        is_by_value=part.is_by_value,
    )
    return part.once((primitive.name, params, aval.shape), make)
