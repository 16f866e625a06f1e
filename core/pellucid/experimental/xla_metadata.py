"""Metadata of operations under the name of `jax.experimental.xla_metadata`."""

from pellucid._machine.primitives.staging import set_xla_metadata as set_xla_metadata
