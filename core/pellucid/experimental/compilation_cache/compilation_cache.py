"""The folder of the on-disk cache of executables, and the cache as it is in this process."""

from pellucid._machine.compilation.disk_cache import (
    is_initialized as is_initialized,
    reset_cache as reset_cache,
    set_cache_dir as set_cache_dir,
)
