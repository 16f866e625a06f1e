"""The on-disk cache of executables under the name of `jax.experimental.compilation_cache`."""

from pellucid.experimental.compilation_cache import compilation_cache as compilation_cache
