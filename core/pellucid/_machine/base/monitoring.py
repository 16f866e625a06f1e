"""Named measurements that libraries record and listeners receive.

Core itself publishes typed events (`base.events`); these functions are for code written for the reference. While there
are listeners, durations of tracing, lowering and compiling, and uses of the disk cache, are recorded under the
reference's names.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

from . import config
from .errors import ArgumentValueError
from .events import (
    CompilationFinished,
    Observer,
    StageEnded,
    StageStarted,
    add_observer,
    remove_observer,
)
from .typing import Function

Value = str | int
_listeners = defaultdict[str, list[Function]](list)

_DURATIONS = {
    "trace": "/jax/core/compile/jaxpr_trace_duration",
    "lower": "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "compile": "/jax/core/compile/backend_compile_duration",
}
_CACHE = "/jax/compilation_cache/"


class _Reporter(Observer):
    """Records stages and uses of the disk cache under the reference's names."""

    def __init__(self) -> None:
        self.local = threading.local()
        """`starts`: start times of the stages that run in a thread, outermost first."""
        self.told: set[str] = set()
        """Which uses of the cache by this process, enabled or not, have been recorded since it was reset."""

    def stage_started(self, event: StageStarted) -> None:
        self.local.__dict__.setdefault("starts", []).append(time.time())
        if event.stage != "compile":
            record_scalar(_DURATIONS[event.stage], self.local.starts[-1], fun_name=_name(event))

    def stage_ended(self, event: StageEnded) -> None:
        starts = self.local.__dict__.get("starts")
        if not starts:  # the event began before there were listeners
            return
        start = starts.pop()
        if event.stage != "compile":
            self._record_duration(event.stage, start, time.time(), _name(event))

    def compilation_finished(self, event: CompilationFinished) -> None:
        end = time.time()
        name = f"jit({event.name})"
        record_scalar(_DURATIONS["compile"], end - event.seconds, fun_name=name)
        is_enabled = config.enable_compilation_cache.value
        use = "tasks_using_cache" if is_enabled else "task_disabled_cache"
        if use not in self.told:
            self.told.add(use)
            record_event(f"{_CACHE}{use}")
        if is_enabled:
            record_event(f"{_CACHE}compile_requests_use_cache")
        if event.cache == "disk":
            record_event(f"{_CACHE}cache_hits")
            record_event_duration_secs(
                f"{_CACHE}compile_time_saved_sec", event.seconds_of_disk - event.seconds
            )
            record_event_duration_secs(f"{_CACHE}cache_retrieval_time_sec", event.seconds)
        elif event.cache == "miss" and event.asked_disk:
            record_event(f"{_CACHE}cache_misses")
        self._record_duration("compile", end - event.seconds, end, name)

    def _record_duration(self, stage: str, start: float, end: float, name: str) -> None:
        record_event_duration_secs(_DURATIONS[stage], end - start, fun_name=name)
        record_event_time_span(_DURATIONS[stage], start, end, fun_name=name)


def _name(event: StageStarted | StageEnded) -> str:
    return event.name if event.stage == "trace" else f"jit({event.name})"


_reporter = _Reporter()


def _listen(kind: str, callback: Function) -> None:
    if not any(_listeners.values()):
        add_observer(_reporter)
    _listeners[kind].append(callback)


def forget_cache() -> None:
    """Record anew, at the next compilation, that this process uses the disk cache: it was reset."""
    _reporter.told.clear()


def record_event(event: str, **kwargs: Value) -> None:
    """Notify listeners that `event` occurred.

    >>> register_event_listener(lambda event, **more: print(event, more))
    >>> record_event("/example/opened", where="here")
    /example/opened {'where': 'here'}
    >>> clear_event_listeners()
    """
    _tell("event", kwargs, event)


def record_event_duration_secs(event: str, duration: float, **kwargs: Value) -> None:
    """Notify listeners that `event` took `duration` seconds.

    >>> register_event_duration_secs_listener(lambda event, seconds, **more: print(event, seconds))
    >>> record_event_duration_secs("/example/read", 0.25)
    /example/read 0.25
    >>> clear_event_listeners()
    """
    _tell("duration", kwargs, event, duration)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Value) -> None:
    """Notify listeners when `event` began and ended, in seconds.

    >>> register_event_time_span_listener(lambda event, start, end, **more: print(event, end - start))
    >>> record_event_time_span("/example/read", 10.0, 12.5)
    /example/read 2.5
    >>> clear_event_listeners()
    """
    _tell("time_span", kwargs, event, start_time, end_time)


def record_scalar(event: str, value: float, **kwargs: Value) -> None:
    """Notify listeners of the `value` of `event`.

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
    _listen("event", callback)


def register_event_duration_secs_listener(callback: Function) -> None:
    """Call `callback(event, seconds, **more)` for each duration from now on.

    >>> register_event_duration_secs_listener(lambda event, seconds, **more: print(f"{seconds:.1f} s", more))
    >>> record_event_duration_secs("/example/read", 0.25, rows=3)
    0.2 s {'rows': 3}
    >>> clear_event_listeners()
    """
    _listen("duration", callback)


def register_event_time_span_listener(callback: Function) -> None:
    """Call `callback(event, start, end, **more)` for each time span from now on.

    >>> register_event_time_span_listener(lambda event, start, end, **more: print(start, end, more))
    >>> record_event_time_span("/example/read", 10.0, 12.5, rows=3)
    10.0 12.5 {'rows': 3}
    >>> clear_event_listeners()
    """
    _listen("time_span", callback)


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
    _listen("scalar", callback)


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
    """Stop calling `callback` for scalar values.

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
    remove_observer(_reporter)


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
    if not any(_listeners.values()):
        remove_observer(_reporter)


__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span", "record_scalar",
    "register_event_duration_secs_listener", "register_event_listener", "register_event_time_span_listener",
    "register_scalar_listener", "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip
