"""Lanes: the elements of a `vmap`'s batch, located along the dimensions of the values of a batched program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pellucid._machine.ir import Equation, Jaxpr, Var
from pellucid._machine.transforms.vmap import Lanes

from .lineage import origins_of, transformation_of

T = TypeVar("T")


BatchesOf: TypeAlias = "Callable[[Equation, Var], list[Batch]]"
"""Returns the batches among the dimensions of a result of an equation."""


class Batch(NamedTuple):
    """A batch that is a dimension of a value."""

    size: int
    dim: int
    depth: int
    """Its number among the batches around the value, 0 for the outermost."""


class Lane(NamedTuple):
    """One element of a batch."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.index
    size: int

    def __str__(self) -> str:
        return f"lane {self.index} of {self.size}"


def lanes_at(
    jaxpr: Jaxpr, equation: Equation, result: Var, index: Sequence[int]
) -> tuple[Lane, ...]:
    """The lanes that an element of an equation's result belongs to, outermost batch first; unknown ones are missing."""
    batches = batches_of(jaxpr, equation, result) if len(index) == len(_shape(result)) else ()
    return tuple([Lane(int(index[dim]), size) for size, dim, _ in batches])


def batch_sizes(jaxpr: Jaxpr, equation: Equation) -> list[int]:
    """The sizes of the batches that an equation of a program is part of, outermost first."""
    return [*program_batch_sizes(jaxpr), *[lanes.axis.size for lanes in _around(equation)]]


def program_batch_sizes(jaxpr: Jaxpr) -> list[int]:
    """The sizes of the batches over which the whole program was batched, outermost first."""
    sizes: list[int] = []
    program = _batched_program(jaxpr)
    while program is not None and (lanes := program.memo.get("lanes")) is not None:
        sizes.append(lanes.axis.size)
        program = lanes.unbatched
    return sizes


def batches_of(jaxpr: Jaxpr, equation: Equation, result: Var) -> list[Batch]:
    """The batches among the dimensions of an equation's result, outermost first; empty if unknown.

    A cotangent has the batches of its primal value. They are unknown for intermediate values of a batching rule.
    """
    batched = _batched_program(jaxpr)
    is_cotangent = transformation_of(equation) == "transpose"
    if batched is None:
        around = _around(equation)
        batches: BatchesOf = lambda e, v: _dims_in(around, v)
        origin = None if equation.lineage is None else _only(equation.lineage.origins)
        direct = batches(equation, result)
    else:
        batches = lambda e, v: _lanes_in_batch(batched, e, v)
        origin = _only(origins_of(equation, frozenset([e.id for e in batched.equations])))
        if jaxpr is batched:
            direct, is_cotangent = batches(equation, result), False
        else:
            results: Sequence[Var] = [] if origin is None or is_cotangent else origin.results
            same = _only([v for v in results if _shape(v) == _shape(result)])
            direct = [] if origin is None or same is None else batches(origin, same)
    if direct or not is_cotangent or origin is None:
        return direct
    return _of_primal(batches, origin, result)


def batches_before(jaxpr: Jaxpr, equation: Equation, variable: Var) -> list[Batch]:
    """The batches among the dimensions of a variable that is available before an equation, out of those around the
    equation.

    Empty if they are unknown.
    """
    maker = _makers(jaxpr).get(variable)
    if (batched := _batched_program(jaxpr)) is not None:
        if maker is not None:
            return batches_of(jaxpr, maker, variable)
        return _lanes_in_batch(batched, equation, variable) if batched is jaxpr else []
    direct = _dims_in(_around(equation), variable)
    if direct or maker is None or batch_sizes(jaxpr, maker) != batch_sizes(jaxpr, equation):
        return direct
    return batches_of(jaxpr, maker, variable)


def _makers(jaxpr: Jaxpr) -> dict[Var, Equation]:
    """Maps each variable to the equation that computes it; cached."""
    if "makers" not in jaxpr.memo:
        jaxpr.memo["makers"] = {v: e for e in jaxpr.equations for v in e.results}
    return jaxpr.memo["makers"]


def lane_index(
    batches: Sequence[Batch], lane: Sequence[int | None], ndim: int, n_leading: int = 0
) -> tuple[Any, ...]:
    """The index of one lane (None for all lanes of a batch) in a value with `ndim` dimensions after `n_leading` others.

    >>> lane_index([Batch(3, 1, 0)], [2], 2)
    (slice(None, None, None), 2)
    >>> lane_index([Batch(3, 0, 0)], [2], 1, n_leading=1)
    (slice(None, None, None), 2)
    """
    index: list[Any] = [slice(None)] * (n_leading + ndim)
    for _, dim, depth in batches:
        if depth < len(lane) and lane[depth] is not None:
            index[n_leading + dim] = lane[depth]
    return tuple(index)


def _batched_program(jaxpr: Jaxpr) -> Jaxpr | None:
    """The batched program that a program is, or was derived from; None if there is none."""
    return jaxpr if "lanes" in jaxpr.memo else jaxpr.memo.get("batched")


def _lanes_in_batch(jaxpr: Jaxpr, equation: Equation, variable: Var) -> list[Batch]:
    """The batches of a variable (result or operand of an equation) of a batched program."""
    lanes: Lanes = jaxpr.memo["lanes"]
    dim = lanes.dims.get(variable)
    if dim is None:
        return []
    inner: list[Batch] = []
    origin = None if equation.lineage is None else _only(equation.lineage.origins)
    if origin is not None and lanes.unbatched is not None and variable in equation.results:
        shape = [*_shape(variable)]
        del shape[dim]
        element = _only([v for v in origin.results if [*_shape(v)] == shape])
        inner = [] if element is None else batches_of(lanes.unbatched, origin, element)
    return [
        Batch(lanes.axis.size, dim, 0),
        *[Batch(size, d + (d >= dim), depth + 1) for size, d, depth in inner],
    ]


def _around(equation: Equation) -> list[Lanes]:
    """The lanes of each `vmap` around an equation, outermost first."""
    entries = () if equation.scope is None else equation.scope.entries()
    return [entry.batch for entry in entries if entry.batch is not None]


def _dims_in(around: Sequence[Lanes], variable: Var) -> list[Batch]:
    batches: list[Batch] = []
    for depth, lanes in enumerate(around):
        dim = lanes.dims.get(variable)
        if dim is not None:
            for outer in sorted(batches, key=lambda batch: batch.dim):
                dim += dim >= outer.dim
            batches.append(Batch(lanes.axis.size, dim, depth))
    return batches


def _of_primal(
    batches: Callable[[Equation, Var], list[Batch]], forward: Equation, cotangent: Var
) -> list[Batch]:
    """The batches of a cotangent, if all values of its forward equation that have its dimensions, in any order, agree."""
    alike = {
        (_shape(v), tuple(batches(forward, v)))
        for v in (*forward.operands, *forward.results)
        if isinstance(v, Var) and sorted(_shape(v)) == sorted(_shape(cotangent))
    }
    kind = _only([*alike])
    return [*kind[1]] if kind is not None and kind[0] == _shape(cotangent) else []


def _shape(variable: Var) -> tuple[int, ...]:
    return getattr(variable.aval, "shape", ())


def _only(items: Sequence[T]) -> T | None:
    return items[0] if len(items) == 1 else None
