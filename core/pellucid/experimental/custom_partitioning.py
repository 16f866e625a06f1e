"""Functions with partitions of their own under the names of `jax.experimental.custom_partitioning`."""

from pellucid.parallel.custom_partitioning import custom_partitioning, custom_partitioning_p
from pellucid.sharding.sharding_rule import BATCHING, ArrayMapping, CompoundFactor, SdyShardingRule

__all__ = [
    "BATCHING",
    "ArrayMapping",
    "CompoundFactor",
    "SdyShardingRule",
    "custom_partitioning",
    "custom_partitioning_p",
]
