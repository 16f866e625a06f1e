"""Disables what would raise or stop at a value while a tool runs the user's operations."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Generator
from typing import ParamSpec, TypeVar

from pellucid._machine.base import config, is_by_tool

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_is_looking = contextvars.ContextVar("pellucid.is_looking", default=False)
_nans, _infs = config.debug_nans.state, config.debug_infs.state


@contextlib.contextmanager
def without_traps() -> Generator[None]:
    """A context manager and decorator in which operations may return NaN and infinity, and no program is stopped."""
    with _looking(), config.debug_nans(False), config.debug_infs(False):
        yield


def is_looking() -> bool:
    """Whether a tool runs operations, its own or the user's in `without_traps`: neither breakpoints nor watches stop there."""
    return _is_looking.get() or is_by_tool.get()


@contextlib.contextmanager
def _looking() -> Generator[None]:
    token = _is_looking.set(True)
    try:
        yield
    finally:
        _is_looking.reset(token)


def disable_traps(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that calls `function` as in `without_traps`; options that are off already cost nothing."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with without_traps() if _nans.value or _infs.value else _looking():
            return function(*args, **kwargs)

    return run
