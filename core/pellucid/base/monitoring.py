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
    """Report to listeners that `event` took `duration` seconds.

    >>> register_event_duration_secs_listener(lambda event, seconds, **more: print(event, seconds))
    >>> record_event_duration_secs("/example/read", 0.25)
    /example/read 0.25
    >>> clear_event_listeners()
    """
    _tell("duration", kwargs, event, duration)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Value) -> None:
    """Report to listeners when `event` began and ended, in seconds.

    >>> register_event_time_span_listener(lambda event, start, end, **more: print(event, end - start))
    >>> record_event_time_span("/example/read", 10.0, 12.5)
    /example/read 2.5
    >>> clear_event_listeners()
    """
    _tell("time_span", kwargs, event, start_time, end_time)


def record_scalar(event: str, value: float, **kwargs: Value) -> None:
    """Report to listeners that `event` has `value`.

    >>> register_scalar_listener(lambda event, value, **more: print(event, value))
    >>> record_scalar("/example/loss", 0.5)
    /example/loss 0.5
    >>> clear_event_listeners()
    """
    _tell("scalar", kwargs, event, value)


def register_event_listener(callback: Function) -> None:
    """Call `callback(event, **more)` for each event from now on.

    >>> counts = {}
    >>> register_event_listener(lambda event, **more: counts.update({event: counts.get(event, 0) + 1}))
    >>> record_event("/example/hit")
    >>> record_event("/example/hit")
    >>> counts
    {'/example/hit': 2}
    >>> clear_event_listeners()
    """
    _listeners["event"].append(callback)


def register_event_duration_secs_listener(callback: Function) -> None:
    """Call `callback(event, seconds, **more)` for each duration from now on.

    >>> register_event_duration_secs_listener(lambda event, seconds, **more: print(f"{seconds:.1f} s", more))
    >>> record_event_duration_secs("/example/read", 0.25, rows=3)
    0.2 s {'rows': 3}
    >>> clear_event_listeners()
    """
    _listeners["duration"].append(callback)


def register_event_time_span_listener(callback: Function) -> None:
    """Call `callback(event, start, end, **more)` for each time span from now on.

    >>> register_event_time_span_listener(lambda event, start, end, **more: print(start, end, more))
    >>> record_event_time_span("/example/read", 10.0, 12.5, rows=3)
    10.0 12.5 {'rows': 3}
    >>> clear_event_listeners()
    """
    _listeners["time_span"].append(callback)


def register_scalar_listener(callback: Function) -> None:
    """Call `callback(event, value, **more)` for each value from now on.

    >>> losses = []
    >>> register_scalar_listener(lambda event, value, **more: losses.append(value))
    >>> record_scalar("/example/loss", 0.5)
    >>> record_scalar("/example/loss", 0.25)
    >>> losses
    [0.5, 0.25]
    >>> clear_event_listeners()
    """
    _listeners["scalar"].append(callback)


def unregister_event_listener(callback: Function) -> None:
    """Stop calling `callback` for events.

    Raises: ArgumentValueError if it isn't registered.

    >>> def listener(event, *values, **more):
    ...     print(event, values)
    >>> register_event_listener(listener)
    >>> unregister_event_listener(listener)
    >>> record_event("/example/hit")
    """
    _unregister("event", callback)


def unregister_event_duration_listener(callback: Function) -> None:
    """Stop calling `callback` for durations.

    Raises: ArgumentValueError if it isn't registered.

    >>> def listener(event, *values, **more):
    ...     print(event, values)
    >>> register_event_duration_secs_listener(listener)
    >>> unregister_event_duration_listener(listener)
    >>> record_event_duration_secs("/example/read", 0.25)
    """
    _unregister("duration", callback)


def unregister_event_time_span_listener(callback: Function) -> None:
    """Stop calling `callback` for time spans.

    Raises: ArgumentValueError if it isn't registered.

    >>> def listener(event, *values, **more):
    ...     print(event, values)
    >>> register_event_time_span_listener(listener)
    >>> unregister_event_time_span_listener(listener)
    >>> record_event_time_span("/example/read", 10.0, 12.5)
    """
    _unregister("time_span", callback)


def unregister_scalar_listener(callback: Function) -> None:
    """Stop calling `callback` for values.

    Raises: ArgumentValueError if it isn't registered.

    >>> def listener(event, *values, **more):
    ...     print(event, values)
    >>> register_scalar_listener(listener)
    >>> unregister_scalar_listener(listener)
    >>> record_scalar("/example/loss", 0.5)
    """
    _unregister("scalar", callback)


def clear_event_listeners() -> None:
    """Stop calling all listeners.

    >>> register_event_listener(lambda event, **more: print(event))
    >>> clear_event_listeners()
    >>> record_event("/example/hit")
    """
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
