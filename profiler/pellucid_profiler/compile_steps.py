"""Time of compilation by step: passes of XLA, kernel generation, machine code.

XLA compiles a program on one thread, which gives kernels and machine code to worker threads and waits for them. The
times of the compiling thread's steps add up to the whole compilation; the worker threads' times are reported
separately.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal, NamedTuple

import numpy as np

from pellucid_profiler.calls import HostSpans, nesting
from pellucid_profiler.session_data import SessionData
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.xspace import ABSENT, Column

COMPILE = "PjRtCpuClient::Compile"
"""Name of the span that covers a whole compilation."""
KERNEL = "FusionCompiler::Compile"
"""Name of the span that generates one kernel; its stat `module` contains the instruction's name."""
MACHINE_CODE = "TaskDispatcher::dispatch"
"""Name of the span of one LLVM task; XLA gives these tasks no names of their own."""
Phase = Literal["passes", "kernels", "machine code", "rest"]

_AROUND: dict[str, tuple[Phase, str]] = {
    COMPILE: ("rest", "between passes"),
    "CpuCompiler::RunBackend": ("passes", "preparing code generation"),
    "CpuCompiler::CompileCpuExecutable": ("passes", "scheduling and buffer assignment"),
    "ThunkEmitter::EmitEntryComputation": ("kernels", "emitting kernels"),
    "ThunkEmitter::ConsumeKernels": ("kernels", "waiting for kernels"),
    "SplitModule": ("machine code", "splitting into modules for threads"),
    "CpuCompiler::CloneAsThreadSafeModule": ("machine code", "splitting into modules for threads"),
    "Codegen": ("machine code", "waiting for machine code"),
    "JitCompiler::Compile": ("machine code", "waiting for machine code"),
}
"""Phase and display name of the compiling thread's spans that are not passes."""


class CompileStep(NamedTuple):
    """A pass of XLA, a generated kernel or machine code, summed over all compilations of a program."""

    program: str
    """Name of its HLO module."""
    phase: Phase
    name: str
    """Name of the pass, or of the instruction whose kernel is generated."""
    place: SourceLine | None
    """Source line with the largest share of the kernel; None if it has no line."""
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    seconds: float
    """Self time on the compiling thread, without nested steps. The sum over steps is the time of the whole compilation."""
    thread_seconds: float
    """Time on XLA's worker threads, summed over threads."""

    @property
    def is_named(self) -> bool:
        """Whether the time belongs to a pass, a kernel or a named step, not to the gaps between them."""
        return self.phase != "rest"


def compile_steps(session: SessionData) -> list[CompileStep]:
    """The steps of all compilations of a session, sorted by time, longest first."""
    names, spans = session.names, session.spans
    is_whole = np.array([name == COMPILE for name in names], bool)
    if not len(spans):
        return []
    wholes = np.flatnonzero(is_whole[spans.name])
    totals: dict[tuple[str, Phase, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for whole in wholes:
        program = _program(session, int(whole))
        inside = (spans.start_ns >= spans.start_ns[whole]) & (spans.end_ns <= spans.end_ns[whole])
        rows = np.flatnonzero(inside & (spans.thread == spans.thread[whole]))
        self_ns = _self_ns(spans, rows)
        # XLA reads the module before the first pass, and loads the executable after the last step: neither has a span
        # of its own.
        steps = rows[rows != whole]
        if steps.size:
            ends = (
                ("reading the program", spans.start_ns[steps].min() - spans.start_ns[whole]),
                ("loading the program", spans.end_ns[whole] - spans.end_ns[steps].max()),
            )
            for name, ns in ends:
                totals[program, "passes", name][0] += 1
                totals[program, "passes", name][1] += float(ns) / 1e9
            self_ns[rows == whole] -= sum(int(ns) for _, ns in ends)
        for row, ns in zip(rows, self_ns, strict=True):
            total = totals[(program, *_step(names, spans, int(row)))]
            total[0] += 1
            total[1] += float(ns) / 1e9
    _add_threads(session, wholes, totals)
    steps = [
        CompileStep(program, phase, name, _place(session, program, name) if phase == "kernels" else None,
                    int(count), seconds, thread_seconds)
        for (program, phase, name), (count, seconds, thread_seconds) in totals.items()
    ]  # fmt: skip
    return sorted(steps, key=lambda step: -(step.seconds + step.thread_seconds))


def _add_threads(
    session: SessionData, wholes: Column, totals: dict[tuple[str, Phase, str], list[float]]
) -> None:
    """Adds the time of worker threads: generated kernels by name, and machine code."""
    names, spans = session.names, session.spans
    is_task = np.array([name in (KERNEL, MACHINE_CODE) for name in names], bool)
    rows = np.flatnonzero(is_task[spans.name] & ~np.isin(spans.thread, spans.thread[wholes]))
    ordered = wholes[np.argsort(spans.start_ns[wholes], kind="stable")]
    at = np.searchsorted(spans.start_ns[ordered], spans.start_ns[rows], side="right") - 1
    for row, whole in zip(rows[at >= 0], ordered[at[at >= 0]], strict=True):
        total = totals[(_program(session, int(whole)), *_step(names, spans, int(row)))]
        total[0] += 1
        total[2] += float(spans.end_ns[row] - spans.start_ns[row]) / 1e9


def _self_ns(spans: HostSpans, rows: Column) -> Column:
    """Self time in nanoseconds of spans on one thread: their duration without that of nested spans."""
    lengths = spans.end_ns[rows] - spans.start_ns[rows]
    parents = nesting(spans.thread[rows], spans.start_ns[rows], spans.end_ns[rows])
    inside = parents != ABSENT
    covered = np.bincount(parents[inside], lengths[inside], len(rows))
    return np.maximum(lengths - covered, 0).astype(np.int64)


def _step(names: list[str], spans: HostSpans, row: int) -> tuple[Phase, str]:
    name = names[int(spans.name[row])]
    if name == KERNEL:
        detail = int(spans.detail[row])
        return "kernels", kernel_name(names[detail] if detail >= 0 else "")
    if name == MACHINE_CODE:
        return "machine code", "LLVM"
    if name in _AROUND:
        return _AROUND[name]
    return "passes", name.partition(" (jit_")[0]


def kernel_name(module: str) -> str:
    """The name of the instruction for which a kernel's module was generated.

    >>> kernel_name("__compute_module_wrapped_tanh"), kernel_name("wrapped_iota.1_kernel_module")
    ('wrapped_tanh', 'wrapped_iota.1')
    """
    return module.removeprefix("__compute_module_").removesuffix("_kernel_module")


def _program(session: SessionData, whole: int) -> str:
    """Name of the HLO module that a compilation compiles: the first detail within its span that names one."""
    spans = session.spans
    inside = (
        (spans.thread == spans.thread[whole])
        & (spans.start_ns >= spans.start_ns[whole])
        & (spans.end_ns <= spans.end_ns[whole])
        & (spans.detail != ABSENT)
    )
    rows = np.flatnonzero(inside)
    texts = (session.names[int(spans.detail[row])] for row in rows)
    return next((text for text in texts if text.startswith("jit_")), "")


def _place(session: SessionData, program: str, instruction: str) -> SourceLine | None:
    for each in session.programs.values():
        info = each.instructions.get(instruction) if each.name == program else None
        if info is not None and info.shares:
            return max(info.shares, key=lambda share: share.share).place
    return None
