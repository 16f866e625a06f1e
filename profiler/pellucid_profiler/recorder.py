"""Recording: `with profile() as session: ...`, `start` and `stop`, and names for parts of a run."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from pellucid.base.events import add_observer, remove_observer
from pellucid.introspect import recording
from pellucid.introspect.errors import ArgumentValueError, UnsupportedError
from pellucid.introspect.transfers import TransferLog
from pellucid_profiler.callbacks import CallbackLog
from pellucid_profiler.calls import calls_of, spans_of
from pellucid_profiler.collectives import RENDEZVOUS, collectives_of
from pellucid_profiler.compilations import Compilation, compilations_since
from pellucid_profiler.compile_steps import KERNEL, kernel_name
from pellucid_profiler.gpu import explained, gpu_losses
from pellucid_profiler.host import Transfer
from pellucid_profiler.live_arrays import ArrayLog, LiveArrays
from pellucid_profiler.live_buffers import ProgramMemory, ProgramMemoryReader
from pellucid_profiler.marks import marked_places
from pellucid_profiler.operations import Operations, has_end, operations_of
from pellucid_profiler.peaks import measured_peaks
from pellucid_profiler.report import report
from pellucid_profiler.session import Session
from pellucid_profiler.sources import Place, ProgramInfo
from pellucid_profiler.text import counted, seconds_text, sources_of
from pellucid_profiler.xspace import ABSENT, Events, read_events

_JOINS = ("end: ", "ThreadpoolListener::", RENDEZVOUS)
"""Begins of the names of events by which operations are joined to others, also behind the session's block."""
MAX_MEMORY_PROGRAMS = 4
"""Programs of a session, those that need most memory, whose buffers it has over time."""
LAST_EVENTS_SECONDS = 0.002
"""Seconds from the last operation to the end of a session: its end is recorded a little later."""

_current: Profile | None = None
_last: Profile | None = None
_lock = threading.Lock()


class Profile:
    """A session that is being recorded, or was: as a context manager it records its block.

    Attributes and methods are those of `Session`; asking for one waits for the thread that converts the recording.
    """

    def __init__(self, *, options: Any = None) -> None:
        self._options = options
        self._begin_ns = 0
        self._session: Any = None
        self._transfers = TransferLog()
        self._callbacks = CallbackLog()
        self._arrays: ArrayLog | None = None
        self._executables: list[Any] = []
        self._recorded: Future[bytes] = Future()
        self._result: Future[Session] | None = None

    def __enter__(self) -> Self:
        global _current, _last
        recording.wait_for_devices()
        with _lock:
            if _current is not None:
                raise _is_recording()
            if _last is not None:
                wait(
                    [_last._recorded]
                )  # XLA has one session at a time, until its events are collected
            options = recording_options() if self._options is None else self._options
            options.raise_error_on_start_failure = True
            self._executables = recording.live_executables()
            self._begin_ns = time.monotonic_ns()
            try:
                self._session = recording.Session(options)
            except RuntimeError as error:
                raise _is_recording() from error
            self._arrays = ArrayLog()
            add_observer(self._transfers)
            add_observer(self._callbacks)
            _current = _last = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self._stop()

    def _stop(self) -> None:
        global _current
        with _lock:
            session, self._session = self._session, None
            if session is None:
                return
            _current = None
            remove_observer(self._transfers)
        remarks = ["The wait for the devices was interrupted, so what they still ran is missing."]
        try:
            remarks = [_still_running(each) for each in recording.wait_for_devices()]
            time.sleep(LAST_EVENTS_SECONDS)
        finally:
            remove_observer(self._callbacks)
            assert self._arrays is not None
            self._arrays.end()
            # Programs may be gone when the recording is read; the lists keep them.
            executables = [*self._executables, *recording.live_executables()]
            self._executables = []
            compilations = compilations_since(self._begin_ns)
            meshes = recording.live_meshes()
            transfers = [
                Transfer(
                    each.time_ns - self._begin_ns, each.direction, each.n_bytes,
                    each.frame and Place(each.frame.file, each.frame.line, each.frame.function),
                )
                for each in self._transfers.transfers
            ]  # fmt: skip
            observed = Observed(
                compilations, transfers, meshes, self._callbacks, self._arrays, remarks
            )
            self._result = Future()
            threading.Thread(
                target=self._convert,
                args=(session, executables, observed),
                name="pellucid profiler",
            ).start()

    def _convert(self, session: Any, executables: list[Any], observed: Observed) -> None:
        assert self._result is not None
        try:
            self._recorded.set_result(session.stop())
        except BaseException as error:  # raised where the session is asked for
            self._recorded.set_exception(error)
        try:
            self._result.set_result(
                session_of(
                    self._recorded.result(),
                    functools.partial(_programs_of, executables),
                    observed,
                )
            )
        except BaseException as error:
            self._result.set_exception(error)

    def wait(self, timeout_seconds: float | None = None) -> Session:
        """The session, once the recording is converted.

        Raises: ArgumentValueError while it is being recorded; TimeoutError.
        """
        if self._result is None:
            raise ArgumentValueError(
                "this profile has no session: it is being recorded, or never began.",
                do="Ask behind the `with` block, or after `stop()`.",
            )
        return self._result.result(timeout_seconds)

    def recorded(self) -> bytes:
        """XLA's recording, a serialized XSpace, once the session ended."""
        return self._recorded.result()

    def to_xspace(self, path: os.PathLike[str] | str) -> None:
        """Write XLA's recording into a file, as XProf and `read_xspace` read it."""
        Path(path).write_bytes(self.recorded())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.wait(), name)

    @property
    def is_stopped(self) -> bool:
        """Whether the recording has ended, so that `wait` gives its session or what went wrong."""
        return self._result is not None

    def _repr_html_(self) -> str | None:
        return self.wait().to_html() if self.is_stopped else None

    def __repr__(self) -> str:
        if self._result is None:
            return "Profile(being recorded)" if self._session is not None else "Profile(not begun)"
        if not self._result.done():
            return "Profile(being converted)"
        return report(self._result.result())


def profile(*, python: bool = False, programs: bool = False) -> Profile:
    """Records what runs in a `with` block: operations of devices, calls, compilation, annotations.

    It begins when the devices have done what was started before, and ends when they have done what was started in it.
    `python` also records calls of Python functions, which makes them about 0.2 us slower each; `programs` puts programs
    into the recording, for `to_xspace`.

    Raises: ArgumentValueError if a session is being recorded already: there is one for a process.

    >>> f, x = pl.jit(lambda x: jnp.sin(x) @ x), jnp.ones((64, 64))
    >>> with profile() as session:
    ...     y = f(x)
    >>> len(session.calls)
    1
    """
    return Profile(options=recording_options(python=python, programs=programs))


def recording_options(*, python: bool = False, programs: bool = False) -> Any:
    """Options of XLA's recorder for a session."""
    options = recording.ProfileOptions()
    options.python_tracer_level = int(python)
    options.enable_hlo_proto = programs  # a session reads them from their executables
    return options


def start(*, python: bool = False) -> Profile:
    """Begin to record until `stop`.

    Raises: ArgumentValueError if a session is being recorded already.

    >>> _ = start()
    >>> y = jnp.sin(1.0)
    >>> stop().wait().totals.wall_seconds > 0
    True
    """
    return profile(python=python).__enter__()


def stop() -> Profile:
    """End the session that `start` began, and give it.

    Raises: ArgumentValueError if none is being recorded.

    >>> _ = start()
    >>> len(stop().calls)
    0
    """
    current = _current
    if current is None:
        raise ArgumentValueError(
            "no session is being recorded.", do="Begin one with `pl.profiler.start()`."
        )
    current._stop()
    return current


def _is_recording() -> ArgumentValueError:
    return ArgumentValueError(
        "a session is being recorded already, and a process has one at a time.",
        do="End it with `pl.profiler.stop()`, or leave its `with` block, first.",
    )


def _still_running(device: Any) -> str:
    return (
        f"Programs may still have run on {device} when the session ended: what they did then is missing. "
        "Wait for results within the session, by `pl.block_until_ready(results)`."
    )


class Observed(NamedTuple):
    """Observations of a session besides XLA's events."""

    compilations: Sequence[Compilation] = ()
    transfers: Sequence[Transfer] = ()
    meshes: Sequence[Mapping[str, int]] = ()
    callbacks: CallbackLog | None = None
    arrays: ArrayLog | None = None
    remarks: Sequence[str] = ()


def session_of(
    recorded: bytes,
    programs_called: Callable[[Mapping[int, set[str]]], Mapping[int, ProgramMemoryReader]],
    observed: Observed,
) -> Session:
    """The session of XLA's recording, a serialized XSpace, joined to its programs.

    `programs_called` returns programs by their numbers, from the names that each number has in the recording.
    Raises: ArgumentValueError for bytes that are no whole recording.
    """
    events, end_ns = _without_draining(read_events(recorded))
    operations = operations_of(events)
    spans = spans_of(events, operations)
    is_kernel = events.texts_are(spans.name, KERNEL)
    kernels = {kernel_name(events.names[i]) for i in np.unique(spans.detail[is_kernel]) if i >= 0}
    modules = events.stat("hlo_module")[operations.event]
    names_by_program: dict[int, set[str]] = {}
    for number, name in np.unique(np.stack((operations.program, modules)), axis=1).T.tolist():
        if name >= 0:
            names_by_program.setdefault(number, set()).add(events.names[name])
    loaded = programs_called(names_by_program)
    memory = _memory_of(
        {number: each for number, each in loaded.items() if number in operations.program}
    )
    programs: dict[int, ProgramInfo] = {}
    heap = [] if observed.arrays is None else observed.arrays.rows()
    callbacks = [] if observed.callbacks is None else observed.callbacks.rows()
    for number in map(int, np.unique(operations.program)):
        rows = np.unique(operations.instruction[operations.program == number])
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
    begin_ns = events.session.get("profile_start_time", 0)
    places = [place for program in programs.values() for place in program.places()]
    others = (*observed.transfers, *heap, *callbacks)
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
        remarks=[*observed.remarks, *_losses(events, operations, programs)],
        memory=memory,
        peaks=measured_peaks(),
        collectives=collectives_of(events, operations),
        compilations=[*observed.compilations],
        begin_unix_ns=begin_ns,
        wall_ns=max(end_ns, int(operations.end_ns.max(initial=0))),
        sources=sources_of([*places, *marked_places(events.names)]),
    )


MAX_PROGRAMS = 16
"""Programs that a process keeps read, of those that sessions had last."""
_read: dict[Any, ProgramMemoryReader] = {}
"""By executable; numbers of programs from disk are other processes'."""


def _programs_of(
    executables: list[Any], names: Mapping[int, set[str]]
) -> dict[int, ProgramMemoryReader]:
    """Readers of the programs of this process by their numbers, of those called as `names` has it."""
    readers: dict[int, ProgramMemoryReader] = {}
    for number, loaded in recording.loaded_modules(executables, names).items():
        reader = _read.pop(loaded.executable, None) or ProgramMemoryReader(loaded)
        readers[number] = _read[loaded.executable] = reader
    for executable in list(_read)[:-MAX_PROGRAMS]:
        _read.pop(executable, None)
    return readers


def _memory_of(loaded: Mapping[int, ProgramMemoryReader]) -> dict[int, ProgramMemory]:
    """The memory of the programs that need most, by their numbers."""
    needs = {number: each.loaded.allocated_bytes() for number, each in loaded.items()}
    largest = sorted(needs, key=lambda number: -needs[number])[:MAX_MEMORY_PROGRAMS]
    memory = {number: loaded[number].memory for number in largest}
    return {number: each for number, each in memory.items() if each is not None}


def _losses(
    events: Events, operations: Operations, programs: Mapping[int, ProgramInfo]
) -> Iterator[str]:
    """Losses of the recording, in sentences."""
    without_end = int(np.count_nonzero(~has_end(events, operations.event)))
    if without_end:
        yield (
            f"The ends of {counted(without_end, 'operation')} were not recorded: their time is that until they returned, "
            "which of asynchronous ones is too short."
        )
    yield from gpu_losses(events)
    yield from map(explained, events.problems)
    gone = [
        number
        for number, program in programs.items()
        if number != ABSENT and not program.instructions
    ]
    if gone:
        rows = np.isin(operations.program, gone)
        seconds = float(operations.duration_ns[rows].sum()) / 1e9
        yield (
            f"{counted(len(gone), 'program')} that ran for {seconds_text(seconds)} can't be read any more, so their "
            "operations have names only. Keep the jitted functions alive until the session ends."
        )


def _without_draining(events: Events) -> tuple[Events, int]:
    """(the events of the user, when the session's block ended): what waits for the devices is recorded, too."""
    begin_ns = events.session.get("profile_start_time", 0)
    stop_ns = events.session.get("profile_stop_time", begin_ns) - begin_ns
    rows = np.flatnonzero(events.texts_are(events.name, recording.DRAINING))
    if not rows.size:
        return events, stop_ns
    end_ns = int(events.start_ns[rows[0]])
    is_ours = events.texts_are(events.stat("hlo_module"), f"jit_{recording.DRAINING}")
    is_join = np.array([name.startswith(_JOINS) for name in events.names], bool)[events.name]
    is_late = (events.start_ns >= end_ns) & (events.stat("hlo_op") == ABSENT) & ~is_join
    return events.chosen(~is_ours & ~is_late), end_ns


def annotate(name: str, **details: Any) -> Any:
    """A context manager that names a part of the host's time in recordings; `details` are numbers and texts.

    Raises: UnsupportedError for characters in which XLA's recorder encodes details.

    >>> with annotate("load batch", size=32):
    ...     pass
    """
    for text in (name, *details, *(each for each in details.values() if isinstance(each, str))):
        if set(text) & set("#,="):
            raise UnsupportedError(
                "names and texts in recordings can't have the characters '#', ',' and '='.",
                got=f"got {text!r}",
            )
    return recording.Annotation(name, **details)


def step(number: int) -> Any:
    """A context manager around step `number` of a loop, by which recordings are divided.

    >>> for i in range(2):
    ...     with step(i):
    ...         pass
    """
    return annotate("step", step_num=number)
