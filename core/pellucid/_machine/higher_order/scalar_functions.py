"""`reduce`, `reduce_window`, `scatter_apply`: user-defined scalar functions applied to arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    Axes,
    Binary,
    Function,
    Ints,
    MissingRule,
    Shape,
    ShapeError,
    Unary,
    dtypes,
    ints,
    strict_zip,
)
from pellucid._machine.ir import (
    Avals,
    BatchAxis,
    ClosedJaxpr,
    HigherOrderPrimitive,
    Operands,
    P,
    Results,
    Traits,
    Values,
    Zero,
    derived_types,
    shaped_array,
    words,
)
from pellucid._machine.lowering.dynamic_shapes import reduce_window as lowered_reduce_window
from pellucid._machine.lowering.summed_products import apart_from_product
from pellucid._machine.primitives import (
    GatherScatterMode,
    ScatterDimensionNumbers,
    aligned_at,
    broadcast_in_dim,
    concatenate,
    convert_element_type,
    monoid_of,
    pad,
    reduce_and,
    reduce_by_halves,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
    reduced_shape,
    reshape,
    slice,
    with_batch_dim,
    with_int_fields,
    zero_of,
    zeros,
)
from pellucid._machine.primitives.counts import pairs, window_pairs
from pellucid._machine.primitives.indexed_windows import ScatterParams
from pellucid._machine.primitives.scatter import Scatter, gathered_updates, scatter_p
from pellucid._machine.primitives.windows import (
    REDUCE_WINDOW,
    WindowParams,
    batched_window,
    reduce_window_by,
    window_attributes,
    window_params,
    window_shape,
)
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import Tracer, bind, bind1, name_of, replay, stage, type_of, types_of
from pellucid._machine.transforms import (
    batch_flat,
    check_callable,
    checked_leaves,
    concrete_value,
    jvp_flat,
)
from pellucid._machine.xla import Array, flatten, treedef_tuple

from .bodies import TracedBody, body_of, differing_types, stand_in


def combination(caller: str, computation: Binary, tree: Any, avals: Avals) -> TracedBody:
    """The program of `computation` on two trees of scalars with the dtypes of `avals`."""
    check_callable(computation, caller)
    scalars = [shaped_array((), a.dtype) for a in avals]
    body = body_of(computation, treedef_tuple([tree, tree]), [*scalars, *scalars], caller)
    if body.out_tree != tree or differing_types(scalars, body.out_avals):
        raise ArgumentTypeError(
            f"{caller}: `{name_of(computation)}` must give scalars of the types that it takes.",
            got=[
                f"taken {tree.unflatten(scalars)}",
                f"returned {body.out_tree.unflatten(body.out_avals)}",
            ],
        )
    return body


def _monoid(combined: TracedBody, avals: Avals, initial: Operands) -> str | None:
    """Name of the monoid that a combination implements, if the initial value is its identity; else None."""
    jaxpr = combined.program.jaxpr
    value = concrete_value(initial[0]) if len(initial) == 1 else None
    if len(jaxpr.equations) != 1 or value is None or combined.consts:
        return None
    [equation] = jaxpr.equations
    monoid = monoid_of(equation.primitive.name)
    if (
        monoid is None
        or set(equation.operands) != set(jaxpr.invars)
        or list(jaxpr.outvars) != list(equation.results)
    ):
        return None
    dtype = avals[0].dtype
    same = np.asarray(value, dtype) == np.asarray(monoid.identity(dtype))
    return monoid.name if bool(same) else None


class Arguments(NamedTuple):
    """Arguments of a reduction: flat arrays, their types, initial values of their dtypes, and the combination."""

    tree: Any
    arrays: Values
    avals: Avals
    initial: Values
    combination: TracedBody
    monoid: str | None


def _arguments(caller: str, names: Sequence[str], operands, init_values, computation) -> Arguments:
    """The checked arguments of a reduction, which messages call by `names`.

    Raises: ShapeError for trees and arrays that don't fit each other; ArgumentTypeError for no arrays, or a computation
    that changes types.
    """
    leaves, tree = flatten(operands)
    start_leaves, start_tree = flatten(init_values)
    if tree != start_tree:
        raise ShapeError(
            f"{caller} needs one initial value for each operand.",
            got=[f"{names[0]}: {tree}", f"{names[1]}: {start_tree}"],
        )
    leaves = checked_leaves(
        [*leaves, *start_leaves], caller, stand_in(caller, *names), (operands, init_values)
    )
    n = len(leaves) // 2
    arrays, initial = leaves[:n], leaves[n:]
    avals, starts = types_of(arrays), types_of(initial)
    if not avals:
        raise ArgumentTypeError(f"{caller} needs at least one array.")
    if any(a.shape != avals[0].shape for a in avals):
        raise ShapeError(
            f"{caller} needs arrays of one shape.",
            got=[f"operand {i}: {a.text()}" for i, a in enumerate(avals)],
        )
    for i, (a, s) in enumerate(strict_zip(avals, starts)):
        promoted, _ = dtypes.promote(((a.dtype, False), (s.dtype, s.weak_type)))
        if s.shape != () or promoted != a.dtype or (s.dtype != a.dtype and not s.weak_type):
            raise ShapeError(
                f"{caller} needs scalar initial values of the operands' dtypes.",
                got=f"operand {i}: {a.text()}, initial value: {s.text()}",
            )
        if s.dtype != a.dtype:
            initial[i] = convert_element_type(initial[i], a.dtype)
    combined = combination(caller, computation, tree, avals)
    program, consts, _ = combined
    if not any(isinstance(c, Tracer) or type_of(c).shape for c in consts):
        n, jaxpr = len(consts), program.jaxpr
        closed = jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:])
        combined = combined._replace(program=ClosedJaxpr(closed, consts), consts=[])
    return Arguments(tree, arrays, avals, initial, combined, _monoid(combined, avals, initial))


class CombiningReduction(HigherOrderPrimitive[P]):
    """A reduction of operands, followed by their initial values; has one result per operand."""

    varies_jointly = True
    types = derived_types

    def shape(self, shape: Shape, params: P) -> Shape:
        """Shape of the result for an operand of shape `shape`."""
        raise NotImplementedError(type(self))

    def decompose(self, values: Operands, params: P, consts: Operands = ()) -> Values:
        """The results, expressed in differentiable and batchable operations; the program takes `consts` first."""
        raise NotImplementedError(type(self))

    def results(self, arguments: Arguments, params: P) -> Any:
        """The results in the structure of the operands; decomposed if the program closes over values."""
        tree, arrays, _, initial, (_, consts, _), _ = arguments
        values = [*arrays, *initial]
        return tree.unflatten(
            self.decompose(values, params, consts) if consts else bind(self, *values, params=params)
        )

    def batched_params(self, params: P) -> P:
        """Params for operands with a leading batch axis."""
        raise NotImplementedError(type(self))

    def abstract_eval(self, avals, params):
        arrays = avals[: len(avals) // 2]
        return [shaped_array(self.shape(a.shape, params), a.dtype) for a in arrays]

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        _, out_tangents, _ = jvp_flat(
            lambda *xs: (self.decompose(xs, params), ()), primals, tangents
        )
        return results, out_tangents

    def batch(self, axis, operands, dims, params):
        n = len(operands) // 2
        if any(d is not None for d in dims[n:]):
            return batch_flat(lambda *xs: self.decompose(xs, params), axis, operands, dims)
        arrays = aligned_at(axis, operands[:n], dims[:n])
        return bind(self, *arrays, *operands[n:], params=self.batched_params(params)), [0] * n


# reduce -------------------------------------------------------------------------------------------------


class ScalarReduceParams(NamedTuple):
    """`computation` is the user's function, for the program's text; `jaxpr` combines scalars."""

    computation: Any
    dimensions: Axes
    jaxpr: ClosedJaxpr


class Reduce(CombiningReduction[ScalarReduceParams]):
    """A reduction along whole dimensions."""

    name = "reduce"
    traits = Traits(
        kind="reduction", flops=pairs, makes_nan=True, returns_list=True,
        parts=lambda avals, params: "otherwise" if len(avals) > 2 else "factors",
    )  # fmt: skip

    def shape(self, shape, params):
        return reduced_shape(shape, params.dimensions, "reduce")

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim)
        kept = [word for i, word in enumerate(dims) if i not in params.dimensions]
        n = len(results)
        return [*[dims] * n, *[()] * n], [kept] * n

    def decompose(self, values, params, consts=()):
        return _reduce_by_halves(params.jaxpr, values, params.dimensions, consts)

    def batched_params(self, params):
        return with_batch_dim(params, ["dimensions"], 0)

    def lower(self, ctx, operands, params):
        op = ctx.op(
            "stablehlo.reduce", ctx.types(ctx.avals_out), _apart_from_products(ctx, operands),
            {"dimensions": params.dimensions}, regions=1,
        )  # fmt: skip
        ctx.jaxpr_body(op.regions[0], params.jaxpr)
        return list(op.results)


reduce_p = Reduce()


def _apart_from_products(ctx: Any, operands: Any) -> list[Any]:
    """Operands of a reduction, values before initial values, of which the former are kept apart from products of matrices."""
    n, shape = len(ctx.avals_out), ctx.avals_out[0].shape
    pairs = strict_zip(operands[:n], ctx.avals_in[:n])
    return [*(apart_from_product(ctx, x, aval, shape) for x, aval in pairs), *operands[n:]]


def _reduce_by_halves(
    jaxpr: ClosedJaxpr, values: Operands, dimensions: Ints, consts: Operands
) -> Values:
    """The reduction as repeated combination of halves, which can be differentiated and batched."""
    n = len(values) // 2
    shape = type_of(values[0]).shape
    rest = tuple([size for i, size in enumerate(shape) if i not in dimensions])
    starts = [broadcast_in_dim(x, rest, ()) for x in values[n:]]
    if math.prod(shape[d] for d in dimensions) == 0:
        return starts
    function = functools.partial(replay, jaxpr.jaxpr, jaxpr.consts, *consts)
    combined = functools.partial(_apply_elementwise, function)
    return combined(starts, reduce_by_halves(combined, values[:n], tuple(dimensions)))


def _apply_elementwise(function: Callable[..., Results], a: Operands, b: Operands) -> Values:
    """A function of scalars applied elementwise to arrays of equal shape."""
    shape = type_of(a[0]).shape
    size = math.prod(shape)
    flat = [reshape(x, (size,)) for x in (*a, *b)]
    results, dims = batch_flat(function, BatchAxis(size), flat, [0] * len(flat))
    return [reshape(x, shape) for x in aligned_at(BatchAxis(size), results, dims)]


def reduce(
    operands: Any,
    init_values: Any,
    computation: Binary,
    dimensions: Ints,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Any:
    """Combines the elements of the arrays in `operands` along `dimensions` by `computation`.

    `computation` must be associative; it takes two trees of scalars like `operands` and returns one. `init_values`, a
    tree of scalars, is combined with the elements any number of times, so it should be the identity. The order of
    combination is undefined. Known operations (add, mul, max, min, and, or, xor) become their own primitives.

    Raises: ArgumentTypeError where types don't agree, ShapeError for arrays of different shapes.

    >>> reduce(np.arange(5), 0, lambda x, y: x + y, (0,))
    Array(10, dtype=int32)
    """
    names = ("operands", "init_values")
    arguments = _arguments("reduce", names, operands, init_values, computation)
    axes = ints(dimensions)
    if arguments.monoid is not None:
        more = {"out_sharding": out_sharding} if arguments.monoid == "sum" else {}
        result = _BY_MONOID[arguments.monoid](arguments.arrays[0], axes, **more)
        return arguments.tree.unflatten([result])
    params = ScalarReduceParams(computation, axes, arguments.combination.program)
    return reduce_p.results(arguments, params)


_BY_MONOID: dict[str, Function] = {
    "sum": reduce_sum, "prod": reduce_prod, "max": reduce_max, "min": reduce_min,
    "and": reduce_and, "or": reduce_or, "xor": reduce_xor,
}  # fmt: skip


# reduce_window ------------------------------------------------------------------------------------------


class ReduceWindowParams(NamedTuple):
    """The windows, and `jaxpr`, which combines scalars; `consts` only appears in printed programs, as in JAX."""

    base_dilation: Shape
    consts: tuple[()]
    jaxpr: ClosedJaxpr
    padding: Any
    window_dilation: Shape
    window_dimensions: Shape
    window_strides: Shape

    @property
    def window(self) -> WindowParams:
        """The windows."""
        return WindowParams(
            self.window_dimensions,
            self.window_strides,
            self.padding,
            self.base_dilation,
            self.window_dilation,
        )

    def with_window(self, window: WindowParams) -> ReduceWindowParams:
        """These params with other windows."""
        return self._replace(**window._asdict())


class ScalarReduceWindow(CombiningReduction[ReduceWindowParams]):
    """A reduction over windows."""

    name = "reduce_window"
    traits = Traits(kind="reduction", flops=window_pairs, makes_nan=True, returns_list=True)

    def shape(self, shape, params):
        return window_shape(shape, params.window, "reduce_window")

    def factors(self, avals, results, params):
        dims, n = words(avals[0].ndim, mark="~"), len(results)
        return [*[dims] * n, *[()] * n], [dims] * n

    def decompose(self, values, params, consts=()):
        # The elements of each window along a new leading axis.
        n = len(values) // 2
        windows = [
            _windows(x, start, params.window) for x, start in strict_zip(values[:n], values[n:])
        ]
        return _reduce_by_halves(params.jaxpr, [*windows, *values[n:]], (0,), consts)

    def batched_params(self, params):
        return params.with_window(batched_window(params.window, 0))

    def lower(self, ctx, operands, params):
        return lowered_reduce_window(
            ctx, ctx.avals_out, _apart_from_products(ctx, operands), window_attributes(ctx, params.window),
            lambda region: ctx.jaxpr_body(region, params.jaxpr),
        )  # fmt: skip


reduce_window_p = ScalarReduceWindow()


def _windows(operand, initial, window: WindowParams):
    """The elements of the windows of `operand`: an axis for the elements of a window, then the axes of window
    positions.
    """
    aval = type_of(operand)
    counts = window_shape(aval.shape, window, "reduce_window")
    holes = [dilation - 1 for dilation in window.base_dilation]
    padded = pad(operand, initial, [(*p, hole) for p, hole in strict_zip(window.padding, holes)])
    strides = window.window_strides
    elements = []
    for position in np.ndindex(*window.window_dimensions):
        start = [p * d for p, d in strict_zip(position, window.window_dilation)]
        limit = [s + (c - 1) * stride + 1 for s, c, stride in strict_zip(start, counts, strides)]
        elements.append(slice(padded, start, limit, strides))
    return concatenate([reshape(x, (1, *counts)) for x in elements], 0)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Binary,
    window_dimensions: Ints,
    window_strides: Ints | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
) -> Any:
    """Combines the elements of the arrays in `operands` within sliding windows by `computation`, as in `reduce`.

    Windows have shape `window_dimensions` and move by `window_strides` over the array, which is padded with
    `init_value`: 'VALID', 'SAME', 'SAME_LOWER', or (low, high) for each dimension. Dilations expand the array or the
    windows. Known operations (add, max, min) become their own primitives.

    Raises: ArgumentTypeError for a computation that changes types, ShapeError for arrays of different shapes.

    >>> reduce_window(np.arange(4.0), 0.0, lambda x, y: x + y, (2,))
    Array([1., 3., 5.], dtype=float32)
    """
    arguments = _arguments(
        "reduce_window", ("operand", "init_value"), operand, init_value, computation
    )
    settings = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    if arguments.monoid in REDUCE_WINDOW:
        result = reduce_window_by(arguments.monoid, arguments.arrays[0], *settings)
        return arguments.tree.unflatten([result])
    window = window_params(arguments.avals[0].shape, *settings, "reduce_window")
    program = arguments.combination.program
    params = ReduceWindowParams(consts=(), jaxpr=program, **window._asdict())
    return reduce_window_p.results(arguments, params)


# scatter_apply --------------------------------------------------------------------------------------


class ScatterApplyParams(NamedTuple):
    """`update_jaxpr` takes the current element and a scalar that it ignores."""

    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: GatherScatterMode
    unique_indices: bool
    update_jaxpr: ClosedJaxpr


class ScatterApply(HigherOrderPrimitive[ScatterApplyParams], Scatter):  # pyright: ignore[reportGeneralTypeIssues]  # other params
    """A scatter whose updates are computed from the current elements; the given updates only provide a shape."""

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
            return [result], [zero_of(result)]
        if not params.unique_indices:
            raise MissingRule(
                "scatter_apply has no derivative where it may apply its function to one element several times.",
                do="Pass `unique_indices=True` if it does not.",
            )
        aval, update = type_of(updates), params.update_jaxpr
        function = functools.partial(replay, update.jaxpr, update.consts)
        there, moved = (gathered_updates(value, indices, aval, params) for value in (x, tx))
        _, [slope], _ = jvp_flat(
            lambda x: (_apply_elementwise(function, [x], [x]), []), [there], [moved]
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


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Unary,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Ints = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Applies `func` to the elements of `operand` in the windows that start at the index vectors.

    `func` maps a scalar to one of the same dtype. Where windows overlap, it is applied once for each. `update_shape` is
    the shape that an array of updates would have; it determines the size of the windows. Its derivative needs
    `unique_indices=True`.

    The result has the shape and dtype of `operand`.
    Raises: ShapeError for dimension numbers or shapes that do not fit, DtypeError for indices that aren't integers,
    ArgumentTypeError for a `func` that cannot be called, and for lists and strings.
    Source: StableHLO specification, `scatter`.

    >>> import numpy as np
    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_apply(np.arange(4.0), np.array([[1], [3]]), lambda e: -e, places, update_shape=(2,)).tolist()
    [0.0, -1.0, 2.0, -3.0]
    """
    check_callable(func, "scatter_apply")
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
