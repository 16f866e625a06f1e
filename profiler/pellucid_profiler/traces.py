"""JAX's profiler API: traces in directories that XProf opens, annotations, a profiler server, memory profiles."""

from __future__ import annotations

import contextlib
import functools
import gzip
import os
import socket
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pellucid as pl
from pellucid.introspect import recording
from pellucid.introspect.errors import ArgumentValueError, UnsupportedError
from pellucid.introspect.recording import Annotation
from pellucid_profiler.chrome_trace import chrome_trace
from pellucid_profiler.files import local_folder, write_file
from pellucid_profiler.perfetto import save_perfetto
from pellucid_profiler.recorder import (
    NamedStep,
    Profile,
    RecordingStateError,
    recording_options,
    subprocesses,
)

P = ParamSpec("P")
R = TypeVar("R")

_traces: list[tuple[Profile, Path, str, bool]] = []
"""The trace being recorded, at most one: (profile, directory, session name, whether to write a Perfetto trace)."""
_servers: list[Any] = []


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Starts recording until `stop_trace`, which writes the recording into `log_dir`.

    `profiler_options` is a `ProfileOptions`; its `session_id` names the recording's folder (default: the current time).
    With `create_perfetto_trace`, Perfetto traces are written beside it. Raises: RecordingStateError (a RuntimeError) if
    a session is already being recorded; ArgumentValueError for an address such as gs://bucket/run; UnsupportedError for
    `create_perfetto_link`, which would have to serve files to a page on the internet.

    >>> import tempfile
    >>> start_trace(tempfile.mkdtemp())
    >>> stop_trace()
    """
    if create_perfetto_link:
        raise UnsupportedError(
            "start_trace makes no link to a page of the internet.",
            do="Pass `create_perfetto_trace=True`, and open the file `perfetto_trace.pftrace` in the Perfetto UI.",
        )
    log_dir = local_folder(log_dir)
    if profiler_options is None:
        profiler_options = recording_options(programs=True)
    profile = Profile(options=profiler_options).__enter__()
    _traces.clear()  # drop a trace that couldn't be written
    _traces.append((profile, log_dir, profiler_options.session_id, create_perfetto_trace))


def stop_trace() -> None:
    """Stops the recording that `start_trace` began, and writes it.

    The file `plugins/profile/<time>/<host>.xplane.pb` is for XProf and TensorBoard. `create_perfetto_trace` adds
    `perfetto_trace.pftrace`, with programs and lines, and XLA's recording as JSON, `perfetto_trace.json.gz` and
    `<host>.trace.json.gz`.
    Raises: RecordingStateError (a RuntimeError) if no trace was started; OSError if the file can't be written, for
    example because the disk is full. The recording is kept then, and can be written by another call.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> start_trace(folder)
    >>> stop_trace()
    >>> [path.suffix for path in Path(folder).rglob("*.xplane.pb")]
    ['.pb']
    """
    if not _traces:
        raise RecordingStateError(
            "no trace is being recorded.", do="Begin one with `pl.profiler.start_trace(log_dir)`."
        )
    profile, log_dir, name, is_perfetto = _traces[-1]
    profile.__exit__(None, None, None)
    folder = log_dir / "plugins" / "profile" / (name or time.strftime("%Y_%m_%d_%H_%M_%S"))
    folder.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname()
    profile.to_xspace(folder / f"{host}.xplane.pb")
    if is_perfetto:
        events = chrome_trace(profile.recorded())
        write_file(folder / "perfetto_trace.json.gz", events)
        write_file(folder / f"{host}.trace.json.gz", events)
        save_perfetto(profile.wait(), folder / "perfetto_trace.pftrace")
    _traces.pop()


@contextlib.contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> Generator[None]:
    """Context manager that records its block into a directory, like `start_trace` and `stop_trace`.

    >>> import tempfile
    >>> with trace(tempfile.mkdtemp()):
    ...     y = jnp.sin(1.0)
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(Annotation):
    """Context manager that records its block as a span called `name`, with `kwargs` as its arguments.

    >>> with TraceAnnotation("load", batch=1):
    ...     pass
    """


class StepTraceAnnotation(NamedStep):
    """Context manager around one training step, numbered by `step_num`; XProf groups a recording by these steps.

    >>> with StepTraceAnnotation("train", step_num=1):
    ...     y = jnp.sin(1.0)
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(
    func: Callable[P, R], name: str | None = None, **decorator_kwargs: Any
) -> Callable[P, R]:
    """Decorator that records every call of `func` as a span; `decorator_kwargs` are its details.

    >>> annotate_function(abs)(-1)
    1
    """

    @functools.wraps(func)
    def call_annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(name or func.__name__, **decorator_kwargs):
            return func(*args, **kwargs)

    return call_annotated


def guided_options(recorded: Profile) -> dict[str, bytes]:
    """Compiler options that let XLA schedule operations by the costs measured in a session.

    Pass them as `pl.jit(function, compiler_options=...)` for the function that was recorded.

    Raises: UnsupportedError for a session without costs that XLA can use; only those of GPUs have them.

    >>> with pl.profiler.profile() as session:
    ...     y = pl.jit(jnp.sin)(1.0)
    >>> guided_options(session)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    UnsupportedError: this session has no costs that XLA's compiler takes: they are those of kernels on GPUs.
    """
    costs = recording.guided_profile(recorded.recorded())
    if not costs:
        raise UnsupportedError(
            "this session has no costs that XLA's compiler takes: they are those of kernels on GPUs.",
            got=f"devices: {', '.join(sorted({each.platform for each in pl.devices()}))}",
            do="Record the function on a GPU, under `pl.profiler.profile()`.",
        )
    return {"fdo_profile": costs}


def device_memory_profile(backend: str | None = None) -> bytes:
    """Live array bytes on a platform by the Python stack that allocated them, as a gzipped pprof protobuf.

    `backend` is a platform (default: that of the default device).

    >>> len(device_memory_profile()) > 0
    True
    """
    return gzip.compress(recording.heap_profile(backend))


def save_device_memory_profile(filename: str, backend: str | None = None) -> None:
    """Writes `device_memory_profile` to a file, for `pprof`.

    >>> import tempfile
    >>> save_device_memory_profile(tempfile.mkstemp()[1])
    """
    write_file(filename, device_memory_profile(backend))


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Starts a server on `port` that lets XProf and TensorBoard record this process; returns the server.

    `requires_backend` initializes the platforms first, without which no devices are recorded.
    Raises: ArgumentValueError if this process already runs a profiler server.

    >>> import socket
    >>> with socket.socket() as free:
    ...     free.bind(("", 0))
    ...     port = free.getsockname()[1]
    >>> server = start_server(port)
    >>> start_server(port)
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: a profiler server runs already, and a process has one at a time.
    ...
    >>> stop_server()
    """
    if _servers:
        raise ArgumentValueError(
            "a profiler server runs already, and a process has one at a time.",
            do="End it with `pl.profiler.stop_server()` first.",
        )
    if requires_backend:
        recording.start_platforms()
    _servers.append(recording.start_server(port))
    return _servers[0]


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Records process `pid`, whose profiler server listens on `port`, together with this one. Returns a function that
    undoes it.

    The process's events appear in recordings (`trace`, `to_xspace`), but not in sessions: for those, record a session
    in each process and `merge` them.

    Raises: ArgumentValueError if no server answers within half a minute, or if `pid` is this process.

    >>> register_subprocess(os.getpid(), 9999)
    Traceback (most recent call last):
    ...
    pellucid.errors.ArgumentValueError: process ... can't be recorded together with this one...
    """
    try:
        end = recording.register_subprocess(pid, port)
    except RuntimeError as error:
        raise ArgumentValueError(
            f"process {pid} can't be recorded together with this one.",
            got=str(error),
            do=f"Call `profiler.start_server({port})` there first.",
        ) from None
    subprocesses.add(pid)

    def unregister() -> None:
        subprocesses.discard(pid)
        end()

    return unregister


def stop_server() -> None:
    """Stops the server that `start_server` started.

    Raises: ArgumentValueError if none runs.

    >>> stop_server()
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: no profiler server runs.
    ...
    """
    if not _servers:
        raise ArgumentValueError(
            "no profiler server runs.", do="Start one with `profiler.start_server(port)`."
        )
    _servers.clear()
