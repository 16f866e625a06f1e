"""Arrays shared with other libraries, under the names of `jax.dlpack`."""

from pellucid.runtime.interchange import from_dlpack, is_supported_dtype

__all__ = ["from_dlpack", "is_supported_dtype"]
