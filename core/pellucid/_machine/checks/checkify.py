"""`checkify`: rewrites programs, equation by equation, so that they return their first failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np

from pellucid._machine.base import ArgumentTypeError, Function
from pellucid._machine.higher_order.calls import ClosedCallParams, Defined, closed_call_p
from pellucid._machine.higher_order.custom_rules import CustomCall
from pellucid._machine.higher_order.structured import Structured, bind_programs
from pellucid._machine.ir import (
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    DebugInfo,
    Equation,
    Jaxpr,
    Lineage,
    Literal,
    Operands,
    Results,
    Slot,
    Values,
    constants_as_inputs,
    rearrange_program,
    uses_references,
)
from pellucid._machine.primitives.arithmetic import neg
from pellucid._machine.primitives.logical import ne, select_n
from pellucid._machine.primitives.movement import broadcast
from pellucid._machine.primitives.reduction import argmax
from pellucid._machine.primitives.reshard import reshard
from pellucid._machine.primitives.slicing import dynamic_index_in_dim
from pellucid._machine.refs.access import get, set as write
from pellucid._machine.sharding import NamedSharding, PartitionSpec
from pellucid._machine.tracing import (
    bind,
    context,
    discharge_program,
    is_array_like,
    is_reference,
    name_of,
    replay,
    source_of,
    stage,
    type_of,
    use_facts,
)
from pellucid._machine.transforms import (
    argument_paths,
    batch_flat,
    cache_on_program,
    check_callable,
    result_leaves,
    stage_open,
    wraps,
)
from pellucid._machine.xla.pytree import flatten

from .automatic import check_equation
from .check import Check, CheckParams
from .errors import CheckedCall, Error, ErrorCategory, JaxException, error_of, user_checks
from .guard import Guard, guard_p
from .notes import NONE, Checked, CheckSite, FailureNotes, first, nothing
from .watch import Conditions, Watch

Errors = frozenset[ErrorCategory | type[Guard] | Watch | Conditions]
_GUARDS: Errors = frozenset({Guard})
"""Selects failures of guards, in any category."""
_PYTHON_NUMBERS = (bool, int, float, complex)


def checkify(f: Function, errors: Iterable[ErrorCategory] = user_checks) -> Function:
    """Transforms `f` into a function that returns (error, result): the first failure of its checks, or none, as a value.

    `errors` chooses the checks: `user_checks` (the calls of `check`), `nan_checks`, `div_checks`, `index_checks`, or
    unions of them (`float_checks`, `automatic_checks`, `all_checks`). A program continues after a failure. Checks in loops,
    branches, jitted, batched and mapped functions count, and `checkify` can be jitted and batched itself. Arguments that
    aren't arrays, Python numbers among them, stay what they are.

    Raises: ArgumentTypeError for categories that don't exist.

    >>> def f(x):
    ...     check(x > 0, "{} is not positive", x)
    ...     return x
    >>> from pellucid import jit
    >>> from pellucid._machine.checks.check import check
    >>> error, y = jit(checkify(f))(-1.0)
    >>> print(error.get().splitlines()[0])
    -1.0 is not positive (`check` failed)
    """
    check_callable(f, "checkify")
    categories = frozenset(errors)
    unknown = [e for e in categories if not (isinstance(e, type) and issubclass(e, JaxException))]
    if unknown:
        raise ArgumentTypeError(
            "checkify: errors must be categories of errors.",
            got=f"got {unknown[0]!r}",
            do="Use sets like `checkify.user_checks | checkify.nan_checks`.",
        )

    @wraps(f, "Checked form")
    def checked_function(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, tree = flatten((args, kwargs))
        is_array = [is_array_like(x) and type(x) not in _PYTHON_NUMBERS for x in leaves]
        arrays = list(compress(leaves, is_array))
        trees: list[Any] = []

        def flat(*traced: Any) -> Values:
            rest = iter(traced)
            filled = [next(rest) if a else x for x, a in zip(leaves, is_array, strict=True)]
            inner_args, inner_kwargs = tree.unflatten(filled)
            results, out_tree = result_leaves(f(*inner_args, **inner_kwargs), "checkify", f)
            trees.append(out_tree)
            return results

        names = tuple(compress(argument_paths(f, args, kwargs), is_array))
        debug = DebugInfo("checkify", source_of(f), names)
        jaxpr, consts = stage(flat, [type_of(x) for x in arrays], debug)
        jaxpr, operands = constants_as_inputs(jaxpr), [*consts, *arrays]
        error, results = _checked_results(jaxpr, operands, categories)
        if context.trace.is_eager and not uses_references(jaxpr):
            error.call = CheckedCall(name_of(f), ClosedJaxpr(jaxpr), operands, categories)
        return error, trees[0].unflatten(results)

    return checked_function


def _checked_results(jaxpr: Jaxpr, operands: Operands, errors: Errors) -> tuple[Error, Values]:
    """(error, results) of `jaxpr`, which has no constants. Its writes to references take effect."""
    on_values = discharge_program(jaxpr) if uses_references(jaxpr) else None
    program = jaxpr if on_values is None else on_values.program.jaxpr
    more_consts = [] if on_values is None else on_values.consts
    checked = checked_program(program, errors)
    values = [get(x) if is_reference(x) else x for x in operands]
    inputs = (*checked.consts, *more_consts, *values)
    if context.trace.is_eager:
        results = bind(closed_call_p, *inputs, params=ClosedCallParams(checked.program))
    else:
        results = replay(checked.program.jaxpr, (), *inputs)
    (code, *payload), results = results[: checked.n_notes], results[checked.n_notes :]
    error = error_of(code, payload, checked.sites)
    if on_values is None:
        return error, results
    n_results = len(results) - len(on_values.written)
    for position, value in zip(on_values.written, results[n_results:], strict=True):
        write(operands[position], ..., value)
    return error, results[:n_results]


def checked_program(jaxpr: Jaxpr, errors: Errors) -> Checked:
    """The rewritten program of `jaxpr`, which has no constants; it returns notes, then the results; cached."""
    return cache_on_program(jaxpr, ("checked", errors), lambda: _checked_program(jaxpr, errors))


def _checked_program(jaxpr: Jaxpr, errors: Errors) -> Checked:
    sites: list[CheckSite] = []

    def run(*operands: Any) -> Values:
        notes = FailureNotes()
        results = _run(notes, jaxpr, operands, errors)
        sites.extend(notes.sites)
        return [*notes.results(), *results]

    program, consts = stage_open(run, jaxpr.in_avals, jaxpr.debug)
    return Checked(program, consts, tuple(sites))


def _run(notes: FailureNotes, jaxpr: Jaxpr, operands: Operands, errors: Errors) -> Values:
    values: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
    conditions = [each for each in errors if isinstance(each, Conditions)]
    passed_by = {each: each.passes_by(jaxpr) for each in errors if isinstance(each, Watch)}
    with use_facts() as facts:
        for equation in jaxpr.equations:
            facts.enter(equation, Lineage("checkify", (equation,)))
            for each in conditions:
                each.check(notes, equation, values)
            inputs = [a.val if type(a) is Literal else values[a] for a in equation.operands]
            categories = errors - {each for each, them in passed_by.items() if equation in them}
            results = _results(notes, equation, inputs, categories)
            values.update(zip(equation.results, results, strict=True))
    return [a.val if type(a) is Literal else values[a] for a in jaxpr.outvars]


def _results(
    notes: FailureNotes, equation: Equation, operands: Operands, errors: Errors
) -> Results:
    """Results of an equation; records its failures."""
    primitive, params = equation.primitive, equation.params
    if isinstance(primitive, Check):
        if type(primitive) in errors or any(site.category in errors for site in params.sites):
            notes.merge(params.sites, operands)
        elif primitive is guard_p:
            bind(guard_p, *operands, params=params)
        return []
    if isinstance(primitive, Defined):
        primitive, params = primitive.definition, params.as_call()
    if isinstance(primitive, CustomCall):
        return _custom_call(notes, primitive, params, operands, errors)
    if isinstance(primitive, Structured):
        return _check_structured(notes, primitive, params, operands, errors)
    results = bind(primitive, *operands, params=params)
    check_equation(notes, equation, operands, results, errors)
    return results


def _custom_call(
    notes: FailureNotes, primitive: CustomCall[Any], params: Any, operands: Operands, errors: Errors
) -> Results:
    """Keeps the call with its user's rules, without checks, and computes failures separately."""
    slots = primitive.slots(params)
    jaxpr = slots.programs[0].program.jaxpr
    body = checked_program(jaxpr, errors)
    if body.sites:
        results = replay(body.program.jaxpr, (), *body.consts, *operands)
        notes.merge(body.sites, results[: body.n_notes])
    # The same program without its notes, and so without guards that became notes.
    ends = range(body.n_notes, len(body.program.jaxpr.outvars))
    program = rearrange_program(body.program, range(len(body.program.jaxpr.invars)), ends)
    return bind_programs(primitive, params, slots, [operands], [(program, body.consts)])


def _check_structured(
    notes: FailureNotes, primitive: Structured[Any], params: Any, operands: Operands, errors: Errors
) -> Results:
    """The inner programs return notes before their results: a branch directly, a loop as part of its carry.

    A predicate's failures are recorded before the loop for the first run, and in each run for the next one.
    """
    slots = primitive.slots(params)
    groups = slots.split(operands)
    with primitive.scope(params):
        bodies = [checked_program(slot.program.jaxpr, errors) for slot in slots.programs]
    if slots.by_position:
        return _gather_notes(notes, primitive, params, operands, *bodies)
    if len(bodies) == 1 and not slots.carries:
        [body] = bodies
        results = bind_programs(primitive, params, slots, groups, bodies)
        notes.merge(body.sites, results[: body.n_notes])
        return results[body.n_notes :]
    # Bodies in the order of their failures among all notes: predicates last.
    order = sorted(range(len(bodies)), key=lambda i: slots.programs[i].is_predicate)
    sites = [site for i in order for site in bodies[i].sites]
    n = len(nothing(sites)) if sites else 0

    def run(i: int, inputs: Operands) -> Values:
        return replay(bodies[i].program.jaxpr, (), *bodies[i].consts, *inputs)

    def failure_notes(i: int, results: Results, next_groups: Sequence[Operands]) -> Values:
        """The failure notes of program `i`, including those of predicates on the operands of its next run."""
        if not sites:
            return []
        merged = FailureNotes()
        for j in order:
            slot, body = slots.programs[j], bodies[j]
            if slot.is_predicate and body.sites:
                results = run(j, slots.gather_inputs(slot, next_groups))
            if i == j or slot.is_predicate:
                merged.merge(body.sites, results[: body.n_notes])
            else:
                merged.skip(body.sites)
        return merged.results()

    # Notes are put in front: `n` of them before the carry, or before the first results where nothing is carried.
    new_groups, result_groups = [*groups], [*slots.results]
    if slots.carries:
        [(carry, _)] = slots.carries
        new_groups[carry] = [*failure_notes(-1, (), groups), *groups[carry]]
    result_groups[0] = result_groups[0]._replace(size=result_groups[0].size + n)
    new_slots = slots._replace(
        operands=tuple(
            [g._replace(size=len(xs)) for g, xs in zip(slots.operands, new_groups, strict=True)]
        ),
        results=tuple(result_groups),
    )
    opened = []
    for i, slot in enumerate(slots.programs):

        def step(*values: Any, i: int = i, slot: Slot = slot) -> Values:
            inputs, next_groups, previous = new_slots.group_inputs(slot, values), [*groups], []
            for carry, _ in slots.carries:
                # The carry is notes of earlier runs, then the program's own.
                previous, inputs[carry] = inputs[carry][:n], inputs[carry][n:]
            # Results are the notes of this run, then the program's own.
            results = run(i, slots.gather_inputs(slot, inputs))
            outputs = results[bodies[i].n_notes :]
            if slot.is_predicate:
                return outputs
            if not slots.carries:
                return [*failure_notes(i, results, groups), *outputs]
            for (carry, _), (_, values_out) in zip(
                slots.carries, slots.group_results(slot, outputs), strict=False
            ):
                next_groups[carry] = values_out
            return [*first(previous, failure_notes(i, results, next_groups)), *outputs]

        avals = slots.group_inputs(slot, slot.program.in_avals)
        for carry, _ in slots.carries:
            avals[carry] = [*map(type_of, new_groups[carry][:n]), *avals[carry]]
        opened.append(stage_open(step, [*chain(*avals.values())], slot.program.jaxpr.debug))
    results = bind_programs(primitive, params, new_slots, new_groups, opened)
    notes.merge(sites, results[:n])
    return results[n:]


def batched_guards(
    primitive: Structured[Any],
    axis: BatchAxis,
    operands: Operands,
    dims: Sequence[BatchDim],
    params: Any,
) -> tuple[Values, list[BatchDim]]:
    """(results, batch axes) of a branch or loop with guards whose batch elements go different ways.

    What fails within is a value of each element, chosen like its results; a guard behind it raises that of the first one.
    """

    def one(*elements: Any) -> Values:
        notes = FailureNotes()
        results = _check_structured(notes, primitive, params, elements, _GUARDS)
        bind(guard_p, *notes.results(), params=CheckParams(False, tuple(notes.sites)))
        return [*results]

    return batch_flat(one, axis, operands, dims)


def _gather_notes(
    notes: FailureNotes, primitive: Structured[Any], params: Any, operands: Operands, body: Checked
) -> Results:
    """Notes of all positions along mesh axes are gathered; the first failure at the first site counts."""
    n = body.n_notes if body.sites else 0

    def run(*parts: Any) -> Values:
        results = replay(body.program.jaxpr, (), *parts)
        # Results before: notes, results. After: a row of each note, if there are checks, then the results.
        return [*(broadcast(x, (1,)) for x in results[:n]), *results[body.n_notes :]]

    slots = primitive.slots(params)
    [slot] = slots.programs
    with primitive.scope(params):
        program, consts = stage_open(run, body.program.in_avals, slot.program.jaxpr.debug)
    opened = program, [*consts, *body.consts]
    results = bind_programs(primitive, params, slots, slots.split(operands), [opened])
    if n:
        codes, *values = map(_whole, results[:n])
        last = broadcast(np.int32(-len(body.sites) - 1), type_of(codes).shape)
        index = argmax(select_n(ne(codes, NONE), last, neg(codes)), 0, np.dtype(np.int32))
        chosen = [dynamic_index_in_dim(x, index, 0, False) for x in (codes, *values)]
        notes.merge(body.sites, chosen)
    return results[n:]


def _whole(x: Any) -> Any:
    """`x`, replicated on all devices if its type contains its sharding."""
    shown = type_of(x).shown_sharding
    return x if shown is None else reshard(x, NamedSharding(shown.mesh, PartitionSpec()))
