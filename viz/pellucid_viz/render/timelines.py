"""Runs of kernels in the simulator as text and as static HTML: rows of marks over time, and the lines that waited."""

from __future__ import annotations

import html
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

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
    "compute": "contraction", "wait": "amber-soft", "stuck": "host", "in": "control", "out": "indexing", "within": "movement", "send": "collective", "in flight": "reduction",
}  # fmt: skip
"""Names of colours of `render.colors` by kind of event."""
NAMES = {
    "compute": "computes", "wait": "waits", "stuck": "waits forever", "in": "copy into fast memory", "out": "copy out of it", "within": "copy within a memory", "send": "copy to another device", "in flight": "copy that hasn’t ended",
}  # fmt: skip
"""Words for kinds of events in the legend."""
WIDTH = 64
_MAX_CORES = 16
_PICTURE = 640
_LABELS = 110
_ROW = 12
_NAMES_IN_ROW = 4
_MIN_WIDTH = 0.6


def title(kernel: SimulatedKernelRecord) -> str:
    """Name, devices and length of a run."""
    devices = count_with_noun(kernel.device_count, "device")
    n_cores = len(kernel.cores)
    cores = f", {count_with_noun(n_cores, 'core')}" if n_cores > kernel.device_count else ""
    until = " up to the error" if kernel.fault else ""
    return f"kernel `{kernel.name}` on {devices}{cores}: {steps_text(kernel.steps)}{until}"


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
            rows: list[tuple[str, str]] = []
            for core in kernel.cores[:_MAX_CORES]:
                lanes = range(core.first_lane, core.first_lane + core.lane_count)
                rows.append((f"  {core_name(kernel, core)}", _row(kernel, lanes[:1], WIDTH)))
                if len(lanes) > 1:
                    rows.append(("    copies", _row(kernel, lanes[1:], WIDTH)))
            lines += [f"{name:<20}|{row}|" for name, row in rows]
            if others := _other_cores(kernel):
                lines.append(f"  {others}")
            lines += [
                f"  {'':<18} {line}" for line in _key(kernel, {*"".join([r for _, r in rows])})
            ]
        if kernel.waits:
            lines += aligned([[" ", *row] for row in [HEADS, *wait_rows(kernel)[:4]]])
        parts.append("\n".join(lines))
    if record.hidden_count:
        parts.append(f"and {count_with_noun(record.hidden_count, 'more run')}")
    return "\n\n".join(parts) or NO_RUN


def _other_cores(kernel: SimulatedKernelRecord) -> str:
    """How many cores aren't drawn; empty if all are."""
    n_others = len(kernel.cores) - _MAX_CORES
    return f"and {count_with_noun(n_others, 'more core')}" if n_others > 0 else ""


def _key(kernel: SimulatedKernelRecord, seen: Collection[str]) -> list[str]:
    """What the marks mean that are seen in the rows, and a line on kinds that occur and are seen nowhere."""
    kinds = {kernel.kinds[kind] for kind in kernel.events.kind_index}
    names = {"compute": "computes", "wait": "waits", "in": "a copy in flight", "out": "a copy in flight", "within": "a copy in flight", "stuck": "waits forever", "send": "a copy to another device", "in flight": "a copy that hasn't ended"}  # fmt: skip
    texts = {MARKS[kind]: text for kind, text in names.items() if kind in kinds}
    key = "   ".join([f"{mark} {text}" for mark, text in texts.items() if mark in seen])
    hidden = ", ".join([text for mark, text in texts.items() if mark not in seen])
    part = steps_text(_end(kernel) / WIDTH)
    rest = f"not seen, because no character ({part}) is mostly that: {hidden}"
    return [key, *([rest] if hidden else [])]


def timelines_markup(
    record: KernelTimelinesRecord,
    table: Callable[[Sequence[str], Sequence[Sequence[str]]], str],
) -> str:
    """Facts, a picture and a table of waits for each run; errors are in red."""
    parts: list[str] = []
    for kernel in record.kernels:
        wrong = f'<pre class="pl-removed">{html.escape(kernel.fault)}</pre>' if kernel.fault else ""
        items = "".join(f"<li>{html.escape(fact)}</li>" for fact in facts(kernel))
        others = f"<p>{_other_cores(kernel)}</p>" if _other_cores(kernel) else ""
        waits = table(HEADS, wait_rows(kernel)) if kernel.waits else ""
        parts.append(
            f"<p><b>{html.escape(title(kernel))}</b></p>{wrong}<ul>{items}</ul>{_picture(kernel)}{others}{waits}"
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
            rows += _stretches(kernel, lane, y)
            y += _ROW
        y += 4
    legend = _legend(kernel, y)
    y += 16 * math.ceil(legend.count("<rect") / _NAMES_IN_ROW)
    label = html.escape(f"Timeline of {title(kernel)}")
    return (
        f'<svg class="pl-level" role="img" aria-label="{label}" width="{_LABELS + _PICTURE}" '
        f'viewBox="0 0 {_LABELS + _PICTURE} {y}">{"".join(rows)}{legend}</svg>'
    )


def _legend(kernel: SimulatedKernelRecord, y: int) -> str:
    """A square of its colour and the name of each kind that occurs, in rows of four from `y` on."""
    kinds = {kernel.kinds[kind] for kind in kernel.events.kind_index}
    parts: list[str] = []
    for i, kind in enumerate([kind for kind in NAMES if kind in kinds]):
        row, column = divmod(i, _NAMES_IN_ROW)
        left, top = _LABELS + column * _PICTURE // _NAMES_IN_ROW, y + row * 16
        parts.append(
            f'<rect x="{left}" y="{top}" width="10" height="10" style="fill:var(--pl-{COLORS[kind]})"/>'
            f'<text x="{left + 14}" y="{top + 9}" style="text-anchor:start;font-size:10.5px">{NAMES[kind]}</text>'
        )
    return "".join(parts)


def _stretches(kernel: SimulatedKernelRecord, lane: int, y: int) -> Iterator[str]:
    """A path for each kind of a lane, of its stretches of time in tenths of pixels."""
    events, scale = kernel.events, _PICTURE / _end(kernel)
    stretches: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for i, own in enumerate(events.lane):
        kind = kernel.kinds[events.kind_index[i]]
        if own != lane or kind not in COLORS:
            continue
        own_kind = stretches[kind]
        first, last = events.begin[i] * scale, events.end[i] * scale
        last = max(last, first + _MIN_WIDTH)
        # Stretches that touch are one.
        if own_kind and first < own_kind[-1][1] + 0.1:
            own_kind[-1] = own_kind[-1][0], max(last, own_kind[-1][1])
        else:
            own_kind.append((first, last))
    height = _ROW - 2
    for kind in sorted(stretches, key=[*COLORS].index, reverse=True):
        parts = [
            f"M{_LABELS + first:.1f} {y}h{last - first:.1f}v{height}h{first - last:.1f}z"
            for first, last in stretches[kind]
        ]
        yield f'<path d="{"".join(parts)}" style="fill:var(--pl-{COLORS[kind]})"/>'
