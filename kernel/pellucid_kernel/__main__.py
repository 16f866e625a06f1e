"""Starts the kernel, as its kernelspec does: `python -m pellucid_kernel -f connection_file`."""

import importlib
import os
from collections.abc import Mapping

import platformdirs
from ipykernel.kernelapp import IPKernelApp

from pellucid_kernel.kernel import PellucidKernel

NUM_CPU_DEVICES = "8"
"""Default number of virtual CPU devices: with only one, meshes and shardings couldn't be explored."""


def cache_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that enable the disk cache of executables, in the user's cache folder.

    Empty if `environment` already sets a cache folder; an empty setting there disables the cache.
    """
    if any(f"{prefix}_COMPILATION_CACHE_DIR" in environment for prefix in ("PELLUCID", "JAX")):
        return {}
    options = {
        "COMPILATION_CACHE_DIR": platformdirs.user_cache_dir("pellucid", appauthor=False),
        "COMPILATION_CACHE_MAX_SIZE": str(2 << 30),
        "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    return {
        f"PELLUCID_{name}": value
        for name, value in options.items()
        if f"JAX_{name}" not in environment and f"PELLUCID_{name}" not in environment
    }


def main() -> None:
    """Runs the kernel until it is shut down."""
    # Read when the first client is created, so it must be set before any cell runs.
    os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", NUM_CPU_DEVICES)
    os.environ.update(cache_options(os.environ))
    if os.environ.get("PELLUCID_AS_JAX", "0") not in ("", "0"):
        importlib.import_module("pellucid.as_jax").install()
    IPKernelApp.launch_instance(kernel_class=PellucidKernel)


if __name__ == "__main__":
    main()
