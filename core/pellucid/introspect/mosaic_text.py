"""The kernels of a program as text in Mosaic's MLIR dialect, for TPUs; none is needed."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pellucid._machine.base import Function, UnsupportedError, describe
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.mosaic_tpu.module import lowered
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.targets import tpu_chip

from .bodies import programs_within

__all__ = ["MosaicText", "mosaic_text", "mosaic_texts"]


class MosaicText(NamedTuple):
    """A kernel in Mosaic's MLIR dialect, and what it holds in vector memory."""

    name: str
    text: str
    vmem: dict[str, int]
    """Bytes of VMEM for the buffers of each array's blocks, for each scratch, and for all references of a type that the body makes."""

    @property
    def vmem_bytes(self) -> int:
        """Bytes of VMEM in all."""
        return sum(self.vmem.values())


def mosaic_text(kernel: GridKernel, chip: str | None = None, line: str | None = None) -> MosaicText:
    """A kernel over a grid in Mosaic's dialect; `line` is the user's that calls it, for messages.

    Raises: UnsupportedError for a kernel that can't be lowered to TPUs.
    """
    made = lowered(kernel, None if chip is None else tpu_chip(chip), line)
    vmem: Counter[str] = Counter()
    for name, size in made.vmem:  # references that the body makes may have one name
        vmem[name] += size
    return MosaicText(made.name, made.text, dict(vmem))


def mosaic_texts(function: Function, *args: object, chip: str | None = None) -> list[MosaicText]:
    """The kernels that `function` calls for arguments of these types, in program order; they must fit the memory of a `chip`, such as "v5e".

    Raises: UnsupportedError for kernels that can't be lowered to TPUs, and for derivatives and batches of kernels.

    >>> from pellucid.experimental import pallas
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x = np.zeros((8, 128), np.float32)
    >>> [found] = mosaic_texts(pallas.pallas_call(double, x), x, chip="v5e")
    >>> found.vmem
    {'in_specs[0]': 4096, 'out_specs[0]': 4096}
    >>> print(found.text)
    module {
      func.func @double(...
    """
    program = make_jaxpr(function)(*args).jaxpr
    found: list[MosaicText] = []
    for jaxpr in programs_within(program):
        for equation in jaxpr.equations:
            if equation.primitive is pallas_call_p:
                if not equation.params.is_own:
                    raise UnsupportedError(
                        f"the kernel `{equation.params.name}` isn't lowered to TPUs here: its derivatives and batches run as plain programs.",
                        do="Ask for the kernel itself.",
                    )
                found.append(mosaic_text(equation.params.kernel, chip, describe(equation.source)))
    return found
