"""The text of programs, in the familiar format.

    { lambda a:f32[4]; b:f32[3,4]. let c:f32[3,4] = add b 1.0:f32[] in (c,) }

Constants precede the semicolon, arguments follow it. A program that is called more than once is defined once, at the
front.
"""

from __future__ import annotations

import itertools
import string
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import dtypes, source, strict_zip
from pellucid._machine.base.narrowing import is_dtype, is_frozenset, is_tuple
from pellucid._machine.base.pretty import Break, Doc, Group, Mark, Nest, concat, join, layout

from .facets import Shown
from .jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var, subjaxprs


def variable_names() -> Iterator[str]:
    """a, b, ..., z, ba, bb, ...: numbers in base 26 with the digits a to z."""
    letters = string.ascii_lowercase
    for number in itertools.count():
        name, rest = letters[number % 26], number // 26
        while rest:
            name, rest = letters[rest % 26] + name, rest // 26
        yield name


class VariableNames:
    """Names of variables, assigned in order of appearance."""

    def __init__(self, name_of: Callable[[Var], str | None] | None = None) -> None:
        self._fresh = variable_names()
        self.given: dict[Var, str] = {}
        self._name_of = name_of

    def __getitem__(self, var: Var) -> str:
        if var not in self.given:
            suggested = self._name_of and self._name_of(var)
            self.given[var] = suggested or next(self._fresh)
        return self.given[var]

    def suggest(self, var: Atom, like: Atom) -> None:
        """Give `var` the name of `like`, unless it has one."""
        if isinstance(var, Var) and isinstance(like, Var) and like in self.given:
            self.given.setdefault(var, self.given[like])


def text(
    jaxpr: Jaxpr | ClosedJaxpr,
    *,
    source_info: bool = False,
    name_stack: bool = False,
    equation_ids: bool = False,
    width: int = 80,
    names: Callable[[Var], str | None] | None = None,
    print_shapes: bool = True,
    custom_pp_eqn_rules: bool = True,
    use_color: bool = False,
) -> str:
    """The text of a program.

    `source_info` adds the user's lines, `name_stack` the scopes, and `equation_ids` the ids, as comments. `names` may
    name variables. `custom_pp_eqn_rules` and `use_color` are accepted for compatibility with the reference.
    """
    del custom_pp_eqn_rules, use_color
    printer = _Printer(VariableNames(names), source_info, name_stack, equation_ids, print_shapes)
    return layout(printer.whole(jaxpr), width)


class Listing(NamedTuple):
    """The text of a program, and where equations and variables are in it."""

    text: str
    line_equations: list[Equation | None]
    """For each line, the innermost equation of which it shows a part."""
    names: dict[Var, str]
    """Maps each variable to its name in the text."""


def listing(jaxpr: Jaxpr | ClosedJaxpr, width: int = 80) -> Listing:
    """The text of a program, the equation of each of its lines and the names of its variables."""
    printer = _Printer(VariableNames())
    marks: list[tuple[int, Equation | None]] = []
    shown = layout(printer.whole(jaxpr), width, marks)
    equations: list[Equation | None] = [None] * (shown.count("\n") + 1)
    open_equations: list[Equation] = []
    reached = 0
    for line, equation in marks:  # an equation at its beginning, None at its end
        if open_equations:
            for between in range(reached, line + (equation is None)):
                equations[between] = equations[between] or open_equations[-1]
        reached = line
        if equation is None:
            open_equations.pop()
            reached += 1
        else:
            open_equations.append(equation)
    return Listing(shown, equations, printer.names.given)


@dataclass
class _Printer:
    names: VariableNames
    source_info: bool = False
    name_stack: bool = False
    equation_ids: bool = False
    shapes: bool = True
    shared: dict[Jaxpr, str] = field(default_factory=dict[Jaxpr, str])
    """Names of the programs that occur more than once."""

    def whole(self, program: Jaxpr | ClosedJaxpr) -> Doc:
        """The program, after definitions of those that occur in it more than once."""
        program = program.jaxpr if isinstance(program, ClosedJaxpr) else program
        counts: Counter[Jaxpr] = Counter()
        order: list[tuple[Jaxpr, str]] = []

        def visit(jaxpr: Jaxpr) -> None:
            for equation in jaxpr.equations:
                for inner in subjaxprs(equation.params):
                    counts[inner] += 1
                    if counts[inner] == 1:
                        visit(inner)
                        order.append((inner, getattr(equation.params, "name", None) or "jaxpr"))

        visit(program)
        uses: Counter[str] = Counter()
        definitions: list[Doc] = []
        for inner, base in order:
            if counts[inner] > 1:
                name = f"{base}{uses[base] or ''}"
                uses[base] += 1
                definitions.append(concat(f"let {name} = ", self.jaxpr(inner), " in", "\n"))
                self.shared[inner] = name
        return concat(*definitions, self.jaxpr(program))

    def jaxpr(self, jaxpr: Jaxpr) -> Doc:
        """`{ lambda consts; arguments. let equations in (results) }`."""
        if jaxpr in self.shared:
            return self.shared[jaxpr]
        consts = " ".join(map(self.binder, jaxpr.constvars))
        arguments = " ".join(map(self.binder, jaxpr.invars))
        head = f"{{ lambda {consts}; {arguments}. let"
        used = {*jaxpr.outvars, *(a for e in jaxpr.equations for a in e.operands)}
        equations = [self.equation(e, used) for e in jaxpr.equations]
        comma = "," if len(jaxpr.outvars) == 1 else ""
        results = f"({', '.join(map(self.atom, jaxpr.outvars))}{comma})"
        body = Nest(4, concat(Break(), join(Break("; "), equations)))
        return Group(concat(head, body, Nest(2, concat(Break(), f"in {results} }}"))))

    def typed_text(self, text: str, atom: Atom) -> str:
        """`text` for `atom`, with its type."""
        return f"{text}:{atom.aval.text()}" if self.shapes else text

    def binder(self, var: Var) -> str:
        return self.typed_text(self.names[var], var)

    def atom(self, atom: Atom) -> str:
        text = self.short(atom)
        return self.typed_text(text, atom) if type(atom) is Literal else text

    def short(self, atom: Atom) -> str:
        """An operand without its type."""
        return literal_text(atom) if type(atom) is Literal else self.names[atom]  # type: ignore[index]

    def equation(self, equation: Equation, used: set[Any]) -> Doc:
        results = " ".join(
            self.binder(v) if v in used else self.typed_text("_", v) for v in equation.results
        )
        for inner in subjaxprs(equation.params):
            if equation.primitive.name == "jit" and inner not in self.shared:
                self._share_names(equation, inner)
        primitive = equation.primitive
        name, shown = primitive.name, printed_params(equation)
        if isinstance(primitive, Shown):
            special = primitive.printed_equation(
                equation, results, [self.short(a) for a in equation.operands]
            )
            if special is not None:
                return concat(Mark(equation), special, self.comment(equation), Mark(None))
            name = primitive.printed_name(equation)
        params = self.params(shown) if shown else ""
        operands = "".join(f" {self.atom(a)}" for a in equation.operands) or " "
        head = f"{results} = {name}" if equation.results else name
        return concat(Mark(equation), head, params, operands, self.comment(equation), Mark(None))

    def _share_names(self, equation: Equation, inner: Jaxpr) -> None:
        for operand, var in strict_zip(equation.operands, inner.invars):
            self.short(operand)  # assigns the operand's name
            self.names.suggest(var, operand)
        for result, atom in strict_zip(equation.results, inner.outvars):
            self.names.suggest(atom, result)

    def comment(self, equation: Equation) -> str:
        notes: list[str] = []
        if self.equation_ids:
            notes.append(f"e{equation.id}")
        if self.name_stack and equation.scope is not None:
            notes.append(str(equation.scope))
        if self.source_info:
            notes.append(source.describe(equation.source) or "")
        return f"  # {' '.join(filter(None, notes))}" if any(notes) else ""

    def params(self, shown: dict[str, Any]) -> Doc:
        # A param called `name` comes first if it is the first one; the others are in alphabetical order.
        first = [key for key in list(shown)[:1] if key == "name"]
        ordered = first + sorted(key for key in shown if key not in first)
        pairs = [concat(f"{key}=", self.value(shown[key])) for key in ordered]
        body = Nest(2, concat(Break(""), join(Break(), pairs)))
        return Group(concat("[", body, Break(""), "]"))

    def value(self, value: Any) -> Doc:
        """A param's value."""
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            return self.jaxpr(value.jaxpr if isinstance(value, ClosedJaxpr) else value)
        if (
            is_tuple(value)
            and type(value) is tuple
            and any(isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value)
        ):
            inner = join(Break(), [self.value(v) for v in value])
            return Group(concat("(", Nest(2, concat(Break(""), inner)), Break(""), ")"))
        return param_text(value)


def printed_params(equation: Equation) -> dict[str, Any]:
    """The params that are printed for `equation`, by name."""
    primitive = equation.primitive
    if isinstance(primitive, Shown):
        return primitive.printed_params(equation)
    return equation.params._asdict()


def param_text(value: Any) -> str:
    """A param's value in one line."""
    if isinstance(value, np.dtype):
        return value.name
    if is_frozenset(value) and value:
        # Sorted, so that the order is the same in every run.
        return f"frozenset({{{', '.join(sorted(map(repr, value)))}}})"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return str(value)


def literal_text(literal: Literal) -> str:
    """The value of a literal, rounded to its dtype."""
    value = literal.val
    dtype = getattr(literal.aval, "dtype", None)
    if is_dtype(dtype):
        value = np.asarray(value, dtype)
        if dtype.kind in "biufc":
            return str(value.item())
        if dtypes.is_inexact(dtype):
            return str(float(value))
    return str(value)
