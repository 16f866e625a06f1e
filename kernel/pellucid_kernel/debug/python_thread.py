"""The thread that runs a cell, as debugpy traces it: left alone for a while, stopped in later, no longer stepped.

Facts of pydevd, which debugpy is made of, and which has no public names for them.
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
    """Breakpoints and steps of Python don't stop this thread meanwhile. May be nested; costs nothing without a client."""
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
    """Send short answers of debugpy without waiting 40 ms for the acknowledgement of those before."""
    pydevd: Any = sys.modules["pydevd"]
    pydevd.get_global_debugger().writer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def stop_after(frame: FrameType) -> None:
    """Stop this thread at the next line of `frame`, as a step over does. To be called outside of `left_alone()`."""
    if is_attached():
        pydevd: Any = sys.modules["pydevd"]
        pydevd.settrace(
            suspend=True, trace_only_current_thread=True, patch_multiprocessing=False, stop_at_frame=frame
        )  # fmt: skip


def end_step() -> None:
    """Forget a step of Python that this thread is in the middle of."""
    if is_attached():
        info = getattr(threading.current_thread(), "additional_info", None)
        if info is not None:
            info.pydev_step_cmd = info.pydev_original_step_cmd = -1
            info.pydev_step_stop = None


def _debugpy() -> Any:
    return sys.modules["debugpy"]
