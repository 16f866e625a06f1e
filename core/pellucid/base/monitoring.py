"""Named measurements: libraries record them, listeners receive them.

Core itself publishes typed events (`base.events`); these functions are for code written against the reference.
"""

from __future__ import annotations

from .errors import ArgumentValueError
from .typing import Function

Value = str | int
_listeners: dict[str, list[Function]] = {
    "event": [],
    "duration": [],
    "time_span": [],
    "scalar": [],
}


def record_event(event: str, **kwargs: Value) -> None:
    """Report to listeners that `event` happened.

    >>> register_event_listener(lambda event, **more: print(event, more))
    >>> record_event("/example/opened", where="here")
    /example/opened {'where': 'here'}
    >>> clear_event_listeners()
    """
    for listener in tuple(_listeners["event"]):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: Value) -> None:
    """Report to listeners that `event` took `duration` seconds."""
    for listener in tuple(_listeners["duration"]):
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Value) -> None:
    """Report to listeners when `event` began and ended, in seconds."""
    for listener in tuple(_listeners["time_span"]):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: Value) -> None:
    """Report to listeners that `event` has `value`."""
    for listener in tuple(_listeners["scalar"]):
        listener(event, value, **kwargs)


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
