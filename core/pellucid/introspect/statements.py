"""Assignments in a file: the user's names for the values of a program."""

from __future__ import annotations

import ast
import bisect
import linecache
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import cached

Range = tuple[int, int, int, int]
"""(Line, column, end line, end column), the form in which Python gives the position of a frame."""


Arms = tuple[tuple[ast.AST, int], ...]
"""Statements with branches, and the number of one for each."""
_ROOT = re.compile(r"\w+")
"""The variable with which a path such as `state['w']` begins."""


class Assigned(NamedTuple):
    """An expression whose value is assigned by a statement."""

    names: tuple[str, ...]
    """The assigned variables; several if the value is unpacked."""


class Returned(NamedTuple):
    """An expression whose value a function returns, or one item of a returned tuple."""

    item: int | None


class Loop(NamedTuple):
    """A `for` or `while` statement, or a comprehension."""

    line: int
    body: Range


class Binding(NamedTuple):
    """A statement or pattern of a function that gives a name a value, or takes it away."""

    line: int
    end_line: int
    arms: Arms = ()
    """The `if` and `match` statements around it, with the number of the branch in which it is."""

    def excludes(self, other: Binding) -> bool:
        """Whether only one of two bindings runs in a call, because they are in different branches of a statement."""
        return any(a is b and i != k for a, i in self.arms for b, k in other.arms)


class Function(NamedTuple):
    """A function of a file: its lines and name, and which of its names have values."""

    line: int
    end_line: int
    name: str
    given: frozenset[str]
    """The names that have values before its first line: parameters, and those of `nonlocal` and `global`."""
    bindings: dict[str, list[Binding]]
    """The bindings of each variable or path, such as `x` or `state['w']`, without those of functions within it."""


class Statements:
    """The statements of one file, by position."""

    def __init__(self, text: str) -> None:
        self.values: dict[Range, Assigned | Returned] = {}
        """Maps the position of an expression to the variables it is assigned to, if that is certain."""
        self.loops: list[Loop] = []
        """Loops and comprehensions of the file, in no particular order."""
        self._functions: list[Function] = []
        self._starts: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        self._variables: list[str] = []
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return
        self._note_functions(tree)
        bindings = sorted(self._read(tree))
        for start, end, variable in bindings:
            self._starts.append(start)
            self._ends.append(end)
            self._variables.append(variable)

    def variable(self, place: Range) -> str:
        """The variable assigned by the statement that contains `place`; empty if there is none."""
        line, column, end_line, end_column = place
        i = bisect.bisect_right(self._starts, (line, column)) - 1
        if i >= 0 and (end_line, end_column) <= self._ends[i]:
            return self._variables[i]
        return ""

    def loop_around(self, place: Range, first_line: int) -> Loop | None:
        """The innermost loop that runs the code at `place`, in the function that begins at `first_line`."""
        around = [
            loop for loop in self.loops
            if loop.line >= first_line
            and loop.body[:2] <= place[:2] and place[2:] <= loop.body[2:]
        ]  # fmt: skip
        return max(around, key=lambda loop: loop.body[:2], default=None)

    def is_current(
        self, name: str, bound: int, function: str, line: int, *, is_backward: bool
    ) -> bool:
        """Whether what `name` was given at the line `bound` is its value before `line` of `function`, as far as known.

        `bound` is 0 for an argument. If `is_backward`, `line` runs in a backward pass, after all others, and what it saw in
        the forward pass is asked for.
        """
        around = [f for f in self._functions if f.line <= line <= f.end_line and f.name == function]
        if not around:
            return True
        own = max(around, key=lambda f: f.line)
        if bound and not own.line <= bound <= own.end_line:  # by another function of this name
            return False
        root = _ROOT.match(name)
        names = dict.fromkeys((name, root[0] if root is not None else name))
        bindings = [each for n in names for each in own.bindings.get(n, ())]
        in_loop = any(
            own.line < loop.line and loop.body[0] <= each.line <= loop.body[2]
            for each in bindings
            for loop in self.loops
        )
        if in_loop:
            return not is_backward
        if len(bindings) + any(n in own.given for n in names) < 2:
            return True
        before = [each for each in bindings if each.end_line < line]
        if not before:
            return bound == 0
        return any(
            each.line <= bound <= each.end_line
            and all(later.line <= each.line or later.excludes(each) for later in before)
            for each in before
        )

    def _read(self, tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
        for node in ast.walk(tree):
            match node:
                case ast.For(body=[first, *_]) | ast.While(body=[first, *_]):
                    self.loops.append(Loop(node.lineno, _range(first)[:2] + _range(node)[2:]))
                    continue
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    self.loops.append(Loop(node.lineno, _range(node)))
                    continue
                case ast.Assign(targets=[*_, target], value=value):
                    self._assign(target, value)
                    variable = ", ".join(_names(target))
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    self._assign(target, value)
                    variable = ast.unparse(target)
                case ast.AugAssign(target=target):
                    # Python gives the operation of `x += y` the position of the whole statement.
                    self.values[_range(node)] = Assigned((ast.unparse(target),))
                    variable = ast.unparse(target)
                case ast.NamedExpr(target=target, value=value):
                    self._assign(target, value)
                    continue
                case ast.Return(value=value) if value is not None:
                    self._add_returned(value)
                    variable = ""
                case ast.Lambda(body=body):
                    self._add_returned(body)
                    continue
                case _:
                    continue
            start, end = _range(node)[:2], _range(node)[2:]
            yield start, end, variable

    def _note_functions(self, tree: ast.AST) -> None:
        """Note the functions of a file with their bindings."""
        within: list[tuple[ast.AST, tuple[Function, ...], Arms]] = [(tree, (), ())]
        while within:
            node, functions, arms = within.pop()
            for name, last in _bound_names(node):
                binding = Binding(last.lineno, last.end_lineno or last.lineno, arms)
                for function in functions[-1:]:
                    function.bindings.setdefault(name, []).append(binding)
                # What `nonlocal` names is a variable of a function around, too, whenever that is called.
                is_of_others = bool(functions) and name in functions[-1].given
                for function in functions[:-1] if is_of_others else ():
                    function.bindings.setdefault(name, []).append(binding._replace(arms=()))
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                    function = _function(node)
                    self._functions.append(function)
                    within += [
                        (each, (*functions, function), ()) for each in ast.iter_child_nodes(node)
                    ]
                case ast.ClassDef():
                    own = Function(node.lineno, node.end_lineno or node.lineno, "", frozenset(), {})
                    within += [(each, (own,), ()) for each in ast.iter_child_nodes(node)]
                case ast.If(test=test, body=body, orelse=orelse):
                    within.append((test, functions, arms))
                    for i, branch in enumerate([body, orelse]):
                        within += [(each, functions, (*arms, (node, i))) for each in branch]
                case ast.Match(subject=subject, cases=cases):
                    within.append((subject, functions, arms))
                    for i, case in enumerate(cases):
                        # Names of a pattern have values even if its guard fails.
                        heads = [case.pattern, *([case.guard] if case.guard else [])]
                        within += [(each, functions, arms) for each in heads]
                        within += [(each, functions, (*arms, (node, i))) for each in case.body]
                case _:
                    within += [(each, functions, arms) for each in ast.iter_child_nodes(node)]

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        names = _names(target)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
            for name, item in zip(names, value.elts, strict=True):
                self.values[_range(item)] = Assigned((name,))
        else:
            self.values[_range(value)] = Assigned(names)

    def _add_returned(self, value: ast.expr) -> None:
        self.values[_range(value)] = Returned(None)
        if isinstance(value, ast.Tuple):
            for i, item in enumerate(value.elts):
                self.values[_range(item)] = Returned(i)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Function:
    """A function, whose bindings aren't noted yet."""
    given = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    for each in ast.walk(node):
        if isinstance(each, (ast.Global, ast.Nonlocal)):
            given.update(each.names)
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return Function(node.lineno, node.end_lineno or node.lineno, name, frozenset(given), {})


def _bound_names(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """(name or path, node whose lines those of the binding are) for all that a statement or pattern itself gives or takes away."""
    targets: Sequence[ast.expr] = ()
    last: Any = node
    match node:
        case ast.For(target=target) | ast.AsyncFor(target=target):
            targets, last = [target], target
        case ast.With() | ast.AsyncWith():
            targets = [x.optional_vars for x in node.items if x.optional_vars]
            last = node.items[-1].context_expr
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            pass
        case (
            ast.AnnAssign(target=target)
            | ast.AugAssign(target=target)
            | ast.NamedExpr(target=target)
        ):
            targets = [target]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, node
        case ast.MatchMapping(rest=str(name)):
            yield name, node
        case ast.ExceptHandler(name=str(name)):
            yield name, node.type
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, node
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            for each in aliases:
                yield (each.asname or each.name).partition(".")[0], node
        case _:
            return
    for target in targets:
        for each in ast.walk(target):
            if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(
                each.ctx, ast.Load
            ):
                yield ast.unparse(each), last


def _range(node: ast.expr | ast.stmt) -> Range:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0


def _names(target: ast.expr) -> tuple[str, ...]:
    items = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return tuple(map(ast.unparse, items))


def statements_of(file: str) -> Statements:
    """The statements of `file`, read through `linecache`; none if it can't be read."""
    return _parse("".join(linecache.getlines(file)))


@cached(64)
def _parse(text: str) -> Statements:
    return Statements(text)
