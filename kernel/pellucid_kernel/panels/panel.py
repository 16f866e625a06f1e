"""What a panel is on the kernel's side."""

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
        """What the panel shows now."""
        raise NotImplementedError

    def handlers(self) -> Mapping[str, Handler]:
        """What answers requests, by their kind."""
        return {}
