"""Kernels of a program as text in Triton's dialect, which needs no GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import Function, UnsupportedError
from pellucid._machine.base.errors import CompilationError
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid._machine.xla import JaxRuntimeError
from pellucid._machine.xla.mlir import bytecode
from pellucid._machine.xla.plugins import Assembly, PluginMissingError, triton_assembly
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.triton_call import lowered

from .bodies import programs_within

__all__ = ["TritonText", "triton_texts"]


class TritonText(NamedTuple):
    """A kernel in Triton's dialect, and how it is launched."""

    name: str
    text: str
    grid: tuple[int, int, int]
    """Programs along the axes of the device."""
    num_warps: int
    num_stages: int
    bytecode: bytes
    """The module as MLIR bytecode, which the same release of jaxlib reads."""

    def assembly(self, architecture: str = "9.0") -> Assembly:
        """The kernel as PTX for an architecture, with the bytes of shared memory of a program; it needs no GPU.

        Raises: UnsupportedError where no compiler is installed; CompilationError for a kernel that it can't compile.
        """
        try:
            return triton_assembly(self.bytecode, architecture, self.num_warps, self.num_stages)
        except PluginMissingError as error:
            raise UnsupportedError(
                f"the kernel `{self.name}` can't be compiled: {error}."
            ) from None
        except JaxRuntimeError as error:
            raise CompilationError(
                f"the kernel `{self.name}` can't be compiled for {architecture}.",
                got=str(error).splitlines()[:10],
            ) from error


def triton_texts(function: Function, *args: Any) -> list[TritonText]:
    """The kernels that `function` calls for arguments of these types, in the order of the program.

    Raises: UnsupportedError for a kernel that can't be lowered to Triton, and for derivatives and batches of kernels.

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
                made = lowered(equation.params.kernel)
                found.append(TritonText(made.name, made.text, *made[2:], bytecode(made.module)))
    return found
