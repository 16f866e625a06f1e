"""How `vmap` treats calls of functions that are no programs: the values of `vmap_method`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid.base import ArgumentValueError, CallbackBatchingError, strict_zip
from pellucid.ir import BatchAxis, Dims, Mask, Operands, Primitive, Values
from pellucid.primitives.assembly import stack
from pellucid.primitives.movement import broadcast, move_axis
from pellucid.primitives.slicing import index_in_dim
from pellucid.tracing import bind

from . import loops

VMAP_METHODS = (
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None,
)  # fmt: skip


def check_vmap_method(caller: str, method: Any) -> None:
    """Raise ArgumentValueError for a `vmap_method` that doesn't exist."""
    if method not in VMAP_METHODS:
        raise ArgumentValueError(
            f"{caller} doesn't know this vmap_method.",
            got=repr(method),
            do=f"Choose one of {', '.join(map(repr, VMAP_METHODS))}.",
        )


def batched_call(
    primitive: Primitive[Any],
    axis: BatchAxis,
    operands: Operands,
    dims: Dims,
    params: Any,
    with_batch: Callable[[Mask], Any],
    described: str,
) -> tuple[Values, Sequence[int]]:
    """Batching rule of a call whose params have `vmap_method`: (results, their dims, which are 0).

    `with_batch(mask)` returns the params of one call for the whole batch, whose results have it as leading axis, and
    those operands that the mask names. `described` names the call in errors.

    Raises: CallbackBatchingError where `vmap_method` is None.
    """
    method = params.vmap_method
    if method is None:
        raise CallbackBatchingError(
            f"vmap of {primitive.name} needs to know how its function treats batches.",
            got=f"{described} with vmap_method=None",
            do='Give vmap_method: "sequential" calls the function for each element; "broadcast_all" and '
            '"expand_dims" call it once, with a new leading axis.',
        )
    if method.startswith("sequential"):
        unrolled = method == "sequential_unrolled"
        results = each_element(primitive, axis, operands, dims, params, unrolled=unrolled)
        return results, [0] * len(results)
    mask = [d is not None or method != "legacy_vectorized" for d in dims]
    size = axis.size if method == "broadcast_all" else 1
    inputs: Values = []
    for x, dim, has_axis in strict_zip(operands, dims, mask):
        if dim is not None:
            x = move_axis(x, dim, 0)
        elif has_axis:
            x = broadcast(x, (size,))
        inputs.append(x)
    results = list(bind(primitive, *inputs, params=with_batch(mask)))
    return results, [0] * len(results)


def each_element(
    primitive: Primitive[Any],
    axis: BatchAxis,
    operands: Operands,
    dims: Dims,
    params: Any,
    *,
    unrolled: bool,
) -> Values:
    """Results of the equation for each element of a batch, one after another, stacked along a leading axis."""
    batched = [move_axis(x, d, 0) for x, d in strict_zip(operands, dims) if d is not None]

    def one(elements: Operands) -> Values:
        rest = iter(elements)
        chosen = [x if d is None else next(rest) for x, d in strict_zip(operands, dims)]
        return list(bind(primitive, *chosen, params=params))

    if unrolled:
        results = [one([index_in_dim(x, i, 0, False) for x in batched]) for i in range(axis.size)]
        return [stack(parts, 0) for parts in strict_zip(*results)]
    return loops.map(one, batched)
