"""Evaluation of many rows in few compiled programs.

Compiling a tiny program costs more than everything else that a law does, and one program of sixty rows
costs a third of sixty programs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import config
from pellucid._machine.compilation.options import HAS_OLD_EMITTERS
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import replay, stage
from tests.laws.jax_answers import COMPILATION

EMITTERS = {"xla_cpu_use_fusion_emitters": True} if HAS_OLD_EMITTERS else {}
EXACT = {**COMPILATION, **EMITTERS, "xla_backend_optimization_level": 3}
"""Options for rows whose bits are compared with the reference's: those that its answers were recorded with."""
COMPILED = Path(__file__).parents[2] / ".test-results/compiled"
"""Folder of compiled chunks, each of which several test processes want."""
COMPILED_BYTES = 1 << 28
"""Most that it holds: ten times the chunks of all parts."""
CHUNK = 60
"""Rows in one program."""
Task = tuple[Callable[..., Sequence[Any]], *tuple[Sequence[Any], ...]]
"""A function of flat values, and the operands of each call of it; all calls have operands of the same types."""


class Evaluated(NamedTuple):
    """A staged program and its results, of one call after the other."""

    jaxpr: Any
    results: list[Any]


def evaluate(
    tasks: dict[Hashable, Task], *, x64: bool, options: dict[str, Any] = COMPILATION
) -> dict[Hashable, Evaluated | Exception]:
    """For each task its program and results, computed by compiled programs, or the error that it raised."""
    outcomes: dict[Hashable, Evaluated | Exception] = {}
    with config.enable_x64(x64):
        staged = {}
        for key, (function, *calls) in tasks.items():
            try:
                staged[key] = (*stage(function, [type_of(x) for x in calls[0]]), calls)
            except Exception as error:
                outcomes[key] = error
        keys = list(staged)
        for start in range(0, len(keys), CHUNK):
            chunk = {key: staged[key] for key in keys[start : start + CHUNK]}
            outcomes |= run_together(chunk, options)
    return outcomes


def run_together(
    chunk: dict[Hashable, Any], options: dict[str, Any]
) -> dict[Hashable, Evaluated | Exception]:
    """Results of staged tasks by one program; one by one if that fails, to find who is to blame."""
    calls_of = [calls for _, _, calls in chunk.values()]
    programs = [(jaxpr, consts) for jaxpr, consts, _ in chunk.values()]

    def all_results(groups: list[list[Any]]) -> list[list[Any]]:
        return [
            replay(jaxpr, consts, *xs) for (jaxpr, consts), xs in zip(programs, groups, strict=True)
        ]

    try:
        with (
            config.compilation_cache_dir(str(COMPILED)),
            config.compilation_cache_max_size(COMPILED_BYTES),
        ):
            compiled = jit(all_results, compiler_options=options)
            results: list[list[Any]] = [[] for _ in chunk]
            for i in range(max(map(len, calls_of))):
                values = compiled([calls[min(i, len(calls) - 1)] for calls in calls_of])
                for calls, row, found in zip(calls_of, results, values, strict=True):
                    row += found if i < len(calls) else []
        pairs = zip(chunk, programs, results, strict=True)
        return {key: Evaluated(jaxpr, found) for key, (jaxpr, _), found in pairs}
    except Exception as error:
        if len(chunk) == 1:
            return {next(iter(chunk)): error}
    return {
        key: found
        for one in chunk
        for key, found in run_together({one: chunk[one]}, options).items()
    }


def as_numpy(results: Sequence[Any]) -> list[np.ndarray]:
    """Results as NumPy arrays."""
    return [np.asarray(r) for r in results]
