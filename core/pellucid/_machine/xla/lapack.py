"""LAPACK routines called by programs for CPUs, and batch axes of GPU solver calls."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from jaxlib import _jax


@functools.cache
def register() -> None:
    """Registers jaxlib's LAPACK routines with the CPU compiler, and loads SciPy's LAPACK library for them."""
    lapack = importlib.import_module("jaxlib.lapack")
    for name, function, api_version in lapack.registrations()["cpu"]:
        _jax.register_custom_call_target(name, function, "cpu", api_version, 0)
    for name in lapack.batch_partitionable_targets():
        _jax.register_custom_call_as_batch_partitionable(name)
    lapack._lapack.initialize()


def register_gpu_batches(interface: Any) -> None:
    """Lets the XLA of the plugin with this C interface shard calls of GPU solvers along their batch axes."""
    for module in ("gpu_solver", "gpu_linalg", "gpu_sparse"):
        targets = importlib.import_module(f"jaxlib.{module}").batch_partitionable_targets()
        for name in targets:
            _jax.register_custom_call_as_batch_partitionable(name, c_api=interface)
