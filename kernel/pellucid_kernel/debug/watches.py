"""The values at which programs stop: conditions, from their texts, and the values that were shown."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pellucid as pl
from pellucid.introspect.finding import meets
from pellucid_kernel.debug.conditions import names_in
from pellucid_kernel.debug.finders import isinf, isnan

Condition = Callable[[Any], Any]
"""Returns booleans for an array, as `isnan` does."""


class Watched(NamedTuple):
    """What a text says to stop at."""

    condition: Condition
    words: str
    """What a value has for which the condition holds, in words."""


_NAMED = {"isnan": Watched(isnan, "NaN"), "isinf": Watched(isinf, "infinity")}


class Watches:
    """Conditions by text, and the values that were shown.

    A stop shows the first such value; operations that get one of those which were shown don't stop again.
    """

    def __init__(self) -> None:
        self._conditions: dict[str, tuple[Condition, dict[str, Any]]] = {}
        """By expression that was watched for its function, and what its names held."""
        self._named = dict(_NAMED)
        self._shown: dict[int, weakref.ref[Any]] = {}

    def name(self, condition: Condition) -> str:
        """A name by which one watches for a condition that is a function."""
        for text, watched in self._named.items():
            if watched.condition == condition:
                return text
        text = getattr(condition, "__name__", "the condition")
        self._named[text] = Watched(condition, text)
        return text

    def of(self, text: str, names: Callable[[], Mapping[str, Any]]) -> Watched:
        """What an expression of `x` and of `names()` states: the same function where its names hold what they held before."""
        if text in self._named:
            return self._named[text]
        words = names_in(text) - {"x"}
        held = names() if words else {}
        used = {name: held[name] for name in words if name in held}
        condition, before = self._conditions.get(text, (None, {}))
        is_same = used.keys() == before.keys() and all(used[n] is before[n] for n in used)
        if condition is None or not is_same:
            condition = eval(f"lambda x: {text}", dict(used))  # noqa: S307 - the user's
            self._conditions[text] = condition, used
        return Watched(condition, text)

    def forget(self) -> None:
        """Makes values that were shown stop again."""
        self._shown.clear()

    def came_from_shown(self, values: Sequence[Any]) -> bool:
        """Whether any of some values was shown."""
        shown = self._shown
        return bool(shown) and any(
            (held := shown.get(id(x))) is not None and held() is x for x in values
        )

    def meeting(self, condition: Condition, values: Sequence[Any]) -> list[Any]:
        """The arrays among some values that have an element for which a condition holds."""
        return [
            x
            for x in values
            if isinstance(x, pl.Array) and not x.is_deleted() and meets(condition, x)
        ]

    def show(self, values: Sequence[Any]) -> None:
        """Notes values that were shown, or that came from those."""
        for x in values:
            key = id(x)
            self._shown[key] = weakref.ref(x, lambda _, key=key: self._shown.pop(key, None))
