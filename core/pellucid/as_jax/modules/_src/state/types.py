"""Types of references as `jax._src.state.types`."""

from pellucid.ir.avals import AbstractRef

__all__ = ["AbstractRef"]
