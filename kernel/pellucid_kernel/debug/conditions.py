"""Breakpoint conditions: hit counts, and conditions within a loop, which are evaluated by its compiled program."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

import pellucid as pl
from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.loops import Conditions, LoopSearch
from pellucid.introspect.program import value_names
from pellucid.introspect.stepping import EquationRuns, latest_variables, programs_within
from pellucid_kernel.debug.equation_stacks import Stack


class Outer(NamedTuple):
    """A name used in a loop's condition and defined outside the loop."""

    value: Any
    """An array in the form that frames of the loop hold, or any other object."""
    aval: Any = None
    """Its type; None if it isn't an array."""


class _Expression(NamedTuple):
    """A condition to check before an equation, with the program variables that it uses."""

    code: CodeType
    variables: dict[str, Any]


def search_of(
    call: EquationRuns,
    texts: Mapping[Any, Sequence[str]],
    lines: Callable[[Any], Stack],
    outer: Callable[[str], Outer | None],
) -> LoopSearch | None:
    """Compiles a search for iterations of a loop in which a condition holds; None if each iteration must be stopped in
    instead.

    `texts` has the conditions before each equation in the loop; `lines` gives an equation's stack of user lines;
    `outer` gives the value of a name defined outside the loop, or None.
    """
    programs = [
        program
        for slot in call.slots.programs
        if not slot.is_predicate
        for program in programs_within(slot.program.jaxpr)
    ]
    marked = {
        equation: (program, position)
        for program in programs
        for position, equation in enumerate(program.equations)
        if equation in texts
    }
    if marked.keys() != texts.keys():
        return None  # a condition in the loop's predicate
    expressions: dict[Any, list[_Expression]] = {}
    values: dict[str, Outer] = {}
    for equation, (program, position) in marked.items():
        variables_before = _variables(program, position, lines(equation))
        hidden = {n.name for p in programs if p is not program for n in value_names(p).values()}
        for text in texts[equation]:
            names = names_in(text)
            for name in names - variables_before.keys():
                value = None if name in hidden else outer(name)
                if value is None and not hasattr(builtins, name):
                    return None
                if value is not None:
                    values[name] = value
            variables = {name: variables_before[name] for name in names & variables_before.keys()}
            code = compile(text.strip(), "<condition>", "eval")
            expressions.setdefault(equation, []).append(_Expression(code, variables))
    arrays = {name: each for name, each in values.items() if each.aval is not None}
    objects = {name: each.value for name, each in values.items() if each.aval is None}

    def errors(operands: Sequence[Any]) -> Any:
        names = {**objects, **dict(zip(arrays, operands, strict=True))}
        conditions = {e: _holds_any(each, names) for e, each in expressions.items()}
        return frozenset({Conditions(conditions)})

    key = (
        "conditions", *[(e, tuple(texts[e])) for e in expressions], *arrays,
        *[(name, id(value)) for name, value in objects.items()],
    )  # fmt: skip
    return LoopSearch(
        key, errors, [a.value for a in arrays.values()], tuple([a.aval for a in arrays.values()])
    )


def counts(hit_condition: str, hit: int) -> bool:
    """Whether hit number `hit`, counted from 1, meets a hit condition: `5` (exactly), `>= 5`, or `% 3` (every third).

    Raises: ArgumentValueError for an invalid hit condition.

    >>> counts("% 3", 6), counts("> 6", 6), counts("6", 6)
    (True, False, True)
    """
    match = re.fullmatch(r"\s*(%|==|=|>=|<=|>|<)?\s*(\d+)\s*", hit_condition)
    if match is None or (match[1] == "%" and not int(match[2])):
        raise ArgumentValueError(
            "a number of hits is a number, perhaps after a comparison or %.",
            got=repr(hit_condition),
            do="Write, for example, `5`, `>= 5` or `% 3`.",
        )
    sign, number = match[1] or "==", int(match[2])
    if sign == "%":
        return hit % number == 0
    return {
        "==": hit == number, "=": hit == number, ">": hit > number, "<": hit < number,
        ">=": hit >= number, "<=": hit <= number,
    }[sign]  # fmt: skip


def array_of(value: Any) -> Any:
    """The type of a value that programs accept as an operand; None for other values."""
    try:
        return pl.typeof(value)
    except TypeError:
        return None


def _holds_any(
    expressions: Sequence[_Expression], names: dict[str, Any]
) -> Callable[[Callable[[Any], Any]], Any]:
    def holds(read: Callable[[Any], Any]) -> Any:
        result = False
        for code, variables in expressions:
            local = {name: read(variable) for name, variable in variables.items()}
            value = eval(code, {**names, **local})  # noqa: S307 - the user's
            result = result | (pl.numpy.asarray(value) != 0)
        return result

    return holds


def _variables(program: Any, position: int, lines: Stack) -> dict[str, Any]:
    """Variables available to expressions at an equation, by name; those of inner lines take precedence."""
    variables: dict[str, Any] = {}
    for file, function, line in lines or [("", None, 0)]:
        variables |= latest_variables(program, position, function, file, line)
    return variables


def names_in(text: str) -> set[str]:
    """The names that an expression reads and doesn't bind itself."""
    nodes = [n for n in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(n, ast.Name)]
    arguments = [
        n for n in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(n, ast.arg)
    ]
    bound = {n.id for n in nodes if isinstance(n.ctx, ast.Store)} | {a.arg for a in arguments}
    return {n.id for n in nodes} - bound
