"""Filtering of uncaught exceptions' tracebacks, according to the option `traceback_filtering`.

An exception keeps its whole traceback; pellucid's frames are hidden only while Python prints it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Any

from . import config
from .errors import PellucidError
from .source import is_internal_file, is_user_file
from .typing import Function


def without_internal_frames(held: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback without frames of pellucid and of other libraries that it calls.

    A traceback that consists only of such frames is returned unchanged.
    """
    frames: list[TracebackType] = []
    is_inside = False
    for entry, file in _entries(held):
        is_inside = is_internal_file(file) or (is_inside and not is_user_file(file))
        if not is_inside:
            frames.append(entry)
    copy: TracebackType | None = None
    for entry in reversed(frames):
        copy = TracebackType(copy, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return copy or held


def _entries(held: TracebackType | None) -> Iterator[tuple[TracebackType, str]]:
    """The entries of a traceback, each with the file of its frame."""
    while held is not None:
        yield held, held.tb_frame.f_code.co_filename
        held = held.tb_next


def is_filtered(error: BaseException | None) -> bool:
    """Whether printing the exception, or one of its causes, hides frames."""
    return config.traceback_filtering.value != "off" and any(
        is_internal_file(file) for e in _chain(error) for _, file in _entries(e.__traceback__)
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    """The exception, its causes and contexts."""
    chain: list[BaseException] = []
    waiting = [error]
    while waiting:
        following = waiting.pop()
        if following is not None and following not in chain:
            chain.append(following)
            waiting += [following.__cause__, following.__context__]
    return chain


@contextlib.contextmanager
def filter_tracebacks(error: BaseException) -> Generator[None]:
    """A block in which the exception and its causes have tracebacks without pellucid's frames.

    Notes on the exception say so, and where its class is documented.
    """
    whole = [(e, e.__traceback__) for e in _chain(error)]
    notes = getattr(error, "__notes__", None)
    more = [f"(More: {error.page})"] if isinstance(error, PellucidError) else []
    if config.traceback_filtering.value != "quiet_remove_frames":
        more.append(_NOTE)
    try:
        for e, held in whole:
            e.__traceback__ = without_internal_frames(held)
        if more:
            error.__notes__ = [*(notes or ()), *more]
        yield
    finally:
        for e, held in whole:
            e.__traceback__ = held
        if notes is not None:
            error.__notes__ = notes
        elif hasattr(error, "__notes__"):
            del error.__notes__


_NOTE = "(Frames of pellucid are left out; PELLUCID_TRACEBACK_FILTERING=off shows them.)"


def install() -> None:
    """Make Python print uncaught exceptions of all threads through the filter; existing hooks are still called."""
    sys.excepthook = functools.partial(_show, sys.excepthook)
    threading.excepthook = functools.partial(_show_of_thread, threading.excepthook)


def _show(
    following: Function,
    kind: type[BaseException],
    error: BaseException | None,
    held: TracebackType | None,
) -> None:
    if error is None or not is_filtered(error):
        following(kind, error, held)
        return
    with filter_tracebacks(error):
        following(kind, error, error.__traceback__)


def _show_of_thread(following: Function, args: threading.ExceptHookArgs) -> None:
    def show(*exception: Any) -> None:
        following(threading.ExceptHookArgs((*exception, args.thread)))

    _show(show, *args[:3])
