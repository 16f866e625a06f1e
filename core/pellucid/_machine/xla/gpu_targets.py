"""Descriptions of GPUs, from which XLA can compile for them without having one.

The figures are from NVIDIA's data sheets and its tables of compute capabilities 8.0 and 9.0.
"""

from __future__ import annotations

from typing import NamedTuple


class GpuFacts(NamedTuple):
    """What decides which operations of cuDNN a GPU has: its compute capability, and the version of cuDNN, None if unknown."""

    compute_capability: tuple[int, int]
    cudnn_version: tuple[int, int, int] | None


class GpuTarget(NamedTuple):
    """Properties of a GPU that affect compilation."""

    description: str
    compute_capability: int
    cores: int
    fpus_per_core: int
    shared_memory_per_core: int
    clock_ghz: float
    l2_cache_size: int
    memory_bandwidth: int
    memory_size: int

    @property
    def facts(self) -> GpuFacts:
        """The facts that its text states."""
        return GpuFacts((self.compute_capability, 0), (*_CUDNN_VERSION, 0))

    @property
    def text(self) -> str:
        """XLA's target configuration, as text."""
        # A block may use all of a core's shared memory except 1 KiB reserved by the system.
        return f"""gpu_device_info {{
  cuda_compute_capability {{ major: {self.compute_capability} }}
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {self.shared_memory_per_core - 1024}
  shared_memory_per_core: {self.shared_memory_per_core}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  core_count: {self.cores}
  fpus_per_core: {self.fpus_per_core}
  clock_rate_ghz: {self.clock_ghz}
  l2_cache_size: {self.l2_cache_size}
  memory_bandwidth: {self.memory_bandwidth}
  device_memory_size: {self.memory_size}
}}
platform_name: "CUDA"
dnn_version_info {{ major: {_CUDNN_VERSION[0]} minor: {_CUDNN_VERSION[1]} }}
device_description_str: "{self.description}"
"""


_CUDNN_VERSION = (9, 8)
"""The version of cuDNN that programs are compiled for where there is no GPU."""
_MIB, _GB = 1 << 20, 10**9
GPU_TARGETS = {
    "A100": GpuTarget(
        "NVIDIA A100-SXM4-80GB", 8, 108, 64, 167936, 1.41, 40 * _MIB, 2039 * _GB, 80 * _GB
    ),
    "H100": GpuTarget(
        "NVIDIA H100 80GB HBM3", 9, 132, 128, 233472, 1.98, 50 * _MIB, 3352 * _GB, 80 * _GB
    ),
    "H200": GpuTarget("NVIDIA H200", 9, 132, 128, 233472, 1.98, 50 * _MIB, 4800 * _GB, 141 * _GB),
}
"""Targets by a word in their device kind."""


def gpu_target(device_kind: str) -> GpuTarget | None:
    """The GPU target of a device kind; None if it isn't in the table.

    >>> gpu_target("NVIDIA H100 80GB HBM3").cores
    132
    """
    return next((t for name, t in GPU_TARGETS.items() if name in device_kind), None)
