"""Joining processes into one job, under the names of `jax.distributed`; barriers and a key-value store."""

from pellucid._machine.runtime.distributed.coordination import KeyValueStore as KeyValueStore
from pellucid._machine.runtime.distributed.initialize import (
    barrier as barrier,
    initialize as initialize,
    is_initialized as is_initialized,
    key_value_store as key_value_store,
    report_error as report_error,
    shutdown as shutdown,
)
