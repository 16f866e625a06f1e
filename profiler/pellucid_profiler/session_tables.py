"""Tables of a session: time by line, operation, category, scope and step, with equal totals."""

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
from pellucid_profiler.operations import group_rows
from pellucid_profiler.session_data import SessionData
from pellucid_profiler.sources import InstructionInfo, SourceLine
from pellucid_profiler.steps import StepRow, steps_of
from pellucid_profiler.text import line_number_text
from pellucid_profiler.transfers import TransferRow, transfer_rows


class OperationRow(NamedTuple):
    """One instruction of a program, summed over the session."""

    info: int
    """Index of its instruction in `Session.infos`."""
    program: str
    instruction: str
    category: str
    attribution: str
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """Number of executions, counted once for each device."""
    seconds: float
    """Total time until completion; for loops, branches and calls without the operations in them."""
    flops: float | None
    """Estimated arithmetic operations of all executions."""
    bytes: float | None


class LineRow(NamedTuple):
    """One line of user code, summed over the session and over devices."""

    place: SourceLine | None
    """The line; None for time that belongs to no line."""
    forward_seconds: float
    backward_seconds: float
    """Time of backward-pass operations that the line caused."""
    measured_seconds: float
    """Time of operations that belong to this line only. The rest is estimated, or inferred from neighbouring
    operations.
    """
    flops: float

    @property
    def seconds(self) -> float:
        """Forward and backward time."""
        return self.forward_seconds + self.backward_seconds


class Totals(NamedTuple):
    """Totals of a session, in seconds."""

    wall_seconds: float
    """Duration of the session."""
    operation_seconds: float
    """Time of all operations, summed over devices."""
    measured_seconds: float
    """The part of `operation_seconds` in operations that belong to one line only."""
    estimated_seconds: float
    """The part in operations shared by several lines, divided by estimated cost, or whose line is inferred."""
    unattributed_seconds: float
    """The part in operations without a line."""
    busy_seconds: float
    """Time in which at least one operation ran, averaged over the devices that ran any."""


class SessionTables(SessionData):
    """The tables of a session. `lines`, `by_operation`, `by_category` and `by_scope` are the same seconds, cut in other ways."""

    @cached_property
    def by_operation(self) -> list[OperationRow]:
        """The instructions that ran, longest total time first."""
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
        """The user's lines that took time on devices, longest first. Time without a line is under None."""
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
        """Time of operations by category: `fusion`, `library`, `custom`, `copy`, `collective`, `other`."""
        return self._sum_by_key(lambda info: [(info.category, 1.0)])

    def by_scope(self) -> dict[str, float]:
        """Time of operations by enclosing transformations, calls and `named_scope`s."""
        return self._sum_by_key(
            lambda info: [(share.scope, share.share) for share in info.shares] or [("", 1.0)]
        )

    def by_collective(self) -> list[CollectiveRow]:
        """Collectives with their waiting and exchange time, longest total time first."""
        return collective_rows(self)

    @cached_property
    def straggler(self) -> Straggler | None:
        """The device that delays collectives; None if fewer than two devices took part in any."""
        return straggler(self)

    @cached_property
    def compile_steps(self) -> list[CompileStep]:
        """Passes, kernels and machine code of all compilations, longest first."""
        return compile_steps(self)

    @cached_property
    def host(self) -> list[HostRow]:
        """Time of the threads that called jitted functions, by activity; the rows of a thread add up to the session's
        time.
        """
        return host_rows(self)

    def by_transfer(self) -> list[TransferRow]:
        """Transfers between host and devices, grouped by line, most bytes first."""
        return transfer_rows(self.transfers)

    def _sum_by_key(
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
        """Totals of the session. Measured, estimated and unattributed seconds add up to those of operations."""
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
        """The loop steps named by `profiler.step` or `StepTraceAnnotation`, in order."""
        return [
            *steps_of(
                self.names, self.spans, self.calls, self.operations, self.seconds_of_operation
            )
        ]

    @cached_property
    def place_texts_of_infos(self) -> list[str]:
        """For each of `infos`, the text of the line with the largest share of it, as `train.py:12`; empty if unknown."""
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
        """Time of one execution of each equation, by equation id: the mean over executions and devices.

        The time of an instruction shared by several equations is divided by estimated cost.
        """
        totals: dict[int, float] = defaultdict(float)
        for info, count, seconds in self._totals_of_infos():
            for share in info.shares:
                if share.equation is not None:
                    totals[share.equation] += seconds * share.share / count
        return totals

    def seconds_of_run(self, equations: Collection[int]) -> dict[int, float]:
        """Seconds of each equation, by id, in one run of a program on one device: the mean over its runs and devices.

        The program is the one that shares most equations with `equations` (ids), at least half of its own; the result is empty if
        there is none.
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
        """(number of runs of a program, summed over devices; total seconds of each of its `infos`)."""
        ops = self.operations
        rows = np.flatnonzero(ops.program == program)
        used = np.unique(self.info_of_operation[rows]).tolist()
        runs = len(np.unique(group_rows(ops.run[rows], ops.device[rows])))
        return max(1, runs), {i: float(self.seconds_of_infos[i]) for i in used}

    def seconds_of_kernels(self, function: str, kernels: Collection[str]) -> dict[str, float]:
        """Time of `kernels` in one run of a jitted function's program on one device, the mean over all runs and
        devices.

        If the function has several programs, the one with the largest share of its instructions among `kernels` is used.
        Raises: ArgumentValueError if no program ran for which that is more than half.
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
