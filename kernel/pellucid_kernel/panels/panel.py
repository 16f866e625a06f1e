"""Base class of the kernel's side of a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from IPython.core.interactiveshell import InteractiveShell

from pellucid_kernel.schema import Shown, State

Handler = Callable[[Mapping[str, Any]], Shown | None]
"""Answers a request with what to show, or does something, after which all panels in sight get new states.

Its errors of core are answered as texts.
"""


class Panel:
    """One panel: its state, and the requests that it answers."""

    name: ClassVar[str]
    """As front ends ask for it."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def state(self) -> State:
        """State that the panel shows."""
        raise NotImplementedError

    def handlers(self) -> Mapping[str, Handler]:
        """Handlers of requests, by their kind."""
        return {}
