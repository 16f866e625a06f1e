"""Starts the kernel: `python -m pellucid_kernel -f connection_file`, as its kernelspec says."""

import importlib
import os
from collections.abc import Mapping

import platformdirs
from ipykernel.kernelapp import IPKernelApp

from pellucid_kernel.kernel import PellucidKernel

NUM_CPU_DEVICES = "8"
"""A laptop has one CPU device; meshes and shardings can be explored only with several."""


def cache_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that let the kernel keep its executables on disk, in the user's folder of caches.

    Empty where `environment` has a folder, or an empty one, which turns the cache off.
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
    """Run the kernel until it is shut down."""
    # Read when the first client is created, so it must be set before any cell runs.
    os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", NUM_CPU_DEVICES)
    os.environ.update(cache_options(os.environ))
    if os.environ.get("PELLUCID_AS_JAX", "0") not in ("", "0"):
        importlib.import_module("pellucid.as_jax").install()
    IPKernelApp.launch_instance(kernel_class=PellucidKernel)


if __name__ == "__main__":
    main()
