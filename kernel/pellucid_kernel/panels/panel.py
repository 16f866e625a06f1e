"""Base class of the kernel side of a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from IPython.core.interactiveshell import InteractiveShell

from pellucid_kernel.schema import Shown, State

Handler = Callable[[Mapping[str, Any]], Shown | None]
"""Handles a request: returns what to show, or performs an action, after which all visible panels get new states.

Errors raised by pellucid are sent as text.
"""


class Panel:
    """One panel: its state, and its request handlers."""

    name: ClassVar[str]
    """Name under which front ends request it."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def state(self) -> State:
        """The current state to display."""
        raise NotImplementedError

    def handlers(self) -> Mapping[str, Handler]:
        """Handlers of requests, by kind of request."""
        return {}
