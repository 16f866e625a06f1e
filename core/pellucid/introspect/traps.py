"""The options that raise at NaN and infinity, off while a tool runs what it looks at."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from typing import ParamSpec, TypeVar

from pellucid._machine.base import config

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_nans, _infs = config.debug_nans.state, config.debug_infs.state


@contextlib.contextmanager
def without_traps() -> Generator[None]:
    """Let operations give NaN and infinity meanwhile; a block, or a decorator."""
    with config.debug_nans(False), config.debug_infs(False):
        yield


def untrapped(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The same function, whose operations may give NaN and infinity; it costs nothing where the options are off."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if not (_nans.value or _infs.value):
            return function(*args, **kwargs)
        with without_traps():
            return function(*args, **kwargs)

    return run
