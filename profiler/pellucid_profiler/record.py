"""Conversion of a session to the record that front ends display."""

from __future__ import annotations

import base64
import itertools
import weakref
from collections.abc import Callable

import numpy as np

from pellucid.introspect.errors import ArgumentValueError
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.findings import findings
from pellucid_profiler.part_records import part_records
from pellucid_profiler.perfetto import perfetto_trace
from pellucid_profiler.perfetto_ui import linked_ui
from pellucid_profiler.schema import (
    DeviceShareColumns,
    FindingRecord,
    OperationColumns,
    PerfettoRecord,
    ProfiledCompilationRecord,
    ProfiledLineColumns,
    ProfileRecord,
    ShareColumns,
    TimelineRecord,
    TotalsRecord,
)
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.text import line_number_text
from pellucid_profiler.timeline import timeline
from pellucid_profiler.xspace import Column

MAX_OPERATIONS = 10_000
"""Maximum number of instructions in a record."""

_numbers = itertools.count(1)
_sessions: weakref.WeakValueDictionary[int, SessionTables] = weakref.WeakValueDictionary()


def profile_record(session: SessionTables) -> ProfileRecord:
    """Converts a session to its record.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> profile_record(recorded.wait()).totals.call_count
    1
    """
    strings = _Strings()
    files = [*session.sources]
    lines = [row for row in session.lines if row.place is not None]
    line_numbers = {row.place: i for i, row in enumerate(lines)}
    order, positions = _order(session)
    shown = order[:MAX_OPERATIONS]
    totals = session.totals
    return ProfileRecord(
        session=_number(session),
        totals=TotalsRecord(
            **totals._asdict(),
            is_detail=session.is_detail,
            call_count=len(session.calls),
            operation_count=len(session.operations),
            device_count=len(np.unique(session.operations.device)),
        ),
        remarks=session.remarks,
        findings=[FindingRecord(**each._asdict()) for each in findings(session)],
        sources=[*session.sources.values()],
        lines=ProfiledLineColumns(
            source=[files.index(row.place.file) for row in lines if row.place],
            line=[row.place.line for row in lines if row.place],
            forward_seconds=[row.forward_seconds for row in lines],
            backward_seconds=[row.backward_seconds for row in lines],
            measured_seconds=[row.measured_seconds for row in lines],
            flops=[row.flops for row in lines],
        ),
        operations=_operation_columns(session, shown, strings),
        shares=_share_columns(session, shown, line_numbers, strings),
        device_shares=_device_columns(session, positions, len(shown)),
        omitted_count=len(order) - len(shown),
        omitted_seconds=float(session.seconds_of_infos[order[MAX_OPERATIONS:]].sum()),
        timeline=timeline(session, positions=positions),
        compilations=[_compilation(session, each) for each in session.compilations],
        **part_records(session, positions, strings),
        strings=strings.texts,
    )


def session_timeline(number: int, begin_ns: int, end_ns: int, columns: int) -> TimelineRecord:
    """A zoomed timeline of the session with this number; `columns` is its resolution.

    Raises: ArgumentValueError if this process has no such session, or has dropped it.
    """
    session = _shown_session(number)
    return timeline(session, begin_ns, end_ns, columns, _order(session)[1])


def session_perfetto(number: int) -> PerfettoRecord:
    """The session with this number as a trace for the Perfetto UI, with the address of the UI's page.

    Raises: ArgumentValueError if this process has no such session, or has dropped it; UnsupportedError without the UI.
    """
    session = _shown_session(number)
    trace = base64.b64encode(perfetto_trace(session)).decode()
    return PerfettoRecord(page=linked_ui(), trace=trace)


def _shown_session(number: int) -> SessionTables:
    session = _sessions.get(number)
    if session is None:
        raise ArgumentValueError(
            "this session is no longer in the kernel.",
            got=f"session {number}",
            do="Keep it in a variable, and run the cell again.",
        )
    return session


def _number(session: SessionTables) -> int:
    if session.number == 0:
        session.number = next(_numbers)
        _sessions[session.number] = session
    return session.number


def _order(session: SessionTables) -> tuple[Column, Column]:
    """(indices of `infos` sorted by time, longest first; row of each in the record, or -1 if it is omitted)."""
    order = np.argsort(-session.seconds_of_infos, kind="stable")
    positions = np.full(len(order), -1)
    positions[order[:MAX_OPERATIONS]] = np.arange(min(len(order), MAX_OPERATIONS))
    return order, positions


class _Strings:
    """Table of strings: each distinct text gets an index."""

    def __init__(self) -> None:
        self.texts = [""]
        self._numbers = {"": 0}

    def __call__(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


def _operation_columns(
    session: SessionTables, shown: Column, string: Callable[[str], int]
) -> OperationColumns:
    infos = [session.infos[int(i)] for i in shown]
    counts, seconds = session.counts_of_infos, session.seconds_of_infos

    def total(values: list[float | None]) -> list[float | None]:
        return [
            None if value is None else value * int(counts[i])
            for i, value in zip(shown, values, strict=True)
        ]

    return OperationColumns(
        program=[string(session.program_name(int(i))) for i in shown],
        name=[string(info.label) for info in infos],
        category=[string(info.category) for info in infos],
        attribution=[string(info.attribution) for info in infos],
        count=counts[shown].tolist(),
        seconds=seconds[shown].tolist(),
        flops=total([info.flops for info in infos]),
        bytes=total([info.bytes for info in infos]),
        share_counts=[len(info.shares) for info in infos],
    )


def _share_columns(
    session: SessionTables,
    shown: Column,
    lines: dict[SourceLine | None, int],
    string: Callable[[str], int],
) -> ShareColumns:
    shares = [share for i in shown for share in session.infos[int(i)].shares]
    return ShareColumns(
        line=[lines.get(share.place, -1) for share in shares],
        scope=[string(share.scope) for share in shares],
        operation=[string(share.operation) for share in shares],
        equation=[-1 if share.equation is None else share.equation for share in shares],
        is_backward=[share.is_backward for share in shares],
        share=[share.share for share in shares],
    )


def _device_columns(session: SessionTables, positions: Column, n_shown: int) -> DeviceShareColumns:
    devices, device = np.unique(session.operations.device, return_inverse=True)
    keys = positions[session.info_of_operation] * max(1, len(devices)) + device.reshape(-1)
    keys, seconds = keys[keys >= 0], session.seconds_of_operation[keys >= 0]
    size = n_shown * max(1, len(devices))
    counts, totals = np.bincount(keys, minlength=size), np.bincount(keys, seconds, size)
    rows = np.flatnonzero(counts)
    return DeviceShareColumns(
        operation=(rows // max(1, len(devices))).tolist(),
        device=devices[rows % max(1, len(devices))].tolist(),
        count=counts[rows].tolist(),
        seconds=totals[rows].tolist(),
    )


def _compilation(session: SessionTables, each: Compilation) -> ProfiledCompilationRecord:
    return ProfiledCompilationRecord(
        function=each.function,
        place=line_number_text(session.sources, each.file, each.line),
        trace_seconds=each.trace_seconds,
        lower_seconds=each.lower_seconds,
        compile_seconds=each.compile_seconds,
        entry_count=each.entry_count,
        causes=list(each.causes),
    )
