"""Metadata of operations under the name of `jax.experimental.xla_metadata`."""

from pellucid.primitives.metadata import set_xla_metadata as set_xla_metadata
