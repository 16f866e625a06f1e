"""Rules of higher-order primitives that follow from their slots."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress
from typing import Any, TypeAlias

from pellucid._machine.base import (
    EffectsError,
    Ints,
    strict_zip,
)
from pellucid._machine.ir import (
    CONTROL,
    Avals,
    ClosedJaxpr,
    Effects,
    HigherOrderPrimitive,
    Jaxpr,
    Mask,
    Masked,
    OnReferences,
    Operands,
    P,
    Primitive,
    Results,
    Role,
    Slot,
    SlotGroup,
    Slots,
    StateEffect,
    Values,
    rearrange_program,
    remove_dead_equations,
)
from pellucid._machine.tracing import (
    ReferenceCell,
    bind,
    discharge_program,
    on_values,
    read_cells,
    type_of,
)
from pellucid._machine.transforms import (
    ARRAY,
    DEAD,
    LIVE,
    ZERO,
    D,
    Derived,
    Fixed,
    Kind,
    Liveness,
    array_of,
    as_mask,
    batch_flat,
    cache_on_program,
    is_maskable,
    kind_of_live,
    known_array,
    live_of_kind,
    masked_jaxpr,
    split_tangents,
)


class Structured(Masked, OnReferences, HigherOrderPrimitive[P]):
    """A primitive that declares `slots` and the inverse, `with_slots`.

    The inputs of each program begin with a group of constants.
    """

    traits = CONTROL

    def slots(self, params) -> Slots:
        raise self.missing("slots")

    def split_at(self, params: P, split: Callable[[Jaxpr], Any]) -> Any:
        """The split of an equation at values within its programs, for `checkpoint`; None if there are none, or no way to split.

        `split` gives a program with its calls inlined as it runs forward and as it is recomputed, and the variables of the
        first that are saved, each with how. Returns the params of the equation with these values as further last results,
        those of the equation that takes them as further last operands and computes the rest, and (type, how) of each.
        """
        return None

    def scope(self, params: P) -> contextlib.AbstractContextManager[None]:
        """The context in which programs that are derived from those of `params` are traced."""
        return contextlib.nullcontext()

    def selected(self, params: P, operands: Mask, results: Mask) -> P:
        """`params` without the entries that they have for operands and results that aren't marked."""
        return params

    def discharge(self, operands, params):
        # References written by a loop become leading carries; those written by a branch become additional results.
        slots = self.slots(params)
        # Operands by group (consts, carry, xs, …); `inputs` has, for each program, its inputs among them.
        groups = slots.split(operands)
        inputs = [slots.gather_inputs(slot, groups) for slot in slots.programs]
        with self.scope(params):
            bodies = [
                discharge_program(slot.program.jaxpr, values)
                for slot, values in strict_zip(slots.programs, inputs)
            ]
        # Cells that some program writes, each once, in the order of operands; `ids` are their identities.
        ids = {id(x[i]) for body, x in strict_zip(bodies, inputs) for i in body.written}
        cells: list[ReferenceCell] = [*{id(x): x for x in operands if id(x) in ids}.values()]
        # Key of an input: the id of a written cell, or minus the index of another operand.
        keys = slots.split([id(x) if id(x) in ids else -i for i, x in enumerate(operands)])
        # Operand for each key: for a cell, its content.
        values = dict(strict_zip(chain(*keys), read_cells(operands)))
        # Before: written cells where operands had them. After, in a loop: before the carry, and nowhere else.
        new_keys = keys
        for carry, _ in slots.carries:
            new_keys = [[k for k in group if k not in ids] for group in keys]
            new_keys[carry] = [*map(id, cells), *keys[carry]]
        opened = []
        for slot, body in strict_zip(slots.programs, bodies):
            if body.written and slot.is_predicate:
                raise EffectsError(
                    "the condition of a while_loop can't write to a reference.",
                    got=", ".join(slot.program.in_avals[i].text() for i in body.written),
                    do="Write to it in the body.",
                )
            # `body.program` takes (`n` constants, its inputs), returns (`m` results, final contents of cells that it
            # wrote).
            own_keys, n = slots.gather_inputs(slot, keys), len(body.consts)
            # Input for each key; `finals` maps the key of a cell that it wrote to the result with the final content.
            positions = {key: n + i for i, key in enumerate(own_keys)}
            m = len(body.program.out_avals) - len(body.written)
            finals = {own_keys[i]: m + j for j, i in enumerate(body.written)}
            written = [] if slot.is_predicate else map(id, cells)
            program = rearrange_program(
                body.program,
                [
                    *range(n),
                    *(
                        positions[k] if k in positions else type_of(values[k])
                        # A type is a placeholder for an input that only other programs use.
                        for k in slots.gather_inputs(slot, new_keys)
                    ),
                ],
                # Results after: each cell's final content (`~`: its input, if not written here), then its own.
                [*(finals[k] if k in finals else ~positions[k] for k in written), *range(m)],
            )
            opened.append((program, body.consts))
        new_groups = [[values[k] for k in group] for group in new_keys]
        results = bind_programs(self, params, slots, new_groups, opened)
        # `results` start with one value per cell.
        for cell, value in zip(cells, results, strict=False):
            cell.value = value
        return results[len(cells) :]

    def masked(self, operands, lives, params):
        slots = self.slots(params)
        lives = [live if is_maskable(x) else None for x, live in strict_zip(operands, lives)]
        groups, group_lives = slots.split(operands), slots.split(lives)
        programs, kinds, result_kinds = _masked_programs(slots, group_lives)
        # Each group of operands is followed by the liveness arrays of those that have one.
        for i, (group, own) in enumerate(strict_zip(groups, kinds)):
            arrays = [
                array_of(live, x)
                for x, live, kind in strict_zip(group, group_lives[i], own)
                if kind == ARRAY
            ]
            groups[i] = [*group, *arrays]
        new = slots._replace(
            operands=_resize_groups(slots.operands, map(len, groups)),
            results=_resize_groups(slots.results, [len(k) + k.count(ARRAY) for k in result_kinds]),
        )
        results = bind_programs(self, params, new, groups, programs)
        # Results by group: those of the equation, then the liveness arrays of those that have one.
        values: Values = []
        out_lives: list[Any] = []
        for part, own in strict_zip(new.split_results(results), result_kinds):
            arrays = iter(part[len(own) :])
            values += part[: len(own)]
            out_lives += [known_array(next(arrays)) if k == ARRAY else live_of_kind(k) for k in own]
        return values, out_lives

    def dead_code(self, used, equation):
        slots = self.slots(equation.params)
        first, *others = [slot.program.jaxpr for slot in slots.programs]
        # Masks of operands and results of the equation; `programs` is None if nothing is removed.
        key = ("dead code", tuple(used), slots.operands, tuple(others))
        programs, used_operands, used_results = first.remembered(key, lambda: _prune(slots, used))
        if programs is None:
            return used_operands, equation
        if not any(used) and not any(program.effects for program in programs):
            return used_operands, None
        pruned = slots._replace(
            operands=_resize_groups(slots.operands, map(sum, slots.split(used_operands))),
            results=_resize_groups(slots.results, map(sum, slots.split_results(used_results))),
            programs=_with_programs(slots, programs),
        )
        return used_operands, equation.replace(
            operands=list(compress(equation.operands, used_operands)),
            results=list(compress(equation.results, used_results)),
            params=self.with_slots(
                self.selected(equation.params, used_operands, used_results), pruned
            ),
        )


def batch_on_values(
    primitive: Structured[P], axis: Any, operands: Operands, dims: Sequence[Any], params: P
) -> tuple[Values, list[Any]]:
    """(results, batch axes) of an equation on references whose batch elements diverge.

    It is converted to an equation on values, so that contents are selected like results.
    """
    one = lambda *elements: on_values(primitive, elements, params, operands)
    return batch_flat(one, axis, operands, dims)


def uses_state(effects: Effects) -> bool:
    """Whether `effects` include uses of references."""
    return any(isinstance(effect, StateEffect) for effect in effects)


def _resize_groups(groups: Sequence[SlotGroup], sizes: Iterable[int]) -> tuple[SlotGroup, ...]:
    """`groups` with other sizes."""
    return tuple([group._replace(size=n) for group, n in strict_zip(groups, sizes)])


def _with_programs(slots: Slots, programs: Iterable[ClosedJaxpr]) -> tuple[Slot, ...]:
    """The slots with other programs."""
    return tuple([s._replace(program=p) for s, p in strict_zip(slots.programs, programs)])


def _prune(slots: Slots, used: Mask) -> tuple[list[ClosedJaxpr] | None, list[bool], list[bool]]:
    """(programs that compute the `used` results, mask of remaining operands, mask of remaining results).

    Results include carries that a program needs for the next run. None if the programs are unchanged.
    """
    results = slots.split_results(used)
    # Flags by group, of operands and of results. The index of a cond is always needed.
    needed = [[group.role is Role.INDEX] * group.size for group in slots.operands]
    pruned: list[Jaxpr] = []
    is_settled = False
    # A carry used by a program must be computed by the previous run, which may need more operands: repeat.
    while not is_settled:
        is_settled, pruned = True, []
        for slot in slots.programs:
            # Mask of the results that this program must compute; None for all.
            mask = None if slot.is_predicate else [u for g in slot.gives for u in results[g]]
            jaxpr, inputs = remove_dead_equations(slot.program.jaxpr, mask)
            pruned.append(jaxpr)
            for group, flags in slots.group_inputs(slot, inputs).items():
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
        # An input stays if any program needs it: they take the same groups of operands.
        ClosedJaxpr(
            jaxpr.replace(invars=list(compress(full.invars, slots.gather_inputs(slot, needed))))
        )
        for slot, jaxpr, full in strict_zip(slots.programs, pruned, originals)
    ]
    return programs, used_operands, used_results


def _masked_programs(
    slots: Slots, lives: Sequence[Sequence[Liveness]]
) -> tuple[list[Opened], list[list[Kind]], list[list[Kind]]]:
    """(programs with masks, liveness of the operands of each group, liveness of the results of each group).

    A carry must have the same liveness before and after each run, so the programs are derived until it is stable.
    """
    kinds = [
        _kinds_in(group.role, map(kind_of_live, own))
        for group, own in strict_zip(slots.operands, lives)
    ]
    choosing = slots.choosing
    for i in choosing:
        kinds[i] = [None] * len(kinds[i])
    firsts = [*kinds]
    while True:
        # For each result group, the liveness of each result in each program, before they are combined.
        found: list[list[list[Kind]]] = [[] for _ in slots.results]
        for slot in slots.programs:
            if not slot.is_predicate:
                jaxpr, inputs = slot.program.jaxpr, slots.gather_inputs(slot, kinds)
                mask = masked_jaxpr(jaxpr, inputs, [False] * len(jaxpr.outvars)).mask
                for group, own in slots.group_results(slot, mask):
                    found[group].append(own)
        result_kinds = [
            _kinds_in(group.role, map(_common_kind, strict_zip(*columns)))
            for group, columns in strict_zip(slots.results, found)
        ]
        is_settled = True
        for i, j in slots.carries:
            carried = [*map(_carried_kind, firsts[i], kinds[i], result_kinds[j])]
            is_settled = is_settled and carried == kinds[i]
            kinds[i] = result_kinds[j] = carried
        if is_settled:
            break
    opened: list[Opened] = []
    for slot in slots.programs:
        inputs = slots.gather_inputs(slot, kinds)
        avals = slot.program.in_avals
        if slot.is_predicate:
            program, consts = slot.program, []
            extra = {i: as_mask(avals[i]) for i, kind in enumerate(inputs) if kind == ARRAY}
            order: list[Any] = _behind_groups(slots, slot.takes, kinds, extra)
            opened.append((rearrange_program(program, order), consts))
            continue
        asked = [kind == ARRAY for j in slot.gives for kind in result_kinds[j]]
        program, consts, mask = masked_jaxpr(slot.program.jaxpr, inputs, asked)
        n, n_in, n_out = len(consts), len(inputs), len(mask)
        # Inputs before: consts, inputs, arrays. After: consts, then for each group its inputs, and their arrays.
        places = iter(range(n + n_in, n + n_in + inputs.count(ARRAY)))
        extra = {i: next(places) for i, kind in enumerate(inputs) if kind == ARRAY}
        order = _behind_groups(slots, slot.takes, kinds, extra, n)
        # Results before: results, all arrays marked by the mask. After: by group, with arrays at the end.
        places = iter(range(n_out, n_out + mask.count(ARRAY)))
        arrays = {i: next(places) for i, kind in enumerate(mask) if kind == ARRAY}
        results = _behind_groups(slots, slot.gives, result_kinds, arrays)
        opened.append((rearrange_program(program, [*range(n), *order], results), consts))
    return opened, kinds, result_kinds


def _behind_groups(
    slots: Slots,
    groups: Ints,
    kinds: Sequence[Sequence[Kind]],
    places: dict[int, Any],
    first: int = 0,
) -> list[Any]:
    """An order for `rearrange_program` that puts behind the values of each group their liveness arrays.

    The values of all `groups` are numbered through, from `first` on; `places` has the index of each value's array.
    """
    order: list[Any] = []
    at = 0
    for group in groups:
        here = range(at, at + len(kinds[group]))
        order += [first + i for i in here]
        order += [places[i] for i, kind in strict_zip(here, kinds[group]) if kind == ARRAY]
        at += len(kinds[group])
    return order


def _kinds_in(role: Role, kinds: Iterable[Kind]) -> list[Kind]:
    """`kinds` of a group. What differs between runs has an array, which is taken apart as the values are."""
    if role in (Role.CONSTANT, Role.RESULT):
        return [*kinds]
    return [ARRAY if isinstance(kind, Fixed) else kind for kind in kinds]


def _common_kind(kinds: Sequence[Kind]) -> Kind:
    """Common liveness of a result returned by several programs."""
    distinct = {*kinds}
    if len(distinct) == 1:
        return kinds[0]
    if distinct == {None, ZERO}:
        return None
    return DEAD if distinct == {DEAD, ZERO} else LIVE if distinct == {LIVE, None} else ARRAY


def _carried_kind(first: Kind, before: Kind, after: Kind) -> Kind:
    """Liveness of a carry with initial liveness `first`, if a run that starts with `before` returns `after`."""
    if before is after or before == ARRAY:
        return before
    if before is None and first is ZERO:
        # A sum whose first terms, products of other carries, were none of cotangents yet.
        return None if after is ZERO else ARRAY
    if before is ZERO:
        return after if after is None or after is DEAD else ARRAY
    if before is DEAD:
        return DEAD if after is ZERO else ARRAY
    return None if before is None and after is ZERO else LIVE


def bind_programs(
    primitive: Structured[P],
    params: P,
    slots: Slots,
    groups: Sequence[Operands],
    opened: Sequence[Opened],
) -> Results:
    """Binds an equation with the programs `opened` in the slots, and the operands `groups`; returns its results.

    The constants of a program become leading operands of the first group that it takes.
    """
    new_groups, programs = [*groups], [program for program, *_ in opened]
    # Programs that take the same first group, such as branches, share their constants.
    for home in {slot.takes[0] for slot in slots.programs}:
        here = [i for i, slot in enumerate(slots.programs) if slot.takes[0] == home]
        shared, values = with_common_consts([opened[i] for i in here])
        new_groups[home] = [*values, *groups[home]]
        for i, program in strict_zip(here, shared):
            programs[i] = program
    new = slots._replace(
        operands=_resize_groups(slots.operands, map(len, new_groups)),
        programs=_with_programs(slots, programs),
    )
    return bind(primitive, *chain(*new_groups), params=primitive.with_slots(params, new))


Opened: TypeAlias = tuple[Any, ...]
"""A program without constants, the values for its leading inputs (its former constants), and possibly more: a
`Derived`, a `Body`, or the result of `stage_open`.
"""


def with_common_consts(opened: Sequence[Opened]) -> tuple[tuple[ClosedJaxpr, ...], Values]:
    """(programs with all their constants, without duplicates, as common leading inputs; these constants)."""
    # Each object once, in order of first use, with its index among the leading inputs.
    values = {id(x): x for _, consts, *_ in opened for x in consts}
    positions = {key: i for i, key in enumerate(values)}
    avals = [type_of(x) for x in values.values()]
    return tuple(
        [
            with_common_inputs(program, [positions[id(x)] for x in consts], avals)
            for program, consts, *_ in opened
        ]
    ), [*values.values()]


def with_common_inputs(program: ClosedJaxpr, positions: Ints, avals: Avals) -> ClosedJaxpr:
    """The program with leading inputs of types `avals`, whose own first inputs are those at `positions`."""
    # Inputs before: own first inputs, rest. After: all of `avals` (a type if the program has no such input), rest.
    front: Values = [*avals]
    for i, position in enumerate(positions):
        front[position] = i
    return rearrange_program(program, [*front, *range(len(positions), len(program.jaxpr.invars))])


def marks(derived: Any) -> list[bool]:
    """For each result of a derived program, whether it has a tangent, a cotangent or a batch axis."""
    mask = derived.mask if type(derived) is Derived else derived.nonzero_out
    return [m is not None and m is not False for m in mask]  # a batch axis may be 0


def remembered_on_program(derive: Callable[..., D]) -> Callable[..., D]:
    """Decorator for a function of params and more: caches its result on the program of the params."""

    @functools.wraps(derive)
    def find_or_derive(params: Any, *facts: Any) -> D:
        key = (derive.__name__.replace("_", " "), params._replace(jaxpr=None), *facts)
        return cache_on_program(params.jaxpr.jaxpr, key, lambda: derive(params, *facts))

    return find_or_derive


def with_settled_carry(
    derive: Callable[[list[bool]], D], carried: list[bool]
) -> tuple[D, list[bool]]:
    """(`derive(mask)`, mask) for the first mask of carries, starting with `carried`, that a step preserves."""
    while True:
        derived = derive(carried)
        # A program returns at least the marks of the carries that it takes, so the mask only grows.
        returned = marks(derived)[: len(carried)]
        if returned == carried:
            return derived, returned
        carried = returned


def with_linear_part(
    trace: Any, primitive: Primitive[P], results: Values, mask: Mask, operands: Operands, params: P
) -> tuple[Values, Values]:
    """(results, tangents): an equation of the linear program computes the tangents marked by `mask`, if there are any.

    `results` may be followed by residuals.
    """
    tangents: Results = ()
    if any(mask) or primitive.effects((), params):
        tangents = trace.stage_linear(primitive, operands, params)
    return split_tangents([*results[: len(mask)], *tangents], mask)


def insert_forwarded_results(
    results: Results, forwarded: Sequence[int | None], operands: Operands
) -> Values:
    """All results of a program, given those that are not inputs: `forwarded` has the operand index of each, or None."""
    rest = iter(results)
    return [next(rest) if i is None else operands[i] for i in forwarded]
