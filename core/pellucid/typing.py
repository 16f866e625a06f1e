"""Types for annotations under the names of `jax.typing`."""

from pellucid._machine.base.typing import ArrayLike as ArrayLike, DTypeLike as DTypeLike
