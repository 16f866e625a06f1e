"""`checkify`: a function that returns its failures; programs are rewritten equation by equation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pellucid.base.errors import ArgumentTypeError
from pellucid.checks.automatic import check_equation
from pellucid.checks.check import check_p
from pellucid.checks.errors import Error, ErrorCategory, JaxException, error_of, user_checks
from pellucid.checks.found import NONE, Checked, Found, Site, first, nothing
from pellucid.higher_order.calls import Call, ClosedCallParams, closed_call_p
from pellucid.higher_order.cond import cond_p, with_common_consts
from pellucid.higher_order.custom_jvp import CustomCall
from pellucid.higher_order.jit import Defined, jit_p
from pellucid.higher_order.scan import scan_p
from pellucid.higher_order.while_loop import WhileParams, while_p
from pellucid.ir.jaxpr import DebugInfo, Equation, Jaxpr, Lineage, Literal, uses_references
from pellucid.ir.rewriting import constants_as_inputs, rearranged
from pellucid.ir.rules import Operands, Results
from pellucid.parallel.local_types import REPLICATED
from pellucid.parallel.manual import shard_map_p
from pellucid.primitives.arithmetic import neg
from pellucid.primitives.broadcasting import broadcast
from pellucid.primitives.logical import ne, select_n
from pellucid.primitives.reduction import argmax
from pellucid.primitives.reshard import reshard
from pellucid.primitives.slicing import dynamic_index_in_dim
from pellucid.refs.access import get, set as write
from pellucid.sharding.named_sharding import NamedSharding
from pellucid.sharding.partition_spec import PartitionSpec
from pellucid.tracing.context import context
from pellucid.tracing.discharge import discharged, is_reference
from pellucid.tracing.function import name_of
from pellucid.tracing.replay import joined_scope, replay
from pellucid.tracing.staging import stage
from pellucid.tracing.trace import bind
from pellucid.tracing.values import is_array_like, type_of
from pellucid.transforms.arguments import argument_paths, check_callable, result_leaves, wraps
from pellucid.transforms.derived import remembered, stage_open
from pellucid.xla.pytree import flatten

Errors = frozenset[ErrorCategory]
_PYTHON_NUMBERS = (bool, int, float, complex)


def checkify(
    f: Callable[..., Any], errors: Iterable[ErrorCategory] = user_checks
) -> Callable[..., Any]:
    """`f`, which gives (error, result): the first failure of the checks in it, or none, as a value.

    `errors` says what is checked: `user_checks` (what `check` states), `nan_checks`, `div_checks`, `index_checks`, or
    unions of them (`float_checks`, `automatic_checks`, `all_checks`). After a failure the program goes on. Checks in loops,
    branches, jitted, batched and mapped functions count, and `checkify` can be jitted and batched itself. Arguments that
    are no arrays, Python numbers among them, stay what they are.

    Raises: ArgumentTypeError for categories that don't exist.

    >>> def f(x):
    ...     check(x > 0, "{} is not positive", x)
    ...     return x
    >>> from pellucid import jit
    >>> from pellucid.checks.check import check
    >>> error, y = jit(checkify(f))(-1.0)
    >>> print(error.get().splitlines()[0])
    -1.0 is not positive (`check` failed)
    """
    check_callable(f, "checkify")
    wanted = frozenset(errors)
    unknown = [e for e in wanted if not (isinstance(e, type) and issubclass(e, JaxException))]
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
        arrays = list(itertools.compress(leaves, is_array))
        trees: list[Any] = []

        def flat(*traced: Any) -> list[Any]:
            rest = iter(traced)
            given = [next(rest) if a else x for x, a in zip(leaves, is_array, strict=True)]
            inner_args, inner_kwargs = tree.unflatten(given)
            results, out_tree = result_leaves(f(*inner_args, **inner_kwargs), "checkify", f)
            trees.append(out_tree)
            return results

        names = lambda: tuple(itertools.compress(argument_paths(f, args, kwargs), is_array))
        debug = DebugInfo(name_of(f), names)
        jaxpr, consts = stage(flat, [type_of(x) for x in arrays], debug)
        error, results = _checked_results(constants_as_inputs(jaxpr), [*consts, *arrays], wanted)
        return error, trees[0].unflatten(results)

    return checked_function


def _checked_results(jaxpr: Jaxpr, operands: Operands, errors: Errors) -> tuple[Error, list[Any]]:
    """(error, results) of `jaxpr`, which has no constants. References hold afterwards what it writes to them."""
    on_values = discharged(jaxpr) if uses_references(jaxpr) else None
    program = jaxpr if on_values is None else on_values.program.jaxpr
    more = [] if on_values is None else on_values.consts
    checked = checked_program(program, errors)
    values = [get(x) if is_reference(x) else x for x in operands]
    given = (*checked.consts, *more, *values)
    if context.trace.is_eager:
        found = bind(closed_call_p, *given, params=ClosedCallParams(checked.program))
    else:
        found = replay(checked.program.jaxpr, (), *given)
    n = checked.n_found
    error, results = error_of(found[0], found[1:n], checked.sites), found[n:]
    if on_values is None:
        return error, results
    n_results = len(results) - len(on_values.written)
    for position, value in zip(on_values.written, results[n_results:], strict=True):
        write(operands[position], ..., value)
    return error, results[:n_results]


def checked_program(jaxpr: Jaxpr, errors: Errors) -> Checked:
    """`jaxpr`, which has no constants, as a program that gives what it found, then its results; made once."""
    return remembered(jaxpr, ("checked", errors), lambda: _checked_program(jaxpr, errors))


def _checked_program(jaxpr: Jaxpr, errors: Errors) -> Checked:
    sites: list[Site] = []

    def run(*operands: Any) -> list[Any]:
        found = Found()
        results = _run(found, jaxpr, operands, errors)
        sites.extend(found.sites)
        return [*found.results(), *results]

    program, consts = stage_open(run, jaxpr.in_avals, jaxpr.debug)
    return Checked(program, consts, tuple(sites))


def _run(found: Found, jaxpr: Jaxpr, operands: Operands, errors: Errors) -> list[Any]:
    values: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
    outer = context.scope, context.source, context.lineage
    try:
        for equation in jaxpr.equations:
            context.scope = joined_scope(outer[0], equation.scope)
            context.source = equation.source
            context.lineage = Lineage("checkify", (equation,))
            given = [a.val if type(a) is Literal else values[a] for a in equation.operands]
            results = _results(found, equation, given, errors)
            values.update(zip(equation.results, results, strict=True))
    finally:
        context.scope, context.source, context.lineage = outer
    return [a.val if type(a) is Literal else values[a] for a in jaxpr.outvars]


def _results(found: Found, equation: Equation, operands: Operands, errors: Errors) -> Results:
    """Results of an equation; what is found in it is noted."""
    primitive = equation.primitive
    if primitive is check_p:
        _note_check(found, operands, equation.params, errors)
        return []
    rule = _RULES.get(primitive)
    if rule is not None:
        return rule(found, equation.params, operands, errors)
    if isinstance(primitive, CustomCall):
        return _custom_call(found, primitive, equation.params, operands, errors)
    if isinstance(primitive, Call):
        return _call(found, primitive, equation.params, operands, errors)
    results = bind(primitive, *operands, params=equation.params)
    check_equation(found, equation, operands, results, errors)
    return results


def _note_check(found: Found, operands: Operands, params: Any, errors: Errors) -> None:
    if any(site.category in errors for site in params.sites):
        found.merge(params.sites, operands)


def _call(found: Found, primitive: Any, params: Any, operands: Operands, errors: Errors) -> Results:
    if isinstance(primitive, Defined):
        primitive, params = jit_p, params.as_call()
    body = checked_program(params.jaxpr.jaxpr, errors)
    results = bind(primitive, *body.consts, *operands, params=params.on(body.program))
    found.merge(body.sites, results[: body.n_found])
    return results[body.n_found :]


def _custom_call(
    found: Found, primitive: CustomCall, params: Any, operands: Operands, errors: Errors
) -> Results:
    """The call keeps its own derivative, without the checks; what these find is computed beside it."""
    jaxpr = params.call_jaxpr.jaxpr
    body = checked_program(jaxpr, errors)
    if body.sites:
        results = replay(body.program.jaxpr, (), *body.consts, *operands)
        found.merge(body.sites, results[: body.n_found])
    unchecked = checked_program(jaxpr, frozenset())
    n = len(unchecked.consts)
    plain = rearranged(
        unchecked.program,
        range(n + len(operands)),
        range(1, len(unchecked.program.jaxpr.outvars)),
    )
    new = params._replace(call_jaxpr=plain, num_consts=params.num_consts + n)
    return bind(primitive, *unchecked.consts, *operands, params=new)


def _cond(found: Found, params: Any, operands: Operands, errors: Errors) -> Results:
    bodies = [checked_program(b.jaxpr, errors) for b in params.branches]
    sites = [site for body in bodies for site in body.sites]
    offsets = [sum(len(b.sites) for b in bodies[:i]) for i in range(len(bodies))]
    programs = [_branch(body, sites, offset) for body, offset in zip(bodies, offsets, strict=True)]
    branches, consts = with_common_consts(programs, [b.consts for b in bodies])
    results = bind(
        cond_p, operands[0], *consts, *operands[1:], params=params._replace(branches=branches)
    )
    n_found = len(nothing(sites))
    found.merge(sites, results[:n_found])
    return results[n_found:]


def _branch(body: Checked, sites: Sequence[Any], offset: int) -> Any:
    """A branch that tells what it found at the sites of all branches."""

    def run(*operands: Any) -> list[Any]:
        results = replay(body.program.jaxpr, (), *operands)
        mine = Found()
        mine.sites, mine.values = list(sites[:offset]), nothing(sites[:offset])[1:]
        mine.merge(body.sites, results[: body.n_found])
        after = nothing(sites[offset + len(body.sites) :])[1:]
        return [*mine.results(), *after, *results[body.n_found :]]

    return stage_open(run, body.program.in_avals, body.program.jaxpr.debug)[0]


def _scan(found: Found, params: Any, operands: Operands, errors: Errors) -> Results:
    body = checked_program(params.jaxpr.jaxpr, errors)
    n = body.n_found
    n_more, n_consts = len(body.consts), params.num_consts

    def step(*values: Any) -> list[Any]:
        consts, rest = values[: n_more + n_consts], values[n_more + n_consts :]
        results = replay(body.program.jaxpr, (), *consts, *rest[n:])
        return [*first(rest[:n], results[:n]), *results[n:]]

    if not body.sites:
        n = 0
        program, more = (
            rearranged(
                body.program,
                range(n_more + len(operands)),
                range(1, len(body.program.jaxpr.outvars)),
            ),
            [],
        )
    else:
        before = [type_of(x) for x in nothing(body.sites)]
        avals = list(body.program.in_avals)
        avals[n_more + n_consts : n_more + n_consts] = before
        program, more = stage_open(step, avals, params.jaxpr.jaxpr.debug)
    results = bind(
        scan_p,
        *more,
        *body.consts,
        *operands[:n_consts],
        *(nothing(body.sites) if n else ()),
        *operands[n_consts:],
        params=params._replace(
            jaxpr=program,
            num_consts=len(more) + n_more + n_consts,
            num_carry=n + params.num_carry,
        ),
    )
    found.merge(body.sites, results[:n])
    return results[n:]


def _while(found: Found, params: Any, operands: Operands, errors: Errors) -> Results:
    """What the condition finds is found in the body, for the next step, and before the loop, for the first."""
    cond_consts, body_consts, carry = params.split(operands)
    condition = checked_program(params.cond_jaxpr.jaxpr, errors)
    body = checked_program(params.body_jaxpr.jaxpr, errors)
    sites = (*body.sites, *condition.sites)
    n, n_body = len(nothing(sites)), body.n_found
    cond_operands = [*condition.consts, *cond_consts]
    body_operands = [*body.consts, *body_consts]
    n_cond, n_own = len(cond_operands), len(body_operands)

    def tell(own: Sequence[Any], now: Sequence[Any]) -> list[Any]:
        """What the body found, and then the condition."""
        both = Found()
        both.merge(body.sites, own)
        both.merge(condition.sites, now)
        return both.results()

    def test(*values: Any) -> list[Any]:
        given, rest = values[:n_cond], values[n_cond:]
        return replay(condition.program.jaxpr, (), *given, *rest[n:])[condition.n_found :]

    def step(*values: Any) -> list[Any]:
        for_cond, own, rest = (
            values[:n_cond],
            values[n_cond : n_cond + n_own],
            values[n_cond + n_own :],
        )
        results = replay(body.program.jaxpr, (), *own, *rest[n:])
        new = results[n_body:]
        now: Sequence[Any] = ()
        if condition.sites:
            now = replay(condition.program.jaxpr, (), *for_cond, *new)[: condition.n_found]
        return [*first(rest[:n], tell(results[:n_body], now)), *new]

    at_start = Found()
    if condition.sites:
        seen = replay(condition.program.jaxpr, (), *cond_operands, *carry)
        at_start.sites, at_start.values = list(body.sites), nothing(body.sites)[1:]
        at_start.merge(condition.sites, seen[: condition.n_found])
    else:
        at_start.code, *at_start.values = nothing(sites)
    initial = [*at_start.results(), *carry]
    carry_avals = [type_of(x) for x in initial]
    cond_avals = [type_of(x) for x in cond_operands]
    own_avals = [type_of(x) for x in body_operands]
    new_cond, more_cond = stage_open(
        test, [*cond_avals, *carry_avals], params.cond_jaxpr.jaxpr.debug
    )
    new_body, more_body = stage_open(
        step, [*cond_avals, *own_avals, *carry_avals], params.body_jaxpr.jaxpr.debug
    )
    new = WhileParams(new_body, len(more_body) + n_cond + n_own, new_cond, len(more_cond) + n_cond)
    results = bind(
        while_p, *more_cond, *cond_operands, *more_body, *cond_operands, *body_operands, *initial,
        params=new,
    )  # fmt: skip
    found.merge(sites, results[:n])
    return results[n:]


def _shard_map(found: Found, params: Any, operands: Operands, errors: Errors) -> Results:
    """Each position along the manual axes tells what it found; of those that failed, the first at the first site counts."""
    axes = tuple([a for a in params.mesh.axis_names if a in params.newly_manual_axes])
    with params.scope():
        body = checked_program(params.jaxpr.jaxpr, errors)
        n = body.n_found if body.sites else 0

        def run(*parts: Any) -> list[Any]:
            results = replay(body.program.jaxpr, (), *parts)
            return [*(broadcast(x, (1,)) for x in results[:n]), *results[body.n_found :]]

        program, more = stage_open(run, body.program.in_avals, params.jaxpr.jaxpr.debug)
    consts = [*more, *body.consts]
    called = params.on(
        program,
        (*[REPLICATED] * len(consts), *params.in_specs),
        (*[PartitionSpec(axes)] * n, *params.out_specs),
    )
    results = bind(shard_map_p, *consts, *operands, params=called)
    if n:
        codes, *values = map(_whole, results[:n])
        last = broadcast(np.int32(-len(body.sites) - 1), type_of(codes).shape)
        index = argmax(select_n(ne(codes, NONE), last, neg(codes)), 0, np.dtype(np.int32))
        chosen = [dynamic_index_in_dim(x, index, 0, False) for x in (codes, *values)]
        found.merge(body.sites, chosen)
    return results[n:]


def _whole(x: Any) -> Any:
    """`x`, on each device in full where its type shows how it is cut."""
    shown = type_of(x).shown_sharding
    return x if shown is None else reshard(x, NamedSharding(shown.mesh, PartitionSpec()))


_RULES: dict[Any, Callable[..., Sequence[Any]]] = {
    cond_p: _cond, scan_p: _scan, while_p: _while, shard_map_p: _shard_map,
}  # fmt: skip
