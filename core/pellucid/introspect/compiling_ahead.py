"""Compilation in background threads of the programs that a debugger probably runs next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from pellucid._machine.base import by_tool
from pellucid._machine.compilation.eager import Planned, compile_ahead
from pellucid._machine.higher_order.calls import ClosedCallParams, closed_call_p
from pellucid._machine.ir import ClosedJaxpr, Operands
from pellucid._machine.sharding import mesh_context

from .mesh_positions import MeshPositions

_threads = ThreadPoolExecutor(2, "pellucid-compiling-ahead")
"""Two threads, so that a large program that may be stepped over doesn't delay the small ones that are stepped into."""
_queue: list[Future[list[Planned]]] = []
"""The compilations of the last call of `compile_in_threads`."""


class ChainStep(NamedTuple):
    """A program of a chain. Operands and results are keys of the dictionary of the chain's values."""

    program: ClosedJaxpr
    inputs: Sequence[Any]
    results: Sequence[Any]
    positions: MeshPositions | None = None
    """The mesh positions at which the program runs, if it is within a `shard_map`."""


class Chain(NamedTuple):
    """Programs that run one after another. Operands are among `values` or results of earlier programs."""

    steps: Sequence[ChainStep]
    values: dict[Any, Any]
    """Arrays and numbers; the key is a variable or any other hashable value."""

    def placements(self) -> tuple[Any, ...]:
        """The placement of each value that the programs read; None where it is uncommitted or unknown."""
        inputs = [self.values.get(key) for step in self.steps for key in step.inputs]
        is_committed = [getattr(x, "_committed", True) for x in inputs]
        return tuple(
            [
                getattr(x, "sharding", None) if c else None
                for x, c in zip(inputs, is_committed, strict=True)
            ]
        )


def steps_of(
    programs: Sequence[ClosedJaxpr], positions: MeshPositions | None, keys: Mapping[Any, Any] = {}
) -> list[ChainStep]:
    """Steps whose values have their variables as keys, unless `keys` maps a variable to another key."""
    return [
        ChainStep(
            program,
            [keys.get(v, v) for v in program.jaxpr.invars],
            program.jaxpr.outvars,
            positions,
        )
        for program in programs
    ]


def compile_in_threads(chains: Sequence[Chain]) -> None:
    """Begin to compile the programs of chains, in order. Compilations of earlier calls that haven't begun are
    cancelled.
    """
    for compilation in _queue:
        compilation.cancel()
    _queue.clear()
    meshes = tuple([each.value for each in _MESHES])
    for chain in chains:
        key = meshes, chain.placements()
        before: list[tuple[ChainStep, Future[list[Planned]]]] = []
        for step in chain.steps:
            compilations = step.program.jaxpr.memo.setdefault("compilations ahead", {})
            if key not in compilations or compilations[key].cancelled():
                compilations[key] = _threads.submit(_compile, step, chain, [*before], meshes)
                _queue.append(compilations[key])
            before.append((step, compilations[key]))


def wait_for_compilation(program: ClosedJaxpr) -> None:
    """Wait until no thread compiles a program: it is compiled then, or its compilation hadn't begun."""
    compilations = program.jaxpr.memo.get("compilations ahead", {}).values()
    wait([each for each in compilations if not each.cancel()])


_MESHES = mesh_context.abstract, mesh_context.concrete, mesh_context.entered


@by_tool
def _compile(
    step: ChainStep,
    chain: Chain,
    before: Sequence[tuple[ChainStep, Future[list[Planned]]]],
    meshes: Operands,
) -> list[Planned]:
    """Compiles a program of a chain and returns its planned results; `before` are the steps before it."""
    for state, mesh in zip(_MESHES, meshes, strict=True):
        state.set_local(mesh)
    values = {**chain.values}
    for earlier, compilation in before:
        values.update(zip(earlier.results, compilation.result(), strict=True))
    operands = [values[key] for key in step.inputs]
    program = step.program if step.positions is None else step.positions.on_all(step.program)
    return compile_ahead(closed_call_p, ClosedCallParams(program), operands)
