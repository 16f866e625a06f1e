"""Arrays of extended dtypes as `jax._src.earray`."""

from pellucid.runtime.extended import ExtendedArray as EArray

__all__ = ["EArray"]
