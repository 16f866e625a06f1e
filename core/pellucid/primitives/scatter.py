"""Scatters that replace, subtract, multiply, or take the lesser or the greater, and the functions of all scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.base import Function, MissingRule, Shape
from pellucid.ir import Zero, is_linear
from pellucid.tracing import bind1, type_of

from .arithmetic import add, div, max, min, mul, neg, sub
from .broadcasting import broadcast_in_dim
from .conversion import convert_element_type
from .creation import instantiate, iota, zeros
from .families import add_tangents
from .gather import LinearScatter, Scatter, ScatterParams, gathered_updates, scatter_add_p
from .index_dims import GatherScatterMode, ScatterDimensionNumbers, kept_axes, with_int_fields
from .linear import JointlyLinear
from .logical import bitwise_or, eq, ne, select_n
from .movement import reshape

_IDS = np.dtype(np.uint32)

# Public functions -----------------------------------------------------------------------------------


def _function(primitive: Scatter, doc: str) -> Function:
    """The public function of `primitive`, described by `doc`."""

    def scatter(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        params = ScatterParams(
            with_int_fields(dimension_numbers),
            bool(indices_are_sorted),
            GatherScatterMode.from_any(mode),
            bool(unique_indices),
        )
        return bind1(primitive, operand, scatter_indices, updates, params=params)

    scatter.__name__ = scatter.__qualname__ = primitive.name.replace("-", "_")
    scatter.__doc__ = doc
    return scatter


scatter_add = _function(
    scatter_add_p,
    """`operand` with windows of `updates` added where the index vectors `scatter_indices` say.

    Updates at one place are all added. `mode` says what happens to windows outside; by default they are
    dropped. `indices_are_sorted` and `unique_indices` are promises that may make it faster.
    Source: StableHLO specification, `scatter`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_add(np.zeros(3), np.array([[0], [2], [0]]), np.ones(3), places).tolist()
    [2.0, 0.0, 1.0]
    """,
)


# scatter ------------------------------------------------------------------------------------------


class ScatterReplace(JointlyLinear[ScatterParams], Scatter):
    name = "scatter"
    traits = Scatter.traits.replace(flops=0.0)

    def jvp(self, primals, tangents, params):
        x, indices, updates = primals
        tx, tu = instantiate(tangents[0]), instantiate(tangents[2])
        if params.unique_indices:
            return (
                [bind1(self, *primals, params=params)],
                [bind1(self, tx, indices, tu, params=params)],
            )
        # Which one of several updates for one place remains is up to the platform, so values and tangents are
        # taken by one and the same choice: each update has a number, and those whose number remains are added
        # to the operand, emptied where some number was written.
        aval = type_of(updates)
        numbers = _numbered(aval.shape, params.dimension_numbers)
        blank = np.zeros((), _IDS)
        written = bind1(
            self, broadcast_in_dim(blank, type_of(x).shape, ()), indices, numbers, params=params
        )
        remains = eq(numbers, gathered_updates(written, indices, aval, params))
        untouched = eq(written, blank)

        def chosen(old, new):
            return bind1(
                scatter_add_p,
                select_n(untouched, zeros(type_of(old)), old),
                indices,
                select_n(remains, zeros(type_of(new)), new),
                params=params,
            )

        return [chosen(x, updates)], [chosen(tx, tu)]

    def operand_cotangents(self, cotangent, operands, params):
        x, indices, updates = operands
        if not params.unique_indices:
            raise MissingRule(
                "scatter can be transposed only if no place is written twice.",
                do="Pass `unique_indices=True` if that is so; derivatives work in any case.",
            )
        aval = type_of(updates)
        return [
            is_linear(x) and bind1(self, cotangent, indices, zeros(aval), params=params),
            None,
            is_linear(updates) and gathered_updates(cotangent, indices, aval, params),
        ]


def _numbered(updates: Shape, numbers: ScatterDimensionNumbers):
    """An array of shape `updates` that holds, from 1 on, the number of the index vector of each element."""
    index_axes = kept_axes(len(updates), numbers.update_window_dims)
    sizes = tuple([updates[a] for a in index_axes])
    count = int(np.prod(sizes, dtype=np.int64))
    order = add(iota(_IDS, count), np.ones((), _IDS))
    return broadcast_in_dim(reshape(order, sizes), updates, index_axes)


scatter_p = ScatterReplace()


scatter = _function(
    scatter_p,
    """`operand` with windows replaced by `updates` where the index vectors `scatter_indices` say.

    Which of several updates for one place remains is undefined. `mode` says what happens to windows outside;
    by default they are dropped. `indices_are_sorted` and `unique_indices` are promises that may make it faster.
    Source: StableHLO specification, `scatter`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter(np.zeros(3), np.array([[2], [0]]), np.array([5.0, 7.0]), places).tolist()
    [7.0, 0.0, 5.0]
    """,
)


# scatter_sub, scatter_mul -------------------------------------------------------------------------


class ScatterSub(LinearScatter):
    name = "scatter-sub"
    combine = staticmethod(sub)

    def signed(self, x):
        return neg(x)


scatter_sub_p = ScatterSub()


scatter_sub = _function(
    scatter_sub_p,
    """`operand` with windows of `updates` subtracted where `scatter_indices` say; otherwise as `scatter_add`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_sub(np.zeros(3), np.array([[2], [2]]), np.array([1.0, 2.0]), places).tolist()
    [0.0, 0.0, -3.0]
    """,
)


class ScatterMul(JointlyLinear[ScatterParams], Scatter):
    """Linear in the operand; also in the updates, if no place gets two of them."""

    name = "scatter-mul"
    traits = Scatter.traits.replace(makes_nan=True)
    combine = staticmethod(mul)

    def jvp(self, primals, tangents, params):
        x, indices, updates = primals
        tx, _, tu = tangents
        total = tx if type(tx) is Zero else bind1(self, tx, indices, updates, params=params)
        if type(tu) is not Zero:
            if not params.unique_indices:
                raise MissingRule(
                    "scatter_mul has no derivative with respect to updates of which several may go to one place.",
                    do="Pass `unique_indices=True` if none do.",
                )
            weighted = mul(gathered_updates(x, indices, type_of(updates), params), tu)
            term = bind1(scatter_add_p, zeros(type_of(x)), indices, weighted, params=params)
            total = add_tangents(total, term)
        return [bind1(self, *primals, params=params)], [total]

    def operand_cotangents(self, cotangent, operands, params):
        _, indices, updates = operands
        if is_linear(updates):
            raise MissingRule("scatter_mul can be transposed only with respect to its operand.")
        return [bind1(self, cotangent, indices, updates, params=params)]


scatter_mul_p = ScatterMul()


scatter_mul = _function(
    scatter_mul_p,
    """`operand` with windows multiplied by `updates` where `scatter_indices` say; otherwise as `scatter_add`.

    Its derivative with respect to the updates needs `unique_indices=True`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_mul(np.ones(3), np.array([[2], [2]]), np.array([3.0, 2.0]), places).tolist()
    [1.0, 1.0, 6.0]
    """,
)


# scatter_min, scatter_max -------------------------------------------------------------------------


class ScatterExtremum(Scatter):
    """Takes the extremum of the old element and of all updates for it.

    Where several of these are equal to the result, they share its derivative equally.
    """

    def __init__(self, name: str, combine: Any) -> None:
        self.combine = combine  # type: ignore[misc]
        super().__init__(name)

    def jvp(self, primals, tangents, params):
        x, indices, updates = primals
        tx, _, tu = tangents
        result = bind1(self, *primals, params=params)
        aval, updates_aval = type_of(x), type_of(updates)
        dtype = aval.dtype

        def gathered(values):
            return gathered_updates(values, indices, updates_aval, params)

        wins = convert_element_type(eq(updates, gathered(result)), dtype)
        stays = convert_element_type(bitwise_or(eq(x, result), ne(x, x)), dtype)
        shares = add(bind1(scatter_add_p, zeros(aval), indices, wins, params=params), stays)
        if type(tx) is not Zero:
            tx = mul(tx, div(stays, max(shares, dtype.type(1))))
        if type(tu) is not Zero:
            weighted = mul(tu, div(wins, max(gathered(shares), dtype.type(1))))
            term = bind1(scatter_add_p, zeros(aval), indices, weighted, params=params)
            tx = add_tangents(tx, term)
        return [result], [tx]


scatter_min_p = ScatterExtremum("scatter-min", min)


scatter_min = _function(
    scatter_min_p,
    """`operand` with the lesser of it and `updates` where `scatter_indices` say; otherwise as `scatter_add`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_min(np.zeros(3), np.array([[2], [2]]), np.array([1.0, -2.0]), places).tolist()
    [0.0, 0.0, -2.0]
    """,
)


scatter_max_p = ScatterExtremum("scatter-max", max)


scatter_max = _function(
    scatter_max_p,
    """`operand` with the greater of it and `updates` where `scatter_indices` say; otherwise as `scatter_add`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_max(np.zeros(3), np.array([[2], [2]]), np.array([1.0, -2.0]), places).tolist()
    [0.0, 0.0, 1.0]
    """,
)
