"""Programs of a session: for each instruction that ran, the user's lines, its category and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from pellucid import analysis


class OptimizedModule(Protocol):
    """A program that XLA optimized: of an executable of this process, or of a recording."""

    @property
    def name(self) -> str:
        """`jit_f` for a jitted function `f`."""
        ...

    def proto(self) -> bytes:
        """A serialized HloModuleProto."""
        ...

    def text(self) -> str:
        """The HLO with metadata."""
        ...

    def origins(self) -> Mapping[int, Any] | None:
        """This process's equations for those of a program that another process compiled; None for others."""
        ...

    def buffer_assignment(self) -> bytes:
        """A serialized BufferAssignmentProto; empty where the platform keeps none."""
        ...

    def allocated_bytes(self) -> int:
        """Bytes that one run holds on each device."""
        ...


class SourceLine(NamedTuple):
    """A line of the user's, in a file or cell."""

    file: str
    line: int
    function: str


class Share(NamedTuple):
    """A part of an instruction's time."""

    place: SourceLine | None
    """None where nobody knows."""
    scope: str
    """The operation's name in StableHLO, without its last part: transformations, calls and scopes around it."""
    operation: str
    """The last part of that name: the primitive's."""
    equation: int | None
    share: float

    @property
    def is_backward(self) -> bool:
        """Whether a derivative's transposition made it."""
        return "transpose(" in self.scope


class InstructionInfo(NamedTuple):
    """An instruction of an optimized program: its lines, category and cost."""

    name: str
    opcode: str
    category: str
    """`fusion`, `library`, `custom`, `copy`, `collective` or `other`."""
    attribution: str
    """`own`, `inferred` from instructions beside it, or `none`."""
    shares: Sequence[Share]
    flops: float | None
    transcendentals: float | None
    bytes: float | None
    is_container: bool
    """Whether it is a loop, branch or call, whose parts are instructions themselves."""
    axes: Sequence[str] = ()
    """Of a collective: the axes of the mesh along which it goes, as far as they are known."""
    group_size: int = 1
    """Devices that exchange with each other."""
    sent_bytes: float = 0.0
    """That one device sends in one run."""
    target: str = ""
    """The native function that it calls."""

    @property
    def label(self) -> str:
        """Its name, and the native function that it calls; callbacks call one of pellucid's own."""
        return f"{self.name}: {self.target}" if self.target and not self.is_callback else self.name

    @property
    def is_measured(self) -> bool:
        """Whether all its time is one line's, which needs no estimate."""
        return self.attribution == "own" and len({share.place for share in self.shares}) == 1

    @property
    def is_callback(self) -> bool:
        """Whether it calls a Python function."""
        return self.category == "custom" and any(
            "callback" in share.operation for share in self.shares
        )

    def of_line(self, place: SourceLine) -> InstructionInfo:
        """This instruction as one of the eager operations at `place`."""
        shares = self.shares or [Share(None, "", "", None, 1.0)]
        placed = [share._replace(place=place) for share in shares]
        return self._replace(shares=placed, attribution="own")


class ProgramInfo(NamedTuple):
    """A program of a session."""

    name: str
    instructions: dict[str, InstructionInfo]
    """By name; only those that ran."""

    def places(self) -> Iterator[SourceLine]:
        """The user's lines; none for programs of eager operations, which all lines share."""
        for info in self.instructions.values():
            yield from (share.place for share in info.shares if share.place is not None)

    def to_json(self) -> Any:
        """This program as lists and dictionaries."""
        return [self.name, [*self.instructions.values()]]

    @classmethod
    def from_json(cls, value: Any) -> ProgramInfo:
        """The program that `to_json` gave."""
        name, rows = value
        instructions: dict[str, InstructionInfo] = {}
        for row in rows:
            info = InstructionInfo(*row)
            shares = [Share(*share) for share in info.shares]
            placed = [
                share._replace(place=share.place and SourceLine(*share.place)) for share in shares
            ]
            instructions[info.name] = info._replace(shares=placed)
        return cls(name, instructions)


class ProgramReader:
    """Reader of a program's instructions; what it has read once it gives again at once."""

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
        """The program, of which `instructions` ran; collectives may go along axes of `meshes`, which have their sizes."""
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
        return ProgramInfo(self.loaded.name, {name: info for name, info in infos if info})

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
    """An instruction of a program that is gone, or that XLA added, or a GPU's kernel: it has a name only."""
    category = next((each for begin, each in _KERNELS.items() if name.startswith(begin)), "other")
    return InstructionInfo(name, "", category, "none", [], None, None, None, is_container=False)


_KERNELS = {"Memcpy": "copy", "Memset": "copy", "nccl": "collective"}
"""Categories of kernels that CUPTI names, by the begin of their names."""


def _scope(path: str) -> tuple[str, str]:
    scope, _, operation = path.rpartition("/")
    return scope, operation
