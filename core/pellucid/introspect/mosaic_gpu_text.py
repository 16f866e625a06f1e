"""The kernels of a program as text in Mosaic's form for Hopper GPUs; no GPU is needed."""

from __future__ import annotations

from typing import NamedTuple

from pellucid._machine.base import Function, UnsupportedError, describe
from pellucid._machine.base.errors import CompilationError
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid._machine.xla.mosaic_gpu import Buffer, Serialized, compiled, serialized
from pellucid._machine.xla.plugins import Assembly, PluginMissingError
from pellucid._machine.xla.ptxas import Resources, resources_of
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.lowering.launches import beginnings
from pellucid.kernels.mosaic_gpu.module import lowered
from pellucid.kernels.programs import GridKernel

from .bodies import programs_within

__all__ = ["MosaicGpuText", "Resources", "mosaic_gpu_text", "mosaic_gpu_texts"]
_WARP = 32


class MosaicGpuText(NamedTuple):
    """A kernel in Mosaic's form, with its launch parameters."""

    name: str
    text: str
    grid: tuple[int, int, int]
    """Number of blocks along each of the device's three grid axes."""
    threads: int
    """Threads of a block."""
    shared_bytes: int
    """Bytes of shared memory of a block."""
    module: Serialized
    """The module as XLA takes it."""
    buffers: tuple[Buffer, ...]
    """Shape and dtype of each array that it is given."""

    def assembly(self) -> Assembly:
        """The kernel as PTX for an H100, with the shared memory in bytes of a block; no GPU is needed.

        Raises: UnsupportedError if no compiler is installed; CompilationError if it can't compile the kernel.
        """
        return Assembly(self._compiled()[0], self.shared_bytes)

    def resources(self) -> Resources:
        """Registers, spilled bytes and shared memory of the kernel on an H100, and how many of its blocks run at once on a multiprocessor
        there; no GPU is needed.

        Raises: UnsupportedError if no compiler is installed; CompilationError if it can't compile the kernel.
        """
        report = self._compiled()[1]
        return resources_of(report, "sm_90a", self.shared_bytes, self.threads // _WARP)

    def _compiled(self) -> tuple[str, str]:
        try:
            return compiled(self.module, self.buffers)
        except PluginMissingError as error:
            raise UnsupportedError(
                f"the kernel `{self.name}` can't be compiled: {error}."
            ) from error
        except RuntimeError as error:
            raise CompilationError(
                f"the kernel `{self.name}` can't be compiled for an H100.",
                got=str(error).splitlines()[:10],
            ) from error


def mosaic_gpu_text(kernel: GridKernel, line: str | None = None) -> MosaicGpuText:
    """A kernel over a grid in Mosaic's form; `line` is the user's that calls it, for messages.

    Raises: UnsupportedError for a kernel that can't be lowered to Hopper GPUs.
    """
    made = lowered(kernel, line)
    begun = [kernel.inputs[i] for i in beginnings(kernel)]
    avals = [m.aval for m in (*kernel.inputs, *begun, *kernel.results)]
    buffers = tuple([Buffer(a.shape, a.dtype) for a in avals])
    return MosaicGpuText(
        made.name,
        made.text,
        made.grid,
        made.threads,
        made.shared_bytes,
        serialized(made.module),
        buffers,
    )


def mosaic_gpu_texts(function: Function, *args: object) -> list[MosaicGpuText]:
    """The kernels that `function` calls for arguments of these types, in program order.

    Raises: UnsupportedError for kernels that can't be lowered to Hopper GPUs, and for derivatives and batches of kernels.

    >>> import numpy as np
    >>> from pellucid.experimental import pallas
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x = np.zeros(8, np.float32)
    >>> [found] = mosaic_gpu_texts(pallas.pallas_call(double, x), x)
    >>> "func.func @double_mosaic_gpu" in found.text
    True
    """
    program = make_jaxpr(function)(*args).jaxpr
    found: list[MosaicGpuText] = []
    for jaxpr in programs_within(program):
        for equation in jaxpr.equations:
            if equation.primitive is pallas_call_p:
                if not (equation.params.is_own or equation.params.waits):
                    raise UnsupportedError(
                        f"the kernel `{equation.params.name}` isn't lowered to Mosaic GPU here: its derivatives and batches run as plain programs.",
                        do="Ask for the kernel itself.",
                    )
                found.append(mosaic_gpu_text(equation.params.kernel, describe(equation.source)))
    return found
