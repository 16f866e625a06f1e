"""Recording of sessions: `with profile() as session: ...`, `start` and `stop`, and annotations."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import wait
from types import FrameType, TracebackType
from typing import Any, Self

from pellucid.events import add_observer, remove_observer
from pellucid.introspect import recording
from pellucid.introspect.eager_compilations import EagerCompilationLog
from pellucid.introspect.errors import ArgumentValueError, UnsupportedError
from pellucid.introspect.transfers import TransferLog
from pellucid_profiler.callbacks import CallbackLog
from pellucid_profiler.compilations import compilations_since, operation_compilations
from pellucid_profiler.conversion import Conversion, Observed
from pellucid_profiler.files import sealed_recording, write_file
from pellucid_profiler.live_arrays import ArrayLog
from pellucid_profiler.marks import LineMarks
from pellucid_profiler.report import report
from pellucid_profiler.session import Session
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.step_limit import StepLimit
from pellucid_profiler.transfers import Transfer

subprocesses: set[int] = set()
"""Ids of the processes that are recorded together with this one."""
LAST_EVENTS_SECONDS = 0.002
"""Delay before a recording is stopped: XLA records the end of the last operation slightly late."""

_current: Profile | None = None
_last: Profile | None = None
_lock = threading.Lock()


class RecordingStateError(ArgumentValueError, RuntimeError):
    """Raised when a recording is started while another one runs, or stopped when none runs."""


class Profile:
    """A session being recorded or already recorded. As a context manager it records its block.

    Attributes and methods of `Session` are available on it; their first use waits for the conversion of the recording.

    >>> with pl.profiler.Profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> len(recorded.calls)
    1
    """

    def __init__(
        self,
        *,
        options: Any = None,
        lines: bool = False,
        limit: StepLimit | None = None,
        gives_way: bool = False,
    ) -> None:
        """With `limit`, the recording stops when the limit is reached, not at the end of its block.

        With `gives_way`, another recording that is started stops this one; otherwise starting another one fails.
        """
        self._options = options
        self._limit = limit
        self._gives_way = gives_way
        self.gave_way = False
        """Whether another recording stopped this one."""
        self.has_begun_again = False
        """Whether a warm-up with compilations was discarded and recording restarted."""
        self.is_cut = False
        """Whether the limit stopped the recording."""
        watches_lines = limit is not None and limit.n_steps is None
        self._marks = LineMarks(self._line_begins if watches_lines else None) if lines else None
        self._remarks: list[str] = []
        self._begin_ns = 0
        self._session: Any = None
        self._transfers: TransferLog | None = None
        self._callbacks: CallbackLog | None = None
        self._operations = EagerCompilationLog()
        self._arrays: ArrayLog | None = None
        self._executables: list[Any] = []
        self._conversion: Conversion | None = None

    def __enter__(self) -> Self:
        recording.wait_for_devices()
        current = _current
        if current is not None and current._gives_way:
            current.gave_way = True
            current.add_remark("The block records a session of its own, where this one ends.")
            current._stop()
        with _lock:
            if _current is not None:
                raise _is_recording()
            self._begin()
        if self._marks is not None and not self._marks.begin():
            self._remarks.append(
                "A debugger follows this thread, so lines of eager operations are not known."
            )
        return self

    def _begin(self) -> None:
        global _current, _last
        if _last is not None and _last._conversion is not None:
            # XLA allows one session at a time, and it lasts until its events are collected.
            wait([_last._conversion.recorded])
        options = recording_options() if self._options is None else self._options
        options.raise_error_on_start_failure = True
        if subprocesses:
            options.advanced_configuration = {
                **options.advanced_configuration,
                "profile_subprocesses": True,
            }
        self._executables = recording.live_executables()
        self._begin_ns = time.monotonic_ns()
        try:
            self._session = recording.XlaRecording(options)
        except RuntimeError as error:
            raise _is_recording() from error
        self._arrays, self._transfers, self._callbacks = ArrayLog(), TransferLog(), CallbackLog()
        add_observer(self._transfers)
        self._operations = EagerCompilationLog()
        add_observer(self._callbacks)
        add_observer(self._operations)
        _current = _last = self

    def _line_begins(self, frame: FrameType) -> bool:
        """Called before each line: at the limit, stops the recording, or restarts it once if the steps compiled.
        Returns whether it has stopped.
        """
        assert self._limit is not None
        if not self._limit.is_reached_by_line(frame):
            return False
        if not self.has_begun_again and self._has_compiled():
            self._begin_again()
            return False
        self.is_cut = True
        self._stop()
        return True

    def step_ends(self) -> None:
        """Counts a named step. Restarts the recording if the first step compiled; otherwise stops it at the limit."""
        if self._limit is None:
            return
        is_enough = self._limit.is_reached_by_step()
        if self._limit.count == 1 and self._has_compiled():
            self._begin_again()
        elif is_enough:
            self.is_cut = True
            self._stop()

    def _has_compiled(self) -> bool:
        return bool(compilations_since(self._begin_ns) or self._operations.compilations)

    def _begin_again(self) -> None:
        """Restarts the recording, discarding a warm-up that compiled."""
        global _current
        assert self._limit is not None
        if self._marks is not None:
            self._marks.pause()
        recording.wait_for_devices()
        with _lock:
            self._end_logs()
            self._session = _current = None  # XLA's session ends when its object is deleted
            self._begin()
        self._limit, self.has_begun_again = self._limit.again(), True

    def _end_logs(self) -> None:
        assert self._arrays is not None
        assert self._transfers is not None
        assert self._callbacks is not None
        remove_observer(self._transfers)
        remove_observer(self._callbacks)
        remove_observer(self._operations)
        self._arrays.end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        limit = self._limit
        if limit is not None and limit.n_steps is not None and not limit.count and kind is None:
            self.add_remark(
                "All of the block is recorded, because it named no steps: `with pl.profiler.step(i):` around each step does."
            )
        self._stop()
        if self._conversion is not None:
            self._conversion.release()

    def _stop(self) -> None:
        global _current
        with _lock:
            session, self._session = self._session, None
            if session is None:
                return
            _current = None
            if self._marks is not None:
                self._marks.end()
            assert self._transfers is not None
            remove_observer(self._transfers)
        remarks = ["The wait for the devices was interrupted, so what they still ran is missing."]
        try:
            remarks = [_still_running(each) for each in recording.wait_for_devices()]
            if self._limit is not None and self.is_cut:
                self.add_remark(self._limit.text(is_warmed_up=self.has_begun_again))
            time.sleep(LAST_EVENTS_SECONDS)
        finally:
            self._end_logs()
            # Keeps programs alive that may be deleted before the recording is converted.
            executables = [*self._executables, *recording.live_executables()]
            self._executables = []
            compilations = compilations_since(self._begin_ns) + operation_compilations(
                self._operations
            )
            meshes = recording.live_meshes()
            transfers = [
                Transfer(
                    each.time_ns - self._begin_ns, each.direction, each.n_bytes,
                    each.frame and SourceLine(each.frame.file, each.frame.line, each.frame.function),
                )
                for each in self._transfers.transfers
            ]  # fmt: skip
            observed = Observed(
                compilations,
                transfers,
                meshes,
                self._callbacks,
                self._arrays,
                [*self._remarks, *remarks],
            )
            self._conversion = Conversion(
                session, executables, observed, is_held=self.is_cut or self.gave_way
            )

    def wait(self, timeout_seconds: float | None = None) -> Session:
        """Waits for the session, with a progress bar under the cell or in the terminal.

        KeyboardInterrupt stops the conversion; it starts again when the session is next needed.
        Raises: ArgumentValueError while recording; TimeoutError.
        """
        return self._begun().wait(timeout_seconds)

    def _begun(self) -> Conversion:
        if self._conversion is None:
            raise ArgumentValueError(
                "this profile has no session: it is being recorded, or never began.",
                do="Ask behind the `with` block, or after `stop()`.",
            )
        return self._conversion

    def recorded(self) -> bytes:
        """XLA's recording, a serialized XSpace. Available after the recording has stopped."""
        return self._begun().recorded.result()

    def to_xspace(self, path: os.PathLike[str] | str) -> None:
        """Writes XLA's recording to a file that XProf and `read_xspace` can read."""
        write_file(path, sealed_recording(self.recorded()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.wait(), name)

    def add_remark(self, text: str) -> None:
        """Adds a sentence to the remarks at the top of the session's report. Only while recording."""
        self._remarks.append(text)

    @property
    def is_stopped(self) -> bool:
        """Whether recording has stopped, so that `wait` returns the session or raises its error."""
        return self._conversion is not None

    def _repr_html_(self) -> str | None:
        return self.wait().to_html() if self.is_stopped else None

    def __repr__(self) -> str:
        if self._conversion is None:
            return "Profile(being recorded)" if self._session is not None else "Profile(not begun)"
        session = self._conversion.result
        if session is None:
            return f"Profile(being converted: {self._conversion.progress.text()})"
        return report(session)


def profile(
    *, lines: bool = False, python: bool = False, programs: bool = False, steps: int | None = None
) -> Profile:
    """Records what runs in a `with` block: operations of devices, calls, compilation, annotations.

    Recording begins when the devices have finished earlier work, and ends when they have finished the block's. `lines`
    marks every line that this thread runs, to attribute eager operations, whose programs all lines share, to the
    calling line; each line takes about 1 us longer. `python` also records calls of Python functions, which makes each
    about 0.2 us slower. `programs` includes the HLO of programs in the recording, for `to_xspace`. `steps` limits the
    recording to this number of steps named by `step`, after warm-up steps that compile; the remaining loop runs at full
    speed.

    Raises: ArgumentValueError if this process already records a session, or if `steps` is below 1.

    >>> f, x = pl.jit(lambda x: jnp.sin(x) @ x), jnp.ones((64, 64))
    >>> with profile() as session:
    ...     y = f(x)
    >>> len(session.calls)
    1
    """
    if steps is not None and steps < 1:
        raise ArgumentValueError("profile must record at least one step.", got=f"steps={steps}")
    limit = None if steps is None else StepLimit(steps)
    options = recording_options(python=python, programs=programs)
    return Profile(options=options, lines=lines, limit=limit)


def recording_options(*, python: bool = False, programs: bool = False) -> recording.ProfileOptions:
    """Options of XLA's recorder for a session."""
    options = recording.ProfileOptions()
    options.python_tracer_level = int(python)
    options.enable_hlo_proto = programs  # a session reads programs from their executables instead
    return options


def start(*, lines: bool = False, python: bool = False) -> Profile:
    """Starts recording until `stop`. For the options see `profile`.

    Raises: ArgumentValueError if a session is being recorded already.

    >>> _ = start()
    >>> y = jnp.sin(1.0)
    >>> stop().wait().totals.wall_seconds > 0
    True
    """
    return profile(lines=lines, python=python).__enter__()


def stop() -> Profile:
    """Stops the recording that `start` began, and returns it.

    Raises: ArgumentValueError if none is being recorded.

    >>> _ = start()
    >>> len(stop().calls)
    0
    """
    current = _current
    if current is None:
        raise RecordingStateError(
            "no session is being recorded.", do="Begin one with `pl.profiler.start()`."
        )
    current._stop()  # pyright: ignore[reportPrivateUsage]  # the classes of a file see each other
    return current


def _is_recording() -> RecordingStateError:
    return RecordingStateError(
        "a session is being recorded already, and a process has one at a time.",
        do="End it with `pl.profiler.stop()`, or leave its `with` block, first.",
    )


def _still_running(device: Any) -> str:
    return (
        f"Programs may still have run on {device} when the session ended: what they did then is missing. "
        "Wait for results within the session, by `pl.block_until_ready(results)`."
    )


class NamedStep(recording.Annotation):
    """Context manager that names a step of a loop in recordings, and counts it towards the limit of a recording."""

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if _current is not None:
            _current.step_ends()


def annotate(name: str, **details: Any) -> Any:
    """Context manager that names a part of the host's time in recordings; `details` are numbers and strings.

    Raises: UnsupportedError for characters that XLA's recorder uses to encode details.

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
    """Context manager around step `number` of a loop. `Session.steps` has the time of each step, and XProf displays
    them.

    `profile(steps=20)` records 20 of them.

    >>> for i in range(2):
    ...     with step(i):
    ...         pass
    """
    return NamedStep("step", step_num=number)
