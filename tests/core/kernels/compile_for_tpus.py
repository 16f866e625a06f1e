"""Compile the kernels of `tpu_kernels` for a TPU that isn't there: a program of its own, since a compiler may end its process."""

import sys
from typing import Any

import numpy as np

import pellucid as pl
from pellucid._machine.xla.compile import compile_only, compile_options
from pellucid._machine.xla.plugins import topology_devices
from pellucid.kernels.targets import tpu_chip
from tests.core.kernels.tpu_kernels import KERNELS, OPERATIONS, random_bits, random_numbers, ring

LACKING = {("v4", "strided_rotation"), ("v4", "flash_attention_back"), ("v4", "gathers")}
"""What a chip doesn't have."""


def main(chip: str) -> None:
    """Print one line for each kernel."""
    devices = topology_devices("tpu", tpu_chip(chip).topology, {})
    for name, make in (KERNELS | OPERATIONS).items():
        if (chip, name) in LACKING:
            continue
        compile_for(devices[:1], name, *make())
    compile_for(devices[:1], "random_bits", *random_bits())
    compile_for(devices[:1], "random_numbers", *random_numbers())
    mesh = pl.sharding.Mesh(np.array(devices), ("x",))
    x = pl.ShapeDtypeStruct((8 * len(devices), 128), np.float32)
    compile_for(devices, "ring", ring(mesh), [x])


def compile_for(devices: list[Any], name: str, function: Any, args: Any) -> None:
    """Compile a function for some devices, and print how that ended."""
    module = pl.jit(function).trace(*args).lower(lowering_platforms=("tpu",)).compiler_ir()
    try:
        options = compile_options(devices, is_partitioned=len(devices) > 1)
        compile_only(module, devices, options)
    except RuntimeError as error:
        print(f"failed {name}: {str(error).splitlines()[:3]}", flush=True)
    else:
        print(f"ok {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
