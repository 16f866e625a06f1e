"""Resources of a GPU program: registers, spills and shared memory, as NVIDIA's assembler `ptxas` reports them without a GPU."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

from .plugins import Assembly, PluginMissingError, file_of


class _Core(NamedTuple):
    """Limits of one multiprocessor: warps and blocks of threads that are there at once, bytes of shared memory."""

    warps: int
    blocks: int
    shared_bytes: int


# By compute capability, from the table of technical specifications in NVIDIA's CUDA programming guide.
_CORES = {
    "7.5": _Core(32, 16, 64 << 10), "8.0": _Core(64, 32, 164 << 10), "8.6": _Core(48, 16, 100 << 10),
    "8.9": _Core(48, 24, 100 << 10), "9.0": _Core(64, 32, 228 << 10), "10.0": _Core(64, 32, 228 << 10),
    "12.0": _Core(48, 24, 100 << 10),
}  # fmt: skip
_REGISTERS = 65536
"""Registers of 32 bits that a multiprocessor has; a warp gets them 256 at a time."""
_RESERVED = 1024
"""Bytes of shared memory that the system takes for each block of threads, from compute capability 8.0 on."""


class Resources(NamedTuple):
    """Resources that one program of a kernel needs, and the number of programs that fit on a multiprocessor of the GPU."""

    registers: int
    """Registers of 32 bits for each thread."""
    spilled_bytes: int
    """Bytes for each thread that are written to memory for lack of registers, and read back."""
    stack_bytes: int
    """Bytes for each thread of arrays and spilled registers in its local memory."""
    shared_bytes: int
    """Bytes of shared memory for each program."""
    num_warps: int
    """Warps of 32 threads of one program."""
    programs_at_once: int | None
    """Programs that fit on a multiprocessor at once; None for a compute capability that isn't in the table."""
    occupancy: float | None
    """The warps of these programs, as a share of those that a multiprocessor holds."""


def ptxas() -> pathlib.Path | None:
    """The assembler: that of the wheel `nvidia-cuda-nvcc`, or the one on the path; None if there is none."""
    installed = file_of("nvidia-cuda-nvcc", "bin/ptxas")
    on_path = shutil.which("ptxas")
    return installed or (None if on_path is None else pathlib.Path(on_path))


def resources(assembly: Assembly, num_warps: int) -> Resources:
    """The resources that a program in PTX, of `num_warps` warps, needs.

    Raises: PluginMissingError without `ptxas`; RuntimeError if it refuses the program.
    """
    program = ptxas()
    if program is None:
        raise PluginMissingError(
            "no assembler of GPU programs is installed (pip install nvidia-cuda-nvcc)"
        )
    target = re.search(r"^\.target\s+(\w+)", assembly.text, re.MULTILINE)
    architecture = "sm_90" if target is None else target[1]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "kernel.ptx")
        source.write_text(assembly.text, encoding="utf-8")
        command = [program, "-v", "-arch", architecture, "-o", source.with_suffix(".cubin"), source]
        done = subprocess.run(  # noqa: S603  # the assembler that is installed
            command, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"ptxas refuses the program: {done.stderr.strip()[:400]}")
    return resources_of(done.stderr, architecture, assembly.shared_bytes, num_warps)


def resources_of(report: str, architecture: str, shared_bytes: int, num_warps: int) -> Resources:
    r"""The resources in what `ptxas -v` reports for an architecture such as "sm_90a".

    >>> report = "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\nUsed 40 registers"
    >>> found = resources_of(report, "sm_90a", 0, 4)
    >>> found.registers, found.spilled_bytes, found.programs_at_once, found.occupancy
    (40, 4, 12, 0.75)
    """

    def number(pattern: str) -> int:
        return max([int(n) for n in re.findall(pattern, report)], default=0)

    registers = number(r"Used (\d+) registers")
    spilled, stack = number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes stack frame")
    digits = re.sub(r"\D", "", architecture)
    core = _CORES.get(f"{digits[:-1]}.{digits[-1:]}")
    if core is None:
        return Resources(registers, spilled, stack, shared_bytes, num_warps, None, None)
    of_warp = -(-max(registers, 1) * 32 // 256) * 256
    # Each of a multiprocessor's four parts has a quarter of the registers, and whole warps.
    warps = min(core.warps, _REGISTERS // 4 // of_warp * 4)
    reserved = _RESERVED if core.shared_bytes > 64 << 10 else 0
    of_block = -(-(shared_bytes + reserved) // 128) * 128
    by_shared = core.shared_bytes // of_block if of_block else core.blocks
    at_once = min(core.blocks, warps // num_warps, by_shared)
    return Resources(
        registers,
        spilled,
        stack,
        shared_bytes,
        num_warps,
        at_once,
        at_once * num_warps / core.warps,
    )
