"""Callbacks of XLA's partitioner, by which Python partitions a custom operation."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxlib import _hlo, _jax

from .shardings import HloSharding

TARGET = "CustomSPMDPartitioning"
"""Target of the custom call whose `backend_config` is the key of a Partition."""


class PartitionedValue(NamedTuple):
    """An operand or result as seen by the partitioner: the global type, and its sharding."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sharding: HloSharding

    def part(self) -> tuple[int, ...]:
        """The shape of one device's part. Uneven parts are padded to equal size."""
        whole = _hlo.Shape.array_shape(self.dtype, self.shape)
        return tuple(self.sharding.tile(whole).dimensions())


class Partition(Protocol):
    """Callback that partitions an operation."""

    def __call__(
        self, operands: Sequence[PartitionedValue], results: Sequence[PartitionedValue]
    ) -> tuple[bytes, list[HloSharding], list[HloSharding]]:
        """(MLIR bytecode of the program of one part, shardings of the operands, shardings of the results)."""
        ...


_partitions: weakref.WeakValueDictionary[bytes, Partition] = weakref.WeakValueDictionary()


def key_of(partition: Partition) -> str:
    """The key of `partition`, which must stay alive until the operation is compiled."""
    register()
    key = str(id(partition))
    _partitions[key.encode()] = partition
    return key


@functools.cache
def register(interface: Any = None) -> None:
    """Registers the callbacks with XLA, or with the XLA of the plugin with this C interface."""
    _jax.register_custom_call_partitioner(
        TARGET, _never, _partition, _never, can_side_effecting_have_replicated_sharding=True,
        c_api=interface,
    )  # fmt: skip


def _never(*arguments: Any) -> Any:
    raise RuntimeError("Shardy propagates shardings by the operation's rule")


def _partition(
    operand_shapes: Sequence[Any],
    operand_shardings: Sequence[HloSharding],
    result_shape: Any,
    result_sharding: HloSharding,
    key: bytes,
) -> tuple[bytes, list[HloSharding], HloSharding]:
    is_tuple = result_shape.is_tuple()
    shapes = result_shape.tuple_shapes() if is_tuple else [result_shape]
    shardings = result_sharding.tuple_elements() if is_tuple else [result_sharding]
    program, operands, results = _partitions[key](
        _values(operand_shapes, operand_shardings), _values(shapes, shardings)
    )
    if not is_tuple:
        return program, operands, results[0]
    return program, operands, HloSharding.tuple_sharding(result_shape, results)


def _values(shapes: Sequence[Any], shardings: Sequence[HloSharding]) -> list[PartitionedValue]:
    return [
        PartitionedValue(tuple(shape.dimensions()), np.dtype(shape.numpy_dtype()), sharding)
        for shape, sharding in zip(shapes, shardings, strict=True)
    ]
