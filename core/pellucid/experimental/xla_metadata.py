"""Metadata of operations under the name of `jax.experimental.xla_metadata`."""

from pellucid.primitives.metadata import set_xla_metadata

__all__ = ["set_xla_metadata"]
