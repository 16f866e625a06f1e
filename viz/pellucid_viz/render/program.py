"""Programs as static HTML: a picture of the outermost level, collapsible equations, coloured differences."""

from __future__ import annotations

import difflib
import html
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat

from pellucid.introspect.schema import DiffRecord, LadderRecord, LensRecord, ProgramRecord
from pellucid_viz.render.drawing import level_picture
from pellucid_viz.render.outline import Member, Outline, cut

MAX_LINES = 200
"""Maximum number of lines of a program, text or table in static HTML."""
STAGES = {
    "jaxpr": "jaxpr",
    "stablehlo": "StableHLO",
    "hlo": "optimized HLO",
    "triton": "Triton",
    "ptx": "PTX",
    "mosaic": "Mosaic",
    "mosaic_gpu": "Mosaic GPU",
}
_MAX_OPEN = 24
"""Maximum number of lines of a program that is shown expanded."""
_MAX_COMPARED = 4000
"""Maximum number of lines of each of two programs to compare, because the comparison takes quadratic time."""
_MIN_SHARE = 3
_ELSEWHERE = "the interactive view has them all"


def program_markup(record: ProgramRecord) -> str:
    """A picture of a program's outermost level, followed by its equations, grouped by scope, function or line."""
    outline = Outline(record)
    members = outline.members()
    count = len(record.equations.id)
    title = html.escape(record.name or "program")
    lines = _Lines(outline, is_open=count <= _MAX_OPEN)
    body = lines.members(members, MAX_LINES)
    note = ""
    if lines.count < count:
        note = f"<p><small>{lines.count:,} of {count:,} equations are written here; {_ELSEWHERE}.</small></p>"
    inputs = ", ".join(outline.typed_name(value) for value in record.bodies[0].inputs[:40])
    return (
        f"<p><b>{title}</b> <small>{_count_text(count, 'equation')}; takes {html.escape(cut(inputs, 400))}</small></p>"
        f"{level_picture(outline, members)}{body}{note}"
    )


def lens_markup(record: LensRecord) -> str:
    """The stages of a function in collapsible sections, the first one open."""
    return f"<p><b>{html.escape(record.name)}</b> at its stages</p>" + _parts(
        (
            STAGES[each.dialect],
            f"<p><small>{html.escape(note)}</small></p>{_stage(each)}" if note else _stage(each),
        )
        for each, note in zip(record.programs, chain(record.notes, repeat("")), strict=False)
    )


def ladder_markup(record: LadderRecord) -> str:
    """A function and its transformations in collapsible sections, the function itself open."""
    names = [name or record.name for name in record.transformations]
    return _parts(
        (name, program_markup(each)) for name, each in zip(names, record.programs, strict=True)
    )


def diff_markup(record: DiffRecord) -> str:
    """Line-by-line difference of two programs with the user's names: removed lines red, new ones green."""
    outlines = [Outline(record.before), Outline(record.after)]
    before, after = (list(_all_lines(each)) for each in outlines)
    names = [html.escape(each.name or "program") for each in (record.before, record.after)]
    head = (
        f'<p><span class="pl-removed">− {names[0]}</span> <small>{_count_text(len(before), "equation")}</small> '
        f'<span class="pl-added">+ {names[1]}</span> <small>{_count_text(len(after), "equation")}</small></p>'
    )
    if max(len(before), len(after)) > _MAX_COMPARED:
        return f"{head}<p>The programs are too long to be compared here; {_ELSEWHERE}.</p>"
    compared = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    if not compared:
        return f"{head}<p>They are the same program.</p>"
    return head + cut_text("\n".join(compared), _colored_line)


def cut_text(
    text: str, line_markup: Callable[[str], str] = html.escape, limit: int = MAX_LINES
) -> str:
    """A text as HTML. Lines after the first `limit` are only counted; long lines are cut."""
    lines = text.splitlines()
    shown = "\n".join(
        line_markup(line if len(line) <= 240 else f"{line[:239]}…") for line in lines[:limit]
    )
    more = len(lines) - limit
    note = f"<p><small>and {more:,} more lines; {_ELSEWHERE}</small></p>" if more > 0 else ""
    return f"<pre>{shown}</pre>{note}"


def _stage(record: ProgramRecord) -> str:
    if record.dialect == "jaxpr" or record.listing is None:
        return program_markup(record)
    return cut_text(record.listing.text)


def _parts(parts: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<details{'' if index else ' open'}><summary>{html.escape(title)}</summary><div>{content}</div></details>"
        for index, (title, content) in enumerate(parts)
    )


def _all_lines(outline: Outline) -> Iterable[str]:
    """All equations of a program; those of inner programs follow the outer ones."""
    for body in outline.record.bodies:
        for equation in range(body.first_equation, body.first_equation + body.equation_count):
            yield outline.text(equation)


def _colored_line(line: str) -> str:
    sign = {"+": "pl-added", "-": "pl-removed"}.get(line[:1])
    text = html.escape(line.replace("-", "−", 1) if sign == "pl-removed" else line)
    if line.startswith("@@"):
        return "<small>…</small>"
    return text if sign is None else f'<span class="{sign}">{text}</span>'


def _count_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class _Lines:
    """Writes equations in collapsible groups, up to a limit of lines."""

    def __init__(self, outline: Outline, *, is_open: bool) -> None:
        self._outline = outline
        self._open = " open" if is_open else ""
        self._written: set[int] = set()
        """Inner programs already written: one that several equations call is written once."""
        self.count = 0
        """Number of equations written so far."""

    def members(self, members: Sequence[Member], limit: int) -> str:
        """HTML of the members of a level in about `limit` lines, which are divided among all groups."""
        parts: list[str] = []
        end = self.count + max(limit, _MIN_SHARE)
        for at, member in enumerate(members):
            left = end - self.count
            if left <= 0:
                parts.append(f"<small>and {_count_text(len(members) - at, 'member')} more</small>")
                break
            share = left // (len(members) - at)
            parts.append(
                self._group(member, share) if member.is_group else self._equation(member, share)
            )
        return "".join(parts)

    def _group(self, member: Member, limit: int) -> str:
        first = member.equations[0]
        copies = f" × {member.copies:,}" if member.copies > 1 else ""
        facts = [_count_text(len(member.equations), "equation"), self._outline.place(first)]
        label = f"<b>{html.escape(cut(member.label, 80))}</b>{copies}"
        kind = self._outline.kind(member.equations)
        return self._details(
            f'<i style="color:var(--pl-{kind})">▪</i> {label} <small>{html.escape(", ".join(filter(None, facts)))}</small>',
            self.members(member.children, limit),
        )

    def _equation(self, member: Member, limit: int) -> str:
        [equation] = member.equations
        self.count += 1
        before, name, after = self._outline.parts(equation)
        kind = self._outline.kind([equation])
        line = f'{html.escape(before)}<i style="color:var(--pl-{kind})">{html.escape(name)}</i>{html.escape(after)}'
        inner = []
        for body, role in self._outline.bodies(equation):
            if body not in self._written:
                self._written.add(body)
                lines = self.members(self._outline.members(body), limit)
                inner.append(f"<small>{html.escape(role)}</small>{lines}")
        if not inner:
            return f"<pre>{line}</pre>"
        return self._details(f"<code>{line}</code>", "".join(inner))

    def _details(self, summary: str, content: str) -> str:
        return f"<details{self._open}><summary>{summary}</summary><div>{content}</div></details>"
