"""Conditions and loops of kernels on GPUs: all threads take the same way, and blocks keep their layout from one turn to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid._machine.base import strict_zip
from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.loop_primitives import scan_p, while_p
from pellucid._machine.ir import AbstractRef
from pellucid._machine.xla.mosaic_gpu import arith, ir, scf

from .layouts import Deferred, Fragment, Layout, Strided, common
from .lowering import Lowering, rule, take_deferred
from .memory import Memory, Part, read, scratch, whole, write

take_deferred(cond_p, scan_p, while_p)


def _layouts(values: Sequence[Any]) -> list[Layout | None]:
    """The layouts of blocks, when threads hold them; None for scalars."""
    layouts = [x.layout if type(x) is Fragment else None for x in values]
    return [Strided(x.shape) if type(x) is Deferred else x for x in layouts]


def _together(rows: Sequence[Sequence[Layout | None]]) -> list[Layout | None]:
    """For each value the layout in which it has one in all `rows`."""
    found: list[Layout | None] = []
    for layouts in zip(*rows, strict=True):
        known = [x for x in layouts if x is not None]
        found.append(common(known) if known else None)
    return found


def _values(
    ctx: Lowering, values: Sequence[Any], layouts: Sequence[Layout | None]
) -> list[ir.Value]:
    """What threads hold of blocks in these layouts, and scalars."""
    pairs = strict_zip(values, layouts)
    return [x if layout is None else ctx.changed(x, layout).value for x, layout in pairs]


def _blocks(values: Sequence[ir.Value], layouts: Sequence[Layout | None]) -> list[Any]:
    """The inverse of `_values`."""
    pairs = strict_zip(values, layouts)
    return [x if layout is None else Fragment(x, layout) for x, layout in pairs]


@rule(cond_p)
def _cond(ctx: Lowering, equation, operands):
    index, *inputs = operands
    atoms, branches = equation.operands[1:], equation.params.branches
    if equation.params.branches_platforms is not None:
        raise ctx.unsupported("branches for platforms have no rule.")
    layouts: list[Layout | None] = [None] * len(equation.results)
    ctx.conditions += 1
    if any(v.aval.shape for v in equation.results):
        # Which layouts results have is known when the branches are lowered: once to see, once to keep.
        with ctx.on_trial():
            rows = [_layouts(ctx.inline(b.jaxpr, inputs, atoms)) for b in branches]
        layouts = _together(rows)
    kinds = [ctx.held_type(v.aval, layout) for v, layout in strict_zip(equation.results, layouts)]

    def choose(first: int) -> list[ir.Value]:
        """Results of the branches from `first` on."""
        if first == len(branches) - 1:
            return _values(ctx, ctx.inline(branches[first].jaxpr, inputs, atoms), layouts)
        is_it = arith.cmpi(arith.CmpIPredicate.sle, index, ctx.int32(first))
        operation: Any = scf.IfOp(is_it, kinds, has_else=True)
        with ctx.inside(operation.then_block):
            found = ctx.inline(branches[first].jaxpr, inputs, atoms)
            scf.yield_(_values(ctx, found, layouts))
        with ctx.inside(operation.else_block):
            scf.yield_(choose(first + 1))
        return list(operation.results)

    results = choose(0)
    ctx.conditions -= 1
    return _blocks(results, layouts)


def _steady(
    ctx: Lowering, carry: Sequence[Any], turn: Callable[[Sequence[Any]], list[Any]]
) -> list[Layout | None]:
    """The layouts of what a loop carries, with which they are the same before and after a turn."""
    layouts = _layouts(carry)
    while any(layout is not None for layout in layouts):
        with ctx.on_trial():
            inputs = _blocks(_values(ctx, carry, layouts), layouts)
            found = _together([layouts, _layouts(turn(inputs))])
        if found == layouts:
            break
        layouts = found
    return layouts


@rule(scan_p)
def _scan(ctx: Lowering, equation, operands):
    params = equation.params
    consts, carry, stacked = params.split(operands)
    if any(type(a.aval) is AbstractRef for a in equation.operands[len(consts) :]):
        raise ctx.unsupported("a loop can't carry references.")
    atoms = equation.operands[: len(consts)]
    rows_in = equation.operands[len(consts) + len(carry) :]
    rows_out = equation.results[len(carry) :]
    if params.length == 0 and rows_out:
        raise ctx.unsupported("it has no loops without turns that have stacked results.")
    # What is taken and left row by row lies in shared memory meanwhile.
    sources = [_rows(ctx, a.aval, x) for a, x in strict_zip(rows_in, stacked)]
    targets = [_rows(ctx, v.aval) for v in rows_out]

    def turn(carry: Sequence[Any], number: Any) -> list[Any]:
        if sources or targets:
            ctx.meet()
        rows = [read(ctx, ref, _row(ctx, ref, number)) for ref in sources]
        found = ctx.inline(params.jaxpr.jaxpr, [*consts, *carry, *rows], atoms)
        for ref, x in strict_zip(targets, found[len(carry) :]):
            write(ctx, ref, _row(ctx, ref, number), ctx.held(x))
        return found[: len(carry)]

    layouts = _steady(ctx, carry, lambda carry: turn(carry, ctx.int32(0)))
    lower, upper, step = [ctx.int32(n) for n in (0, params.length, 1)]
    loop: Any = scf.ForOp(lower, upper, step, _values(ctx, carry, layouts))
    with ctx.inside(loop.body):
        number = loop.induction_variable
        if params.reverse:
            number = arith.subi(ctx.int32(params.length - 1), number)
        found = turn(_blocks(list(loop.inner_iter_args), layouts), number)
        scf.yield_(_values(ctx, found, layouts))
    if targets:
        ctx.meet()
    ends = [read(ctx, ref, whole(ctx, ref)) for ref in targets]
    return [*_blocks(list(loop.results), layouts), *ends]


def _rows(ctx: Lowering, aval: Any, value: Any = None) -> Memory:
    """Shared memory of a warpgroup for an array of rows, which holds `value`."""
    ctx.check_size(aval.shape)
    ref = scratch(ctx, tuple(aval.shape), aval.dtype, is_of_block=False)
    if value is not None:
        write(ctx, ref, whole(ctx, ref), ctx.held(value))
    return ref


def _row(ctx: Lowering, ref: Memory, number: Any) -> Part:
    """The row of an array with a number."""
    inner = whole(ctx, ref)
    return Part(ref.shape[1:], lambda place: inner.address([number, *place]))


@rule(while_p)
def _while(ctx: Lowering, equation, operands):
    params = equation.params
    tested, consts, carry = params.split(operands)
    of_test, of_body, _ = params.split(equation.operands)

    def turn(carry: Sequence[Any]) -> list[Any]:
        return ctx.inline(params.body_jaxpr.jaxpr, [*consts, *carry], of_body)

    layouts = _steady(ctx, carry, turn)
    values = _values(ctx, carry, layouts)
    kinds = [x.type for x in values]
    loop: Any = scf.WhileOp(kinds, values)
    locations = [ir.Location.current] * len(kinds)
    before = loop.before.blocks.append(*kinds, arg_locs=locations)
    with ctx.inside(before):
        inputs = [*tested, *_blocks(list(before.arguments), layouts)]
        [goes_on] = ctx.inline(params.cond_jaxpr.jaxpr, inputs, of_test)
        scf.ConditionOp(goes_on, list(before.arguments))
    after = loop.after.blocks.append(*kinds, arg_locs=locations)
    with ctx.inside(after):
        found = turn(_blocks(list(after.arguments), layouts))
        scf.yield_(_values(ctx, found, layouts))
    return _blocks(list(loop.results), layouts)
