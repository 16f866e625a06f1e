"""Request handlers of profiler figures: zoomed timelines, Perfetto traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid_kernel.panels.panel import Handler
from pellucid_profiler.record import session_perfetto, session_timeline
from pellucid_profiler.schema import PerfettoRecord, TimelineRecord


def _timeline(request: Mapping[str, Any]) -> TimelineRecord:
    numbers = (int(request[name]) for name in ("session", "begin_ns", "end_ns", "columns"))
    return session_timeline(*numbers)


def _perfetto(request: Mapping[str, Any]) -> PerfettoRecord:
    return session_perfetto(int(request["session"]))


HANDLERS: Mapping[str, Handler] = {"show_timeline": _timeline, "show_perfetto": _perfetto}
"""Handlers of requests, by kind of request."""
