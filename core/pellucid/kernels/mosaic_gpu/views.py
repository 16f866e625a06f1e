"""Parts of references among the operands of an equation: of arrays in memory, of barriers, of accumulators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pellucid._machine.base import strict_zip
from pellucid._machine.refs.access import Transposed
from pellucid._machine.refs.index import RefIndex
from pellucid.kernels.parts import Part

from .barriers import BarrierArray
from .layouts import Fragment
from .lowering import Lowering
from .memory import Memory, Start, sum_of, window_starts


def parts_of(
    ctx: Lowering, equation: Any, operands: Sequence[Any], *, is_moved: bool = True
) -> tuple[list[Any], list[Any]]:
    """(the parts of references that an equation concerns, None for those that there aren't; the operands behind them).

    Unless they are moved, parts may begin outside of their references.
    """
    params = equation.params
    parts, n = params.parts, params.n_consts
    own, atoms = operands[n:], equation.operands[n:]
    found: list[Any] = []
    rest = iter(range(parts.n_refs, len(own)))
    for part in parts.parts:
        if part is None:
            found.append(None)
            continue
        places = [next(rest) for _ in range(sum(part.sizes))]
        found.append(_view(ctx, part, own, atoms, iter(places), is_moved))
    return found, [*own[parts.n_operands :]]


def _view(
    ctx: Lowering, part: Part, values: Sequence[Any], atoms: Sequence[Any], places: Iterator[int], is_moved: bool,
) -> Any:  # fmt: skip
    ref = values[part.ref]
    for step, n in strict_zip(part.steps, part.sizes):
        taken = [next(places) for _ in range(n)]
        given = [values[i] for i in taken], [atoms[i].aval for i in taken]
        if isinstance(step, Transposed) and isinstance(ref, Memory):
            ref = ref._replace(kept=tuple([ref.kept[i] for i in step.permutation]))
        elif isinstance(step, RefIndex) and isinstance(ref, Memory):
            ref = sliced(ctx, ref, step, *given, is_moved=is_moved)
        elif isinstance(step, RefIndex) and isinstance(ref, BarrierArray):
            ref = ref.at(ctx, window_starts(ctx, step, *given))
        else:
            raise ctx.unsupported(
                "copies and products are of slices and transpositions of references.",
                f"{type(step).__name__} of {type(ref).__name__}",
                "Give scratch the shape and dtype that it is used with.",
            )
    return ref


def sliced(
    ctx: Lowering, ref: Memory, index: RefIndex, operands: Sequence[Any], avals: Sequence[Any], *, is_moved: bool = True,
) -> Memory:  # fmt: skip
    """The part of a reference that an index selects, as a reference."""
    starts: list[Start] = [*ref.starts]
    sizes, kept = list(ref.sizes), []
    for dim, item in strict_zip(ref.kept, window_starts(ctx, index, operands, avals, is_moved)):
        if type(item) is Fragment:
            raise ctx.unsupported(
                "copies and products have no positions by arrays.", do="Copy slices, in a loop."
            )
        if not isinstance(item, tuple):
            starts[dim], sizes[dim] = sum_of(ctx, starts[dim], item), 1
            continue
        start, size, step = item
        if step != 1:
            raise ctx.unsupported("copies and products make no steps.", f"a step of {step}")
        starts[dim], sizes[dim] = sum_of(ctx, starts[dim], start), size
        kept.append(dim)
    return ref._replace(starts=tuple(starts), sizes=tuple(sizes), kept=tuple(kept))
