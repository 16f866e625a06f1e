"""Starts the kernel: `python -m pellucid_kernel -f connection_file`, as its kernelspec says."""

import importlib
import os

from ipykernel.kernelapp import IPKernelApp

from pellucid_kernel.kernel import PellucidKernel

NUM_CPU_DEVICES = "8"
"""A laptop has one CPU device; meshes and shardings can be explored only with several."""


def main() -> None:
    """Run the kernel until it is shut down."""
    # Read when the first client is created, so it must be set before any cell runs.
    os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", NUM_CPU_DEVICES)
    if os.environ.get("PELLUCID_AS_JAX", "0") not in ("", "0"):
        importlib.import_module("pellucid.as_jax").install()
    IPKernelApp.launch_instance(kernel_class=PellucidKernel)


if __name__ == "__main__":
    main()
