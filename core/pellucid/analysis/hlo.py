"""Optimized HLO modules: their computations, where instructions come from, how often they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pellucid._machine.base import SourceFrame, strict_zip, user_frame
from pellucid._machine.runtime.executable import optimized_modules, precompiled_metadata
from pellucid._machine.xla import hlo as xla_hlo
from pellucid._machine.xla.hlo_text import Computation, Instruction, parse, source_places


class Run(NamedTuple):
    """A call site of a computation that runs as a program rather than as a part of one instruction."""

    computation: Computation
    count: int | None  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """Number of its runs there per run of the module; None if unknown, as in branches."""
    around: tuple[int, ...]
    """Ids of the equations of the calls, loops and branches around it."""


class Module:
    """An optimized HLO module, parsed from its text.

    An executable may have been compiled earlier, by another process or for an equal program
    (`runtime.executable.Precompiled`). Then `origins` maps its instructions to the equations and lines of the newest
    program.

    >>> compiled = pl.jit(lambda x: x + 1).lower(1.0).compile()
    >>> module = pl.analysis.HloModule(compiled.as_text())
    >>> module.computations[0].instructions[0].opcode
    'parameter'
    """

    def __init__(self, text: str, origins: Mapping[int, Any] | None = None) -> None:
        self.computations = parse(text)
        """The computations, the entry first."""
        self.frames = source_frames(text)
        """The source position of each frame number."""
        if origins is not None:
            self._take_origins(origins)
        self._complete_frames()
        self.by_name = {each.name: each for each in self.computations}

    def _take_origins(self, origins: Mapping[int, Any]) -> None:
        frames = [user_frame(origin.source) for origin in origins.values()]
        self.frames = dict(enumerate(filter(None, dict.fromkeys(frames)), 1))
        numbers = {frame: number for number, frame in self.frames.items()}
        places = {
            number: (origin.id, numbers.get(frame, 0) if frame else 0)
            for (number, origin), frame in strict_zip(origins.items(), frames)
        }
        for computation in self.computations:
            for i, each in enumerate(computation.instructions):
                equation, frame = places.get(each.equation or -1, (None, 0))
                computation.instructions[i] = each._replace(equation=equation, frame=frame)

    def _complete_frames(self) -> None:
        """Give instructions that the partitioner left without a position that of others of the same equation."""
        frames = {
            each.equation: each.frame
            for computation in self.computations
            for each in computation.instructions
            if each.equation is not None and each.frame
        }
        for computation in self.computations:
            for i, each in enumerate(computation.instructions):
                if not each.frame and each.equation in frames:
                    computation.instructions[i] = each._replace(frame=frames[each.equation])

    def called(self, instruction: Instruction) -> list[Computation]:
        """The computations that an instruction calls."""
        return [self.by_name[name] for _, name in instruction.called]

    def runs(self) -> Iterator[Run]:
        """The entry computation and all that it runs, with one item per call site."""
        yield from self._runs(Run(self.computations[0], 1, ()))

    def _runs(self, run: Run) -> Iterator[Run]:
        yield run
        for instruction in run.computation.instructions:
            if not instruction.runs_programs:
                continue
            trips, around = instruction.trips, run.around
            count = None if run.count is None or trips is None else run.count * trips
            if instruction.equation is not None:
                around = (*around, instruction.equation)
            for computation in self.called(instruction):
                yield from self._runs(Run(computation, count, around))


def module_of(executable: Any) -> tuple[Module, Any]:
    """The first module of XLA's executable, as (parsed, XLA's object)."""
    [module, *_] = optimized_modules(executable)
    facts = precompiled_metadata(executable)
    return Module(xla_hlo.full_text(module), facts and facts.origins), module


def source_frames(text: str) -> dict[int, SourceFrame]:
    """Maps frame numbers to the source positions of instructions, according to the tables in a module's text."""
    return {
        number: SourceFrame(file, function, *extent)
        for number, (file, function, extent) in source_places(text).items()
    }
