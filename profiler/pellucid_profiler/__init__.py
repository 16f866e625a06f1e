"""Profiler: records runs of programs, and attributes their time to lines, operations and scopes."""

from pellucid_profiler.recorder import (
    Profile,
    annotate,
    annotate_function,
    profile,
    start,
    step,
    stop,
)
from pellucid_profiler.session import Session, load

__all__ = [
    "Profile",
    "Session",
    "annotate",
    "annotate_function",
    "load",
    "profile",
    "start",
    "step",
    "stop",
]
