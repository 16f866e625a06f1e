"""Detects, during tracing, collectives that some devices would reach and others not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pellucid._machine.base import CollectiveError, describe, strict_zip
from pellucid._machine.ir import (
    Collective,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    ShapedArray,
    Slots,
    axis_names,
    subjaxprs,
)
from pellucid._machine.xla.hlo import permuted_equations

from .exchange import PPermute

Axes = frozenset[Any]


def check_no_divergence(
    caller: str, jaxpr: Jaxpr, input_axes: Sequence[Axes], mesh: Any, unchecked: Axes = frozenset()
) -> list[Axes]:
    """The axes over which the results of `jaxpr` may vary, given those over which its inputs vary.

    Types record it, except over the `unchecked` axes, along which it is propagated from the inputs.

    Raises: CollectiveError if devices that a collective waits for may take different paths: in a branch of `cond` or
    `switch`, or in a `while_loop`, whose predicate varies over one of its axes, or, for `ppermute`, over any axis of
    `mesh`. Devices on the other path would never arrive.
    """
    return _Walk(caller, mesh, unchecked).through(jaxpr, input_axes)


def check_of_executable(
    caller: str, jaxpr: Jaxpr, input_axes: Sequence[Axes], mesh: Any, unchecked: Axes
) -> Callable[[Any], None] | None:
    """A check for a compiled program if the compiler controls some axes; None if all devices take the same path.

    It raises CollectiveError if the compiler inserted a permutation, which waits for all devices, where only some
    arrive.
    """
    walk = _Walk(caller, mesh, unchecked)
    walk.through(jaxpr, input_axes)
    reached = {
        equation.id: (choice, equation, varying)
        for choice, varying in walk.choices
        for equation in _equations_in(subjaxprs(choice.params))
    }

    def check(loaded):
        for number in permuted_equations(loaded) & reached.keys():
            raise _diverging(
                caller,
                *reached[number],
                "the compiler made it a permutation, which waits for all devices",
            )

    return check if reached else None


def _equations_in(programs: Sequence[Jaxpr]) -> Iterator[Equation]:
    for program in programs:
        for equation in program.equations:
            yield equation
            yield from _equations_in(subjaxprs(equation.params))


class _Walk:
    """A walk through a program that determines over which axes each value may vary.

    `choices` are equations whose path varies, each with the axes over which it does.
    """

    def __init__(self, caller: str, mesh: Any, unchecked: Axes) -> None:
        self.caller = caller
        self.choices: list[tuple[Equation, Axes]] = []
        # An axis of size 1 has one device, which waits for no others.
        self.alone = frozenset([axis for axis, size in mesh.shape_tuple if size == 1])
        self.unchecked = unchecked

    def through(self, jaxpr: Jaxpr, input_axes: Sequence[Axes]) -> list[Axes]:
        """The axes over which the results of `jaxpr` may vary if its inputs vary over `input_axes`."""
        values: dict[Any, Axes] = dict(strict_zip(jaxpr.invars, input_axes))

        def read(atom: Any) -> Axes:
            return frozenset() if type(atom) is Literal else values.get(atom, frozenset())

        for equation in jaxpr.equations:
            result_axes = self.results(equation, [read(atom) for atom in equation.operands])
            for var, axes in strict_zip(equation.results, result_axes):
                typed = var.aval.varying if isinstance(var.aval, ShapedArray) else frozenset()
                values[var] = typed | (axes & self.unchecked)
        return [read(atom) for atom in jaxpr.outvars]

    def results(self, equation: Equation, operand_axes: list[Axes]) -> Sequence[Axes]:
        """The axes over which the results of `equation` may vary if its operands vary over `operand_axes`."""
        primitive, params = equation.primitive, equation.params
        if not isinstance(primitive, HigherOrderPrimitive) or not subjaxprs(params):
            union = frozenset().union(*operand_axes)
            return [self.of_operation(equation, union)] * len(equation.results)
        slots = primitive.slots(params)
        if slots is None or slots.by_position:
            return self.of_programs(equation, subjaxprs(params), operand_axes)
        return self.of_slots(equation, slots, operand_axes)

    def of_operation(self, equation: Equation, union: Axes) -> Axes:
        """The axes over which an operation's results may vary if its operands together vary over `union`."""
        primitive, params = equation.primitive, equation.params
        axes = axis_names(primitive, params)
        if primitive.traits.equalizes:
            in_groups = getattr(params, "axis_index_groups", None) is not None
            return union if in_groups else union - axes
        # Values from the host or from references may vary in any way.
        return self.unchecked if equation.effects else union | axes

    def of_slots(self, equation: Equation, slots: Slots, operand_axes: list[Axes]) -> list[Axes]:
        """Like `results`, for programs with known roles: repeated until the carries' axes don't change any more."""
        groups, programs = slots.split(operand_axes), subjaxprs(equation.params)
        decided = frozenset[Any]().union(*(groups[i][0] for i in slots.choosing))
        self.check(equation, decided, programs)
        while True:
            results: list[list[Axes]] = [[frozenset()] * group.size for group in slots.results]
            for slot in slots.programs:
                result_axes = self.through(slot.program.jaxpr, slots.gather_inputs(slot, groups))
                if slot.is_predicate:
                    decided = decided.union(*result_axes)
                    self.check(equation, decided, programs)
                for i, axes in slots.group_results(slot, result_axes):
                    results[i] = [a | b for a, b in strict_zip(results[i], axes)]
            results = [[decided | axes for axes in group] for group in results]
            before = [groups[i] for i, _ in slots.carries]
            for i, j in slots.carries:
                groups[i] = [a | b for a, b in strict_zip(groups[i], results[j])]
            if before == [groups[i] for i, _ in slots.carries]:
                return [axes for group in results for axes in group]

    def of_programs(
        self, equation: Equation, programs: list[Jaxpr], operand_axes: list[Axes]
    ) -> Sequence[Axes]:
        """Like `results`, for an equation that runs `programs` in an unknown way, or calls one."""
        params = equation.params
        outer, manual = self.unchecked, getattr(params, "newly_manual_axes", frozenset())
        if manual:
            operand_axes = [
                axes | spec.axis_names for axes, spec in strict_zip(operand_axes, params.in_specs)
            ]
            self.unchecked = outer if params.check_vma else outer | manual
        [first, *others] = programs
        if not others and len(first.invars) == len(operand_axes):
            results = self.through(first, operand_axes)
        else:
            union = frozenset().union(*operand_axes)
            by_program = [
                self.through(program, [union] * len(program.invars)) for program in programs
            ]
            results = [union.union(*(axes for results in by_program for axes in results))]
        self.unchecked = outer
        if len(results) != len(equation.results):
            results = [frozenset().union(*results)] * len(equation.results)
        return [axes - manual for axes in results]

    def check(self, choice: Equation, varying: Axes, programs: Sequence[Jaxpr]) -> None:
        """Raise CollectiveError if one of `programs`, selected by a value that varies over `varying`, has a collective
        over that.
        """
        varying -= self.alone
        if not varying:
            return
        self.choices.append((choice, varying))
        for equation in _equations_in(programs):
            primitive = equation.primitive
            if (
                not isinstance(primitive, Collective)
                or isinstance(primitive, HigherOrderPrimitive)
                or not primitive.waits
            ):
                continue
            names = axis_names(primitive, equation.params)
            if names & varying:
                raise _diverging(self.caller, choice, equation, names & varying)
            if names and isinstance(equation.primitive, PPermute):
                why = "waits for all devices; `all_gather` waits for those along its axes"
                raise _diverging(self.caller, choice, equation, varying, why)


def _diverging(
    caller: str, choice: Equation, collective: Equation, varying: Axes, why: str | None = None
) -> CollectiveError:
    chooser: Any = choice.primitive
    name, is_branch = collective.primitive.name, chooser.slots(choice.params).choosing
    way = f"a branch of {chooser.name}" if is_branch else f"a {chooser.name} loop"
    [axis, *_] = sorted(varying, key=str)
    lines = [f"the predicate varies over axis {axis!r}"]
    if why is not None:
        lines.append(f"{name}: {why}")
    for what, equation in ((f"the {chooser.name}", choice), (name, collective)):
        place = describe(equation.source)
        if place:
            lines.append(f"{what}: {place}")
    return CollectiveError(
        f"{caller}: `{name}` in {way} would wait for devices that go another way.",
        got=lines,
        do=f"Move the collective out, or make the predicate the same everywhere (`psum`, `pmax` over {axis!r}).",
    )
