"""Rules that follow from slots: dead code, references, and equations with other programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress

from pellucid.base import EffectsError, strict_zip
from pellucid.ir import (
    CONTROL,
    Avals,
    ClosedJaxpr,
    Group,
    Jaxpr,
    Mask,
    OnReferences,
    Operands,
    P,
    Programs,
    Results,
    Role,
    Slots,
    Values,
    rearranged,
    remove_dead_equations,
)
from pellucid.tracing import Cell, bind, discharged, held, type_of


class Structured(OnReferences, Programs[P]):
    """A primitive that declares `slots` and their inverse, `with_slots`.

    Each program takes a group of constants first.
    """

    traits = CONTROL

    def slots(self, params) -> Slots:
        raise self.missing("slots")

    def discharge(self, operands, params):
        # References that a loop writes are carried, in front; those that a branch writes are further results.
        slots = self.slots(params)
        groups = slots.split(operands)
        inputs = [slots.gathered(slot, groups) for slot in slots.programs]
        bodies = [
            discharged(slot.program.jaxpr, values)
            for slot, values in strict_zip(slots.programs, inputs)
        ]
        ids = {id(x[i]) for body, x in strict_zip(bodies, inputs) for i in body.written}
        cells: list[Cell] = [*{id(x): x for x in operands if id(x) in ids}.values()]
        # An input's key: the id of a written cell, or minus the position of another operand.
        keys = slots.split([id(x) if id(x) in ids else -i for i, x in enumerate(operands)])
        values = dict(strict_zip(chain(*keys), held(operands)))
        new_keys = keys
        for carry, _ in slots.carries:
            new_keys = [[k for k in group if k not in ids] for group in keys]
            new_keys[carry] = [*map(id, cells), *keys[carry]]
        programs = []
        for slot, body in strict_zip(slots.programs, bodies):
            if body.written and slot.is_predicate:
                raise EffectsError(
                    "the condition of a while_loop can't write to a reference.",
                    got=", ".join(slot.program.in_avals[i].text() for i in body.written),
                    do="Write to it in the body.",
                )
            own_keys, n = slots.gathered(slot, keys), len(body.consts)
            positions = {key: n + i for i, key in enumerate(own_keys)}
            m = len(body.program.out_avals) - len(body.written)
            finals = {own_keys[i]: m + j for j, i in enumerate(body.written)}
            written = [] if slot.is_predicate else map(id, cells)
            programs.append(
                rearranged(
                    body.program,
                    [
                        *range(n),
                        *(
                            positions[k] if k in positions else type_of(values[k])
                            for k in slots.gathered(slot, new_keys)
                        ),
                    ],
                    [*(finals[k] if k in finals else ~positions[k] for k in written), *range(m)],
                )
            )
        new_groups = [[values[k] for k in group] for group in new_keys]
        results = bind_programs(
            self, params, slots, new_groups, programs, [body.consts for body in bodies]
        )
        for cell, value in zip(cells, results, strict=False):
            cell.value = value
        return results[len(cells) :]

    def dead_code(self, used, equation):
        if not any(used) and not equation.effects:
            return [False] * len(equation.operands), None
        slots = self.slots(equation.params)
        first, *others = [slot.program.jaxpr for slot in slots.programs]
        key = ("dead code", tuple(used), slots.operands, tuple(others))
        if key not in first.memo:
            first.memo[key] = _pruned(slots, used)
        programs, used_operands, used_results = first.memo[key]
        if programs is None:
            return used_operands, equation
        if not any(used) and not any(program.effects for program in programs):
            return used_operands, None
        pruned = slots._replace(
            operands=_resized(slots.operands, slots.split(used_operands)),
            results=_resized(slots.results, slots.split_results(used_results)),
            programs=tuple(
                [s._replace(program=p) for s, p in strict_zip(slots.programs, programs)]
            ),
        )
        return used_operands, equation.replace(
            operands=list(compress(equation.operands, used_operands)),
            results=list(compress(equation.results, used_results)),
            params=self.with_slots(equation.params, pruned),
        )


def _resized(groups: Sequence[Group], used: Sequence[Mask]) -> tuple[Group, ...]:
    """`groups` with the `used` operands, or results, alone."""
    return tuple([Group(g.role, sum(flags)) for g, flags in strict_zip(groups, used)])


def _pruned(slots: Slots, used: Mask) -> tuple[list[ClosedJaxpr] | None, list[bool], list[bool]]:
    """(programs for the `used` results, which operands they take, which results they give).

    Carries that a program needs for the next run are among the results. None stands for unchanged programs.
    """
    results = slots.split_results(used)
    needed = [[group.role is Role.INDEX] * group.size for group in slots.operands]
    pruned: list[Jaxpr] = []
    is_settled = False
    while not is_settled:
        is_settled, pruned = True, []
        for slot in slots.programs:
            mask = None if slot.is_predicate else [u for g in slot.gives for u in results[g]]
            jaxpr, inputs = remove_dead_equations(slot.program.jaxpr, mask)
            pruned.append(jaxpr)
            for group, flags in slots.taken(slot, inputs).items():
                needed[group] = [a or b for a, b in strict_zip(needed[group], flags)]
        for i, j in slots.carries:
            carried = [a or b for a, b in strict_zip(results[j], needed[i])]
            is_settled = is_settled and carried == results[j]
            results[j] = needed[i] = carried
    used_operands, used_results = [*chain(*needed)], [*chain(*results)]
    originals = [slot.program.jaxpr for slot in slots.programs]
    is_same = [a.equations == b.equations for a, b in strict_zip(pruned, originals)]
    if all(used_operands) and all(used_results) and all(is_same):
        return None, used_operands, used_results
    programs = [
        ClosedJaxpr(jaxpr.replace(invars=list(compress(full.invars, slots.gathered(slot, needed)))))
        for slot, jaxpr, full in strict_zip(slots.programs, pruned, originals)
    ]
    return programs, used_operands, used_results


# Equations with other programs ------------------------------------------------------------------------------


def bind_programs(
    primitive: Structured[P],
    params: P,
    slots: Slots,
    groups: Sequence[Operands],
    programs: Sequence[ClosedJaxpr],
    consts: Sequence[Operands],
) -> Results:
    """Results of an equation with `programs` in the slots, and the operands `groups`.

    The first inputs of each program are its `consts`, which become operands in front of the first group it takes.
    """
    new_groups, new_programs = [*groups], [*programs]
    for home in {slot.takes[0] for slot in slots.programs}:
        here = [i for i, slot in enumerate(slots.programs) if slot.takes[0] == home]
        shared, values = with_common_consts([programs[i] for i in here], [consts[i] for i in here])
        new_groups[home] = [*values, *groups[home]]
        for i, program in strict_zip(here, shared):
            new_programs[i] = program
    new = slots._replace(
        operands=tuple(
            [Group(g.role, len(xs)) for g, xs in strict_zip(slots.operands, new_groups)]
        ),
        programs=tuple(
            [s._replace(program=p) for s, p in strict_zip(slots.programs, new_programs)]
        ),
    )
    return bind(primitive, *chain(*new_groups), params=primitive.with_slots(params, new))


def with_common_consts(
    programs: Sequence[ClosedJaxpr], consts: Sequence[Operands]
) -> tuple[tuple[ClosedJaxpr, ...], Values]:
    """Programs that take all `consts`, equal objects once, in front of their common inputs; and these constants.

    The first inputs of each program are its own constants.
    """
    values = {id(x): x for group in consts for x in group}
    positions = {key: i for i, key in enumerate(values)}
    avals = [type_of(x) for x in values.values()]
    return tuple(
        [
            with_common_inputs(program, [positions[id(x)] for x in group], avals)
            for program, group in strict_zip(programs, consts)
        ]
    ), [*values.values()]


def with_common_inputs(program: ClosedJaxpr, positions: Sequence[int], avals: Avals) -> ClosedJaxpr:
    """The program with inputs of types `avals` in front, of which its first inputs are those at `positions`."""
    front: Values = [*avals]
    for i, position in enumerate(positions):
        front[position] = i
    return rearranged(program, [*front, *range(len(positions), len(program.jaxpr.invars))])
