"""Tables of a session: its seconds by line, operation, category, scope and step, whose totals add up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pellucid.introspect.errors import ArgumentValueError
from pellucid_profiler.calls import module_name
from pellucid_profiler.collective_rows import CollectiveRow, Straggler, collective_rows, straggler
from pellucid_profiler.compile_steps import CompileStep, compile_steps
from pellucid_profiler.host import HostRow, host_rows
from pellucid_profiler.operations import grouped
from pellucid_profiler.session_data import SessionData
from pellucid_profiler.sources import InstructionInfo, SourceLine
from pellucid_profiler.steps import StepRow, steps_of
from pellucid_profiler.text import line_number_text
from pellucid_profiler.transfers import TransferRow, transfer_rows


class OperationRow(NamedTuple):
    """An instruction of a program, over the whole session."""

    info: int
    """Index of its instruction in `Session.infos`."""
    program: str
    instruction: str
    category: str
    attribution: str
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """Number of executions, counted once for each device."""
    seconds: float
    """Until they were complete, together; of a container what its parts leave."""
    flops: float | None
    """Estimated, of all executions together."""
    bytes: float | None


class LineRow(NamedTuple):
    """A line of the user's, over the whole session. Seconds are those of devices, added up."""

    place: SourceLine | None
    """None for what belongs to no line."""
    forward_seconds: float
    backward_seconds: float
    """Of the derivative's operations that the line caused."""
    measured_seconds: float
    """Of operations that are this line's alone; the rest is estimated, or inferred from operations beside."""
    flops: float

    @property
    def seconds(self) -> float:
        """Forward and backward."""
        return self.forward_seconds + self.backward_seconds


class Totals(NamedTuple):
    """The whole session, in seconds."""

    wall_seconds: float
    """From the session's begin to its end."""
    operation_seconds: float
    """All operations on all devices, added up."""
    measured_seconds: float
    """Of `operation_seconds`: of operations that are one line's alone."""
    estimated_seconds: float
    """Of operations of several lines, split by estimated cost, and of those whose line is inferred."""
    unattributed_seconds: float
    """Of operations without a line."""
    busy_seconds: float
    """During which some operation ran, averaged over the devices that ran any."""


class SessionTables(SessionData):
    """The tables of a session. `lines`, `by_operation`, `by_category` and `by_scope` are the same seconds, cut in other ways."""

    @cached_property
    def by_operation(self) -> list[OperationRow]:
        """The instructions that ran, the one with most time first."""
        rows = [
            OperationRow(
                i, self.program_name(i), info.name, info.category, info.attribution,
                count, seconds, _times(info.flops, count), _times(info.bytes, count),
            )
            for i, (info, count, seconds) in enumerate(self._totals_of_infos())
        ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.seconds)

    @cached_property
    def lines(self) -> list[LineRow]:
        """The user's lines that took time on devices, the one with most first; what is no line's under None."""
        forward: dict[SourceLine | None, float] = defaultdict(float)
        backward: dict[SourceLine | None, float] = defaultdict(float)
        measured: dict[SourceLine | None, float] = defaultdict(float)
        flops: dict[SourceLine | None, float] = defaultdict(float)
        for info, count, seconds in self._totals_of_infos():
            rest = 1.0
            for share in info.shares:
                part = seconds * share.share
                (backward if share.is_backward else forward)[share.place] += part
                measured[share.place] += part if info.is_measured else 0.0
                flops[share.place] += (info.flops or 0.0) * count * share.share
                rest -= share.share
            if not info.shares:
                forward[None] += seconds * rest
                flops[None] += (info.flops or 0.0) * count * rest
        places = [*dict.fromkeys([*forward, *backward])]
        rows = [
            LineRow(place, forward[place], backward[place], measured[place], flops[place])
            for place in places
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def by_category(self) -> dict[str, float]:
        """Seconds of operations by kind: `fusion`, `library`, `custom`, `copy`, `collective`, `other`."""
        return self._summed(lambda info: [(info.category, 1.0)])

    def by_scope(self) -> dict[str, float]:
        """Seconds of operations by the transformations, calls and `named_scope`s around them."""
        return self._summed(
            lambda info: [(share.scope, share.share) for share in info.shares] or [("", 1.0)]
        )

    def by_collective(self) -> list[CollectiveRow]:
        """Exchanges between devices with their waiting and working time, the one with most first."""
        return collective_rows(self)

    @cached_property
    def straggler(self) -> Straggler | None:
        """The device that the others wait for; None where none do."""
        return straggler(self)

    @cached_property
    def compile_steps(self) -> list[CompileStep]:
        """Passes, kernels and machine code of all compilations, those that took longest first."""
        return compile_steps(self)

    @cached_property
    def host(self) -> list[HostRow]:
        """Activities of the calling threads; the rows of each add up to the session's time."""
        return host_rows(self)

    def by_transfer(self) -> list[TransferRow]:
        """Transfers between host and devices by line, those with most bytes first."""
        return transfer_rows(self.transfers)

    def _summed(
        self, keys: Callable[[InstructionInfo], Iterable[tuple[str, float]]]
    ) -> dict[str, float]:
        totals: dict[str, float] = defaultdict(float)
        for info, _, seconds in self._totals_of_infos():
            for key, share in keys(info):
                totals[key] += seconds * share
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def _totals_of_infos(self) -> Iterable[tuple[InstructionInfo, int, float]]:
        counts, seconds = map(int, self.counts_of_infos), map(float, self.seconds_of_infos)
        return zip(self.infos, counts, seconds, strict=True)

    @cached_property
    def totals(self) -> Totals:
        """The whole session; measured, estimated and not attributed seconds add up to those of operations."""
        ops = self.operations
        measured = unattributed = total = 0.0
        for info, _, seconds in self._totals_of_infos():
            total += seconds
            measured += seconds if info.is_measured and info.shares[0].place else 0.0
            lost = sum(share.share for share in info.shares if share.place is None)
            unattributed += seconds * (lost if info.shares else 1.0)
        devices = np.unique(ops.device)
        everything = np.ones(len(ops), bool)
        busy = [float(np.diff(self._busy(d, everything), axis=1).sum()) / 1e9 for d in devices]
        return Totals(
            wall_seconds=self.wall_ns / 1e9,
            operation_seconds=total,
            measured_seconds=measured,
            estimated_seconds=max(total - measured - unattributed, 0.0),
            unattributed_seconds=unattributed,
            busy_seconds=sum(busy) / len(busy) if busy else 0.0,
        )

    @cached_property
    def steps(self) -> list[StepRow]:
        """The steps that `profiler.step` or `StepTraceAnnotation` name, in the order in which they begin."""
        return [
            *steps_of(
                self.names, self.spans, self.calls, self.operations, self.seconds_of_operation
            )
        ]

    @cached_property
    def place_texts_of_infos(self) -> list[str]:
        """Cell or file, and number of the line that each of `infos` is most of; empty where nobody knows."""
        largest = [
            max(info.shares, key=lambda share: share.share, default=None) for info in self.infos
        ]
        return [
            line_number_text(self.sources, share.place.file, share.place.line)
            if share and share.place
            else ""
            for share in largest
        ]

    @cached_property
    def seconds_of_equations(self) -> dict[int, float]:
        """Seconds of one execution of each equation, by its id: the mean over executions and devices.

        What several equations share is split by estimated cost.
        """
        totals: dict[int, float] = defaultdict(float)
        for info, count, seconds in self._totals_of_infos():
            for share in info.shares:
                if share.equation is not None:
                    totals[share.equation] += seconds * share.share / count
        return totals

    def seconds_of_run(self, equations: Collection[int]) -> dict[int, float]:
        """Seconds of `equations`, by their ids, in one run of their program on one device: the mean over all of them.

        That is the program most of whose equations they are; empty without one.
        """
        wanted, best, result = {*equations}, 0.5, dict[int, float]()
        for number in self.programs:
            runs, totals = self._run_of(number)
            parts: dict[int, float] = defaultdict(float)
            for i, seconds in totals.items():
                for share in self.infos[i].shares:
                    if share.equation is not None:
                        parts[share.equation] += seconds * share.share / runs
            overlap = len(wanted & parts.keys()) / max(1, len(parts))
            if overlap > best:
                best, result = overlap, parts
        return result

    def _run_of(self, program: int) -> tuple[int, dict[int, float]]:
        """(runs of a program, counted on each device, seconds of each of `infos` in all of them)."""
        ops = self.operations
        rows = np.flatnonzero(ops.program == program)
        used = np.unique(self.info_of_operation[rows]).tolist()
        runs = len(np.unique(grouped(ops.run[rows], ops.device[rows])))
        return max(1, runs), {i: float(self.seconds_of_infos[i]) for i in used}

    def seconds_of_kernels(self, function: str, kernels: Collection[str]) -> dict[str, float]:
        """Seconds of each of `kernels` in one run of a jitted function's program on one device: the mean over all of them.

        Of several programs of the function it is the one that has most of them. Raises: ArgumentValueError if it didn't run
        in this session.
        """
        best, seconds = 0.5, dict[str, float]()
        for number, program in self.programs.items():
            if program.name != module_name(function):
                continue
            runs, totals = self._run_of(number)
            names = {self.infos[i].name for i in totals if not self.infos[i].is_container}
            share = len(names & {*kernels}) / max(1, len(names))
            if share > best:
                parts = {self.infos[i].name: each / runs for i, each in totals.items()}
                best, seconds = share, parts
        if seconds:
            return seconds
        raise ArgumentValueError(
            "this program has no run in the session.",
            got=f"{function}; the session has {', '.join(sorted({each.name for each in self.programs.values()})) or 'none'}",
            do="Record a call of the compiled function with the same types of arguments.",
        )


def _times(value: float | None, count: int) -> float | None:
    return None if value is None else value * int(count)
