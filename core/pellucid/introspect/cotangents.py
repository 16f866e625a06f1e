"""Names of cotangents: `d(logits)` is the derivative with respect to the value that the user calls `logits`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid._machine.ir import DropVar, Equation, HigherOrderPrimitive, Jaxpr, Var

from .bodies import bodies_of, programs_within
from .lineage import origins_of, transformation_of

_PASSED_ON = {"add": (0, 1), "add_any": (0, 1), "sub": (0,), "copy": (0,), "jit": ()}
"""Indices of operands whose cotangent is that of the result, so that no equation computes it."""


class Backward(NamedTuple):
    """The backward pass of a call: its program was transposed from another one."""

    forward: Jaxpr
    """The program that was transposed."""
    incoming: tuple[Var, ...]
    """Inputs of the backward program that are cotangents."""


def cotangent_names(
    jaxpr: Jaxpr, names: Mapping[Var, str], backward: Backward | None = None
) -> dict[Var, str]:
    """A name `d(name)` for the cotangent of each value in `names`. Summands of a cotangent have no name.

    Reverse mode transposes the equations of the forward pass from last to first. This search does the same: the
    transposes of an equation compute a summand for each operand, and an `add_any` adds it to the summands of later
    uses. If several results may be the summand, neither the value nor its cotangent is named.

    The forward pass is at the start of the program, or in the program `backward.forward`.
    """
    forward = _forward(jaxpr) if backward is None else backward.forward.equations
    transposes = _transposes(jaxpr, forward)
    if not transposes:
        return {}
    search = _Search(jaxpr, transposes, () if backward is None else backward.incoming)
    for equation in reversed(forward):
        search.transpose(equation)
    cotangents: dict[Var, str] = {}
    for primal, cotangent in search.cotangents.items():
        if primal in names and primal not in search.uncertain:
            cotangents.setdefault(cotangent, f"d({names[primal]})")
    return cotangents


def transposed_bodies(
    jaxpr: Jaxpr, forward: Jaxpr | None = None
) -> Iterator[tuple[Jaxpr, Backward]]:
    """The bodies of transposed calls in a program, each with the program from which it was transposed.

    The forward pass is at the start of the program, or is the program `forward`.
    """
    transposes = _transposes(jaxpr, _forward(jaxpr) if forward is None else forward.equations)
    backward = {v for group in transposes.values() for e in group for v in e.results}
    for origin, group in transposes.items():
        for equation in group:
            for body, before in zip(bodies_of(equation), bodies_of(origin), strict=False):
                inputs = body.jaxpr.invars
                if len(inputs) == len(equation.operands):
                    pairs = zip(inputs, equation.operands, strict=True)
                    incoming = [v for v, x in pairs if isinstance(x, Var) and x in backward]
                    yield body.jaxpr, Backward(before.jaxpr, tuple(incoming))


class _Search:
    """A search for the cotangents of the forward pass's values, from the last equation to the first."""

    def __init__(
        self,
        jaxpr: Jaxpr,
        transposes: Mapping[Equation, Sequence[Equation]],
        incoming: Collection[Var],
    ) -> None:
        self.transposes = transposes
        self.cotangents: dict[Var, Var] = {}
        """Maps a primal value to the sum of the summands found so far."""
        self.uncertain: set[Var] = set()
        """Primal values with a summand that wasn't found."""
        self._backward = {v for e in jaxpr.equations if _is_transpose(e) for v in e.results} | {
            *incoming
        }
        self._sums: dict[Var, list[tuple[Var, Var]]] = {}
        """Maps a summand to the (other summand, sum) of each `add_any` that reads it."""
        self._outputs = {v for v in jaxpr.outvars if type(v) is Var}
        self._users: dict[Var, list[Equation]] = {}
        for equation in jaxpr.equations:
            variables = [v for v in equation.operands if isinstance(v, Var)]
            for v in variables:
                self._users.setdefault(v, []).append(equation)
            if (
                equation.primitive.name == "add_any"
                and _is_transpose(equation)
                and len(variables) == 2
            ):
                a, b = variables
                [total] = equation.results
                self._sums.setdefault(a, []).append((b, total))
                self._sums.setdefault(b, []).append((a, total))

    def transpose(self, equation: Equation) -> None:
        """Finds the summands that the transposes of an equation compute for its operands."""
        group = self.transposes.get(equation, ())
        inside = dict.fromkeys(v for e in group for v in e.results)
        self._find_incoming(equation, group, inside)
        operands = [v for v in equation.operands if isinstance(v, Var)]
        in_order = _summands_in_order(operands, group) | _summands_by_name(equation, group)
        distinct = [v for v in dict.fromkeys(operands) if v not in self.uncertain]
        passed = self._pass_on(equation)
        if not group and not passed:
            if equation.primitive.name in _PASSED_ON and any(
                r in self._outputs or r in self.uncertain for r in equation.results
            ):
                self.uncertain.update(operands)
            return
        claimed: set[Var] = set()
        waiting = [v for v in distinct if v not in self.cotangents]
        for v in distinct:
            if v in self.cotangents:
                mine = [in_order[v]] if v in in_order else inside
                self._add(v, operands.count(v), mine, passed.get(v), claimed)
        for v in [*waiting]:
            if v in in_order:
                self.cotangents[v] = in_order[v]
                claimed.add(in_order[v])
                waiting.remove(v)
            elif v in passed and operands.count(v) == 1 and not group:
                self.cotangents[v] = passed[v]
                waiting.remove(v)
            elif operands.count(v) == 2:
                self._add_twice(v, inside, passed.get(v), claimed)
                waiting.remove(v)
        self._choose(waiting, group, inside, claimed)

    def _find_incoming(
        self, equation: Equation, group: Sequence[Equation], inside: Collection[Var]
    ) -> None:
        """Finds the cotangent of an equation's only result: the one value that its transposes read from those of later
        equations.
        """
        [result, *others] = equation.results or (None,)
        if result is not None and not others and (
            result not in self.cotangents or result in self.uncertain
        ):  # fmt: skip
            read = {
                v for e in group for v in e.operands
                if isinstance(v, Var) and v in self._backward and v not in inside
                and _type(v) == _type(result)
            }  # fmt: skip
            # The `add_any` of an operand also reads the summands of later uses.
            read -= {
                v
                for v in read
                if all(u.primitive.name == "add_any" for u in self._users[v] if u in group)
            }
            if len(read) == 1:  # all its summands are added at that point
                self.cotangents[result] = read.pop()
                self.uncertain.discard(result)

    def _pass_on(self, equation: Equation) -> dict[Var, Var]:
        places = _PASSED_ON.get(equation.primitive.name, ())
        if len(equation.results) != 1 or equation.results[0] in self.uncertain:
            return {}
        cotangent = self.cotangents.get(equation.results[0])
        passed = [equation.operands[i] for i in places if i < len(equation.operands)]
        return {
            v: cotangent for v in passed
            if isinstance(v, Var) and cotangent is not None and _type(v) == _type(cotangent)
        }  # fmt: skip

    def _add(
        self, v: Var, uses: int, inside: Collection[Var], passed: Var | None, claimed: set[Var]
    ) -> None:
        """Adds the summand of one use to those of later uses."""
        fitting = [c for c in inside if _type(c) == _type(v)] + ([] if passed is None else [passed])
        for _ in range(uses):
            pairs = [
                (other, total) for other, total in self._sums.get(self.cotangents[v], ())
                if other in fitting and total != self.cotangents[v]
            ]  # fmt: skip
            if len(pairs) != 1:
                if fitting:
                    self.uncertain.add(v)
                return
            claimed.update((pairs[0][0], pairs[0][1]))
            self.cotangents[v] = pairs[0][1]

    def _add_twice(
        self, v: Var, inside: Collection[Var], passed: Var | None, claimed: set[Var]
    ) -> None:
        """Adds both summands of a value that is two operands of one equation."""
        fitting = [c for c in inside if _type(c) == _type(v)] + ([] if passed is None else [passed])
        sums = {
            total for c in fitting for other, total in self._sums.get(c, ()) if other in fitting
        }  # fmt: skip
        if len(sums) == 1:
            self.cotangents[v] = sums.pop()
            claimed.update(fitting)
        elif fitting:
            self.uncertain.add(v)

    def _choose(
        self,
        waiting: Sequence[Var],
        group: Sequence[Equation],
        inside: Collection[Var],
        claimed: set[Var],
    ) -> None:
        """Assigns each remaining value the only unclaimed result of its type."""
        leaving = [
            c for c in inside
            if c not in claimed
            and (c in self._outputs or any(user not in group for user in self._users.get(c, ())))
        ]  # fmt: skip
        for v in waiting:
            fitting = [c for c in leaving if _type(c) == _type(v)]
            alike = [w for w in waiting if _shape(w) == _shape(v)]
            if len(fitting) == 1 and len(alike) == 1:
                self.cotangents[v] = fitting[0]
            elif fitting:
                self.uncertain.add(v)


def _summands_by_name(equation: Equation, group: Sequence[Equation]) -> dict[Var, Var]:
    """Maps operands of a call or loop to their summands: results of its transpose, whose program says which of the
    called program's arguments each of them is the cotangent of.

    Empty if it doesn't. A value that is two operands isn't a key.
    """
    calls = [e for e in group if bodies_of(e)]
    if len(calls) != 1 or not isinstance(equation.primitive, HigherOrderPrimitive):
        return {}
    [call] = calls
    paths = [b.jaxpr.debug.result_names for b in bodies_of(call) if b.jaxpr.debug is not None]
    slots = equation.primitive.slots(equation.params)
    if slots is None or not paths or len(paths[0]) != len(call.results):
        return {}
    given = [(path, v) for path, v in zip(paths[0], call.results, strict=True) if path]
    by_name = dict(given)
    summands: dict[Var, Var] = {}
    groups = slots.split(equation.operands)
    for slot in slots.programs[:1]:
        body = slot.program.jaxpr
        names = () if body.debug is None else body.debug.argument_names
        pairs = zip(body.invars[len(body.invars) - len(names) :], names, strict=False)
        named = {v: name for v, name in pairs if name}
        if len({*named.values()}) != len(named) or len(by_name) != len(given):
            return {}  # several have one name
        for place, inputs in slots.group_inputs(slot, body.invars).items():
            for v, operand in zip(inputs, groups[place], strict=True):
                summand = by_name.get(f"d({named[v]})") if v in named else None
                if summand is None or type(summand) is DropVar:
                    continue
                if isinstance(operand, Var) and equation.operands.count(operand) == 1:
                    summands[operand] = summand
    return summands


def _summands_in_order(operands: Sequence[Var], group: Sequence[Equation]) -> dict[Var, Var]:
    """Maps operands of a call or loop to their summands, if the order of the transpose's results is unambiguous.

    Summands are in the order of the operands; operands that aren't differentiated have none. A value that is two
    operands isn't a key.
    """
    calls = [e for e in group if bodies_of(e)]
    if len(calls) != 1:
        return {}
    results = calls[0].results
    earliest = _match_operands(results, operands)
    latest = _match_operands(results[::-1], operands[::-1])
    if earliest is None or latest is None:
        return {}
    last = len(operands) - 1
    return {
        operands[i]: v
        for v, i, j in zip(results, earliest, latest[::-1], strict=True)
        if i == last - j and type(v) is not DropVar and operands.count(operands[i]) == 1
    }


def _match_operands(values: Sequence[Var], operands: Sequence[Var]) -> list[int] | None:
    """Greedily matches values to operands by type, in order: indices of operands, or None if one has no match."""
    positions: list[int] = []
    for v in values:
        start = positions[-1] + 1 if positions else 0
        i = next((i for i in range(start, len(operands)) if _type(operands[i]) == _type(v)), None)
        if i is None:
            return None
        positions.append(i)
    return positions


def _forward(jaxpr: Jaxpr) -> Sequence[Equation]:
    """The equations before the first transposed one."""
    backward = (i for i, e in enumerate(jaxpr.equations) if _is_transpose(e))
    return jaxpr.equations[: next(backward, len(jaxpr.equations))]


def _is_transpose(equation: Equation) -> bool:
    return transformation_of(equation) == "transpose"


def _transposes(jaxpr: Jaxpr, forward: Sequence[Equation]) -> dict[Equation, list[Equation]]:
    """Maps each equation of the forward pass to its transposes in the program."""
    if not any(map(_is_transpose, jaxpr.equations)):
        return {}
    by_id = {number: e for e in forward for number in _ids(e)}
    owners = {
        number: e for e in forward for body in bodies_of(e) for p in programs_within(body.jaxpr)
        for inner in p.equations for number in _ids(inner)
    }  # fmt: skip
    ids, inner_ids = frozenset(by_id), frozenset(owners)
    transposes: dict[Equation, list[Equation]] = {}
    for equation in jaxpr.equations:
        if not _is_transpose(equation):
            continue
        inside = [inner for body in bodies_of(equation) for inner in body.jaxpr.equations]
        origins = (
            _original_equations([equation], ids, by_id)
            or _original_equations(inside, inner_ids, owners)
            or _original_equations(inside, ids, by_id)  # the forward pass has inlined the call
        )
        if len(origins) == 1:
            transposes.setdefault(origins.pop(), []).append(equation)
    return transposes


def _original_equations(
    equations: Sequence[Equation], ids: frozenset[int], by_id: Mapping[int, Equation]
) -> set[Equation]:
    """The equations in `by_id` from which others were made; `ids` are its keys."""
    return {by_id[e.id] for each in equations for e in origins_of(each, ids)} if ids else set()


def _ids(equation: Equation) -> Iterator[int]:
    """The id of an equation, and the ids of the equations that it is a copy of."""
    yield equation.id
    lineage = equation.lineage
    while lineage is not None and lineage.transformation == "replay" and len(lineage.origins) == 1:
        [origin] = lineage.origins
        yield origin.id
        lineage = origin.lineage


def _shape(v: Var) -> Any:
    return getattr(v.aval, "shape", None)


def _type(v: Var) -> Any:
    return _shape(v), getattr(v.aval, "dtype", None)
