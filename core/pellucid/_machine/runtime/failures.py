"""Converts errors of XLA's runtime to pellucid's."""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from typing import NoReturn

from pellucid._machine.base import (
    ExecutionError,
    OutOfMemoryError,
    PellucidError,
    bytes_text,
    called_by_user,
)

from . import peers
from .memory import live_arrays_in_words

_CODES = (
    "INTERNAL",
    "INVALID_ARGUMENT",
    "UNKNOWN",
    "FAILED_PRECONDITION",
    "UNIMPLEMENTED",
    "ABORTED",
)


_BYTE_COUNT = re.compile(r"\b(\d+) bytes\b")
_MARK = re.compile(r"pellucid callback failure #(\d+)")
_MAX_FAILURES = 64
_failures: OrderedDict[int, BaseException] = OrderedDict()
"""Failures of user callbacks by number, until the call of their program raises them."""
_number = itertools.count(1).__next__


def mark_error(error: BaseException) -> str:
    """A text with which `callback_failure` finds `error` again, because XLA passes on texts but no exceptions."""
    number = _number()
    _failures[number] = error
    while len(_failures) > _MAX_FAILURES:
        _failures.popitem(last=False)
    return f"pellucid callback failure #{number}"


def callback_failure(text: str) -> BaseException | None:
    """The failure whose mark is in the text of XLA's error; None if there is none."""
    mark = _MARK.search(text)
    return None if mark is None else _failures.pop(int(mark[1]), None)


def raise_runtime_error(name: str, error: Exception) -> NoReturn:
    """Raise the pellucid error for `error`, which XLA raised while `name` ran; `error` itself if it isn't XLA's."""
    explained = _runtime_error(name, error)
    raise explained from explained.__cause__


def _runtime_error(name: str, error: Exception) -> BaseException:
    if isinstance(error, PellucidError):
        return error
    text = str(error)
    failure = callback_failure(text)
    if failure is not None:
        return failure
    peer_failure = peers.failure_behind(text)
    if peer_failure is not None:
        return peer_failure
    if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        what = _BYTE_COUNT.sub(lambda count: bytes_text(int(count[1])), text.splitlines()[0])
        return OutOfMemoryError(
            f"`{called_by_user() or name}` needs more memory than the device has.",
            got=[what, *live_arrays_in_words()],
            do="Delete or donate arrays that are no longer needed, or use smaller or sharded ones.",
        )
    if type(error) is ValueError and not text.startswith(_CODES):
        return error
    return ExecutionError(f"`{name}` failed while it ran.", got=text.splitlines()[:40])
