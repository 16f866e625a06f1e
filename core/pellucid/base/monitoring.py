"""Named measurements: libraries record them, listeners receive them.

Core itself publishes typed events (`base.events`); these functions are for code written against the reference.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .errors import ArgumentValueError
from .typing import Function

Value = str | int
_listeners = defaultdict[str, list[Function]](list)


def record_event(event: str, **kwargs: Value) -> None:
    """Report to listeners that `event` happened.

    >>> register_event_listener(lambda event, **more: print(event, more))
    >>> record_event("/example/opened", where="here")
    /example/opened {'where': 'here'}
    >>> clear_event_listeners()
    """
    _tell("event", kwargs, event)


def record_event_duration_secs(event: str, duration: float, **kwargs: Value) -> None:
    """Report to listeners that `event` took `duration` seconds."""
    _tell("duration", kwargs, event, duration)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Value) -> None:
    """Report to listeners when `event` began and ended, in seconds."""
    _tell("time_span", kwargs, event, start_time, end_time)


def record_scalar(event: str, value: float, **kwargs: Value) -> None:
    """Report to listeners that `event` has `value`."""
    _tell("scalar", kwargs, event, value)


def register_event_listener(callback: Function) -> None:
    """Call `callback(event, **more)` for each event from now on."""
    _listeners["event"].append(callback)


def register_event_duration_secs_listener(callback: Function) -> None:
    """Call `callback(event, seconds, **more)` for each duration from now on."""
    _listeners["duration"].append(callback)


def register_event_time_span_listener(callback: Function) -> None:
    """Call `callback(event, start, end, **more)` for each time span from now on."""
    _listeners["time_span"].append(callback)


def register_scalar_listener(callback: Function) -> None:
    """Call `callback(event, value, **more)` for each value from now on."""
    _listeners["scalar"].append(callback)


def unregister_event_listener(callback: Function) -> None:
    """Stop calling `callback` for events."""
    _unregister("event", callback)


def unregister_event_duration_listener(callback: Function) -> None:
    """Stop calling `callback` for durations."""
    _unregister("duration", callback)


def unregister_event_time_span_listener(callback: Function) -> None:
    """Stop calling `callback` for time spans."""
    _unregister("time_span", callback)


def unregister_scalar_listener(callback: Function) -> None:
    """Stop calling `callback` for values."""
    _unregister("scalar", callback)


def clear_event_listeners() -> None:
    """Stop calling all listeners."""
    for listeners in _listeners.values():
        listeners.clear()


def _tell(kind: str, more: dict[str, Value], *values: Any) -> None:
    for listener in tuple(_listeners[kind]):
        listener(*values, **more)


def _unregister(kind: str, callback: Function) -> None:
    if callback not in _listeners[kind]:
        raise ArgumentValueError(
            f"this function does not listen to {kind.replace('_', ' ')} measurements.",
            got=f"got {callback!r:.80}",
        )
    _listeners[kind].remove(callback)


__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span", "record_scalar",
    "register_event_duration_secs_listener", "register_event_listener", "register_event_time_span_listener",
    "register_scalar_listener", "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip
