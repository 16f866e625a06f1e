"""Findings: the problems that a session shows, each as one sentence with evidence, a remedy and the time it could save."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pellucid_profiler.calls import enclosing, function_name
from pellucid_profiler.session_tables import LineRow, SessionTables
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.text import (
    bytes_text,
    code_text,
    count_text,
    line_number_text,
    line_text,
    percent_text,
    seconds_text,
)

MIN_SHARE = 0.1
"""Minimum share of the session's time for something to be reported as a finding."""
MIN_SHARE_OF_LINE = 0.3
"""Minimum share of all operations' time for a line to be reported as a finding."""

MIN_TRANSFERS = 3
"""Minimum number of host-to-device copies to report: a first copy is how data gets there."""
MAX_NAMES = 3
"""Maximum number of instructions that a finding names."""
MIN_BYTES = 1 << 20
"""Minimum number of bytes for memory to be reported."""
_WAITING = ("waiting", "transfers", "Python or waiting, devices busy")
"""Activities in which a thread waits instead of dispatching ahead of the devices."""
_TO_DEVICE = "host_to_device"
_TRANSFER = "DevicePutWithSharding"
"""Name of the span that copies a host array to devices."""


class Finding(NamedTuple):
    """A problem that costs time or memory, and what to do about it.

    >>> finding = Finding("The devices wait.", "Gaps in the track", "Call `jit` on the whole step.", 0.25)
    >>> finding.remedy, finding.saved_seconds
    ('Call `jit` on the whole step.', 0.25)
    """

    text: str
    """The problem in one sentence, with figures."""
    evidence: str
    """Where the problem is visible: a line, an instruction, or the cause of a compilation."""
    remedy: str
    saved_seconds: float
    """Upper bound of the seconds saved, of the session's wall time or of its operations' time."""


def findings(session: SessionTables) -> list[Finding]:
    """The findings of a session, sorted by the time they could save, largest first.

    >>> with pl.profiler.profile() as recorded:
    ...     pass
    >>> findings(recorded.wait())
    []
    """
    rules: list[Callable[[SessionTables], Iterator[Finding]]] = [
        _compilations, _compile_steps, _transfers, _reads, _callbacks, _idle_devices, _lines, _copies,
        _stragglers, _temporaries, _growth, _uneven_constraints,
    ]  # fmt: skip
    return sorted(
        (finding for rule in rules for finding in rule(session)),
        key=lambda finding: -finding.saved_seconds,
    )


def _compilations(session: SessionTables) -> Iterator[Finding]:
    by_function: dict[str, list[int]] = defaultdict(list)
    operations = [each for each in session.compilations if each.is_operation]
    for i, compilation in enumerate(session.compilations):
        if not compilation.is_operation:
            by_function[compilation.function].append(i)
    wall = session.totals.wall_seconds
    seconds = sum(each.seconds for each in operations)
    if operations and seconds >= MIN_SHARE * wall:
        longest = max(operations, key=lambda each: each.seconds)
        yield Finding(
            f"Compiling {count_text(len(operations), 'operation')} called outside of `jit` took {seconds_text(seconds)} "
            f"({percent_text(seconds / wall)} of the session).",
            f"`{longest.function}` took the longest, {seconds_text(longest.seconds)}: "
            f"{line_number_text(session.sources, longest.file, longest.line) or 'at no line of yours'}.",
            "An operation is compiled at its first call with these types: record another run, or jit what calls it.",
            seconds,
        )
    for function, rows in by_function.items():
        compilations = [session.compilations[i] for i in rows]
        seconds = sum(each.seconds for each in compilations)
        if seconds < MIN_SHARE * wall:
            continue
        causes = [cause for each in compilations for cause in each.causes]
        times = f"{len(rows)} times" if len(rows) > 1 else "once"
        yield Finding(
            f"`{function}` was traced and compiled {times}, which took {seconds_text(seconds)}"
            f" ({percent_text(seconds / wall)} of the session).",
            causes[0] if causes else "It was its first call.",
            "Keep shapes, dtypes and static arguments the same between calls."
            if causes
            else "Compile before the measured part: call the function once outside of the session.",
            seconds,
        )


def _compile_steps(session: SessionTables) -> Iterator[Finding]:
    """Reports a kernel that dominates compile time, and functions whose tracing and lowering takes longer than XLA."""
    wall = session.totals.wall_seconds
    kernels = [step for step in session.compile_steps if step.phase == "kernels" and step.place]
    threads = sum(step.thread_seconds for step in session.compile_steps) or 1.0
    for step in kernels[:1]:
        share = step.thread_seconds / threads
        if step.thread_seconds > MIN_SHARE * wall and share > MIN_SHARE_OF_LINE and step.place:
            yield Finding(
                f"Generating one kernel took {percent_text(share)} of XLA's threads' time ({seconds_text(step.thread_seconds)}): "
                f"{line_number_text(session.sources, step.place.file, step.place.line)}.",
                f"%{step.name} of {step.program}: {code_text(session.sources, step.place)}".rstrip(
                    ": "
                ),
                "Put a part of what it fuses behind `lax.optimization_barrier`, or loop where the line unrolls.",
                step.thread_seconds,
            )
    for each in session.compilations:
        if each.is_operation:
            continue
        before = each.trace_seconds + each.lower_seconds
        if before > MIN_SHARE * wall and before > each.compile_seconds:
            yield Finding(
                f"Tracing and lowering `{each.function}` took {seconds_text(before)}, longer than compiling it "
                f"({seconds_text(each.compile_seconds)}).",
                f"Traced for {seconds_text(each.trace_seconds)}, lowered for {seconds_text(each.lower_seconds)}.",
                "Its Python loops unroll into large programs: use `lax.scan` or `lax.fori_loop` over layers and steps.",
                before - each.compile_seconds,
            )


def _reads(session: SessionTables) -> Iterator[Finding]:
    """Reports a line that reads results from devices repeatedly."""
    for row in session.by_transfer():
        if row.direction != "device_to_host" or row.count < MIN_TRANSFERS:
            continue
        waiting = sum(each.seconds for each in session.host if each.activity in _WAITING)
        if waiting > MIN_SHARE * session.totals.wall_seconds:
            yield Finding(
                f"Python waited {seconds_text(waiting)} for results, and read {bytes_text(row.n_bytes)} of them "
                f"in {row.count} transfers.",
                _line(session, row.place),
                "Read results once, behind the loop, or every so many steps: `pl.device_get` takes a whole tree.",
                min(waiting, session.totals.wall_seconds - session.totals.busy_seconds),
            )
        return


def _callbacks(session: SessionTables) -> Iterator[Finding]:
    """Reports a Python callback that programs wait for."""
    for row in session.callbacks[:1]:
        if row.seconds > MIN_SHARE * session.totals.wall_seconds:
            yield Finding(
                f"Programs called `{row.function}` {count_text(row.count, 'time')}, for {seconds_text(row.seconds)} "
                f"({percent_text(row.seconds / session.totals.wall_seconds)} of the session).",
                f"{_line(session, row.place)}; it ran on {count_text(row.thread_count, 'thread')}.",
                "Compute it with operations of jnp, or call it less often, under `lax.cond`.",
                row.seconds,
            )


def _temporaries(session: SessionTables) -> Iterator[Finding]:
    """Reports a temporary buffer that dominates a program's memory."""
    for number, memory in sorted(session.memory.items(), key=lambda item: -item[1].peak_bytes)[:1]:
        largest = next((each for each in memory.at_peak if each.kind == "temporary"), None)
        if largest is None or largest.n_bytes < MIN_BYTES:
            continue
        if largest.n_bytes > MIN_SHARE_OF_LINE * memory.peak_bytes:
            program = session.programs[number]
            info = program.instructions.get(largest.instruction)
            share = (
                max(info.shares, key=lambda share: share.share) if info and info.shares else None
            )
            yield Finding(
                f"One temporary is {percent_text(largest.n_bytes / memory.peak_bytes)} of the {bytes_text(memory.peak_bytes)} "
                f"that `{program.name.removeprefix('jit_')}` needs at its peak.",
                f"%{largest.instruction}, {bytes_text(largest.n_bytes)}: {_line(session, share and share.place)}",
                "Compute it in parts (`lax.map` with `batch_size`), or again in the backward pass (`pl.checkpoint`): that saves"
                f" up to {bytes_text(largest.n_bytes)}.",
                0.0,
            )


def _uneven_constraints(session: SessionTables) -> Iterator[Finding]:
    """Reports the largest value with a sharding constraint that can't be met."""
    constraints = [each for program in session.programs.values() for each in program.uneven]
    largest = max(constraints, key=lambda each: each.whole_bytes, default=None)
    if largest is not None:
        n_others = len(constraints) - 1
        # A constraint may ask for uneven parts along several dimensions.
        others = f" So it is with {count_text(n_others, 'other cut')}." if n_others else ""
        yield Finding(
            largest.problem + others,
            _line(session, largest.place),
            f"{largest.remedy[0].upper()}{largest.remedy[1:]}, or shard another dimension; `pl.viz.sharding` marks the value.",
            0.0,
        )


def _growth(session: SessionTables) -> Iterator[Finding]:
    """Reports a line whose arrays accumulate during the session."""
    growing = max(session.heap, key=lambda row: row.end_bytes - row.begin_bytes, default=None)
    if growing is None:
        return
    grown = growing.end_bytes - growing.begin_bytes
    is_many = growing.end_count >= MIN_TRANSFERS and grown > MIN_BYTES
    if is_many and len(session.calls) >= MIN_TRANSFERS and growing.begin_bytes + grown > MIN_SHARE_OF_LINE * int(
        session.live_arrays.n_bytes.max(initial=0)
    ):  # fmt: skip
        yield Finding(
            f"Arrays of one line grew by {bytes_text(grown)} in the session, and {count_text(growing.end_count, 'buffer')} "
            "of them are alive at its end.",
            _line(session, growing.place),
            "Something keeps a reference to each result, such as a list of losses: keep Python numbers, or the last one,"
            f" which saves {bytes_text(grown)}.",
            0.0,
        )


def _line(session: SessionTables, place: SourceLine | None) -> str:
    return line_text(session.sources, place)


def _transfers(session: SessionTables) -> Iterator[Finding]:
    spans, wall = session.spans, session.totals.wall_seconds
    rows = np.flatnonzero(np.array([name == _TRANSFER for name in session.names], bool)[spans.name])
    logged = [row for row in session.by_transfer() if row.direction == _TO_DEVICE]
    durations = spans.end_ns[rows] - spans.start_ns[rows]
    # Recordings of other tools have no sampled arrays and no log of transfers.
    if len(session.live_arrays.n_bytes):
        # The first call of a function places its Python numbers in spans of the same name, absent from the log of
        # transfers. They are the shortest spans, so they are dropped first.
        n_numbers = max(0, len(rows) - sum(row.count for row in logged))
        copies = np.argsort(durations)[n_numbers:]
        rows, durations = rows[copies], durations[copies]
    seconds = float(durations.sum()) / 1e9
    if len(rows) < MIN_TRANSFERS or seconds < MIN_SHARE * wall:
        return
    callers = enclosing(session.calls, spans.thread[rows], spans.start_ns[rows])
    numbers, counts = np.unique(session.calls.name[callers[callers >= 0]], return_counts=True)
    where = ["No call of a jitted function was around them."]
    if len(numbers):
        function = function_name(session.names[int(numbers[np.argmax(counts)])])
        where = [f"{counts.max()} of them were arguments of `{function}`."]
    n_bytes = ""
    if logged:
        largest = logged[0]
        n_bytes = f", {bytes_text(largest.n_bytes / largest.count)} each time"
        where.append(_line(session, largest.place))
    yield Finding(
        f"Arrays were copied from the host to devices {len(rows)} times{n_bytes}, which took {seconds_text(seconds)}"
        f" ({percent_text(seconds / wall)} of the session).",
        " ".join(where),
        "Put arrays that stay the same on the devices once, by `x = pl.device_put(x)`, before the loop.",
        seconds,
    )


def _idle_devices(session: SessionTables) -> Iterator[Finding]:
    totals = session.totals
    compiling = sum(each.seconds for each in session.compilations)
    idle = totals.wall_seconds - totals.busy_seconds - compiling
    if len(session.calls) > 1 and idle > MIN_SHARE * totals.wall_seconds:
        yield Finding(
            f"Devices waited for Python {percent_text(idle / totals.wall_seconds)} of the time ({seconds_text(idle)}).",
            f"{len(session.calls)} calls; operations ran during {seconds_text(totals.busy_seconds)} of "
            f"{seconds_text(totals.wall_seconds)}.",
            "Jit more of the step at once, and don't read results (`float(x)`, `np.asarray(x)`, printing) in each step.",
            idle,
        )


def _lines(session: SessionTables) -> Iterator[Finding]:
    total = session.totals.operation_seconds
    for row in session.lines[:1]:
        if row.place is not None and row.seconds > MIN_SHARE_OF_LINE * total:
            backward = f", {percent_text(row.backward_seconds / row.seconds)} of it backward"
            work = _work_of_line(session, row.place)
            remedy, saved = _remedy_of_line(session, row, work)
            reordered = (
                ""
                if not work.copies
                else (
                    f" {count_text(len(work.copies), 'copy or transpose', 'copies and transposes')} of its arrays"
                    f" ({', '.join(f'%{name}' for name in work.copies[:MAX_NAMES])}) took {seconds_text(work.copy_seconds)}."
                )
            )
            yield Finding(
                f"{percent_text(row.seconds / total)} of the operations' time is "
                f"{line_number_text(session.sources, row.place.file, row.place.line)}"
                f"{backward if row.backward_seconds else ''}.",
                (
                    code_text(session.sources, row.place)
                    or line_number_text(session.sources, *row.place[:2])
                ) + reordered,
                remedy,
                saved,
            )  # fmt: skip


class _Work(NamedTuple):
    """Work of one line over the session: arithmetic, bytes moved, and copies that only change the layout of its arrays."""

    flops: float
    n_bytes: float
    copies: list[str]
    """Names of copy and transpose instructions, sorted by time, longest first."""
    copy_seconds: float


def _work_of_line(session: SessionTables, place: SourceLine) -> _Work:
    flops = n_bytes = copy_seconds = 0.0
    copies: list[str] = []
    for row in session.by_operation:
        info = session.infos[row.info]
        share = sum(each.share for each in info.shares if each.place == place)
        flops += share * (row.flops or 0.0)
        n_bytes += share * (row.bytes or 0.0)
        if share and info.category == "copy":
            copies.append(row.instruction)
            copy_seconds += share * row.seconds
    return _Work(flops, n_bytes, copies, copy_seconds)


def _remedy_of_line(session: SessionTables, row: LineRow, work: _Work) -> tuple[str, float]:
    """(remedy for a slow line, upper bound of the seconds saved)."""
    order = " Keep its operands in the order in which it reads them." if work.copies else ""
    if session.peaks is not None and (work.flops or work.n_bytes):
        share = session.peaks.share(work.flops, work.n_bytes, row.seconds)
        is_arithmetic = (
            work.flops / session.peaks.flops_per_second > work.n_bytes / session.peaks.bytes_per_second
        )  # fmt: skip
        limit = (
            f"{session.peaks.flops_per_second / 1e9:.3g} GFLOP/s that products of matrices reach"
            if is_arithmetic
            else f"{session.peaks.bytes_per_second / 1e9:.3g} GB/s that its memory reaches"
        )
        return (
            f"It runs at {percent_text(share, 1)} of the roofline, the {limit} on this device.{order}",
            max(row.seconds * (1 - share), work.copy_seconds),
        )
    if work.flops:
        return (
            f"It runs at {work.flops / row.seconds / 1e9:.3g} GFLOP/s; `pl.profiler.measure_peaks()` measures the peak.{order}",
            work.copy_seconds,
        )
    return (
        f"It only moves data: look for transposes, copies and gathers that could be left out.{order}",
        work.copy_seconds,
    )


def _copies(session: SessionTables) -> Iterator[Finding]:
    seconds = session.by_category().get("copy", 0.0)
    total = session.totals.operation_seconds
    if seconds > MIN_SHARE * total:
        largest = next(row for row in session.by_operation if row.category == "copy")
        yield Finding(
            f"Copies and transposes take {percent_text(seconds / total)} of the operations' time ({seconds_text(seconds)}).",
            f"The longest is %{largest.instruction} of {largest.program}, {largest.count} times.",
            "Donate arguments that results replace, and keep the order of axes that the next operation wants.",
            seconds,
        )


def _stragglers(session: SessionTables) -> Iterator[Finding]:
    late = session.straggler
    if late is None or late.wait_seconds <= MIN_SHARE * session.totals.wall_seconds:
        return
    rows = session.by_collective()
    if not rows:  # devices met only in what contains other operations
        return
    by_wait = max(rows, key=lambda row: row.wait_seconds)
    collective = session.place_texts_of_infos[by_wait.info]
    slow = session.place_texts_of_infos[late.info]
    operation = session.infos[by_wait.info].opcode or session.infos[by_wait.info].name
    where = f", mostly in `{operation}`" + (f", {collective}" if collective else "")
    evidence = (
        f"Its own operations took {seconds_text(late.own_seconds)}, those of the median device"
        f" {seconds_text(late.median_seconds)}"
    )
    if late.own_seconds > late.median_seconds and slow:
        evidence += f"; it loses most in {slow}"
    yield Finding(
        f"Collectives wait {seconds_text(late.wait_seconds)} for device {late.device}{where}.",
        f"{evidence}.",
        "Divide its work more evenly, or look what else runs on it.",
        late.wait_seconds,
    )
