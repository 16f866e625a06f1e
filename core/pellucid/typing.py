"""Types for annotations under the names of `jax.typing`."""

from pellucid.base.typing import ArrayLike, DTypeLike

__all__ = ["ArrayLike", "DTypeLike"]
