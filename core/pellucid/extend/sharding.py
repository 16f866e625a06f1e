"""Shardings of the compiler, under the names of `jax.extend.sharding`."""

from __future__ import annotations

from pellucid._machine.xla.shardings import (
    GSPMDSharding as GSPMDSharding,
    HloSharding,
    OpSharding,
    bytes_of_hlo_sharding,
    hlo_sharding_of_bytes,
    op_sharding_of_bytes,
)


def get_serialized_proto_from_hlo_sharding(sharding: HloSharding) -> bytes:
    """The serialized form of a sharding of the compiler.

    >>> from pellucid._machine.xla.shardings import HloSharding
    >>> get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
    b''
    """
    return bytes_of_hlo_sharding(sharding)


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> HloSharding:
    """The sharding of the compiler that `get_serialized_proto_from_hlo_sharding` wrote.

    >>> get_hlo_sharding_from_serialized_proto(b"").is_replicated()
    True
    """
    return hlo_sharding_of_bytes(sharding)


def get_op_sharding_from_serialized_proto(sharding: bytes) -> OpSharding:
    """The message of the compiler that `get_serialized_proto_from_hlo_sharding` wrote.

    >>> get_op_sharding_from_serialized_proto(b"").type.name
    'REPLICATED'
    """
    return op_sharding_of_bytes(sharding)


__all__ = [
    "GSPMDSharding",
    "get_hlo_sharding_from_serialized_proto",
    "get_op_sharding_from_serialized_proto",
    "get_serialized_proto_from_hlo_sharding",
]
