"""Times of the loop steps that a program names with `step` or `StepTraceAnnotation`, on the host and on devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pellucid_profiler.calls import HostSpans, LaunchColumns, enclosing
from pellucid_profiler.operations import Operations, match_values
from pellucid_profiler.xspace import ABSENT

_STEP = re.compile(r"step (-?\d+)$")
"""Pattern of the detail of a step's span."""


class StepRow(NamedTuple):
    """One step: a span of host time on one thread, with the calls made in it.

    >>> StepRow(number=3, seconds=0.01, operation_seconds=0.02, call_count=1).number
    3
    """

    number: int
    seconds: float
    """Duration on the host."""
    operation_seconds: float
    """Total time of the operations started by its calls, on all devices, even those that ran after the step."""
    call_count: int


def steps_of(
    names: Sequence[str],
    spans: HostSpans,
    calls: LaunchColumns,
    operations: Operations,
    seconds: npt.NDArray[np.float64],
) -> Iterator[StepRow]:
    """The steps sorted by start. `seconds` has the time of each operation."""
    numbers = {i: int(match[1]) for i, name in enumerate(names) if (match := _STEP.match(name))}
    steps = spans.rows(np.flatnonzero(np.isin(spans.detail, [*numbers])))
    if not len(steps):
        return
    step_of_call = enclosing(steps, calls.thread, calls.start_ns)
    called = (calls.run != ABSENT) & (step_of_call != ABSENT)
    step = match_values(operations.run, calls.run[called], step_of_call[called])
    inside = step != ABSENT
    sums = np.bincount(step[inside], seconds[inside], len(steps))
    counts = np.bincount(step_of_call[step_of_call != ABSENT], minlength=len(steps))
    for i, detail in enumerate(steps.detail.tolist()):
        length = float(steps.end_ns[i] - steps.start_ns[i]) / 1e9
        yield StepRow(numbers[detail], length, float(sums[i]), int(counts[i]))
