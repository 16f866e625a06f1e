"""The reference's names: traces in directories that XProf opens, annotations, a server, memory profiles."""

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
from pellucid_profiler import recorder
from pellucid_profiler.chrome_trace import chrome_trace
from pellucid_profiler.files import write_file
from pellucid_profiler.perfetto import save_perfetto

P = ParamSpec("P")
R = TypeVar("R")

_traces: list[tuple[recorder.Profile, Path, str, bool]] = []
"""The trace that is being recorded: its profile, its directory, its name, and whether it becomes a Perfetto trace, too."""
_servers: list[Any] = []


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Begin to record until `stop_trace`, which writes the recording into `log_dir`.

    `profiler_options`: a `ProfileOptions`, whose `session_id` is the name of the recording's folder, by default the time.
    With `create_perfetto_trace` there are traces for Perfetto beside it. Raises: RecordingStateError, a RuntimeError, if a
    session is being recorded; UnsupportedError for `create_perfetto_link`, which would open a server for a page of the
    internet.

    >>> import tempfile
    >>> start_trace(tempfile.mkdtemp())
    >>> stop_trace()
    """
    if create_perfetto_link:
        raise UnsupportedError(
            "start_trace makes no link to a page of the internet.",
            do="Pass `create_perfetto_trace=True`, and open the file `perfetto_trace.pftrace` in the Perfetto UI.",
        )
    if profiler_options is None:
        profiler_options = recorder.recording_options(programs=True)
    profile = recorder.Profile(options=profiler_options).__enter__()
    _traces.clear()  # one that couldn't be written gives way
    _traces.append((profile, Path(log_dir), profiler_options.session_id, create_perfetto_trace))


def stop_trace() -> None:
    """End the recording that `start_trace` began, and write it.

    The file `plugins/profile/<time>/<host>.xplane.pb` is what XProf and TensorBoard open. Of `create_perfetto_trace` are
    `perfetto_trace.pftrace`, with programs and lines, and XLA's recording alone as JSON, `perfetto_trace.json.gz` and
    `<host>.trace.json.gz`.
    Raises: RecordingStateError, a RuntimeError, if none was begun; OSError if it can't be written, as on a full disk: called again, it
    writes what was recorded.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> start_trace(folder)
    >>> stop_trace()
    >>> [path.suffix for path in Path(folder).rglob("*.xplane.pb")]
    ['.pb']
    """
    if not _traces:
        raise recorder.RecordingStateError(
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
    """Records a `with` block into a directory, as `start_trace` and `stop_trace` do.

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
    """A context that shows in recordings as a span called `name`, with `kwargs` as its arguments.

    >>> with TraceAnnotation("load", batch=1):
    ...     pass
    """


class StepTraceAnnotation(recorder.NamedStep):
    """A context manager around a step of training, by which XProf divides recordings; `step_num` is its number.

    >>> with StepTraceAnnotation("train", step_num=1):
    ...     y = jnp.sin(1.0)
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(
    func: Callable[P, R], name: str | None = None, **decorator_kwargs: Any
) -> Callable[P, R]:
    """`func`, named in recordings whenever it runs; `decorator_kwargs` are details of the annotation.

    >>> annotate_function(abs)(-1)
    1
    """

    @functools.wraps(func)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(name or func.__name__, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def guided_options(recorded: recorder.Profile) -> dict[str, bytes]:
    """Compiler options with which XLA orders operations by the costs that a session measured.

    They are those of `pl.jit(function, compiler_options=...)` for the function that the session recorded.

    Raises: UnsupportedError for a session without such costs: XLA takes them for GPUs.

    >>> with recorder.profile() as session:
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
    """Bytes that the arrays of a platform hold, by the Python lines that made them: a gzipped pprof protobuf.

    `backend`: a platform, by default that of the default device.

    >>> len(device_memory_profile()) > 0
    True
    """
    return gzip.compress(recording.heap_profile(backend))


def save_device_memory_profile(filename: str, backend: str | None = None) -> None:
    """Write `device_memory_profile` into a file, for `pprof`.

    >>> import tempfile
    >>> save_device_memory_profile(tempfile.mkstemp()[1])
    """
    write_file(filename, device_memory_profile(backend))


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Answer XProf and TensorBoard on `port` when they ask this process to record; gives the server.

    `requires_backend`: start the platforms first, without which nothing is recorded of devices.
    Raises: ArgumentValueError if a server runs already: there is one for a process.

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
    """Record the process `pid`, whose profiler server answers on `port`, with this one; gives what ends that.

    Its events are in recordings (`trace`, `to_xspace`). Sessions have those of this process: record one there, too, and
    `merge` both.

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
            do=f"Call `pl.profiler.start_server({port})` there first.",
        ) from None
    recorder.subprocesses.add(pid)

    def unregister() -> None:
        recorder.subprocesses.discard(pid)
        end()

    return unregister


def stop_server() -> None:
    """End the server that `start_server` began.

    Raises: ArgumentValueError if there is none.

    >>> stop_server()
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: no profiler server runs.
    ...
    """
    if not _servers:
        raise ArgumentValueError(
            "no profiler server runs.", do="Start one with `pl.profiler.start_server(port)`."
        )
    _servers.clear()
