"""Leak check: finds what keeps tracers alive after their trace has ended."""

from __future__ import annotations

import gc
import sys
from typing import Any

from pellucid._machine.base import LeakError
from pellucid._machine.base.narrowing import is_dict, is_list_or_tuple, is_set

_MAX_CHAIN_LENGTH = 3


def keepers(value: Any) -> list[str]:
    """Texts of reference chains that keep `value` alive, nearest holder first."""
    chains: list[str] = []
    ignored = {id(value)}

    def visit(target: Any, path: str, level: int) -> None:
        for holder in gc.get_referrers(target):
            if id(holder) in ignored or type(holder).__name__ in (
                "frame",
                "list_iterator",
                "cell_iterator",
            ):
                continue
            ignored.add(id(holder))
            step = _text_of_reference(holder, target)
            if step is None:
                continue
            chains.append(f"{path}{step}")
            if level < _MAX_CHAIN_LENGTH:
                visit(holder, f"{path}{step} <- ", level + 1)

    visit(value, "", 1)
    return chains[:10]


def _text_of_reference(holder: object, target: object) -> str | None:
    if is_dict(holder):
        names = [key for key, value in holder.items() if value is target]
        if "__name__" in holder and names:
            return f"global `{names[0]}` of module {holder['__name__']}"
        return f"dict entry {names[0]!r}" if names else None
    if is_list_or_tuple(holder) or (is_set(holder) and isinstance(holder, set)):
        return f"an element of a {type(holder).__name__} of length {len(holder)}"
    if type(holder).__name__ == "cell":
        return "a variable that a closure captured"
    if hasattr(holder, "__dict__"):
        return f"an object of type {type(holder).__name__}"
    return None


def _tracers_of(trace: object) -> list[Any]:
    """The existing tracers of `trace`."""
    return [
        x
        for x in gc.get_referrers(trace)
        if getattr(x, "_trace", None) is trace and hasattr(x, "aval")
    ]


def _references(trace: object) -> int:
    return sys.getrefcount(trace)


def _references_of_callers() -> int:
    trace = object()
    return _references(trace)


_UNUSED = _references_of_callers()
"""Number of references to a trace held by `check_no_leaks` and its caller."""
_GENERATIONS = len(gc.get_count())


def check_no_leaks(trace: Any, name: str) -> None:
    """Raises LeakError if tracers of `trace`, which has ended, are still referenced."""
    # Searching all objects takes 0.1 s, collecting the oldest generation three times as long. Objects made while
    # tracing are young.
    if sys.getrefcount(trace) == _UNUSED or not _tracers_of(trace):
        return
    for generation in range(_GENERATIONS):
        gc.collect(generation)
        if sys.getrefcount(trace) == _UNUSED:
            return
    leaked = _tracers_of(trace)
    if leaked:
        tracer = leaked[0]
        origin = tracer.origin()
        raise LeakError(
            f"tracing `{name}` left {len(leaked)} traced value(s) alive.",
            got=[f"{tracer.aval.text()}{f', made at {origin}' if origin else ''}",
                 *[f"kept by {chain}" for chain in keepers(tracer)]],
            do="Return such values from the function instead of storing them.",
        )  # fmt: skip
