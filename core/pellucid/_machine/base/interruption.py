"""Long work in C++ that Ctrl-C can leave."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable
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


def interruptible(
    function: Callable[..., T], *arguments: Any, check: Callable[[], None] | None = None
) -> T:
    """`function(*arguments)`, from which Ctrl-C returns to the prompt at once, and so does what `check` raises.

    Python sees the signal only between two of its own steps, and one call into C++ is a single step. So the main
    thread, the only one that gets signals, waits for another one that makes the call (30 us). Work that was left
    continues in the background; its result is dropped. `check()` is asked again and again while the call lasts.
    """
    if check is None and threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    results: list[T] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            results.append(function(*arguments))
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=work, name="pellucid-work", daemon=True)
    thread.start()
    try:
        while not done.wait(None if check is None else _SECONDS_BETWEEN_CHECKS):
            assert check is not None
            check()
    except BaseException:
        if check is None:  # else the call may never return
            _left_behind.append(thread)
        raise
    if failures:
        raise failures.pop()
    return results.pop()
