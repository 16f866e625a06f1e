"""The on-disk cache of executables: its folder, its reset, and whether it is initialized."""

from pellucid._machine.compilation.disk_cache import (
    is_initialized as is_initialized,
    reset_cache as reset_cache,
    set_cache_dir as set_cache_dir,
)
