"""The kernels of a program as text in Triton's MLIR dialect; no GPU is needed."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import Function, UnsupportedError
from pellucid._machine.base.errors import CompilationError
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid._machine.xla.mlir import bytecode
from pellucid._machine.xla.plugins import Assembly, PluginMissingError, triton_assembly
from pellucid._machine.xla.ptxas import Resources, resources
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.triton.call import lowered

from .bodies import programs_within

__all__ = ["Resources", "TritonText", "triton_text", "triton_texts"]


class TritonText(NamedTuple):
    """A kernel in Triton's MLIR dialect, with its launch parameters."""

    name: str
    text: str
    grid: tuple[int, int, int]
    """Number of programs along each of the device's three grid axes."""
    num_warps: int
    num_stages: int
    bytecode: bytes
    """The module as MLIR bytecode, readable by the same release of jaxlib."""

    def assembly(self, architecture: str = "9.0") -> Assembly:
        """The kernel as PTX for an architecture, with the shared memory in bytes per program; no GPU is needed.

        Raises: UnsupportedError if no compiler is installed; CompilationError if it can't compile the kernel.
        """
        try:
            return triton_assembly(self.bytecode, architecture, self.num_warps, self.num_stages)
        except (PluginMissingError, RuntimeError) as error:
            raise self._failure(architecture, error) from error

    def resources(self, architecture: str = "9.0") -> Resources:
        """Registers, spilled bytes and shared memory of the kernel on an architecture, and how many of its programs run at once
        on a multiprocessor there; no GPU is needed.

        Raises: UnsupportedError if no compiler or no assembler is installed; CompilationError if they can't compile the kernel.
        """
        return self.resources_of(self.assembly(architecture), architecture)

    def resources_of(self, code: Assembly, architecture: str) -> Resources:
        """`resources` of the kernel's PTX for the architecture."""
        try:
            return resources(code, self.num_warps)
        except (PluginMissingError, RuntimeError) as error:
            raise self._failure(architecture, error) from error

    def _failure(self, architecture: str, error: Exception) -> Exception:
        if isinstance(error, PluginMissingError):
            return UnsupportedError(f"the kernel `{self.name}` can't be compiled: {error}.")
        return CompilationError(
            f"the kernel `{self.name}` can't be compiled for {architecture}.",
            got=str(error).splitlines()[:10],
        )


def triton_text(kernel: GridKernel) -> TritonText:
    """A kernel over a grid in Triton's dialect.

    Raises: UnsupportedError for a kernel that can't be lowered to Triton.
    """
    made = lowered(kernel)
    return TritonText(made.name, made.text, *made[2:], bytecode(made.module))


def triton_texts(function: Function, *args: Any) -> list[TritonText]:
    """The kernels that `function` calls for arguments of these types, in program order.

    What derivatives make of a kernel is a program of XLA's, without a text here. Raises: UnsupportedError for kernels that can't be
    lowered to Triton, and for batches of kernels, which run as such programs, too.

    >>> from pellucid.experimental import pallas
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x = np.zeros(8, np.float32)
    >>> [found] = triton_texts(pallas.pallas_call(double, x), x)
    >>> print(found.text)
    module {
      tt.func public @double(...
    """
    program = make_jaxpr(function)(*args).jaxpr
    found: list[TritonText] = []
    for jaxpr in programs_within(program):
        for equation in jaxpr.equations:
            if equation.primitive is pallas_call_p:
                if not equation.params.is_own:
                    raise UnsupportedError(
                        f"the kernel `{equation.params.name}` isn't lowered to Triton here: its derivatives and batches run as plain programs.",
                        do="Ask for the kernel itself.",
                    )
                found.append(triton_text(equation.params.kernel))
    return found
