"""Compile the kernels of `tpu_kernels` for a TPU that isn't there: a program of its own, since a compiler may end its process."""

import os
import sys

os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}

import pellucid as pl
from pellucid._machine.xla.compile import compile_only, compile_options
from pellucid._machine.xla.plugins import topology_devices
from pellucid.kernels.targets import tpu_chip
from tests.core.kernels.tpu_kernels import KERNELS


def main(chip: str) -> None:
    """Print one line for each kernel."""
    [device, *_] = topology_devices("tpu", tpu_chip(chip).topology, {})
    for name, make in KERNELS.items():
        function, args = make()
        module = pl.jit(function).trace(*args).lower(lowering_platforms=("tpu",)).compiler_ir()
        try:
            compile_only(module, [device], compile_options([device]))
        except RuntimeError as error:
            print(f"failed {name}: {str(error).splitlines()[:3]}", flush=True)
        else:
            print(f"ok {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
