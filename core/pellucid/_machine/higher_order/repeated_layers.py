"""Detection of repeated layers: equal runs of equations become calls of one program.

A model written as a Python loop over layers is traced to one run of equations per layer. As calls of one program, the
layers are differentiated, lowered and, if the backend keeps calls, compiled once (decision 0002).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ScopeStack, config, strict_zip, user_places
from pellucid._machine.compilation.placement import has_several_devices, placements_in
from pellucid._machine.ir import (
    Atom,
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    OneJaxprPrimitive,
    Values,
    Var,
)
from pellucid._machine.transforms.linearize import MIN_LAYERED_EQUATIONS

from .calls import JitParams, jit_p

MIN_LAYERS = 4
"""Minimum number of layers to combine."""
MIN_LAYER_EQUATIONS = 12
"""Minimum number of equations of a layer: XLA's CPU compiler shares most kernels of smaller ones without calls."""
MIN_SHARE = 0.5
"""Minimum share of a program's equations that belong to repeated layers."""
_MAX_RESULTS = 4
"""Maximum number of results of a layer. Halves of a differentiated layer have many more: as calls they gain nothing."""
_MAX_OCCURRENCES = 8
"""Maximum number of equal equations in a layer that are considered in finding the distance between layers."""
_MAX_PERIODS = 16
"""Number of the most frequent distances between equal equations that are tried as layer lengths."""


class _Copy(NamedTuple):
    """One run of equations: its start, outside operands, and results used outside."""

    start: int
    outside: tuple[Atom, ...]
    """Operands that no equation of the copy defines, in the order of equations."""
    results: frozenset[tuple[int, int]]
    """(index of the equation within the copy, index of its result)."""


def with_layer_calls(jaxpr: Jaxpr, *, is_final: bool = False) -> Jaxpr:
    """`jaxpr` with each stack of repeated layers replaced by calls of one program.

    `jaxpr` itself if there are none, if the option is off, or if an equation places a value on several devices.
    """
    equations = jaxpr.equations
    n = len(equations)
    if n < MIN_LAYERED_EQUATIONS or not config.call_repeated_layers.value:
        return jaxpr
    if has_several_devices(placements_in(jaxpr)):
        return jaxpr
    last_use = dict.fromkeys(jaxpr.outvars, n)
    for i in range(n - 1, -1, -1):
        for atom in equations[i].operands:
            last_use.setdefault(atom, i)
    numbers = np.array([*map(_Numbers(is_final).of, equations)])
    stacks = []
    ranges = [(0, n)]
    for start, stop in ranges:  # each also adds the ranges before and after its longest stack
        if repeats := _tandem_repeats(numbers[start:stop]):
            begin, period, length = repeats
            copies = _equal_copies(equations, last_use, start + begin, period, length)
            ranges += [(start, copies[0].start), (copies[-1].start + period, stop)]
            first = equations[copies[0].start : copies[0].start + period]
            if (
                len(copies) >= MIN_LAYERS
                and 0 < len(_results(copies)) <= _MAX_RESULTS
                and not any(map(_is_transposed, first))
            ):
                stacks.append((copies, period))
    if sum(len(copies) * period for copies, period in stacks) < MIN_SHARE * n:
        return jaxpr
    called = []
    done = 0
    for copies, period in sorted(stacks):
        for copy, call in strict_zip(copies, _calls(equations, copies, period)):
            called += [*equations[done : copy.start], call]
            done = copy.start + period
    return jaxpr.replace(equations=[*called, *equations[done:]])


# Finding them ---------------------------------------------------------------------------------------


class _Numbers(dict[Any, int]):
    """Numbers by key: a new one for a new key; programs of equal content have the same.

    With `is_final`, for a program that won't be transformed any more, differentiation and batching rules are ignored in
    comparisons.
    """

    def __init__(self, is_final: bool) -> None:
        self.is_final = is_final

    def __missing__(self, key: Any) -> int:
        self[key] = number = self[self.content(key)] if type(key) is Jaxpr else len(self)
        return number

    def of(self, equation: Equation) -> int:
        """Equal for equations with equal primitive, params and types; unique for an equation with effects."""
        operands = tuple([(type(a) is Literal, a.aval) for a in equation.operands])
        primitive, params = equation.primitive, equation.params
        try:
            if not equation.effects:
                if (
                    self.is_final
                    and isinstance(primitive, HigherOrderPrimitive)
                    and primitive.rule_params
                ):
                    params = params._replace(**dict.fromkeys(primitive.rule_params))
                params = (
                    self.of_param(params) if isinstance(primitive, OneJaxprPrimitive) else params
                )
                return self[primitive, params, operands, *[v.aval for v in equation.results]]
        except TypeError:  # unhashable params
            pass
        return self[equation]

    def of_param(self, value: Any) -> Any:
        """`value` with programs replaced by their numbers."""
        if type(value) is ClosedJaxpr:
            return self[value.jaxpr], *map(id, value.consts)
        if isinstance(value, tuple):
            return type(value), *map(self.of_param, value)
        return self[value] if type(value) is Jaxpr else value

    def content(self, jaxpr: Jaxpr) -> Any:
        """The content of a program, independent of its variables' names."""
        inputs = (*jaxpr.constvars, *jaxpr.invars)
        atoms = [*inputs, *jaxpr.outvars]
        for equation in jaxpr.equations:
            atoms += (*equation.operands, *equation.results)
        places = {}
        return (
            *[v.aval for v in inputs],
            *[
                _value_key(a) if type(a) is Literal else places.setdefault(a, len(places))
                for a in atoms
            ],
            *[(self.of(e), _names(e.scope)) for e in jaxpr.equations],
        )


def _is_transposed(equation: Equation) -> bool:
    """Whether an equation belongs to a backward pass.

    Backward halves of layers lose as calls: each value that they take is written to memory first, even if a kernel would
    compute it of another one.
    """
    return equation.lineage is not None and equation.lineage.transformation == "transpose"


def _results(copies: Sequence[_Copy]) -> list[tuple[int, int]]:
    """The places within a copy of the values that are used outside of it, in any of the copies."""
    return sorted(frozenset().union(*(copy.results for copy in copies)))


def _tandem_repeats(numbers: np.ndarray) -> tuple[int, int, int] | None:
    """(start, period, length) of the longest stretch of `numbers` that consists of repetitions; None if there is none."""
    order = np.argsort(numbers, kind="stable")
    # The m-th occurrence of an equation in a layer corresponds to its m-th occurrence in the next layer.
    distances = np.concatenate(
        [
            (order[m:] - order[:-m])[numbers[order[m:]] == numbers[order[:-m]]]
            for m in range(1, _MAX_OCCURRENCES + 1)
        ]
    )
    periods, counts = np.unique(distances[distances >= MIN_LAYER_EQUATIONS], return_counts=True)
    stretches = []
    for period in sorted(periods[np.argsort(-counts, kind="stable")[:_MAX_PERIODS]].tolist()):
        breaks = np.flatnonzero(numbers[period:] != numbers[:-period])
        edges = np.concatenate(([-1], breaks, [len(numbers) - period]))
        lengths = np.diff(edges) - 1
        longest = int(np.argmax(lengths))
        length = int(lengths[longest]) + period
        if length >= MIN_LAYERS * period:
            stretches.append((int(edges[longest]) + 1, period, length))
    return max(stretches, key=lambda stretch: stretch[2], default=None)


def _equal_copies(
    equations: Sequence[Equation], last_use: dict[Atom, int], start: int, period: int, length: int
) -> list[_Copy]:
    """The copies with equal data flow in a repeated stretch, cut where the fewest values cross."""
    # Entry i: number of the stretch's values that are used across a cut before its equation i.
    crossing = np.zeros(length + 1, np.int64)
    for i in range(length):
        for v in equations[start + i].results:
            crossing[i + 1 : last_use.get(v, start) - start + 1] += 1

    def cost(offset: int) -> int:
        n_copies = (length - offset) // period
        return crossing[offset + period : offset + period * n_copies : period].max()

    offset = min(range(min(period, length - MIN_LAYERS * period + 1)), key=cost)
    groups: defaultdict[Any, list[_Copy]] = defaultdict(list)
    for at in range(start + offset, start + length - period + 1, period):
        wiring, copy = _wiring(equations[at : at + period], at, last_use)
        groups[wiring].append(copy)
    return max(groups.values(), key=len)


def _wiring(
    equations: Sequence[Equation], start: int, last_use: dict[Atom, int]
) -> tuple[Any, _Copy]:
    """(origin of each operand of a copy and the scopes of its equations, the copy)."""
    places: dict[Atom, tuple[int, int]] = {}
    outside: list[Atom] = []
    # For each equation the places of its operands within the copy, None for those in `outside`, then its scope's names.
    wiring: Values = []
    results: list[tuple[int, int]] = []
    depth = len(_common_scope(equations))
    for i, equation in enumerate(equations):
        for atom in equation.operands:
            place = places.get(atom)
            wiring.append(place)
            if place is None:
                outside.append(atom)
        wiring.append(_names(equation.scope)[depth:])
        for j, v in enumerate(equation.results):
            places[v] = (i, j)
            if last_use.get(v, -1) >= start + len(equations):
                results.append((i, j))
    return tuple(wiring), _Copy(start, tuple(outside), frozenset(results))


# Replacing them -------------------------------------------------------------------------------------


def _calls(
    equations: Sequence[Equation], copies: Sequence[_Copy], period: int
) -> Iterator[Equation]:
    """For each copy, a call of the first copy's program."""
    results = _results(copies)
    stretches = [equations[copy.start : copy.start + period] for copy in copies]
    before, behind = copies[0].start, copies[-1].start + period
    others = (*equations[max(before - 4, 0) : before], *equations[behind : behind + 4])
    name = _name_of(stretches[0], others)
    # Outside operands that are equal in every copy share an input; equal literals stay literals.
    operands_by_key: dict[Any, Sequence[Atom]] = {}
    replacements: dict[Any, Atom] = {}
    keys = []
    # `column`: the operand at one place of each copy. `keys` has one entry per place, `operands_by_key` one per input.
    for column in strict_zip(*(copy.outside for copy in copies)):
        key = tuple(map(_value_key, column))
        keys.append(key)
        if key not in replacements:
            is_literal = type(column[0]) is Literal and len({*key}) == 1
            replacements[key] = column[0] if is_literal else Var(column[0].aval)
            if not is_literal:
                operands_by_key[key] = column
    body, outvars = _body_of(stretches[0], iter([replacements[key] for key in keys]), results)
    invars: Any = [replacements[key] for key in operands_by_key]
    program = ClosedJaxpr(
        Jaxpr((), invars, body, outvars, debug=DebugInfo("repeated layers", name))
    )
    params = JitParams(name, program, is_layer=True)
    for k, (copy, stretch) in enumerate(strict_zip(copies, stretches)):
        operands = [column[k] for column in operands_by_key.values()]
        own_results = [
            stretch[i].results[j] if (i, j) in copy.results else DropVar(stretch[i].results[j].aval)
            for i, j in results
        ]
        scope = _nest_entries(_common_scope(stretch))
        yield Equation(operands, own_results, jit_p, params, source=stretch[0].source, scope=scope)


def _value_key(atom: Atom) -> Any:
    """Identity of an operand: a variable itself, a literal's value and type."""
    if type(atom) is not Literal:
        return atom
    return atom.aval, type(atom.val), np.asarray(atom.val).tobytes()


def _body_of(
    equations: Sequence[Equation], outside: Iterator[Atom], results: Sequence[tuple[int, int]]
) -> tuple[list[Equation], list[Var]]:
    """(the equations of a copy with new variables and scopes relative to the copy's, its results).

    `outside` are the outside operands, in order.
    """
    outer = _common_scope(equations)
    variables: dict[Atom, Var] = {}
    body: list[Equation] = []
    for equation in equations:
        operands = [variables.get(a) or next(outside) for a in equation.operands]
        for v in equation.results:
            variables[v] = type(v)(v.aval)
        scope = equation.scope
        if scope is not None and outer:
            scope = _nest_entries(scope.entries()[len(outer) :], outer[-1].metadata_only())
        own_results = [variables[v] for v in equation.results]
        body.append(equation.replace(operands=operands, results=own_results, scope=scope))
    return body, [variables[equations[i].results[j]] for i, j in results]


def _names(scope: ScopeStack | None) -> tuple[Any, ...]:
    """The entries of a name stack without their links, outermost first."""
    return () if scope is None else tuple([e[1:] for e in scope.entries()])


def _common_scope(equations: Sequence[Equation]) -> list[ScopeStack]:
    """The entries of the name stack shared by all `equations`, outermost first."""
    scopes = {equation.scope for equation in equations}
    if None in scopes:
        return []
    return [*_common(scope.entries() for scope in scopes)]  # type: ignore[union-attr]


def _common(sequences: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """The longest common prefix of the sequences."""
    for column in zip(*sequences, strict=False):
        if any(item != column[0] for item in column):
            return
        yield column[0]


def _nest_entries(
    entries: Sequence[ScopeStack], outer: ScopeStack | None = None
) -> ScopeStack | None:
    for entry in entries:
        outer = entry._replace(parent=outer)
    return outer


def _name_of(layer: Sequence[Equation], others: Sequence[Equation]) -> str:
    """Name of the user function that makes `layer` but none of the `others`; `F_layer` for a loop within F."""
    stacks = [user_places(equation.source)[::-1] for equation in layer]
    depth = sum(1 for _ in _common(stacks))
    functions = {_function_at(stack, depth) for stack in stacks}
    # Stacks end both in the loop's function and in functions that it calls.
    if len(functions) > 1 or None in functions:
        depth -= 1
        functions = {_function_at(stack, depth) for stack in stacks}
    function = functions.pop()
    name = "" if function is None else function[1].rpartition(".")[2]
    if not name.isidentifier():
        return "layer"
    around = [_function_at(user_places(e.source)[::-1], depth) for e in others]
    return f"{name}_layer" if function in around else name


def _function_at(stack: Sequence[tuple[CodeType, int]], depth: int) -> tuple[str, str] | None:
    """(file, name) of the function whose frame is at `depth` of the stack, if there is one."""
    if not 0 <= depth < len(stack):
        return None
    code, _ = stack[depth]
    return code.co_filename, code.co_qualname
