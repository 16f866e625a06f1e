"""Programs of a session: source lines, category and cost of each instruction that ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from pellucid import analysis


class OptimizedModule(Protocol):
    """An optimized HLO module, of an executable in this process or from a recording."""

    @property
    def executable(self) -> Any:
        """XLA's executable in this process; None for a module from a recording."""
        ...

    @property
    def name(self) -> str:
        """Name of the module: `jit_f` for a jitted function `f`."""
        ...

    def proto(self) -> bytes:
        """The module as a serialized HloModuleProto."""
        ...

    def text(self) -> str:
        """The module as HLO text with metadata."""
        ...

    def origins(self) -> Mapping[int, Any] | None:
        """For a program compiled by another process: maps that process's equation ids to equations of this one. Else
        None.
        """
        ...

    def buffer_assignment(self) -> bytes:
        """The buffer assignment as a serialized BufferAssignmentProto; empty if the platform keeps none."""
        ...

    def allocated_bytes(self) -> int:
        """Total bytes that XLA allocates on each device for one run."""
        ...


class SourceLine(NamedTuple):
    """A line of user code, in a file or notebook cell."""

    file: str
    line: int
    function: str


class Share(NamedTuple):
    """Share of an instruction's time that belongs to one operation and source line."""

    place: SourceLine | None
    """The source line; None if it isn't known."""
    scope: str
    """Name-stack part of the operation's StableHLO name: enclosing transformations, calls and named scopes."""
    operation: str
    """Last part of the StableHLO name: the primitive."""
    equation: int | None
    share: float

    @property
    def is_backward(self) -> bool:
        """Whether the operation was made by transposition, so that it belongs to the backward pass."""
        return "transpose(" in self.scope


class InstructionInfo(NamedTuple):
    """An instruction of an optimized program, with its source lines, category and estimated cost."""

    name: str
    opcode: str
    category: str
    """`fusion`, `library`, `custom`, `copy`, `collective` or `other`."""
    attribution: str
    """How source lines are known: `own` metadata, `inferred` from neighbouring instructions, or `none`."""
    shares: Sequence[Share]
    flops: float | None
    transcendentals: float | None
    bytes: float | None
    is_container: bool
    """Whether it is a loop, branch or call, which contains other instructions."""
    axes: Sequence[str] = ()
    """Mesh axes along which a collective communicates, if known."""
    group_size: int = 1
    """Number of devices in each group of a collective."""
    sent_bytes: float = 0.0
    """Bytes that one device sends in one execution of a collective."""
    target: str = ""
    """Name of the native function that a custom call calls."""

    @property
    def label(self) -> str:
        """Display name: the instruction's name, and the native function it calls if it isn't a Python callback."""
        return f"{self.name}: {self.target}" if self.target and not self.is_callback else self.name

    @property
    def is_measured(self) -> bool:
        """Whether all its time belongs to one line, so that no estimate is needed."""
        return self.attribution == "own" and len({share.place for share in self.shares}) == 1

    @property
    def is_callback(self) -> bool:
        """Whether it calls a Python function."""
        return self.category == "custom" and any(
            "callback" in share.operation for share in self.shares
        )

    def of_call(self, place: SourceLine | None, *, is_backward: bool) -> InstructionInfo:
        """This instruction as that of a call at a line, `place`, or of its backward pass; if `place` is None it keeps its own lines."""
        shares = self.shares or [Share(None, "", "", None, 1.0)]
        placed = [
            share._replace(
                place=place or share.place,
                scope=f"transpose({share.scope})" if is_backward else share.scope,
            )
            for share in shares
        ]
        return self._replace(shares=placed, attribution="own" if place else self.attribution)


class UnevenConstraint(NamedTuple):
    """A sharding constraint that asks for more parts along a dimension than it can be cut into evenly."""

    problem: str
    """What is asked, and what happens instead, as a sentence."""
    remedy: str
    """What to do, as a clause."""
    whole_bytes: int
    """Bytes of the value."""
    place: SourceLine | None


class ProgramInfo(NamedTuple):
    """A program of a session: the instructions that ran."""

    name: str
    instructions: dict[str, InstructionInfo]
    """By name; only instructions that ran."""
    uneven: Sequence[UnevenConstraint] = ()
    """The program's constraints that can't be met evenly, one for each dimension, but for those that cost no memory."""

    def places(self) -> Iterator[SourceLine]:
        """The source lines of its instructions. Programs of eager operations have none, because all lines share them."""
        for info in self.instructions.values():
            yield from (share.place for share in info.shares if share.place is not None)

    def to_json(self) -> Any:
        """This program as JSON-compatible lists and dictionaries."""
        return [self.name, [*self.instructions.values()], self.uneven]

    @classmethod
    def from_json(cls, value: Any) -> ProgramInfo:
        """Restores a program from the value of `to_json`."""
        name, rows, uneven = value
        instructions: dict[str, InstructionInfo] = {}
        for row in rows:
            info = InstructionInfo(*row)
            shares = [Share(*share) for share in info.shares]
            placed = [
                share._replace(place=share.place and SourceLine(*share.place)) for share in shares
            ]
            instructions[info.name] = info._replace(shares=placed)
        constraints = [UnevenConstraint(*each) for each in uneven]
        placed_constraints = [
            each._replace(place=each.place and SourceLine(*each.place)) for each in constraints
        ]
        return cls(name, instructions, placed_constraints)


class ProgramReader:
    """Reads the instructions of a program, and caches what it has read."""

    def __init__(self, loaded: OptimizedModule) -> None:
        self.loaded = loaded
        self._infos: dict[tuple[str, int], InstructionInfo | None] = {}
        self._meshes: list[list[Mapping[str, int]]] = []

    @cached_property
    def _module(self) -> analysis.HloModule:
        return analysis.HloModule(self.loaded.text(), self.loaded.origins())

    @cached_property
    def _places(self) -> dict[int, SourceLine]:
        return {
            number: SourceLine(frame.file, frame.line, frame.function)
            for number, frame in self._module.frames.items()
        }

    def info(
        self, instructions: Iterable[str], meshes: Iterable[Mapping[str, int]] = ()
    ) -> ProgramInfo:
        """The program with those of its instructions that ran. `meshes` (axis sizes by name) let collectives be
        attributed to axes.
        """
        listed = [*meshes]
        if listed not in self._meshes:
            self._meshes.append(listed)
        number = self._meshes.index(listed)
        names = list(dict.fromkeys(instructions))
        missing = frozenset(name for name in names if (name, number) not in self._infos)
        if missing:
            declared = [analysis.DeclaredMesh(sizes) for sizes in listed]
            read = analysis.kernels(self._module, missing, declared)
            for name in missing:
                kernel = read.get(name)
                self._infos[name, number] = None if kernel is None else self._info(kernel)
        infos = ((name, self._infos[name, number]) for name in names)
        ran = {name: info for name, info in infos if info}
        return ProgramInfo(self.loaded.name, ran, self._uneven_constraints())

    def _uneven_constraints(self) -> list[UnevenConstraint]:
        executable = self.loaded.executable
        cuts = [] if executable is None else analysis.uneven_cuts(executable)
        return [
            UnevenConstraint(
                cut.problem, cut.remedy, cut.whole_bytes,
                cut.place and SourceLine(cut.place.file, cut.place.line, cut.place.function),
            )
            for cut in cuts
            if cut.device_bytes < cut.whole_bytes  # else padding would gain nothing
        ]  # fmt: skip

    def _info(self, kernel: analysis.Kernel) -> InstructionInfo:
        shares = [
            Share(
                self._places.get(member.frame), *_scope(member.path), member.equation, member.share
            )
            for member in kernel.members
        ]
        exchange = kernel.exchange
        return InstructionInfo(
            kernel.name, kernel.opcode, kernel.category, kernel.attribution, shares,
            *kernel.cost, kernel.runs_programs,
            axes=exchange.axes if exchange else (), group_size=exchange.group_size if exchange else 1,
            sent_bytes=exchange.bytes if exchange else 0.0, target=kernel.target,
        )  # fmt: skip


def unknown_instruction(name: str) -> InstructionInfo:
    """Placeholder for an instruction that is only known by name: its program is gone, or XLA or CUPTI added it."""
    category = next((each for begin, each in _KERNELS.items() if name.startswith(begin)), "other")
    return InstructionInfo(name, "", category, "none", [], None, None, None, is_container=False)


_KERNELS = {"Memcpy": "copy", "Memset": "copy", "nccl": "collective"}
"""Categories of kernels named by CUPTI, by name prefix."""


def _scope(path: str) -> tuple[str, str]:
    scope, _, operation = path.rpartition("/")
    return scope, operation
