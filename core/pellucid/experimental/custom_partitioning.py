"""Functions with partitions of their own under the names of `jax.experimental.custom_partitioning`."""

from pellucid.parallel.custom_partitioning import (
    custom_partitioning as custom_partitioning,
    custom_partitioning_p as custom_partitioning_p,
)
from pellucid.sharding.sharding_rule import (
    BATCHING as BATCHING,
    ArrayMapping as ArrayMapping,
    CompoundFactor as CompoundFactor,
    SdyShardingRule as SdyShardingRule,
)
