"""Conversion of XLA's recording into a `Session`, on a background thread that reports its progress."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from pellucid.introspect import recording
from pellucid_profiler.callbacks import CallbackLog
from pellucid_profiler.calls import calls_of, spans_of
from pellucid_profiler.collectives import RENDEZVOUS, collectives_of
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.compile_steps import KERNEL, kernel_name
from pellucid_profiler.counters import counters_of
from pellucid_profiler.gpu import explain_error, gpu_losses, gpu_peaks, is_on_gpu
from pellucid_profiler.live_arrays import ArrayLog, LiveArrays
from pellucid_profiler.live_buffers import ProgramMemory, ProgramMemoryReader
from pellucid_profiler.marks import marked_places
from pellucid_profiler.operations import (
    Operations,
    group_rows,
    has_end,
    operations_of,
    rank,
    with_copies,
)
from pellucid_profiler.peaks import measured_peaks
from pellucid_profiler.progress import ConversionProgress, Interrupted, show_progress
from pellucid_profiler.session import Session
from pellucid_profiler.sources import ProgramInfo
from pellucid_profiler.text import count_text, seconds_text, sources_of
from pellucid_profiler.transfers import Transfer
from pellucid_profiler.xspace import ABSENT, Events, read_events

_JOINS = ("end: ", "ThreadpoolListener::", RENDEZVOUS)
"""Name prefixes of events that are joined to operations. They are kept even after the end of the recorded block."""
MAX_MEMORY_PROGRAMS = 4
"""Maximum number of programs in a session whose buffers are listed over time: those with the largest memory."""
MAX_PROGRAMS = 16
"""Maximum number of parsed programs that a process keeps for later sessions, the last used ones."""
MAX_PROGRAMS_AHEAD = 4
"""Maximum number of programs parsed while XLA still collects events, newest first, before it is known which ones ran."""


class Observed(NamedTuple):
    """Data of a session that doesn't come from XLA's recording: observed by pellucid itself."""

    compilations: Sequence[Compilation] = ()
    transfers: Sequence[Transfer] = ()
    meshes: Sequence[Mapping[str, int]] = ()
    callbacks: CallbackLog | None = None
    arrays: ArrayLog | None = None
    remarks: Sequence[str] = ()


class Conversion:
    """Converts a stopped recording into a `Session` on two threads: one collects XLA's events, one parses programs and
    joins both.
    """

    def __init__(
        self, session: Any, executables: list[Any], observed: Observed, *, is_held: bool = False
    ) -> None:
        """With `is_held`, only XLA's events are collected, which needs no Python; parsing starts with `release`."""
        self.recorded: Future[bytes] = Future()
        """XLA's recording, a serialized XSpace."""
        self.progress = ConversionProgress()
        self._executables, self._observed = executables, observed
        self._lock = threading.Lock()
        self._result: Future[Session] | None = None
        """None until `release` is called."""
        threading.Thread(target=self._collect, args=(session,), name="pellucid events").start()
        if not is_held:
            self.release()

    def release(self) -> Future[Session]:
        """Starts parsing and returns the future session. Starts again if an earlier conversion was interrupted."""
        with self._lock:
            result = self._result
            if result is None or (result.done() and isinstance(result.exception(), Interrupted)):
                result = self._result = Future()
                threading.Thread(target=self._run, args=(result,), name="pellucid profiler").start()
            return result

    @property
    def result(self) -> Session | None:
        """The session if the conversion has succeeded, else None."""
        result = self._result
        if result is None or not result.done() or result.exception() is not None:
            return None
        return result.result()

    def wait(self, timeout_seconds: float | None = None) -> Session:
        """Waits for the session, showing the progress.

        KeyboardInterrupt also stops the conversion; the next call of `wait` starts it again.
        """
        self.progress.resume()
        try:
            return show_progress(self.release(), self.progress, timeout_seconds)
        except KeyboardInterrupt:
            self.progress.interrupt()
            raise

    def _collect(self, session: Any) -> None:
        try:
            self.recorded.set_result(session.stop())
        except BaseException as error:  # raised by whoever calls `recorded.result()`
            self.recorded.set_exception(error)

    def _run(self, result: Future[Session]) -> None:
        try:
            self._read_ahead()
            programs = functools.partial(_programs_of, self._executables)
            recorded = self.recorded.result()
            result.set_result(session_of(recorded, programs, self._observed, self.progress))
        except BaseException as error:
            result.set_exception(error)

    def _read_ahead(self) -> None:
        """Parses recent programs while XLA collects its events, which doesn't hold the GIL."""
        newest = (
            each for each in self._executables
            if each not in _read and each.hlo_modules()[0].name != f"jit_{recording.DRAINING}"
        )  # fmt: skip
        for executable, _ in zip(newest, range(MAX_PROGRAMS_AHEAD), strict=False):
            if self.recorded.done():
                return
            with contextlib.suppress(Exception):  # raised again when the program is needed
                [loaded] = recording.modules_of(executable)
                reader = ProgramMemoryReader(loaded)
                reader.read(self._observed.meshes)
                _read.setdefault(executable, reader)


def session_of(
    recorded: bytes,
    programs_called: Callable[[Mapping[int, set[str]]], Mapping[int, ProgramMemoryReader]],
    observed: Observed,
    progress: ConversionProgress | None = None,
) -> Session:
    """Builds a session from XLA's recording (a serialized XSpace) and the programs that ran.

    `programs_called` maps program numbers to their readers, given for each number the module names it has in the
    recording.
    Raises: ArgumentValueError for truncated or invalid bytes.
    """
    progress = progress or ConversionProgress()
    reading = functools.partial(progress, "reading events")
    events, other_processes = _events_of_this_process(read_events(recorded, reading))
    events, end_ns = _without_draining(events)
    progress("joining operations to calls")
    operations = operations_of(events)
    spans = spans_of(events, operations)
    is_kernel = events.texts_are(spans.name, KERNEL)
    details: list[int] = np.unique(spans.detail[is_kernel]).tolist()
    kernels = {kernel_name(events.names[i]) for i in details if i >= 0}
    modules = events.stat("hlo_module")[operations.event]
    names_by_program: dict[int, set[str]] = {}
    _, first = np.unique(group_rows(operations.program, modules), return_index=True)
    for number, name in zip(operations.program[first], modules[first], strict=True):
        if name >= 0:
            names_by_program.setdefault(int(number), set()).add(events.names[int(name)])
    loaded = programs_called(names_by_program)
    memory = _memory_of(
        {number: each for number, each in loaded.items() if number in operations.program}
    )
    programs: dict[int, ProgramInfo] = {}
    heap = [] if observed.arrays is None else observed.arrays.rows()
    callbacks = [] if observed.callbacks is None else observed.callbacks.rows()
    numbers = rank(operations.program)[0].tolist()
    for i, number in enumerate(numbers):
        progress("reading programs", i / len(numbers))
        rows: list[int] = rank(operations.instruction[operations.program == number])[0].tolist()
        at_peak = memory[number].at_peak if number in memory else []
        names = {
            *(events.names[i] for i in rows),
            *kernels,
            *(each.instruction for each in at_peak),
        }
        module = loaded.get(number)
        if module is not None:
            programs[number] = module.info(names, observed.meshes)
            continue
        [row, *_] = operations.event[operations.program == number]
        name = int(events.stat("hlo_module")[row])
        programs[number] = ProgramInfo("" if name == ABSENT else events.names[name], {})
    if not is_on_gpu(events).any():  # GPUs sort by kernels of other names
        operations = with_copies(operations, events.names, _copies_of(programs, loaded))
    begin_ns = events.session.get("profile_start_time", 0)
    places = [place for program in programs.values() for place in program.places()]
    constraints = [each for program in programs.values() for each in program.uneven]
    others = (*observed.transfers, *heap, *callbacks, *constraints)
    places += [each.place for each in others if each.place is not None]
    return Session(
        names=events.names,
        threads=events.threads,
        programs=programs,
        operations=operations,
        calls=calls_of(events, operations),
        spans=spans,
        transfers=[*observed.transfers],
        callbacks=callbacks,
        live_arrays=LiveArrays.none() if observed.arrays is None else observed.arrays.samples(),
        heap=heap,
        remarks=[*observed.remarks, *other_processes, *_losses(events, operations, programs)],
        memory=memory,
        peaks=gpu_peaks(events) or measured_peaks(),
        counters=counters_of(events),
        collectives=collectives_of(events, operations),
        compilations=[*observed.compilations],
        begin_unix_ns=begin_ns,
        wall_ns=max(end_ns, int(operations.end_ns.max(initial=0))),
        sources=sources_of([*places, *marked_places(events.names)]),
    )


_read: dict[Any, ProgramMemoryReader] = {}
"""Parsed programs by executable. Program numbers can't be keys: programs loaded from disk have another process's
numbers.
"""


def _programs_of(
    executables: list[Any], names: Mapping[int, set[str]]
) -> dict[int, ProgramMemoryReader]:
    """Readers by program number, for the programs that occur in the recording (`names`: module names by number)."""
    readers: dict[int, ProgramMemoryReader] = {}
    for number, loaded in recording.loaded_modules(executables, names).items():
        reader = _read.pop(loaded.executable, None) or ProgramMemoryReader(loaded)
        readers[number] = _read[loaded.executable] = reader
    for executable in list(_read)[:-MAX_PROGRAMS]:
        _read.pop(executable, None)
    return readers


def _memory_of(loaded: Mapping[int, ProgramMemoryReader]) -> dict[int, ProgramMemory]:
    """Buffers over time of the programs that allocate most, by program number."""
    needs = {number: each.allocated_bytes for number, each in loaded.items()}
    largest = sorted(needs, key=lambda number: -needs[number])[:MAX_MEMORY_PROGRAMS]
    memory = {number: loaded[number].memory for number in largest}
    return {number: each for number, each in memory.items() if each is not None}


def _copies_of(
    programs: Mapping[int, ProgramInfo], loaded: Mapping[int, ProgramMemoryReader]
) -> dict[int, dict[str, int]]:
    """By program number, how many operands XLA copies for each sort; only programs with sorts are looked at."""
    sorting = [
        number
        for number, program in programs.items()
        if any(info.opcode == "sort" for info in program.instructions.values())
    ]
    return {number: loaded[number].copies for number in sorting}


def _losses(
    events: Events, operations: Operations, programs: Mapping[int, ProgramInfo]
) -> Iterator[str]:
    """Sentences for the user about data that the recording lacks."""
    without_end = int(np.count_nonzero(~has_end(events, operations.event)))
    if without_end:
        yield (
            f"The ends of {count_text(without_end, 'operation')} were not recorded: their time is that until they returned, "
            "which of asynchronous ones is too short."
        )
    yield from gpu_losses(events)
    yield from map(explain_error, events.problems)
    gone = [
        number
        for number, program in programs.items()
        if number != ABSENT and not program.instructions
    ]
    if gone:
        rows = np.isin(operations.program, gone)
        seconds = float(operations.duration_ns[rows].sum()) / 1e9
        yield (
            f"{count_text(len(gone), 'program')} that ran for {seconds_text(seconds)} can't be read any more, so their "
            "operations have names only. Keep the jitted functions alive until the session ends."
        )


_OTHER_PROCESS = re.compile(r"\[(\d+)\]$")
"""End of the name of a plane that XLA collected from a registered process: its process id in brackets."""


def _events_of_this_process(events: Events) -> tuple[Events, list[str]]:
    """(events of this process, remarks about other processes). Run numbers of different processes would collide."""
    matches = [_OTHER_PROCESS.search(plane) for plane in events.planes]
    processes = sorted({match[1] for match in matches if match is not None})
    if not processes:
        return events, []
    is_ours = np.array([match is None for match in matches], bool)
    remark = (
        f"Events of process {', '.join(processes)} are in the recording, and not in this session. Record a session there, too, "
        "and pass both to `pl.profiler.merge`."
    )
    return events.rows(is_ours[events.thread]), [remark]


def _without_draining(events: Events) -> tuple[Events, int]:
    """(events without the profiler's own draining program and what begins after the recorded block, except operations and
    events joined to them; end of the block in nanoseconds).
    """
    begin_ns = events.session.get("profile_start_time", 0)
    stop_ns = events.session.get("profile_stop_time", begin_ns) - begin_ns
    rows = np.flatnonzero(events.texts_are(events.name, recording.DRAINING))
    if not rows.size:
        return events, stop_ns
    end_ns = int(events.start_ns[rows[0]])
    is_ours = events.texts_are(events.stat("hlo_module"), f"jit_{recording.DRAINING}")
    is_join = np.array([name.startswith(_JOINS) for name in events.names], bool)[events.name]
    is_late = (events.start_ns >= end_ns) & (events.stat("hlo_op") == ABSENT) & ~is_join
    return events.rows(~is_ours & ~is_late), end_ns
