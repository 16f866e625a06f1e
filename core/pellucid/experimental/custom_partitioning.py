"""Functions with partitions of their own under the names of `jax.experimental.custom_partitioning`."""

from pellucid._machine.parallel.custom_partitioning import (
    custom_partitioning as custom_partitioning,
    custom_partitioning_p as custom_partitioning_p,
)
from pellucid._machine.sharding.sharding_rule import (
    BATCHING as BATCHING,
    ArrayMapping as ArrayMapping,
    CompoundFactor as CompoundFactor,
    SdyShardingRule as SdyShardingRule,
)
