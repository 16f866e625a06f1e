"""Scatters: updates combined with windows of an array at index vectors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pellucid._machine.base import (
    ArrayLike,
    Binary,
    Function,
    MissingRule,
    Shape,
    cached,
    strict_zip,
)
from pellucid._machine.ir import (
    INDEXING,
    ClosedJaxpr,
    Primitive,
    ShapedArray,
    Shown,
    Zero,
    is_linear,
    physical,
    registry,
    shaped_array,
    words,
)
from pellucid._machine.lowering.faults import SCATTER_OF_ONE_WINDOW, UNEVEN_SCATTER
from pellucid._machine.lowering.in_place import checked_update
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla import Array

from .arithmetic import add, div, max, min, mul, neg, sub
from .conversion import convert_element_type
from .counts import update_elements
from .creation import instantiate, iota, ones, zeros
from .families import add_tangents
from .gather import gather
from .index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_scatter,
    other_axes,
    window_axes,
    window_sizes,
    with_batch,
    with_int_fields,
)
from .indexed_windows import (
    ScatterParams,
    clamp_starts,
    dimension_numbers_attribute,
    lower_indices,
    movable_indices,
    window_words,
)
from .linear import JointlyLinear
from .logical import bitwise_or, eq, ne, select_n
from .monoids import scalar_program
from .movement import broadcast_in_dim, brought_to, reshape

_INT32 = np.dtype(np.int32)
_BOOL = np.dtype(bool)


def _scattered_copy(x, indices, updates, combine, *fields):
    """A scatter of one window that doesn't write in place."""
    params, replace = ScatterParams(*fields), registry["scatter"]
    written, new = write_apart(
        x, updates, lambda array, window: bind1(replace, array, indices, window, params=params)
    )
    return select_n(written, x, combine(x, new) if combine else new)


def write_apart(x: Any, update: Any, write: Binary) -> tuple[Any, Any]:
    """(whether `write(x, update)` replaces each element of `x`, `update` written into zeros)."""
    aval, window = type_of(x), type_of(update)
    yes, no = ones(window.update(dtype=_BOOL)), zeros(aval.update(dtype=_BOOL))
    return write(no, yes), write(zeros(aval), update)


def _may_be_slice(ctx, x) -> bool:
    """Whether `x` is a dynamic slice, or may become one when the program is partitioned."""
    is_slice = getattr(x.owner, "name", None) == "stablehlo.dynamic_slice"
    return ctx.has_fault(SCATTER_OF_ONE_WINDOW) and (
        is_slice or ctx.sharding_attributes is not None
    )


class Scatter(Shown, Primitive[ScatterParams]):
    """A primitive that combines windows of the operand with updates.

    `combine` is a function of two scalars, old and new; None where the new one replaces the old.
    """

    traits = INDEXING.replace(flops=update_elements, passive=(1,), touches="in place")

    combine: ClassVar[Binary | None] = None

    def abstract_eval(self, avals, params):
        x, indices, updates = avals
        check_scatter(self.name, x, indices, updates, params.dimension_numbers)
        if self.combine is not None:
            self.update_program(x.dtype, params)  # raises for elements that can't be combined
        return [shaped_array(x.shape, x.dtype, x.weak_type)]

    def factors(self, avals, results, params):
        x, indices, updates = avals
        numbers = params.dimension_numbers
        pairs = strict_zip(window_axes(numbers, x.ndim), numbers.update_window_dims)
        covered = {i for i, j in pairs if x.shape[i] == updates.shape[j]}
        covered.update(numbers.operand_batching_dims)
        # Only dimensions that updates cover, and those that run together, may be cut: as in the operand.
        # In the others each device writes what falls into its part.
        dims = [word + ("^" if i in covered else "!:") for i, word in enumerate(words(x.ndim))]
        points, update = window_words(numbers, dims, indices.ndim, updates.ndim, "!")
        return [dims, points, update], [dims]

    def batch(self, axis, operands, dims, params):
        (x, indices, updates), (dim, indices_dim, updates_dim) = operands, dims
        indices, indices_dim = movable_indices(indices, indices_dim)
        x, dim = brought_to(axis, x, dim, dim or 0), dim or 0
        ndim = type_of(updates).ndim - (updates_dim is not None)
        numbers, position = with_batch(
            params.dimension_numbers, type_of(x).ndim - 1, ndim, dim, indices_dim
        )
        updates = brought_to(axis, updates, updates_dim, position)
        is_sorted = params.indices_are_sorted and not indices_dim
        batched = params._replace(dimension_numbers=numbers, indices_are_sorted=is_sorted)
        return bind(self, x, indices, updates, params=batched), [dim]

    def lower(self, ctx, operands, params):
        (x, indices, updates), (aval, indices_aval, updates_aval) = operands, ctx.avals_in
        numbers = params.dimension_numbers
        indices, indices_aval = lower_indices(ctx, indices, indices_aval)
        if params.mode is GatherScatterMode.CLIP:
            windows = window_sizes(numbers, aval.shape, updates_aval.shape)
            axes = numbers.scatter_dims_to_operand_dims
            indices = clamp_starts(ctx, indices, indices_aval, aval.shape, axes, windows)
        attributes = {
            "scatter_dimension_numbers": dimension_numbers_attribute(
                ctx, numbers, updates_aval, indices_aval
            ),
            "indices_are_sorted": params.indices_are_sorted,
            "unique_indices": params.unique_indices,
        }
        [result] = ctx.avals_out
        program = self.update_program(physical(aval).dtype, params)
        indices = ctx.in_even_parts(UNEVEN_SCATTER, indices, indices_aval)
        updates = ctx.in_even_parts(UNEVEN_SCATTER, updates, updates_aval)
        # XLA turns such scatters into slices
        is_one_window = math.prod(indices_aval.shape[:-1]) == 1
        array = x
        if is_one_window and _may_be_slice(ctx, x):
            x = ctx.op1("stablehlo.optimization_barrier", aval, [x])
        op = ctx.op(
            "stablehlo.scatter", [ctx.type(result)], [x, indices, updates], attributes, regions=1
        )
        ctx.jaxpr_body(op.regions[0], program)
        if is_one_window:
            fields = (self.combine, *params)
            checked_update(
                ctx, op.result, array, updates,
                lambda: ctx.from_python(_scattered_copy, operands, fields)[0],
            )  # fmt: skip
        return [op.result]

    def update_program(self, dtype: Any, params: Any) -> ClosedJaxpr:
        """The program, on scalars, that combines an element with an update."""
        combine: Any = self.combine or _replace
        return _update_program(combine, dtype)

    def printed_params(self, equation):
        aval: Any = equation.operands[0].aval
        program = self.update_program(aval.dtype, equation.params) if self.combine else None
        return super().printed_params(equation) | {"update_consts": (), "update_jaxpr": program}


def _replace(old, new):
    return new


@cached(256)
def _update_program(combine: Binary, dtype) -> ClosedJaxpr:
    return scalar_program(lambda old, new: [combine(old, new)], dtype, dtype)


def gathered_updates(x: Any, indices: Any, updates: ShapedArray, params: Any) -> Any:
    """The elements of `x` at the places of a scatter's updates; 0 where they are dropped."""
    numbers = params.dimension_numbers
    return gather(
        x, indices, GatherDimensionNumbers(*numbers), window_sizes(numbers, type_of(x).shape, updates.shape),
        indices_are_sorted=params.indices_are_sorted, unique_indices=params.unique_indices,
        mode=params.mode, fill_value=0,
    )  # fmt: skip


class LinearScatter(JointlyLinear[ScatterParams], Scatter):
    """Adds updates to the operand, or subtracts them: linear in both together."""

    traits = Scatter.traits.replace(linear=(0, 2), makes_nan=True)

    def operand_cotangents(self, cotangent, operands, params):
        _, indices, updates = operands
        if not is_linear(updates):
            return [cotangent]
        placed = gathered_updates(cotangent, indices, updates.aval, params)
        return [cotangent, None, self.with_sign(placed)]

    def with_sign(self, x: Any) -> Any:
        """`x` with the sign that updates have in the result."""
        return x


class ScatterAdd(LinearScatter):
    name = "scatter-add"
    combine = staticmethod(add)


scatter_add_p = ScatterAdd()


_IDS = np.dtype(np.uint32)

# Public functions -----------------------------------------------------------------------------------


def _function(primitive: Scatter, doc: str) -> Function:
    """The public function of `primitive`, described by `doc`."""

    def scatter(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
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

    The result has the shape and dtype of `operand`, whose dtype is that of `updates`, too.
    Raises: as `scatter`.
    Source: StableHLO specification, `scatter`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_add(np.zeros(3), np.array([[0], [2], [0]]), np.ones(3), places).tolist()
    [2.0, 0.0, 1.0]
    """,
)


# scatter ------------------------------------------------------------------------------------------


class ScatterReplace(JointlyLinear[ScatterParams], Scatter):
    name = "scatter"
    traits = Scatter.traits.replace(flops=0.0, parts="otherwise")

    def jvp(self, primals, tangents, params):
        x, indices, updates = primals
        tx, tu = instantiate(tangents[0]), instantiate(tangents[2])
        if params.unique_indices:
            tangents = bind(self, tx, indices, tu, params=params)
            return bind(self, *primals, params=params), tangents
        # The platform decides which of several updates to one element remains. One choice serves values and tangents:
        # those updates that remain are added to the operand, emptied where one was written.
        remains, untouched = self.remaining(type_of(x), indices, type_of(updates), params)

        def choose(old, new):
            base = select_n(untouched, zeros(type_of(old)), old)
            added = select_n(remains, zeros(type_of(new)), new)
            return bind(scatter_add_p, base, indices, added, params=params)

        return choose(x, updates), choose(tx, tu)

    def operand_cotangents(self, cotangent, operands, params):
        x, indices, updates = operands
        aval = type_of(updates)
        to_x = is_linear(x) and bind1(self, cotangent, indices, zeros(aval), params=params)
        to_updates = is_linear(updates) and gathered_updates(cotangent, indices, aval, params)
        if is_linear(updates) and not params.unique_indices:
            remains, _ = self.remaining(type_of(x), indices, aval, params)
            to_updates = select_n(remains, zeros(aval), to_updates)
        return [to_x, None, to_updates]

    def remaining(self, aval: ShapedArray, indices, updates: ShapedArray, params: ScatterParams):
        """(mask of the updates that remain in the result, mask of the operand's elements that no update is written to).

        `aval` is the operand's type. The platform's choice is found by scattering the updates' numbers, from 1 on.
        """
        numbers = _number_updates(updates.shape, params.dimension_numbers)
        blank = np.zeros((), _IDS)
        none_written = broadcast_in_dim(blank, aval.shape, ())
        written = bind1(self, none_written, indices, numbers, params=params)
        remains = eq(numbers, gathered_updates(written, indices, updates, params))
        return remains, eq(written, blank)


def _number_updates(updates: Shape, numbers: ScatterDimensionNumbers):
    """An array of shape `updates` that holds, from 1 on, the number of the index vector of each element."""
    index_axes = other_axes(len(updates), numbers.update_window_dims)
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

    The result has the shape and dtype of `operand`, whose dtype is that of `updates`, too.
    Raises: ShapeError for dimension numbers or shapes that do not fit, DtypeError for indices that are no integers and
    for different dtypes, ArgumentValueError for an unknown `mode`, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `scatter`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter(np.zeros(3), np.array([[2], [0]]), np.array([5.0, 7.0]), places).tolist()
    [7.0, 0.0, 5.0]
    """,
)


# scatter_sub, scatter_mul -------------------------------------------------------------------------


class ScatterSub(LinearScatter):
    name = "scatter-sub"
    traits = LinearScatter.traits.replace(parts="otherwise")
    combine = staticmethod(sub)

    def with_sign(self, x):
        return neg(x)


scatter_sub_p = ScatterSub()


scatter_sub = _function(
    scatter_sub_p,
    """`operand` with windows of `updates` subtracted where `scatter_indices` say; otherwise as `scatter_add`.

    The result has the shape and dtype of `operand`.
    Raises: as `scatter`.

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
        return bind(self, *primals, params=params), [total]

    def operand_cotangents(self, cotangent, operands, params):
        _, indices, updates = operands
        if is_linear(updates):
            raise MissingRule("scatter_mul can be transposed only with respect to its operand.")
        return bind(self, cotangent, indices, updates, params=params)


scatter_mul_p = ScatterMul()


scatter_mul = _function(
    scatter_mul_p,
    """`operand` with windows multiplied by `updates` where `scatter_indices` say; otherwise as `scatter_add`.

    Its derivative with respect to the updates needs `unique_indices=True`.

    The result has the shape and dtype of `operand`.
    Raises: as `scatter`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_mul(np.ones(3), np.array([[2], [2]]), np.array([3.0, 2.0]), places).tolist()
    [1.0, 1.0, 6.0]
    """,
)


# scatter_min, scatter_max -------------------------------------------------------------------------


class ScatterExtremum(Scatter):
    """A scatter that keeps the extremum of the old element and all updates to it.

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

        def gather_values(values):
            return gathered_updates(values, indices, updates_aval, params)

        wins = convert_element_type(eq(updates, gather_values(result)), dtype)
        stays = convert_element_type(bitwise_or(eq(x, result), ne(x, x)), dtype)
        shares = add(bind1(scatter_add_p, zeros(aval), indices, wins, params=params), stays)
        if type(tx) is not Zero:
            tx = mul(tx, div(stays, max(shares, dtype.type(1))))
        if type(tu) is not Zero:
            weighted = mul(tu, div(wins, max(gather_values(shares), dtype.type(1))))
            term = bind1(scatter_add_p, zeros(aval), indices, weighted, params=params)
            tx = add_tangents(tx, term)
        return [result], [tx]


scatter_min_p = ScatterExtremum("scatter-min", min)


scatter_min = _function(
    scatter_min_p,
    """`operand` with the lesser of it and `updates` where `scatter_indices` say; otherwise as `scatter_add`.

    The result has the shape and dtype of `operand`.
    Raises: as `scatter`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_min(np.zeros(3), np.array([[2], [2]]), np.array([1.0, -2.0]), places).tolist()
    [0.0, 0.0, -2.0]
    """,
)


scatter_max_p = ScatterExtremum("scatter-max", max)


scatter_max = _function(
    scatter_max_p,
    """`operand` with the greater of it and `updates` where `scatter_indices` say; otherwise as `scatter_add`.

    The result has the shape and dtype of `operand`.
    Raises: as `scatter`.

    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_max(np.zeros(3), np.array([[2], [2]]), np.array([1.0, -2.0]), places).tolist()
    [0.0, 0.0, 1.0]
    """,
)
