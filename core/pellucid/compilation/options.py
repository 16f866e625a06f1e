"""Compiler options: what users set, what pellucid adds, checked before XLA sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.base import config
from pellucid.base.errors import ArgumentTypeError

_MANY_CALLS = 3
"""From this many calls of one function on, calls are kept as calls on the CPU (decisions/0002)."""


def frozen(options: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """User's compiler options as a hashable tuple."""
    if not options:
        return ()
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, (str, bool, int, float)):
            raise ArgumentTypeError(
                "compiler_options maps names of XLA options to strings, bools, ints or floats.",
                got=f"{name!r}: {type(value).__name__}",
                do='For example `{"xla_cpu_enable_fast_math": True}`.',
            )
    return tuple(sorted(options.items()))


def overrides(
    options: Sequence[tuple[str, Any]], platform: str, calls: int
) -> tuple[tuple[str, Any], ...]:
    """XLA options for one compilation: pellucid's choices, then the user's."""
    chosen: dict[str, Any] = {}
    if platform == "cpu" and calls >= _MANY_CALLS:
        chosen["xla_disable_hlo_passes"] = "call-inliner"
    level = config.optimization_level.value
    if level is not None:
        chosen["xla_backend_optimization_level"] = int(level)
    chosen.update(options)
    return tuple(chosen.items())
