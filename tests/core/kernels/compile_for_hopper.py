"""Compile the kernels of `hopper_kernels` for an H100 that isn't there: a program of its own, since the compiler reads variables of its environment.

Of each kernel it prints one line of JSON: how compiling ended, and what the assembly and the assembler say of it. With the argument `topology` it prints one of a program that is lowered and compiled as users do.
"""

import json
import pathlib
import sys
from typing import Any

import pellucid as pl
from pellucid._machine.xla.compile import compile_only, compile_options
from pellucid._machine.xla.gpu_targets import GPU_TARGETS
from pellucid._machine.xla.mlir import module_of_artifact, new_context
from pellucid._machine.xla.plugins import topology_devices
from pellucid.experimental import topologies
from pellucid.sharding import SingleDeviceSharding
from tests.core.kernels.hopper_kernels import KERNELS, PRODUCTS
from tests.core.kernels.hopper_operations import OPERATIONS
from tests.core.kernels.hopper_threads import THREADS


def main(folder: pathlib.Path) -> None:
    """Print one line for each kernel; those that the command names, or all; `folder` is where the compiler leaves files."""
    options = {"target_config": GPU_TARGETS["H100"].text, "topology": "1x1x1"}
    devices = topology_devices("cuda", "", options)
    chosen = sys.argv[2:] or [*KERNELS, *PRODUCTS, *THREADS, *OPERATIONS]
    for name in chosen:
        make = (KERNELS | PRODUCTS | THREADS | OPERATIONS)[name]
        print(json.dumps({"name": name, **compiled(devices[:1], folder, *make())}), flush=True)


def compiled(devices: list[Any], folder: pathlib.Path, function: Any, args: Any) -> dict[str, Any]:
    """What compiling a function leaves."""
    # Exported programs have no checks of what fails while they run, for which the host would be called.
    exported = pl.export.export(pl.jit(function), platforms=["cuda"])(*args)
    before = {*folder.iterdir()}
    try:
        module = module_of_artifact(exported.mlir_module_serialized, new_context())
        compile_only(module, devices, compile_options(devices, is_partitioned=False))
    except RuntimeError as error:
        return {"error": str(error)[:2000]}
    new = sorted({*folder.iterdir()} - before)
    texts = {path.suffix: path.read_text() for path in new if path.suffix in (".ptx", ".ptxas")}
    return {"assembly": texts[".ptx"], "report": texts[".ptxas"]}


def lowered_for_topology() -> dict[str, Any]:
    """What `lower().compile()` leaves of a kernel whose waits may fail, for which programs call the host."""
    described = topologies.get_topology_desc(
        "topology", "cuda", target_config=GPU_TARGETS["H100"].text, topology="1x1x1"
    )
    function, args = KERNELS["copies"]()
    place = SingleDeviceSharding(described.devices[0])
    lowered = pl.jit(function, in_shardings=place).lower(*args)
    lowered.compile()
    text = lowered.as_text()
    return {"targets": [x for x in ("mosaic_gpu_v2", "xla_ffi_python_gpu_callback") if x in text]}


if __name__ == "__main__":
    if sys.argv[2:] == ["topology"]:
        print(json.dumps(lowered_for_topology()))
        sys.exit()
    main(pathlib.Path(sys.argv[1]))
