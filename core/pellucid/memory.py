"""Memory spaces under the names of `jax.memory`."""

from pellucid.sharding.memory import MemorySpace as Space

__all__ = ["Space"]
