"""What a stepped machine has done outside of itself, so that it happens once however often the machine runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Journal:
    """Results of effects in the order in which they happened. `rewind` begins anew, with what is known."""

    def __init__(self) -> None:
        self._results: list[Any] = []
        self._next = 0

    def rewind(self) -> None:
        """Let the machine run again from its beginning."""
        self._next = 0

    def once(self, effect: Callable[[], Any]) -> Any:
        """What `effect` gives, or gave when it happened.

        >>> journal = Journal()
        >>> journal.once(lambda: 3)
        3
        >>> journal.rewind()
        >>> journal.once(lambda: 5)
        3
        """
        if self._next == len(self._results):
            self._results.append(effect())
        self._next += 1
        return self._results[self._next - 1]
