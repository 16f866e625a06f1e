"""Repeated layers as calls: equal runs of equations become calls of one program.

A model written as a Python loop over layers is traced to one run of equations for each layer. As calls of one program
the layers are differentiated, lowered and, where the backend keeps calls, compiled once (decision 0002).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import NameStack, config, strict_zip, user_places
from pellucid.ir import Atom, ClosedJaxpr, DebugInfo, DropVar, Equation, Jaxpr, Literal, Values, Var

from .calls import JitParams, jit_p

MIN_LAYERS = 4
"""Minimum number of layers: with fewer, nothing is gained."""
MIN_LAYER_EQUATIONS = 10
MIN_SHARE = 0.5
"""Minimum share of a program's equations that lie in repeated layers."""
MIN_EQUATIONS = MIN_LAYERS * MIN_LAYER_EQUATIONS
_MAX_RESULTS = 4
"""Maximum number of results of a layer. Halves of a differentiated layer have many more: as calls they gain nothing."""
_MAX_OCCURRENCES = 8
"""Maximum number of equal equations in a layer among which it is looked for how far layers are apart."""
_MAX_PERIODS = 16
"""Number of the most frequent distances between equal equations that are tried as lengths of a layer."""


class _Copy(NamedTuple):
    """One run of equations: where it begins, the operands that come from outside, and what is read of it."""

    start: int
    outside: tuple[Atom, ...]
    """Each operand that no equation of the copy makes, in the order of the equations."""
    results: frozenset[tuple[int, int]]
    """(position of the equation within the copy, position of its result)."""


def with_layers_called(jaxpr: Jaxpr) -> Jaxpr | None:
    """`jaxpr` with its repeated layers as calls of one program; None where there are none, or the option is off."""
    if len(jaxpr.equations) < MIN_EQUATIONS or not config.call_repeated_layers.value:
        return None
    repeats = _tandem_repeats(_numbered(jaxpr.equations))
    if repeats is None:
        return None
    _, period, _ = repeats
    copies = _equal_copies(jaxpr, *repeats)
    if len(copies) < MIN_LAYERS or len(copies) * period < MIN_SHARE * len(jaxpr.equations):
        return None
    results = sorted(frozenset().union(*(copy.results for copy in copies)))
    if not 0 < len(results) <= _MAX_RESULTS:
        return None
    return _with_calls(jaxpr, copies, period, results)


# Finding them ---------------------------------------------------------------------------------------


def _numbered(equations: Sequence[Equation]) -> np.ndarray:
    """A number for each equation: equal where primitive, params and types are; negative and its own with effects."""
    numbers: dict[Any, int] = {}
    numbered = np.empty(len(equations), np.int64)
    for i, equation in enumerate(equations):
        operands = tuple([(type(a) is Literal, a.aval) for a in equation.operands])
        key = (equation.primitive, equation.params, operands, *[v.aval for v in equation.results])
        try:
            numbered[i] = -1 - i if equation.effects else numbers.setdefault(key, len(numbers))
        except TypeError:  # params that can't be hashed
            numbered[i] = -1 - i
    return numbered


def _tandem_repeats(numbers: np.ndarray) -> tuple[int, int, int] | None:
    """(start, period, length) of the longest stretch of `numbers` that repeats itself; None if it is short."""
    order = np.argsort(numbers, kind="stable")
    # An equation that occurs m times in a layer comes again in the next one as the m-th that equals it.
    distances = np.concatenate(
        [
            (order[m:] - order[:-m])[numbers[order[m:]] == numbers[order[:-m]]]
            for m in range(1, _MAX_OCCURRENCES + 1)
        ]
    )
    periods, counts = np.unique(distances[distances >= MIN_LAYER_EQUATIONS], return_counts=True)
    best = None
    for period in sorted(periods[np.argsort(-counts, kind="stable")[:_MAX_PERIODS]].tolist()):
        breaks = np.flatnonzero(numbers[period:] != numbers[:-period])
        edges = np.concatenate(([-1], breaks, [len(numbers) - period]))
        lengths = np.diff(edges) - 1
        longest = int(np.argmax(lengths))
        length = int(lengths[longest]) + period
        if length >= MIN_LAYERS * period and (best is None or length > best[2]):
            best = int(edges[longest]) + 1, period, length
    return None if best is None or best[2] < MIN_SHARE * len(numbers) else best


def _equal_copies(jaxpr: Jaxpr, start: int, period: int, length: int) -> list[_Copy]:
    """The copies of equal wiring in a stretch that repeats, cut where the fewest values are read across the cuts."""
    n = len(jaxpr.equations)
    last_use: dict[Atom, int] = {a: n for a in jaxpr.outvars if type(a) is Var}
    for i in range(n - 1, -1, -1):
        for atom in jaxpr.equations[i].operands:
            if type(atom) is Var:
                last_use.setdefault(atom, i)
    # Entry i: by how much the number of values that are read across a cut before equation start + i changes.
    changes = np.zeros(length + 1, np.int64)
    for i in range(length):
        for v in jaxpr.equations[start + i].results:
            if (last := last_use.get(v, -1)) > start + i:
                changes[i + 1] += 1
                if last - start < length:
                    changes[last - start + 1] -= 1
    crossing = np.cumsum(changes)

    def cost(offset: int) -> int:
        n_copies = (length - offset) // period
        return max(crossing[offset + period * k] for k in range(1, n_copies + (n_copies == 1)))

    has_enough = [o for o in range(period) if (length - o) // period >= MIN_LAYERS]
    offset = min(has_enough, key=cost)
    groups: defaultdict[Any, list[_Copy]] = defaultdict(list)
    for at in range(start + offset, start + length - period + 1, period):
        wiring, copy = _wiring(jaxpr.equations[at : at + period], at, last_use)
        groups[wiring].append(copy)
    return max(groups.values(), key=len)


def _wiring(
    equations: Sequence[Equation], start: int, last_use: dict[Atom, int]
) -> tuple[Any, _Copy]:
    """Where each operand of a copy comes from, with the scopes of its equations, and the copy."""
    places: dict[Atom, tuple[int, int]] = {}
    outside: list[Atom] = []
    wiring: Values = []
    results: list[tuple[int, int]] = []
    depth = len(_common_scope(equations))
    for i, equation in enumerate(equations):
        for atom in equation.operands:
            place = places.get(atom)
            wiring.append(place)
            if place is None:
                outside.append(atom)
        scope = equation.scope
        wiring.append(() if scope is None else tuple([e[1:] for e in scope.entries()[depth:]]))
        for j, v in enumerate(equation.results):
            places[v] = (i, j)
            if last_use.get(v, -1) >= start + len(equations):
                results.append((i, j))
    return tuple(wiring), _Copy(start, tuple(outside), frozenset(results))


# Replacing them -------------------------------------------------------------------------------------


def _with_calls(
    jaxpr: Jaxpr, copies: list[_Copy], period: int, results: list[tuple[int, int]]
) -> Jaxpr:
    stretches = [jaxpr.equations[copy.start : copy.start + period] for copy in copies]
    before, behind = copies[0].start, copies[-1].start + period
    others = (*jaxpr.equations[max(before - 4, 0) : before], *jaxpr.equations[behind : behind + 4])
    name = _name_of(stretches[0], others)
    # Operands from outside are one input where they are the same in every copy; equal literals stay literals.
    operands_by_key: dict[Any, Sequence[Atom]] = {}
    replacements: dict[Any, Atom] = {}
    keys = []
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
    program = ClosedJaxpr(Jaxpr((), invars, body, outvars, debug=DebugInfo(name)))
    params = JitParams(name, program)
    equations: list[Equation] = []
    done = 0
    for k, (copy, stretch) in enumerate(strict_zip(copies, stretches)):
        equations += jaxpr.equations[done : copy.start]
        operands = [column[k] for column in operands_by_key.values()]
        own_results = [
            stretch[i].results[j] if (i, j) in copy.results else DropVar(stretch[i].results[j].aval)
            for i, j in results
        ]
        scope = _stacked(_common_scope(stretch))
        equations.append(
            Equation(operands, own_results, jit_p, params, source=stretch[0].source, scope=scope)
        )
        done = copy.start + period
    equations += jaxpr.equations[done:]
    return jaxpr.replace(equations=equations)


def _value_key(atom: Atom) -> Any:
    """Identity of an operand: a variable itself, a literal's value and type."""
    if type(atom) is not Literal:
        return atom
    return atom.aval, type(atom.val), np.asarray(atom.val).tobytes()


def _body_of(
    equations: Sequence[Equation], outside: Iterator[Atom], results: Sequence[tuple[int, int]]
) -> tuple[list[Equation], list[Var]]:
    """The equations of a copy, with variables of their own and scopes relative to the copy's, and its results.

    `outside` are the operands that come from outside, in their order.
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
            scope = _stacked(scope.entries()[len(outer) :], outer[-1].metadata_only())
        own_results = [variables[v] for v in equation.results]
        body.append(equation.replace(operands=operands, results=own_results, scope=scope))
    return body, [variables[equations[i].results[j]] for i, j in results]


def _common_scope(equations: Sequence[Equation]) -> list[NameStack]:
    """The entries of the name stack that all `equations` share, outermost first."""
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


def _stacked(entries: Sequence[NameStack], outer: NameStack | None = None) -> NameStack | None:
    for entry in entries:
        outer = entry._replace(parent=outer)
    return outer


def _name_of(layer: Sequence[Equation], others: Sequence[Equation]) -> str:
    """The name of the user's function that makes `layer` and none of the `others`; `F_layer` for a loop within F."""
    stacks = [user_places(equation.source)[::-1] for equation in layer]
    depth = sum(1 for _ in _common(stacks))
    functions = {_function_at(stack, depth) for stack in stacks}
    if len(functions) > 1 or None in functions:  # in the loop's function and in what it calls
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
