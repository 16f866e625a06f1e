"""Control of debugpy in the thread that runs a cell: suspend it, stop at a line, cancel a step.

Relies on internals of pydevd, on which debugpy is built and which has no public API for this.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_nesting = threading.local()


@contextlib.contextmanager
def left_alone() -> Iterator[None]:
    """Context manager in which Python breakpoints and steps don't stop this thread. Can be nested; free without a
    client.
    """
    depth = getattr(_nesting, "depth", 0)
    is_outermost = depth == 0 and is_attached()
    if is_outermost:
        _debugpy().trace_this_thread(False)
    _nesting.depth = depth + 1
    try:
        yield
    finally:
        _nesting.depth = depth
        if is_outermost:
            _debugpy().trace_this_thread(True)


def is_attached() -> bool:
    """Whether debugpy is loaded and has a client."""
    debugpy = sys.modules.get("debugpy")
    return debugpy is not None and debugpy.is_client_connected()


def answer_at_once() -> None:
    """Disables Nagle's algorithm, which delays debugpy's short answers by up to 40 ms."""
    pydevd: Any = sys.modules["pydevd"]
    pydevd.get_global_debugger().writer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def stop_after(frame: FrameType, *, into: bool = False) -> None:
    """Stops this thread at the next line of `frame`, as a step over does, also for a step into. Call it outside of `left_alone()`."""
    if is_attached():
        pydevd: Any = sys.modules["pydevd"]
        pydevd.settrace(
            suspend=True, trace_only_current_thread=True, patch_multiprocessing=False, stop_at_frame=frame
        )  # fmt: skip


def end_step() -> None:
    """Cancels a Python step that this thread is executing."""
    if is_attached():
        info = getattr(threading.current_thread(), "additional_info", None)
        if info is not None:
            info.pydev_step_cmd = info.pydev_original_step_cmd = -1
            info.pydev_step_stop = None


def _debugpy() -> Any:
    return sys.modules["debugpy"]
