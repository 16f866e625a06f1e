"""Disables what would raise or stop at a value while a tool runs the user's operations, and what would concern its own."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Generator
from typing import ParamSpec, TypeVar

from pellucid._machine.base import config, is_by_tool
from pellucid._machine.sharding import set_mesh
from pellucid._machine.tracing import use_no_facts
from pellucid._machine.tracing.current import take_current_trace, unbound_axes

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_is_looking = contextvars.ContextVar("pellucid.is_looking", default=False)
_nans, _infs = config.debug_nans.state, config.debug_infs.state
_OF_USERS = (
    config.debug_nans, config.debug_infs, config.disable_jit, config.no_tracing, config.no_execution, config.transfer_guard,
)  # fmt: skip
"""Options that forbid, check or take apart programs."""


@contextlib.contextmanager
def without_traps() -> Generator[None]:
    """A context manager and decorator in which operations may return NaN and infinity, and no program is stopped."""
    with _looking(), config.debug_nans(False), config.debug_infs(False):
        yield


def is_looking() -> bool:
    """Whether a tool is running operations: its own, or the user's in `without_traps`. No breakpoint or watch stops then."""
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


@contextlib.contextmanager
def own_settings() -> Generator[None]:
    """A context manager and decorator in which a tool's own programs run: without the user's mesh, guards and checks."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(set_mesh(None))
        for option in _OF_USERS:
            stack.enter_context(option(option.default))
        yield


@contextlib.contextmanager
def apart() -> Generator[None]:
    """A context manager in which a tool runs operations while one of the user is interpreted: under no trace, axes and names of
    its.
    """
    with take_current_trace(), unbound_axes(), use_no_facts():
        yield
