"""Joining processes into one job, under the names of `jax.distributed`; barriers and a key-value store."""

from pellucid.runtime.distributed.coordination import KeyValueStore
from pellucid.runtime.distributed.initialize import (
    barrier,
    initialize,
    is_initialized,
    key_value_store,
    report_error,
    shutdown,
)

__all__ = [
    "KeyValueStore",
    "barrier",
    "initialize",
    "is_initialized",
    "key_value_store",
    "report_error",
    "shutdown",
]
