"""One level of a program as SVG: boxes in layers, with edges for the values passed between them."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pellucid_viz.render.outline import BACKWARD, Member, Outline, cut

_CHARACTER_WIDTH = 7.3
"""Width in pixels of a character of a title; subtitles are smaller."""
_HEIGHT, _PILL_HEIGHT = 40, 22
_GAP_X, _GAP_Y = 18, 34
_SWEEPS = 4
_MAX_WIDTH = 1400
"""Maximum width of the picture in pixels; wider levels are scaled down."""
_MAX_INPUTS = 12


class DrawnBox(NamedTuple):
    """One box of a drawing."""

    title: str
    subtitle: str
    kind: str
    """Kind of work of the box; `input` and `output` for pills; empty for a point that an edge passes through."""
    hint: str
    """Tooltip."""

    @property
    def width(self) -> float:
        """Width in pixels."""
        if not self.kind:
            return 4
        letters = max(len(self.title), 0.86 * len(self.subtitle))
        return max(48, letters * _CHARACTER_WIDTH + 24)

    @property
    def height(self) -> int:
        """Height in pixels."""
        return _PILL_HEIGHT if self.kind in ("input", "output") else _HEIGHT


def level_picture(outline: Outline, members: Sequence[Member], body: int = 0) -> str:
    """SVG of the members of a body, with inputs above and outputs below; empty for a body without equations."""
    if not members:
        return ""
    boxes, edges = _boxes(outline, members, body)
    layers, paths = _layers_of(boxes, edges)
    return _svg(boxes, layers, paths)


def _boxes(
    outline: Outline, members: Sequence[Member], body: int
) -> tuple[list[DrawnBox], set[tuple[int, int]]]:
    """(boxes of a level, members first; edges between them, as pairs of box indices)."""
    boxes = [_member_box(outline, each) for each in members]
    owner = {equation: at for at, each in enumerate(members) for equation in each.equations}
    makers = {value: at for equation, at in owner.items() for value in outline.results(equation)}
    edges: set[tuple[int, int]] = set()
    uses: dict[int, set[int]] = {}
    for equation, at in owner.items():
        for operand in outline.operands(equation):
            maker = makers.get(operand)
            if maker is None and operand >= 0:
                uses.setdefault(operand, set()).add(at)
            elif maker is not None and maker != at:
                edges.add((maker, at))
    # Inputs used by the same members share a pill.
    together: dict[frozenset[int], list[int]] = {}
    for value, users in uses.items():
        together.setdefault(frozenset(users), []).append(value)
    for users, values in itertools.islice(together.items(), _MAX_INPUTS):
        edges |= {(len(boxes), user) for user in users}
        boxes.append(_pill(outline, "input", values))
    returned: dict[int, list[int]] = {}
    for operand in outline.record.bodies[body].outputs:
        if operand in makers:
            returned.setdefault(makers[operand], []).append(operand)
    for maker, values in returned.items():
        edges.add((maker, len(boxes)))
        boxes.append(_pill(outline, "output", values))
    return boxes, edges


def _member_box(outline: Outline, member: Member) -> DrawnBox:
    first = member.equations[0]
    if member.is_group:
        times = f" ×{member.copies:,}" if member.copies > 1 else ""
        count = f"{len(member.equations):,} equations"
        hint = f"{count}, from {outline.place(first)}".removesuffix(", from ")
        label, is_backward, _ = member.label.partition(BACKWARD)
        title = cut(label, 34) + times
        facts = f"backward, {count}" if is_backward else count
        return DrawnBox(title, facts, outline.kind(member.equations), hint)
    names = ", ".join(outline.name(value) for value in outline.results(first)[:2])
    return DrawnBox(
        cut(outline.primitive(first), 34),
        cut(names, 26),
        outline.kind([first]),
        "\n".join(filter(None, (outline.text(first), outline.place(first)))),
    )


def _pill(outline: Outline, kind: str, operands: Sequence[int]) -> DrawnBox:
    names = [cut(outline.name(operand), 24) for operand in operands]
    shown = 1
    while shown < len(names) and len(", ".join(names[: shown + 1])) <= 30:
        shown += 1
    more = f" +{len(names) - shown}" if shown < len(names) else ""
    hint = ", ".join(outline.typed_name(operand) for operand in operands[:20] if operand >= 0)
    return DrawnBox(", ".join(names[:shown]) + more, "", kind, hint)


def _layers_of(
    boxes: list[DrawnBox], edges: Iterable[tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """(boxes in layers, ordered for few crossings; boxes along each edge).

    Appends boxes without a kind to `boxes`, one for each layer that an edge crosses.
    """
    sources: dict[int, list[int]] = {}
    targets: dict[int, list[int]] = {}
    pairs = sorted(edges)
    for source, target in pairs:
        sources.setdefault(target, []).append(source)
        targets.setdefault(source, []).append(target)
    depth: dict[int, int] = {}
    for at in _topological_order(len(boxes), sources, targets):
        depth[at] = 1 + max((depth[each] for each in sources.get(at, ())), default=-1)
    for at, box in enumerate(boxes):
        if box.kind == "input" and targets.get(at):
            depth[at] = min(depth[each] for each in targets[at]) - 1
    paths = []
    for source, target in pairs:
        path = [source]
        for between in range(depth[source] + 1, depth[target]):
            depth[len(boxes)] = between
            path.append(len(boxes))
            boxes.append(DrawnBox("", "", "", ""))
        paths.append([*path, target])
    layers: list[list[int]] = [[] for _ in range(max(depth.values()) + 1)]
    for at in range(len(boxes)):
        layers[depth[at]].append(at)
    neighbours: dict[int, list[int]] = {}
    for path in paths:
        for a, b in itertools.pairwise(path):
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            place = {at: (i + 0.5) / len(each) for each in layers for i, at in enumerate(each)}
            layer.sort(key=lambda at: _mean([place[each] for each in neighbours.get(at, [at])]))
    return layers, paths


def _topological_order(
    count: int, sources: dict[int, list[int]], targets: dict[int, list[int]]
) -> list[int]:
    """Topological order of boxes. Interleaved groups may depend on each other; such a cycle is broken at its first box."""
    waiting = {at: len(sources.get(at, ())) for at in range(count)}
    ready = [at for at in range(count) if not waiting[at]]
    order: list[int] = []
    done: set[int] = set()
    while len(order) < count:
        if not ready:
            ready.append(next(at for at in range(count) if at not in done))
            sources[ready[0]] = [each for each in sources.get(ready[0], ()) if each in done]
        at = ready.pop(0)
        if at in done:
            continue
        done.add(at)
        order.append(at)
        for target in targets.get(at, ()):
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return order


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _svg(boxes: list[DrawnBox], layers: list[list[int]], paths: list[list[int]]) -> str:
    widths = [sum(boxes[at].width + _GAP_X for at in layer) - _GAP_X for layer in layers]
    total = max(widths) + 16
    x: dict[int, float] = {}
    y: dict[int, float] = {}
    top = 8.0
    for layer, width in zip(layers, widths, strict=True):
        left = (total - width) / 2
        for at in layer:
            x[at], y[at] = left, top
            left += boxes[at].width + _GAP_X
        top += max(boxes[at].height for at in layer) + _GAP_Y
    height = top - _GAP_Y + 8
    curves = []
    for path in paths:
        points: list[str] = []
        for a, b in itertools.pairwise(path):
            x1, x2 = x[a] + boxes[a].width / 2, x[b] + boxes[b].width / 2
            y1, y2 = y[a] + boxes[a].height, y[b]
            middle = (y1 + y2) / 2
            points += [] if points else [f"M{x1:.0f} {y1:.0f}"]
            points.append(f"C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}")
            if not boxes[b].kind:
                points.append(f"V{y2 + boxes[b].height:.0f}")
        curves.append("".join(points))
    drawn = (_draw_box(box, x[at], y[at]) for at, box in enumerate(boxes) if box.kind)
    lines = f'<path class="pl-edge" d="{"".join(curves)}"/>'
    shown = min(total, _MAX_WIDTH)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="The program\'s outermost level" '
        f'class="pl-level" width="{shown:.0f}" viewBox="0 0 {total:.0f} {height:.0f}">{lines}{"".join(drawn)}</svg>'
    )


def _draw_box(box: DrawnBox, x: float, y: float) -> str:
    middle = x + box.width / 2
    hint = f"<title>{html.escape(box.hint)}</title>" if box.hint else ""
    title = html.escape(box.title)
    size = f'x="{x:.0f}" y="{y:.0f}" width="{box.width:.0f}" height="{box.height}"'
    if box.kind in ("input", "output"):
        return (
            f'<g>{hint}<rect class="pl-pill" {size} rx="11"/>'
            f'<text x="{middle:.0f}" y="{y + 15:.0f}">{title}</text></g>'
        )
    lines = (
        f'<text class="pl-title" x="{middle:.0f}" y="{y + (17 if box.subtitle else 24):.0f}">{title}</text>'
        + (
            f'<text class="pl-subtitle" x="{middle:.0f}" y="{y + 32:.0f}">{html.escape(box.subtitle)}</text>'
            if box.subtitle
            else ""
        )
    )
    strip = f'<rect x="{x:.0f}" y="{y + 6:.0f}" width="4" height="{box.height - 12}" rx="2" fill="var(--pl-{box.kind})"/>'
    return f'<g>{hint}<rect class="pl-box" {size} rx="6"/>{strip}{lines}</g>'
