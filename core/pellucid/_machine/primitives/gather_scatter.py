"""`gather` and scatters: windows read from an array, and updates combined with windows of an array."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    Binary,
    Function,
    Ints,
    MissingRule,
    Shape,
    cached,
    canonical_shape,
    fits,
    inserted,
    is_static,
    smaller,
    strict_zip,
)
from pellucid._machine.ir import (
    INDEXING,
    Avals,
    BatchDim,
    ClosedJaxpr,
    Linear,
    Primitive,
    ShapedArray,
    Shown,
    Words,
    Zero,
    element_shape,
    is_linear,
    physical,
    registry,
    shaped_array,
    with_mark,
    words,
)
from pellucid._machine.lowering.faults import (
    CUT_INDEX_VECTORS,
    MERGED_WINDOWS,
    SCATTER_OF_ONE_WINDOW,
    UNEVEN_GATHER,
    UNEVEN_SCATTER,
)
from pellucid._machine.lowering.in_place import checked_update
from pellucid._machine.lowering.slices import element_apart
from pellucid._machine.tracing import Tracer, bind, bind1, type_of
from pellucid._machine.xla import Array
from pellucid._machine.xla.mlir import ir

from .arithmetic import add, div, max, min, mul, neg, sub
from .conversion import convert_element_type
from .counts import update_elements
from .creation import instantiate, iota, ones, zeros
from .families import add_tangents, kind_of
from .index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_gather,
    check_scatter,
    gathered_shape,
    other_axes,
    window_axes,
    window_sizes,
    with_batch,
    with_int_fields,
)
from .linear import JointlyLinear
from .logical import bitwise_or, eq, ne, select_n
from .monoids import highest, lowest, scalar_program
from .movement import broadcast_in_dim, brought_to, move_axis, reshape

_INT32 = np.dtype(np.int32)
_BOOL = np.dtype(bool)

# What the two lowerings share ---------------------------------------------------------------------


def _lowered_indices(ctx, indices, aval: ShapedArray) -> tuple[Any, ShapedArray]:
    """Indices of at least 32 bits, whose vectors each device has whole.

    A narrower dtype may not hold the operand's sizes.
    """
    if aval.dtype.itemsize < 4:
        wide = shaped_array(aval.shape, _INT32)
        indices, aval = ctx.convert(indices, wide), wide
    if aval.shape[-1] > 1:
        indices = ctx.whole_along(CUT_INDEX_VECTORS, indices, aval, (aval.ndim - 1,))
    return indices, aval


def _last_starts(ctx, indices: ShapedArray, operand: Shape, axes: Ints, windows: Shape):
    """The largest start indices with which a window lies within the operand, for each index vector."""
    largest = np.iinfo(indices.dtype).max
    starts = [operand[a] - windows[a] for a in axes]
    starts = [start if fits(start, largest) else smaller(start, largest) for start in starts]
    if is_static(starts):
        last = ctx.constant(np.array(starts, indices.dtype))
    else:
        last = ctx.convert(ctx.sizes(starts), indices.update(shape=(len(axes),)))
    return ctx.broadcast(last, (indices.ndim - 1,), indices)


def _moved_inside(ctx, indices, aval: ShapedArray, operand: Shape, axes: Ints, windows: Shape):
    """Index vectors of type `aval`, moved to the nearest at which a window lies in the operand."""
    last = _last_starts(ctx, aval, operand, axes, windows)
    return ctx.op1("stablehlo.clamp", aval, [ctx.full(aval, 0), indices, last])


def _dimension_numbers(ctx, numbers, windows: ShapedArray, indices: ShapedArray) -> ir.Attribute:
    """The attribute `#stablehlo.gather` or `#stablehlo.scatter`; element axes of extended dtypes, last in `windows`,
    are window axes.
    """
    window_dims, collapsed, index_map, batching, indices_batching = numbers
    inner = range(windows.ndim, windows.ndim + len(element_shape(windows)))
    is_gather = isinstance(numbers, GatherDimensionNumbers)
    names = list(numbers._fields)
    if not is_gather:
        names[3] = "input_batching_dims"
    fields = strict_zip(
        names, ((*window_dims, *inner), collapsed, index_map, batching, indices_batching)
    )
    shown = [f"{name} = {list(axes)}" for name, axes in fields if axes]
    shown.append(f"index_vector_dim = {indices.ndim - 1}")
    return ctx.attribute(f"#stablehlo.{'gather' if is_gather else 'scatter'}<{', '.join(shown)}>")


def _words_of_windows(numbers, dims: Words, indices_ndim: int, ndim: int) -> tuple[Words, Words]:
    """Factors of the indices and of the windows' array, for an operand with factors `dims`."""
    window_dims, _, _, batching, indices_batching = numbers
    points = words(indices_ndim, len(dims), mark="!")
    for i, j in strict_zip(batching, indices_batching):
        points[j] = dims[i]
    outer, inner = iter(points), iter([dims[i] for i in window_axes(numbers, len(dims))])
    return points, [next(inner) if d in window_dims else next(outer) for d in range(ndim)]


def movable_indices(indices: Any, dim: BatchDim) -> tuple[Any, BatchDim]:
    """Batched indices whose last axis still holds the index vectors, and their batch axis."""
    last = type_of(indices).ndim - 1
    return (move_axis(indices, last, last - 1), last - 1) if dim == last else (indices, dim)


# gather -------------------------------------------------------------------------------------------


class GatherParams(NamedTuple):
    dimension_numbers: GatherDimensionNumbers
    fill_value: Any
    indices_are_sorted: bool
    mode: GatherScatterMode
    slice_sizes: Shape
    unique_indices: bool


def _linear_gather(avals: Avals, params: GatherParams) -> Linear | None:
    # Sums of zeros are zero and of NaNs NaN; sums of any other elements that windows outside are filled with, differ.
    fill = params.fill_value
    return (0,) if fill is None or fill == 0 or fill != fill else None  # noqa: PLR0124


class Gather(JointlyLinear[GatherParams]):
    name = "gather"
    traits = INDEXING.replace(linear=_linear_gather, passive=(1,), touches="part")

    def abstract_eval(self, avals, params):
        x, indices = avals
        numbers, sizes = params.dimension_numbers, params.slice_sizes
        check_gather(x, indices, numbers, sizes)
        return [shaped_array(gathered_shape(numbers, indices.shape, sizes), x.dtype, x.weak_type)]

    def factors(self, avals, results, params):
        x, indices = avals
        numbers = params.dimension_numbers
        # Windows keep the operand's dimensions that they have whole; its others can't be cut, nor can indices.
        partial = [i for i, n in enumerate(params.slice_sizes) if n != x.shape[i]]
        batching = numbers.operand_batching_dims
        whole = {*partial, *numbers.collapsed_slice_dims}.difference(batching)
        dims = with_mark(words(x.ndim), whole, "!")
        points, result = _words_of_windows(numbers, dims, indices.ndim, results[0].ndim)
        return [dims, points], [result]

    def jvp(self, primals, tangents, params):
        filled = params.mode is GatherScatterMode.FILL_OR_DROP
        linear = params._replace(fill_value=0) if filled else params
        results = bind(self, *primals, params=params)
        return results, bind(self, tangents[0], primals[1], params=linear)

    def operand_cotangents(self, cotangent, operands, params):
        x, indices = operands
        updated = ScatterParams(
            ScatterDimensionNumbers(*params.dimension_numbers), params.indices_are_sorted, params.mode, params.unique_indices
        )  # fmt: skip
        zero = zeros(x.aval.cotangent().strip_weak_type())
        return bind(scatter_add_p, zero, indices, cotangent, params=updated)

    def batch(self, axis, operands, dims, params):
        (x, indices), (dim, indices_dim) = operands, dims
        indices, indices_dim = movable_indices(indices, indices_dim)
        numbers, sizes = params.dimension_numbers, params.slice_sizes
        indices_ndim = type_of(indices).ndim - (indices_dim is not None)
        ndim = indices_ndim - 1 + len(numbers.offset_dims)
        numbers, out_dim = with_batch(numbers, len(sizes), ndim, dim, indices_dim)
        if dim is None:
            params = params._replace(indices_are_sorted=False, unique_indices=False)
        else:
            sizes = inserted(
                sizes, dim, axis.size if indices_dim is None else smaller(1, axis.size)
            )
        batched = params._replace(
            dimension_numbers=numbers, slice_sizes=sizes,
            indices_are_sorted=params.indices_are_sorted and not indices_dim,
        )  # fmt: skip
        return bind(self, x, indices, params=batched), [out_dim]

    def lower(self, ctx, operands, params):
        (x, indices), (aval, indices_aval) = operands, ctx.avals_in
        [result] = ctx.avals_out
        numbers = params.dimension_numbers
        indices, indices_aval = _lowered_indices(ctx, indices, indices_aval)
        attributes = {
            "dimension_numbers": _dimension_numbers(ctx, numbers, result, indices_aval),
            "slice_sizes": (*params.slice_sizes, *element_shape(aval)),
            "indices_are_sorted": params.indices_are_sorted,
        }
        x = ctx.in_even_parts(UNEVEN_GATHER, x, aval, all)
        indices = ctx.in_even_parts(UNEVEN_GATHER, indices, indices_aval, all)
        x = element_apart(ctx, x, aval, result)
        if params.mode is GatherScatterMode.CLIP and ctx.has_fault(MERGED_WINDOWS):
            indices = _moved_inside(
                ctx, indices, indices_aval, aval.shape, numbers.start_index_map, params.slice_sizes
            )
        gathered = ctx.op1("stablehlo.gather", result, [x, indices], attributes)
        if params.mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
            return [gathered]  # the operation moves windows itself
        inside = self._inside(ctx, indices, indices_aval, aval.shape, params)
        index_axes = other_axes(result.ndim, numbers.offset_dims)
        stored = physical(result)
        mask = ctx.broadcast(inside, index_axes, shaped_array(stored.shape, _BOOL))
        fill = 0 if params.mode is GatherScatterMode.ONE_HOT else params.fill_value
        fill = ctx.full(stored, np.asarray(fill).astype(stored.dtype))
        return [ctx.op1("stablehlo.select", result, [mask, gathered, fill])]

    def _inside(self, ctx, indices, aval: ShapedArray, shape: Shape, params: GatherParams):
        """For each index vector, whether its window lies within the operand."""
        last = _last_starts(
            ctx, aval, shape, params.dimension_numbers.start_index_map, params.slice_sizes
        )
        inside = ctx.compare(indices, last, "LE", aval)
        mask = shaped_array(aval.shape, _BOOL)
        if kind_of(aval.dtype) == "signed":
            not_negative = ctx.compare(indices, ctx.full(aval, 0), "GE", aval)
            inside = ctx.op1("stablehlo.and", mask, [inside, not_negative])
        one = shaped_array(aval.shape[:-1], _BOOL)
        return ctx.reduce(
            inside, ctx.constant(np.array(True)), [aval.ndim - 1], "stablehlo.and", one
        )


gather_p = Gather()


class _NegativeZero(float):
    """-0.0 among params, which is not equal to 0.0: they are other programs."""

    def __new__(cls) -> Self:
        return super().__new__(cls, -0.0)

    def __eq__(self, other: object) -> bool:
        return type(other) is _NegativeZero

    def __hash__(self) -> int:
        return hash(_NegativeZero)


def fill_param(dtype: Any, fill_value: Any) -> Any:
    """A fill value as a hashable Python number; all NaNs are one object, so that params compare equal.

    By default it is NaN, the least integer, or the largest unsigned one.
    """
    if fill_value is None:
        kind = kind_of(dtype)
        if kind in ("floating", "complex"):
            return math.nan
        return (lowest if kind == "signed" else highest)(
            physical(shaped_array((), dtype)).dtype
        ).item()
    if isinstance(fill_value, Tracer) or np.ndim(fill_value) != 0:
        raise ArgumentTypeError(
            "gather needs a fill value that is a number, known when the program is traced.",
            got=f"got {type_of(fill_value).text()}",
            do="Gather with the default fill value and choose with `lax.select`.",
        )
    value = np.asarray(fill_value).item()
    if not isinstance(value, float):
        return value
    is_negative_zero = value == 0 and math.copysign(1, value) < 0
    return math.nan if math.isnan(value) else _NegativeZero() if is_negative_zero else value


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Ints,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Windows of `operand`, of static `slice_sizes`, that begin at the index vectors `start_indices`.

    `mode` says what happens to windows outside (see `GatherScatterMode`); None promises that there are none.
    `fill_value` fills them in mode "fill"; by default NaN, the least integer, the largest unsigned one, True.
    `unique_indices` and `indices_are_sorted` are promises that may make it faster.

    The result has the dtype of `operand`, the batch shape of `start_indices` and, at `offset_dims`, the sizes of the
    windows.
    Raises: ShapeError for dimension numbers or sizes that do not fit, DtypeError for indices that aren't integers,
    TypeError for sizes that are none, ArgumentValueError for an unknown `mode`, ArgumentTypeError for lists and
    strings.
    Source: StableHLO specification, `gather`.

    >>> rows = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(np.eye(3), np.array([[2], [0]]), rows, (1, 3)).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    kind = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    filled = kind is GatherScatterMode.FILL_OR_DROP
    params = GatherParams(
        with_int_fields(dimension_numbers),
        fill_param(type_of(operand).dtype, fill_value) if filled else None,
        bool(indices_are_sorted),
        kind,
        canonical_shape(slice_sizes),
        bool(unique_indices),
    )
    return bind1(gather_p, operand, start_indices, params=params)


# Scattering ---------------------------------------------------------------------------------------


def _scattered_copy(x, indices, updates, combine, *fields):
    """A scatter of one window that doesn't write in place."""
    params, replace = ScatterParams(*fields), registry["scatter"]
    written, new = written_apart(
        x, updates, lambda array, window: bind1(replace, array, indices, window, params=params)
    )
    return select_n(written, x, combine(x, new) if combine else new)


def written_apart(x: Any, update: Any, write: Binary) -> tuple[Any, Any]:
    """(whether `write(x, update)` replaces each element of `x`, `update` written into zeros)."""
    aval, window = type_of(x), type_of(update)
    yes, no = ones(window.update(dtype=_BOOL)), zeros(aval.update(dtype=_BOOL))
    return write(no, yes), write(zeros(aval), update)


def _may_be_sliced(ctx, x) -> bool:
    """Whether `x` is a dynamic slice, or may become one when the program is partitioned."""
    is_slice = getattr(x.owner, "name", None) == "stablehlo.dynamic_slice"
    return ctx.has_fault(SCATTER_OF_ONE_WINDOW) and (
        is_slice or ctx.sharding_attributes is not None
    )


class ScatterParams(NamedTuple):
    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: GatherScatterMode
    unique_indices: bool


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
        dims = [word + ("^" if i in covered else "!") for i, word in enumerate(words(x.ndim))]
        points, update = _words_of_windows(numbers, dims, indices.ndim, updates.ndim)
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
        indices, indices_aval = _lowered_indices(ctx, indices, indices_aval)
        if params.mode is GatherScatterMode.CLIP:
            windows = window_sizes(numbers, aval.shape, updates_aval.shape)
            axes = numbers.scatter_dims_to_operand_dims
            indices = _moved_inside(ctx, indices, indices_aval, aval.shape, axes, windows)
        attributes = {
            "scatter_dimension_numbers": _dimension_numbers(
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
        if is_one_window and _may_be_sliced(ctx, x):
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
        combine: Any = self.combine or _replaced
        return _update_program(combine, dtype)

    def printed_params(self, equation):
        aval: Any = equation.operands[0].aval
        program = self.update_program(aval.dtype, equation.params) if self.combine else None
        return super().printed_params(equation) | {"update_consts": (), "update_jaxpr": program}


def _replaced(old, new):
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
        return [cotangent, None, self.signed(placed)]

    def signed(self, x: Any) -> Any:
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
    traits = Scatter.traits.replace(flops=0.0)

    def jvp(self, primals, tangents, params):
        x, indices, updates = primals
        tx, tu = instantiate(tangents[0]), instantiate(tangents[2])
        if params.unique_indices:
            tangents = bind(self, tx, indices, tu, params=params)
            return bind(self, *primals, params=params), tangents
        # The platform decides which of several updates to one element remains. One choice serves values and tangents:
        # those updates that remain are added to the operand, emptied where one was written.
        remains, untouched = self.remaining(type_of(x), indices, type_of(updates), params)

        def chosen(old, new):
            base = select_n(untouched, zeros(type_of(old)), old)
            added = select_n(remains, zeros(type_of(new)), new)
            return bind(scatter_add_p, base, indices, added, params=params)

        return chosen(x, updates), chosen(tx, tu)

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
        """(which updates remain, which elements of an operand of type `aval` none is written to): each has a number."""
        numbers = _numbered(updates.shape, params.dimension_numbers)
        blank = np.zeros((), _IDS)
        none_written = broadcast_in_dim(blank, aval.shape, ())
        written = bind1(self, none_written, indices, numbers, params=params)
        remains = eq(numbers, gathered_updates(written, indices, updates, params))
        return remains, eq(written, blank)


def _numbered(updates: Shape, numbers: ScatterDimensionNumbers):
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
    combine = staticmethod(sub)

    def signed(self, x):
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
