"""Compiler options: the user's and pellucid's own, validated before XLA receives them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pellucid._machine.base import ArgumentTypeError, CompilerOptionError, config
from pellucid._machine.xla import flags
from pellucid._machine.xla.compile import FDO_PROFILE, flag_names, jaxlib_version

_MIN_KEPT_CALLS = 3
"""Minimum number of calls of one function at which calls aren't inlined on the CPU."""
_MAX_SMALL_CONTRACTION = 2**20
"""Maximum number of products for which XLA's own matrix multiplication on the CPU is as fast as YNNPACK's.

YNNPACK's takes 0.7 ms each to set up when the program first runs (decisions/0002); in loops, which run it often, it is
faster at any size.
"""
_YNNPACK_WITHOUT_CONTRACTIONS = (
    "LIBRARY_FUSION_TYPE_REDUCE,LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
)

keeps_apart = flags.RareFlag("pellucid_keeps_operations_apart", False, in_trace_key=True)
"""Whether programs that this thread compiles for CPUs compute each operation by a kernel of its own.

XLA would compute operations that are between two results within the kernel of each result that depends on them: where all
values are results, that takes time quadratic in their number to compile.
"""

HAS_OLD_EMITTERS = jaxlib_version.startswith("0.10.")
"""Whether XLA still has other emitters of fusions for CPUs, and the option by which they are chosen: jaxlib 0.11 has neither."""


def hashable_options(options: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """The user's compiler options as a hashable tuple."""
    if not options:
        return ()
    for name, value in options.items():
        if name == FDO_PROFILE and isinstance(value, bytes):
            continue
        if not isinstance(name, str) or not isinstance(value, (str, bool, int, float)):
            raise ArgumentTypeError(
                "compiler_options must map names of XLA options to strings, bools, ints or floats.",
                got=f"{name!r}: {type(value).__name__}",
                do='For example `{"xla_cpu_enable_fast_math": True}`.',
            )
    return tuple(sorted(options.items()))


_UNKNOWN = re.compile(r"No such compile option: '(?P<name>[^']*)'")
_BAD_VALUE = re.compile(r"While setting option (?P<name>\w+), (?P<problem>[^\n]*)")


def error_for(text: str) -> CompilerOptionError | None:
    """The error for XLA's message `text` if it is about a compiler option; None otherwise."""
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        name = unknown["name"]
        # XLA keeps the names of those that it has dropped.
        close = difflib.get_close_matches(name, flag_names() - {name}, n=3)
        return CompilerOptionError(
            f"there is no compiler option {name!r}.",
            do=f"Did you mean {' or '.join(map(repr, close))}?"
            if close
            else "Compiler options are XLA's flags, for example 'xla_cpu_enable_fast_math'.",
        )
    bad = _BAD_VALUE.search(text)
    if bad is not None:
        return CompilerOptionError(
            f"the compiler option {bad['name']!r} does not take this value.",
            got=bad["problem"],
            do="Give bools as True or False, choices as their names.",
        )
    return None


def overrides(
    options: Sequence[tuple[str, Any]],
    platform: str,
    calls: int,
    largest_contraction: float,
    *,
    is_brief: bool = False,
) -> tuple[tuple[str, Any], ...]:
    """XLA options for one compilation: pellucid's choices, then the user's.

    `calls` is the maximum number of calls of any one function of the program. `largest_contraction` is the maximum
    number of products in one matrix multiplication, including its batch; infinite if one is in a loop. `is_brief`
    says that nothing but the time to compile counts (`lowering/brief_programs.py`), which the old emitters shorten.
    """
    chosen = {}
    disabled = ["fusion"] if platform == "cpu" and keeps_apart.value else []
    if platform == "cpu" and calls >= _MIN_KEPT_CALLS:
        disabled.append("call-inliner")
        # With this preset, most passes process a shared function once instead of once per call.
        chosen["xla_cpu_opt_preset"] = "CPU_OPT_PRESET_FAST_COMPILE"
    if disabled:
        chosen["xla_disable_hlo_passes"] = ",".join(disabled)
    if platform == "cpu" and 0 < largest_contraction <= _MAX_SMALL_CONTRACTION:
        chosen["xla_cpu_experimental_ynn_fusion_type"] = _YNNPACK_WITHOUT_CONTRACTIONS
    if platform == "cpu" and is_brief and HAS_OLD_EMITTERS:
        chosen["xla_backend_optimization_level"] = 0
        chosen["xla_cpu_use_fusion_emitters"] = False
    if config.disable_most_optimizations.value:
        chosen["xla_backend_optimization_level"] = 0
        chosen["xla_llvm_disable_expensive_passes"] = True
        if platform == "cpu" and HAS_OLD_EMITTERS:
            chosen["xla_cpu_use_fusion_emitters"] = False
    level = config.optimization_level.value
    if level != "UNKNOWN":
        chosen["xla_backend_optimization_level"] = int(level.removeprefix("O"))
    chosen.update(options)
    return tuple(chosen.items())
