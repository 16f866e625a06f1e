"""Names of cotangents: `d(logits)` is the derivative of a result by the value that the user calls `logits`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid._machine.ir import DropVar, Equation, Jaxpr, Var

from .bodies import bodies_of, programs_within
from .lineage import origins_of, transformation_of

_PASSED_ON = {"add": (0, 1), "add_any": (0, 1), "sub": (0,), "copy": (0,), "jit": ()}
"""Operands whose cotangent is the result's, without an equation of its own."""


class Backward(NamedTuple):
    """A program that was transposed from another one, as the body of a call."""

    forward: Jaxpr
    """The program whose equations it transposes."""
    incoming: tuple[Var, ...]
    """Its inputs that are cotangents."""


def cotangent_names(
    jaxpr: Jaxpr, names: Mapping[Var, str], backward: Backward | None = None
) -> dict[Var, str]:
    """A name for each whole cotangent of a value in `names`, `d(name)`; a summand of one has none.

    Reverse mode transposes the equations of the forward pass, last one first. This follows it: each equation's transposes
    give a summand for each of its operands, which an `add_any` adds to the summands of later uses. Where it isn't certain
    which of several results is a value's summand, that value and its cotangent stay without a name.

    The forward pass is in front of the transposes, or in the program that `backward` names.
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


def transposed_bodies(jaxpr: Jaxpr) -> Iterator[tuple[Jaxpr, Backward]]:
    """The bodies of transposed calls in a program, each with the body that it was transposed from."""
    transposes = _transposes(jaxpr, _forward(jaxpr))
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
    """Cotangents of the values of a forward pass, from the last equation to the first."""

    def __init__(
        self,
        jaxpr: Jaxpr,
        transposes: Mapping[Equation, Sequence[Equation]],
        incoming: Collection[Var],
    ) -> None:
        self.transposes = transposes
        self.cotangents: dict[Var, Var] = {}
        """By primal value the sum of the summands so far."""
        self.uncertain: set[Var] = set()
        """Primal values of which a summand wasn't found."""
        self._backward = {v for e in jaxpr.equations if _is_transpose(e) for v in e.results} | {
            *incoming
        }
        self._sums: dict[Var, list[tuple[Var, Var]]] = {}
        """By summand of an `add_any` the other one and the sum."""
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
        """Finds the summands that an equation gives the cotangents of its operands."""
        group = self.transposes.get(equation, ())
        inside = dict.fromkeys(v for e in group for v in e.results)
        self._find_incoming(equation, group, inside)
        operands = [v for v in equation.operands if isinstance(v, Var)]
        in_order = _summands_in_order(operands, group)
        distinct = [v for v in dict.fromkeys(operands) if v not in self.uncertain]
        passed = self._passed_on(equation)
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
        """Takes what the transposes of an equation read of those of later ones for the cotangent of its one result."""
        [result, *others] = equation.results or (None,)
        if result is not None and not others and (
            result not in self.cotangents or result in self.uncertain
        ):  # fmt: skip
            read = {
                v for e in group for v in e.operands
                if isinstance(v, Var) and v in self._backward and v not in inside
                and _type(v) == _type(result)
            }  # fmt: skip
            # A sum of an operand's summands reads the earlier ones too.
            read -= {
                v
                for v in read
                if all(u.primitive.name == "add_any" for u in self._users[v] if u in group)
            }
            if len(read) == 1:  # all summands are added by then
                self.cotangents[result] = read.pop()
                self.uncertain.discard(result)

    def _passed_on(self, equation: Equation) -> dict[Var, Var]:
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
        """Adds the summands of a value that is used later too."""
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
        """The sum of both summands of a value that an equation takes twice."""
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
        """Gives each value that isn't used later the one result left that has its type."""
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


def _summands_in_order(operands: Sequence[Var], group: Sequence[Equation]) -> dict[Var, Var]:
    """The summand of each operand of a call or loop, where the order of its transpose's results leaves one possibility.

    They have the order of the operands; those that aren't differentiated have none. An operand that is taken twice
    isn't among the keys.
    """
    calls = [e for e in group if bodies_of(e)]
    if len(calls) != 1:
        return {}
    results = calls[0].results
    earliest = _embedded(results, operands)
    latest = _embedded(results[::-1], operands[::-1])
    if earliest is None or latest is None:
        return {}
    last = len(operands) - 1
    return {
        operands[i]: v
        for v, i, j in zip(results, earliest, latest[::-1], strict=True)
        if i == last - j and type(v) is not DropVar and operands.count(operands[i]) == 1
    }


def _embedded(values: Sequence[Var], operands: Sequence[Var]) -> list[int] | None:
    """For each value the position of the first operand of its type behind those of the values before it; None if one has none."""
    positions: list[int] = []
    for v in values:
        start = positions[-1] + 1 if positions else 0
        i = next((i for i in range(start, len(operands)) if _type(operands[i]) == _type(v)), None)
        if i is None:
            return None
        positions.append(i)
    return positions


def _forward(jaxpr: Jaxpr) -> Sequence[Equation]:
    """The equations in front of the first transpose."""
    backward = (i for i, e in enumerate(jaxpr.equations) if _is_transpose(e))
    return jaxpr.equations[: next(backward, len(jaxpr.equations))]


def _is_transpose(equation: Equation) -> bool:
    return transformation_of(equation) == "transpose"


def _transposes(jaxpr: Jaxpr, forward: Sequence[Equation]) -> dict[Equation, list[Equation]]:
    """For each equation of the forward pass its transposes in a program."""
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
            _origins([equation], ids, by_id)
            or _origins(inside, inner_ids, owners)
            or _origins(inside, ids, by_id)  # of a call that the forward pass has inlined
        )
        if len(origins) == 1:
            transposes.setdefault(origins.pop(), []).append(equation)
    return transposes


def _origins(
    equations: Sequence[Equation], ids: frozenset[int], by_id: Mapping[int, Equation]
) -> set[Equation]:
    """The equations of `by_id`, which has `ids`, that others were made from."""
    return {by_id[e.id] for each in equations for e in origins_of(each, ids)} if ids else set()


def _ids(equation: Equation) -> Iterator[int]:
    """The id of an equation, and those of the equations that it is a copy of."""
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
