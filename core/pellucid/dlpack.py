"""Arrays shared with other libraries, under the names of `jax.dlpack`."""

from pellucid._machine.runtime.interchange import (
    from_dlpack as from_dlpack,
    is_supported_dtype as is_supported_dtype,
)
