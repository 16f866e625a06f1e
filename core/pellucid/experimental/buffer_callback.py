"""Calls of Python functions on buffers, under the names of `jax.experimental.buffer_callback`."""

from pellucid._machine.callbacks.buffer import buffer_callback as buffer_callback
from pellucid._machine.xla.ffi_targets import (
    Buffer as Buffer,
    ExecutionContext as ExecutionContext,
    ExecutionStage as ExecutionStage,
)
