"""A kernel as a program that is stepped: one program of the grid after another, whose body is a call, as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import strict_zip
from pellucid._machine.higher_order.calls import JitParams, jit_p
from pellucid._machine.ir import (
    ClosedJaxpr,
    DebugInfo,
    Equation,
    Jaxpr,
    Lineage,
    Values,
    forget_sources,
    programs_of,
)
from pellucid._machine.tracing import bind, discharge_program, use_facts
from pellucid._machine.transforms import stage_open

from .mappings import BlockMapping
from .programs import GridKernel, Sweep
from .specs import padding_of, step_of


class Steps(Sweep):
    """One run of a kernel over its grid in which no programs run at once."""

    def axes(self) -> tuple[int, ...]:
        """The axes along which programs run at once: none."""
        return ()

    def body_results(self, inputs: Values) -> Values:
        """The results of the body, for one call of it."""
        return bind(jit_p, *inputs, params=JitParams(self.kernel.name, self.body.program))


def in_steps(kernel: GridKernel, equation: Equation) -> ClosedJaxpr | None:
    """What a kernel computes, program by program, as a program of the operands of its call; the results have the same bits.

    None for several constants, whose order among the operands isn't known.
    """
    avals = [a.aval for a in equation.operands]
    n_consts = len(avals) - kernel.grid.count(None) - len(kernel.scalars) - len(kernel.inputs)
    if n_consts > 1:
        return None

    def run(*operands: Any) -> Values:
        with use_facts() as facts:
            facts.enter(equation, Lineage("steps", (equation,)))
            consts = operands[:n_consts] or kernel.consts
            return kernel.run(*operands[n_consts:], sweep=Steps, consts=consts)

    debug = DebugInfo("pallas_call", f"programs of {kernel.name}")
    program, consts = stage_open(run, avals, debug)
    if consts:
        return None
    body = discharge_program(kernel.body.jaxpr).program
    loops = [p for e in program.jaxpr.equations for p in programs_of(e) if _calls(p, body)]
    for jaxpr in [program.jaxpr, *loops]:
        jaxpr.memo["kernel"] = kernel
        forget_sources(jaxpr)  # what goes over the grid belongs to the line of the call
    return program


def _calls(jaxpr: Jaxpr, body: ClosedJaxpr) -> bool:
    """Whether a program calls the body of a kernel."""
    return any(e.primitive is jit_p and e.params.jaxpr is body for e in jaxpr.equations)


class BlockPlace(NamedTuple):
    """Where the block of an array lies that a program of a kernel sees."""

    name: str
    shape: tuple[int, ...]
    """Size of the array."""
    sizes: tuple[int, ...]
    """Size of the block, along all dimensions of the array."""
    start: tuple[int, ...]
    """The block's first element, which may lie before the array."""

    @property
    def text(self) -> str:
        """The slices of the array that the block is, and what of it lies outside."""
        slices = [
            f"{start}" if size == 1 else f"{start}:{start + size}"
            for start, size in strict_zip(self.start, self.sizes)
        ]
        outside = any(
            start < 0 or start + size > n
            for start, size, n in strict_zip(self.start, self.sizes, self.shape)
        )
        beyond = ", partly outside" if outside else ""
        return f"[{', '.join(slices)}] of shape {self.shape}{beyond}"


def position_of(kernel: GridKernel, number: int) -> tuple[int, ...] | None:
    """The position in the grid of program `number`, counted row by row; None where sizes are known only when it runs."""
    if None in kernel.grid:
        return None
    return tuple([int(i) for i in np.unravel_index(number, [n or 1 for n in kernel.grid])])


def places_of(kernel: GridKernel, number: int) -> list[BlockPlace | None]:
    """Where the blocks of the inputs, then of the results, lie that program `number` sees; None where data choose."""
    return [_place(m, number) for m in (*kernel.inputs, *kernel.results)]


def _place(mapping: BlockMapping, number: int) -> BlockPlace | None:
    if mapping.indices is None and any(known != 0 for known in mapping.known):
        return None
    indices = (
        [0] * len(mapping.dims) if mapping.indices is None else mapping.indices[number].tolist()
    )
    starts = [
        index * step_of(dim) - padding_of(dim)[0]
        for index, dim in strict_zip(indices, mapping.dims)
    ]
    return BlockPlace(mapping.name, mapping.aval.shape, mapping.sizes, tuple(starts))


def number_of(kernel: GridKernel, position: Sequence[int]) -> int:
    """The number of the program at a position in the grid, row by row."""
    return int(np.ravel_multi_index(tuple(position), [n or 1 for n in kernel.grid]))
