"""Kinds of memory under the name of `jax.memory`."""

from pellucid._machine.sharding.memory import MemorySpace as Space
