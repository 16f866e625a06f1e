"""Kinds of memory under the name of `jax.memory`."""

from pellucid.sharding.memory import MemorySpace as Space
