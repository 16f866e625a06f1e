"""Long work in C++ that Ctrl-C can leave."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


_left_behind: list[threading.Thread] = []


@atexit.register
def _wait_for_what_was_left() -> None:
    """Let abandoned work end before Python does: C++ can't return into an interpreter that is gone.

    A second Ctrl-C ends this wait as well.
    """
    with contextlib.suppress(KeyboardInterrupt):
        for thread in _left_behind:
            thread.join()


_SECONDS_BETWEEN_CHECKS = 0.05


class _Worker:
    """A thread that makes one call after another: 10 us a call, where a thread for each takes 40."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="pellucid-work", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while self._make(self._calls.get()):
            pass

    def _make(self, call: Callable[[], Any] | None) -> bool:
        """Whether there was a call, of which nothing stays alive in this thread."""
        if call is None:
            return False
        try:
            self._outcomes.put((call(), None))
        except BaseException as error:
            self._outcomes.put((None, error))
        return True

    def start(self, call: Callable[[], Any]) -> None:
        """Make a call; the one before has ended."""
        self._calls.put(call)

    def outcome(self, seconds: float | None) -> tuple[Any, BaseException | None]:
        """Result and failure of the call. Raises queue.Empty if it takes longer."""
        return self._outcomes.get(timeout=seconds)

    def end(self) -> None:
        """End the thread after its call."""
        self._calls.put(None)


_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)


def interruptible(
    function: Callable[..., T], *arguments: Any, check: Callable[[], None] | None = None
) -> T:
    """`function(*arguments)`, from which Ctrl-C returns to the prompt at once, and so does what `check` raises.

    Python sees the signal only between two of its own steps, and one call into C++ is a single step. So the main
    thread, the only one that gets signals, waits for another one that makes the call. Work that was left
    continues in the background; its result is dropped. `check()` is asked again and again while the call lasts.
    """
    if check is None and threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    worker = _idle.pop() if _idle else _Worker()
    worker.start(partial(function, *arguments))
    try:
        while True:
            try:
                result, failure = worker.outcome(None if check is None else _SECONDS_BETWEEN_CHECKS)
                break
            except Empty:
                assert check is not None
                check()
    except BaseException:
        worker.end()
        if check is None:  # else the call may never return
            _left_behind.append(worker.thread)
        raise
    _idle.append(worker)
    if failure is not None:
        raise failure
    return result
