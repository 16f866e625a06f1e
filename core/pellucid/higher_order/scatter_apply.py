"""`scatter_apply`: a function applied to the elements of an array that indices name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.base import ArgumentTypeError, ArgumentValueError, MissingRule
from pellucid.ir import BatchAxis, ClosedJaxpr, Programs, Zero, derived_types, shaped_array
from pellucid.primitives.creation import zeros
from pellucid.primitives.gather_scatter import Scatter, ScatterParams, gathered_updates, scatter_p
from pellucid.primitives.index_dims import (
    GatherScatterMode,
    ScatterDimensionNumbers,
    with_int_fields,
)
from pellucid.primitives.movement import broadcast, reshape
from pellucid.tracing import Tracer, bind1, name_of, replay, stage, type_of
from pellucid.transforms.jvp import jvp_flat
from pellucid.transforms.vmap import batch_flat


class ScatterApplyParams(NamedTuple):
    """`update_jaxpr` takes the element that is there and a scalar that it does not use."""

    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: GatherScatterMode
    unique_indices: bool
    update_jaxpr: ClosedJaxpr


class ScatterApply(Programs[ScatterApplyParams], Scatter):  # pyright: ignore[reportGeneralTypeIssues]  # other params
    """A scatter whose updates are computed from what is there; the updates given only have their shape."""

    name = "scatter_apply"
    traits = Scatter.traits.replace(returns_list=True)
    varies_jointly = True
    types = derived_types

    def update_program(self, dtype, params):
        return params.update_jaxpr

    def jvp(self, primals, tangents, params):
        result = bind1(self, *primals, params=params)
        (x, indices, updates), tx = primals, tangents[0]
        if type(tx) is Zero:
            return [result], [Zero(type_of(result).tangent())]
        if not params.unique_indices:
            raise MissingRule(
                "scatter_apply has no derivative where it may apply its function to one element several times.",
                do="Pass `unique_indices=True` if it does not.",
            )
        aval = type_of(updates)
        there, moved = (gathered_updates(value, indices, aval, params) for value in (x, tx))
        _, [slope], _ = jvp_flat(
            lambda elements: ([_applied(params.update_jaxpr, elements)], []), [there], [moved]
        )
        replaced = ScatterParams(*params[:4])
        return [result], [
            bind1(
                scatter_p,
                tx,
                indices,
                zeros(aval) if type(slope) is Zero else slope,
                params=replaced,
            )
        ]

    def printed_name(self, equation):
        return "scatter"

    def printed_params(self, equation):
        shown = super().printed_params(equation)
        return {**shown, "update_jaxpr": equation.params.update_jaxpr}


scatter_apply_p = ScatterApply()


def _applied(program: ClosedJaxpr, elements):
    """The results of a program of scalars on each of `elements`."""
    shape = type_of(elements).shape
    size = math.prod(shape)
    [results], [dim] = batch_flat(
        lambda element: replay(program.jaxpr, program.consts, element, element),
        BatchAxis(size), [reshape(elements, (size,))], [0],
    )  # fmt: skip
    return reshape(broadcast(results, (size,)) if dim is None else results, shape)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` with `func` applied to the elements of the windows that begin at the index vectors.

    `func` takes a scalar and gives one of the same dtype. Where windows overlap it is applied several times, once
    for each. `update_shape` is the shape that an array of updates would have; it determines the size of the windows.
    Its derivative needs `unique_indices=True`.
    Source: StableHLO specification, `scatter`.

    >>> import numpy as np
    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_apply(np.arange(4.0), np.array([[1], [3]]), lambda e: -e, places, update_shape=(2,)).tolist()
    [0.0, -1.0, 2.0, -3.0]
    """
    if not callable(func):
        raise ArgumentTypeError(
            "scatter_apply takes a function of a scalar.", got=f"got {type(func).__name__}"
        )
    dtype = type_of(operand).dtype
    scalar = shaped_array((), dtype)
    jaxpr, consts = stage(lambda element, _: [func(element)], [scalar, scalar])
    result: Any = jaxpr.out_avals[0]
    if result.dtype != dtype or result.shape != ():
        raise ArgumentTypeError(
            f"scatter_apply needs a function that keeps the type of its argument, but {name_of(func)} does not.",
            got=f"takes {scalar.text()}, gives {result.text()}",
        )
    if any(isinstance(c, Tracer) for c in consts):
        raise ArgumentValueError(
            f"scatter_apply: {name_of(func)} uses traced values besides its argument.",
            do="Gather the elements, compute with them, and `scatter` the results.",
        )
    params = ScatterApplyParams(
        with_int_fields(dimension_numbers), bool(indices_are_sorted), GatherScatterMode.from_any(mode),
        bool(unique_indices), ClosedJaxpr(jaxpr, consts),
    )  # fmt: skip
    updates = zeros(shaped_array(tuple(update_shape), dtype))
    return bind1(scatter_apply_p, operand, scatter_indices, updates, params=params)


__all__ = ["scatter_apply"]
