"""Outlines of programs: user's names of values, and groups of equations by scope, function and line.

The groups resemble those of the live view, but follow simpler rules, since they can't be opened interactively.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from pellucid.introspect.schema import ProgramRecord

MAX_MEMBERS = 15
"""Maximum number of members shown separately; if there are more, members of one line are grouped."""

BACKWARD = " (backward)"
"""Label suffix of groups of equations made by transposition."""
_MIN_COPIES = 3
_MIN_FOLDED_EQUATIONS = 12
_MAX_PERIOD = 64
"""Maximum length of a pattern of members whose repetitions are detected."""
_MAX_TEXT = 200
_T = TypeVar("_T")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Member(NamedTuple):
    """An equation or a group of equations, on one level of a program."""

    label: str
    """Label of a group; empty for a single equation."""
    equations: Sequence[int]
    """All equations in the group; for repeated groups, those of all copies."""
    children: Sequence[Member]
    """Members of the group; for repeated groups, those of the first copy."""
    copies: int = 1

    @property
    def is_group(self) -> bool:
        """Whether it is a group rather than a single equation."""
        return bool(self.children)


class Outline:
    """The equations of a program by row, with their texts and groups."""

    def __init__(self, record: ProgramRecord) -> None:
        self.record = record
        columns = record.equations
        self._operands = _Lists(columns.operand_counts, columns.operands)
        self._results = _Lists(columns.result_counts, columns.results)
        self._params = _Lists(
            columns.param_counts, list(zip(columns.param_names, columns.param_texts, strict=True))
        )
        self._bodies = _Lists(
            columns.body_counts,
            list(zip(columns.bodies, columns.body_roles, columns.body_trips, strict=True)),
        )
        self._names = self._name_values()
        scoped = sum(scope >= 0 for scope in columns.scope)
        self._is_by_scope = scoped >= 0.3 * len(columns.scope)
        self._paths: dict[int, tuple[str, ...]] = {}

    # Texts

    def primitive(self, equation: int) -> str:
        """Name of an equation's primitive, without its dialect prefix."""
        name = self.record.strings[self.record.equations.primitive[equation]]
        return name.rpartition(".")[2] or name

    def kind(self, equations: Iterable[int]) -> str:
        """Kind of work of an equation; the most frequent one for several equations."""
        record = self.record
        counts = Counter(record.strings[record.equations.primitive[each]] for each in equations)
        kinds = Counter[str]()
        for name, count in counts.items():
            kinds[record.kinds.get(name, "elementwise")] += count
        return kinds.most_common(1)[0][0]

    def name(self, operand: int) -> str:
        """The user's name of a value, or else the program's; the text of a literal."""
        record = self.record
        return (
            self._names[operand]
            if operand >= 0
            else record.strings[record.literals.text[-1 - operand]]
        )

    def typed_name(self, value: int) -> str:
        """Name and type of a value."""
        return f"{self.name(value)}:{self.record.types[self.record.values.type[value]].text}"

    def text(self, equation: int) -> str:
        """An equation on one line, with the user's names."""
        return "".join(self.parts(equation))

    def parts(self, equation: int) -> tuple[str, str, str]:
        """An equation on one line, as (results, primitive, params and operands)."""
        strings = self.record.strings
        results = " ".join(self.typed_name(value) for value in self._results[equation])
        params = " ".join(f"{strings[n]}={strings[t]}" for n, t in self._params[equation])
        operands = " ".join(self.name(operand) for operand in self._operands[equation])
        settings = f"[{cut(params, 120)}]" if params else ""
        name = strings[self.record.equations.primitive[equation]]
        return f"{cut(results)} = " if results else "", name, f"{settings} {cut(operands)}".rstrip()

    def place(self, equation: int) -> str:
        """File or cell and line of an equation; empty if unknown."""
        record = self.record
        span = record.equations.span[equation]
        if span < 0:
            return ""
        return f"{record.sources[record.spans.source[span]].name}, line {record.spans.line[span]}"

    def results(self, equation: int) -> Sequence[int]:
        """Values that an equation defines."""
        return self._results[equation]

    def operands(self, equation: int) -> Sequence[int]:
        """Values and literals that an equation uses."""
        return self._operands[equation]

    def bodies(self, equation: int) -> Iterator[tuple[int, str]]:
        """Yields (index, param name and number of runs) of each program within an equation."""
        for body, role, trips in self._bodies[equation]:
            times = "" if trips in (None, 1) else f" × {trips:,}"
            yield body, self.record.strings[role] + times

    # Groups

    def members(self, body: int = 0) -> list[Member]:
        """Groups and single equations on the outermost level of a body."""
        at = self.record.bodies[body]
        equations = range(at.first_equation, at.first_equation + at.equation_count)
        depth = 0 if self._is_by_scope and body == 0 else self._shared_depth(equations)
        return self._tidy(self._split(equations, depth))

    def _split(self, equations: Sequence[int], depth: int) -> list[Member]:
        drafts: list[tuple[str, list[int]]] = []
        latest: dict[str, tuple[list[int], int]] = {}
        for at, equation in enumerate(equations):
            path = self._path(equation)
            if depth >= len(path):
                drafts.append(("", [equation]))
                continue
            step = path[depth] + self._pass_label(equation)
            draft, end = latest.get(step, ([], 0))
            if not draft or at - end > min(8, len(draft) / 4):
                draft = []
                drafts.append((step, draft))
            draft.append(equation)
            latest[step] = draft, at + 1
        return [self._finish(label, inside, depth) for label, inside in drafts]

    def _finish(self, label: str, equations: list[int], depth: int) -> Member:
        if len(equations) == 1:
            return Member("", equations, ())
        children = self._split(equations, depth + 1)
        if len(children) == 1 and children[0].is_group:
            [only] = children
            return only._replace(label=f"{label}/{only.label}")
        return Member(label, equations, self._tidy(children))

    def _tidy(self, members: list[Member]) -> list[Member]:
        """Folds repeated members; if there are still too many, groups those of the same line."""
        members = self._fold_runs(members)
        if len(members) > MAX_MEMBERS:
            members = self._by_line(members)
        if len(members) > 2 * MAX_MEMBERS:
            size = -(-len(members) // MAX_MEMBERS)
            parts = (members[at : at + size] for at in range(0, len(members), size))
            members = [_group(_range_label(part), part) for part in parts]
        return members

    def _by_line(self, members: list[Member]) -> list[Member]:
        grouped: list[Member] = []
        for line, part in itertools.groupby(members, lambda each: self._line(each.equations[0])):
            together = list(part)
            alone = line is None or len(together) in (1, len(members))
            grouped += together if alone else [_group(line or "", together)]
        return grouped

    def _fold_runs(self, members: list[Member]) -> list[Member]:
        """The members with each run of equal members, or of equal patterns of members, replaced by one."""
        numbers: dict[tuple[str, ...], int] = {}
        signatures = [
            numbers.setdefault(tuple(map(self.primitive, each.equations)), len(numbers))
            for each in members
        ]
        result: list[Member] = []
        at = 0
        while at < len(members):
            folded = next(
                (
                    (period, copies)
                    for period, copies in _repeats_from(signatures, at)
                    if _is_worth_folding(members[at : at + period], copies)
                ),
                None,
            )
            if folded is None:
                result.append(members[at])
                at += 1
                continue
            period, copies = folded
            result.append(self._fold(members[at : at + period * copies], period))
            at += period * copies
        return result

    def _fold(self, members: list[Member], period: int) -> Member:
        pattern = members[:period]
        label = _range_label([members[0], members[-1]]) if period == 1 else ""
        if not label:
            names = [each.label or self.primitive(each.equations[0]) for each in pattern]
            label = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        children = pattern[0].children if period == 1 else pattern
        equations = [equation for each in members for equation in each.equations]
        return Member(label, equations, children, len(members) // period)

    def _pass_label(self, equation: int) -> str:
        name = self.record.strings[self.record.equations.transformation[equation]]
        return BACKWARD if name.startswith("transpose") else ""

    def _line(self, equation: int) -> str | None:
        """Source text of an equation's line, or its location if the text is unknown, with a suffix for the backward
        pass.
        """
        record = self.record
        span = record.equations.span[equation]
        if span < 0:
            return None
        source, line = record.sources[record.spans.source[span]], record.spans.line[span]
        at = line - source.first_line
        is_known = source.lines is not None and 0 <= at < len(source.lines)
        text = (source.lines or [])[at].strip() if is_known else f"{source.name}, line {line}"
        return cut(text, 60) + self._pass_label(equation)

    def _path(self, equation: int) -> tuple[str, ...]:
        """Scopes or functions that lead to an equation, outermost first."""
        record = self.record
        columns = record.equations
        at = columns.scope[equation] if self._is_by_scope else columns.span[equation]
        if at not in self._paths:
            parents, names = (
                (record.scopes.parent, record.scopes.name)
                if self._is_by_scope
                else (record.spans.caller, record.spans.function)
            )
            path: list[str] = []
            each = at
            while each >= 0 and len(path) < 64:
                name = record.strings[names[each]].rpartition("<locals>.")[2]
                if name not in ("", "<module>"):
                    path.append(name)
                each = parents[each]
            self._paths[at] = tuple(reversed(path))
        return self._paths[at]

    def _shared_depth(self, equations: Sequence[int]) -> int:
        """Length of the common prefix of all paths, which leads to the body itself."""
        paths = {self._path(equation) for equation in equations} - {()}
        steps = itertools.takewhile(lambda step: len(set(step)) == 1, zip(*paths, strict=False))
        return sum(1 for _ in steps)

    def _name_values(self) -> list[str]:
        """Names of all values: the user's, made unique within each body, or else the program's."""
        record, strings = self.record, self.record.strings
        names = [""] * len(record.values.name)
        bodies = []
        for body in record.bodies:
            inside = range(body.first_equation, body.first_equation + body.equation_count)
            results = (value for each in inside for value in self._results[each])
            bodies.append([*body.constants, *body.inputs, *results])
        for values in bodies:
            counts = Counter[int]()
            for value in values:
                if user := record.values.user_name[value]:
                    before = counts[user]
                    names[value] = strings[user] + (
                        str(before).translate(_SUBSCRIPTS) if before else ""
                    )
                    counts[user] += 1
        user_names = set(names)
        for value in itertools.chain(*bodies):
            if not names[value]:
                name = strings[record.values.name[value]]
                names[value] = f"%{name}" if name in user_names else name
        return names


class _Lists(Generic[_T]):
    """Lists that a column stores one after the other."""

    def __init__(self, counts: list[int], entries: list[_T]) -> None:
        self._starts = list(itertools.accumulate(counts, initial=0))
        self._entries = entries

    def __getitem__(self, row: int) -> list[_T]:
        return self._entries[self._starts[row] : self._starts[row + 1]]


def cut(text: str, length: int = _MAX_TEXT) -> str:
    """A text on one line, cut to at most `length` characters.

    >>> cut("a long name", 7)
    'a long…'
    """
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _group(label: str, members: list[Member]) -> Member:
    equations = [equation for each in members for equation in each.equations]
    return Member(label, equations, members)


def _range_label(members: Sequence[Member]) -> str:
    first, last = members[0].label, members[-1].label
    if not first and not last:
        return f"equations {members[0].equations[0]}–{members[-1].equations[-1]}"
    return first if first == last else f"{first or '…'} … {last}".rstrip()


def _is_worth_folding(pattern: Sequence[Member], copies: int) -> bool:
    """Whether a repeated pattern is folded: always if it has groups, otherwise only if it is long."""
    count = sum(len(each.equations) for each in pattern) * copies
    has_groups = any(each.is_group for each in pattern)
    return has_groups or (len(pattern) > 2 and count >= _MIN_FOLDED_EQUATIONS)


def _repeats_from(signatures: list[int], at: int) -> Iterator[tuple[int, int]]:
    """Yields (length of the pattern, number of repetitions) for repeated patterns that start at `at`, shortest first."""
    for period in range(1, min(_MAX_PERIOD, (len(signatures) - at) // _MIN_COPIES) + 1):
        if signatures[at + period] != signatures[at]:
            continue
        pattern = signatures[at : at + period]
        copies = 1
        while signatures[at + copies * period : at + (copies + 1) * period] == pattern:
            copies += 1
        if copies >= _MIN_COPIES:
            yield period, copies
