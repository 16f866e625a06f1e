"""Makes long calls into C++ interruptible with Ctrl-C."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


_left_behind: list[threading.Thread] = []


@atexit.register
def _wait_for_abandoned_calls() -> None:
    """Wait for abandoned calls before Python exits, because C++ can't return into an interpreter that has ended.

    Another Ctrl-C ends this wait too.
    """
    with contextlib.suppress(KeyboardInterrupt):
        for thread in _left_behind:
            thread.join()


_SECONDS_BETWEEN_CHECKS = 0.05


def interruptible(
    function: Callable[..., T], *arguments: Any, check: Callable[[], None] | None = None
) -> T:
    """`function(*arguments)`, interruptible at once with Ctrl-C or by an exception that `check` raises.

    Python handles signals between its own instructions, and a call into C++ is a single instruction. So the main
    thread, which alone receives signals, waits for another thread that makes the call (30 us). After an interruption
    the call continues in the background and its result is dropped. `check()` is called repeatedly during the call.
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
        if check is None:  # otherwise the call may never return
            _left_behind.append(thread)
        raise
    if failures:
        raise failures.pop()
    return results.pop()
