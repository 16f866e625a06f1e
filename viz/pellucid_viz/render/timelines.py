"""Runs of kernels in the simulator as text and as static HTML: rows of marks over time, and the lines that waited."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pellucid.introspect.schema import (
    KernelTimelinesRecord,
    SimulatedCoreRecord,
    SimulatedKernelRecord,
)
from pellucid.introspect.values import bytes_text
from pellucid_viz.render.grids import count_with_noun, percent

NO_RUN = "no kernel ran in the simulator"
HEADS = ["waits", "steps", "share", "times", "cores", "line"]
MARKS = {"compute": "#", "wait": ".", "stuck": "!", "in": "=", "out": "=", "within": "=", "send": ">", "in flight": "?"}  # fmt: skip
"""Characters of the kinds of events; signals take no time and have none."""
COLORS = {
    "compute": "contraction", "wait": "amber-soft", "stuck": "host", "in": "control", "out": "indexing", "within": "movement", "send": "collective", "in flight": "host",
}  # fmt: skip
"""Names of colours of `render.colors` by kind of event."""
WIDTH = 64
_MAX_CORES = 16
_PICTURE = 640
_LABELS = 110
_ROW = 12


def title(kernel: SimulatedKernelRecord) -> str:
    """Name, devices and length of a run."""
    devices = count_with_noun(kernel.device_count, "device")
    n_cores = len(kernel.cores)
    cores = f", {count_with_noun(n_cores, 'core')}" if n_cores > kernel.device_count else ""
    return f"kernel `{kernel.name}` on {devices}{cores}: {steps_text(kernel.steps)}"


def steps_text(steps: float) -> str:
    """Simulated time.

    >>> steps_text(1), steps_text(1234.56)
    ('1 step', '1,235 steps')
    """
    number = f"{steps:,.0f}" if steps >= 100 else f"{steps:.4g}"
    return f"{number} step{'' if number == '1' else 's'}"


def facts(kernel: SimulatedKernelRecord) -> list[str]:
    """How cores spent their time, and what was copied, in clauses."""
    n, end = len(kernel.cores), kernel.steps
    if not n or not end:
        return []
    whole = n * end
    compute = sum([core.compute_steps for core in kernel.cores])
    waits = sum([core.wait_steps for core in kernel.cores])
    copying = sum([core.copy_steps for core in kernel.cores])
    hidden = sum([core.hidden_steps for core in kernel.cores])
    found = [
        f"cores compute {percent(compute / whole)} of the time and wait {percent(waits / whole)}"
    ]
    if kernel.copied_bytes:
        sent = (
            f", {bytes_text(kernel.sent_bytes)} of them to other devices"
            if kernel.sent_bytes
            else ""
        )
        found.append(f"{bytes_text(kernel.copied_bytes)} copied{sent}")
        found.append(
            f"{percent(hidden / copying)} of the time of copies is hidden behind computation"
        )
    return found


def wait_rows(kernel: SimulatedKernelRecord) -> list[list[str]]:
    """Texts for `HEADS`, the longest waits first."""
    return [
        [wait.what, f"{wait.steps:,.1f}", percent(wait.share), f"{wait.count:,}", f"{wait.core_count}", kernel.lines[wait.line].text]
        for wait in kernel.waits
    ]  # fmt: skip


def core_name(kernel: SimulatedKernelRecord, core: SimulatedCoreRecord) -> str:
    """Name of a core: that of its device, if this has no other."""
    has_others = len(kernel.cores) > kernel.device_count
    return f"device {core.device}" + (f", core {core.core}" if has_others else "")


def stuck_cores(kernel: SimulatedKernelRecord) -> list[str]:
    """Cores that wait forever, and for what."""
    return [f"{core_name(kernel, core)} {core.stuck}" for core in kernel.cores if core.stuck]


def _row(kernel: SimulatedKernelRecord, lanes: range, width: int) -> str:
    """A character for each part of the time: of the kind that takes most of it."""
    events, scale = kernel.events, width / _end(kernel)
    parts: list[Counter[str]] = [Counter() for _ in range(width)]
    for i, lane in enumerate(events.lane):
        kind = kernel.kinds[events.kind_index[i]]
        if lane not in lanes or kind not in MARKS:
            continue
        begin, end = events.begin[i] * scale, events.end[i] * scale
        for part in range(int(begin), min(width, math.ceil(end - 1e-9))):
            # Parts of characters, as whole numbers.
            share = min(end, part + 1) - max(begin, part)
            parts[part][MARKS[kind]] += max(1, round(share * 1e6))
    return "".join([part.most_common(1)[0][0] if part else " " for part in parts])


def _end(kernel: SimulatedKernelRecord) -> float:
    return max([kernel.steps, *kernel.events.end]) or 1.0


def timelines_text(
    record: KernelTimelinesRecord, aligned: Callable[[list[list[str]]], list[str]]
) -> str:
    """Rows of each core and its copies for each run, then the lines that waited longest."""
    parts: list[str] = []
    for kernel in record.kernels:
        lines = [title(kernel)]
        lines += [f"  ! {line}" for line in kernel.fault.splitlines()]
        lines += [f"  {fact}" for fact in facts(kernel)]
        if kernel.steps or kernel.fault:
            for core in kernel.cores[:_MAX_CORES]:
                name = f"  {core_name(kernel, core)}"
                lanes = range(core.first_lane, core.first_lane + core.lane_count)
                lines.append(f"{name:<20}|{_row(kernel, lanes[:1], WIDTH)}|")
                if len(lanes) > 1:
                    lines.append(f"{'    copies':<20}|{_row(kernel, lanes[1:], WIDTH)}|")
            if len(kernel.cores) > _MAX_CORES:
                lines.append(f"  and {len(kernel.cores) - _MAX_CORES} more cores")
            lines.append(f"  {'':<18} {_key(kernel)}")
        if kernel.waits:
            lines += aligned([[" ", *row] for row in [HEADS, *wait_rows(kernel)[:4]]])
        parts.append("\n".join(lines))
    if record.hidden_count:
        parts.append(f"and {count_with_noun(record.hidden_count, 'more run')}")
    return "\n\n".join(parts) or NO_RUN


def _key(kernel: SimulatedKernelRecord) -> str:
    """What the marks mean that occur."""
    kinds = Counter(kernel.kinds[kind] for kind in kernel.events.kind_index)
    names = {"compute": "computes", "wait": "waits", "stuck": "waits forever", "send": "a copy to another device", "in flight": "a copy that hasn't ended"}  # fmt: skip
    found = [f"{MARKS[kind]} {text}" for kind, text in names.items() if kinds[kind]]
    if any(kinds[kind] for kind in ("in", "out", "within")):
        found.insert(min(2, len(found)), "= a copy in flight")
    return "   ".join(found)


def timelines_markup(
    record: KernelTimelinesRecord,
    table: Callable[[Sequence[str], Sequence[Sequence[str]]], str],
) -> str:
    """Facts, a picture and a table of waits for each run; errors are in red."""
    parts: list[str] = []
    for kernel in record.kernels:
        wrong = f'<pre class="pl-removed">{html.escape(kernel.fault)}</pre>' if kernel.fault else ""
        items = "".join(f"<li>{html.escape(fact)}</li>" for fact in facts(kernel))
        waits = table(HEADS, wait_rows(kernel)) if kernel.waits else ""
        parts.append(
            f"<p><b>{html.escape(title(kernel))}</b></p>{wrong}<ul>{items}</ul>{_picture(kernel)}{waits}"
        )
    if record.hidden_count:
        parts.append(f"<p>and {count_with_noun(record.hidden_count, 'more run')}</p>")
    return "".join(parts) or f"<p>{NO_RUN}</p>"


def _picture(kernel: SimulatedKernelRecord) -> str:
    """The rows of the text as an SVG picture."""
    if not kernel.events.lane:
        return ""
    rows: list[str] = []
    y = 0
    for core in kernel.cores[:_MAX_CORES]:
        name = html.escape(core_name(kernel, core))
        rows.append(f'<text x="0" y="{y + _ROW - 2}" style="text-anchor:start">{name}</text>')
        for lane in range(core.first_lane, core.first_lane + core.lane_count):
            rows += _rectangles(kernel, lane, y)
            y += _ROW
        y += 4
    label = html.escape(f"Timeline of {title(kernel)}")
    return (
        f'<svg class="pl-level" role="img" aria-label="{label}" width="{_LABELS + _PICTURE}" '
        f'viewBox="0 0 {_LABELS + _PICTURE} {y}">{"".join(rows)}</svg>'
    )


def _rectangles(kernel: SimulatedKernelRecord, lane: int, y: int) -> Iterator[str]:
    """A rectangle for each stretch of one kind in a lane, in whole pixels."""
    events, scale = kernel.events, _PICTURE / _end(kernel)
    stretches: list[tuple[str, int, int]] = []
    for i, own in enumerate(events.lane):
        kind = kernel.kinds[events.kind_index[i]]
        if own != lane or kind not in COLORS:
            continue
        first = int(events.begin[i] * scale)
        last = max(first + 1, round(events.end[i] * scale))
        if stretches and stretches[-1][0] == kind and first <= stretches[-1][2]:
            stretches[-1] = kind, stretches[-1][1], max(last, stretches[-1][2])
        else:
            stretches.append((kind, first, last))
    for kind, first, last in stretches:
        yield (
            f'<rect x="{_LABELS + first}" y="{y}" width="{last - first}" height="{_ROW - 2}" '
            f'style="fill:var(--pl-{COLORS[kind]})"/>'
        )
