"""Sorting, and the greatest elements: exactly, or most of them quickly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    Function,
    ShapeError,
    Symbol,
    cached,
    canonical_shape,
    ints,
    replace_axis_size,
    smaller,
    strict_zip,
)
from pellucid._machine.base.narrowing import is_list_or_tuple
from pellucid._machine.ir import (
    ClosedJaxpr,
    P,
    Primitive,
    ShapedArray,
    Traits,
    Values,
    Zero,
    alike,
    shaped_array,
    with_mark,
    words,
)
from pellucid._machine.lowering.dynamic_shapes import shape_operands
from pellucid._machine.lowering.faults import UNEVEN_TOP_K
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla import Array
from pellucid._machine.xla.compile import approx_top_k_sizes

from .arithmetic import neg
from .assembly import aligned_at_one_dim
from .conversion import imag, real
from .counts import sort_comparisons, top_k_comparisons
from .creation import broadcasted_iota
from .families import constant_like, kind_of, texts, zero_of
from .gather import gather
from .index_dims import GatherDimensionNumbers, GatherScatterMode
from .logical import bitwise_and, bitwise_or, eq, eq_to_p, gt, lt, lt_to_p, ne, select_n
from .monoids import scalar_program
from .movement import canonical_axis, expand_dims, move_axis, other_axes, rev, with_batch_dim
from .slicing import slice_in_dim

_INT32 = np.dtype(np.int32)


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """Elements of `x` at the positions `indices` along `axis`; all other axes are batch axes."""
    ndim = type_of(x).ndim
    others = other_axes(ndim, [axis])
    numbers = GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=(axis,), start_index_map=(axis,),
        operand_batching_dims=others, start_indices_batching_dims=others,
    )  # fmt: skip
    sizes = [smaller(1, size) for size in type_of(x).shape]
    return gather(
        x, expand_dims(indices, (ndim,)), numbers, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS
    )


# sort ---------------------------------------------------------------------------------------------


class SortParams(NamedTuple):
    dimension: int
    is_stable: bool
    num_keys: int


class Sort(Primitive[SortParams]):
    name = "sort"
    traits = Traits(kind="reduction", flops=sort_comparisons, returns_list=True)

    def abstract_eval(self, avals, params):
        got = texts("operand", avals)
        if any(a.shape != avals[0].shape for a in avals):
            raise ShapeError("sort needs operands of one shape.", got=got)
        if any(kind_of(a.dtype) == "key" for a in avals[: params.num_keys]):
            raise DtypeError("sort can't order random keys.", got=got)
        return [shaped_array(a.shape, a.dtype, a.weak_type) for a in avals]

    def factors(self, avals, results, params):
        dims = with_mark(words(avals[0].ndim), [params.dimension], "!")
        dims = [word + "=" for word in dims]
        return [dims] * len(avals), [dims] * len(results)

    def jvp(self, primals, tangents, params):
        dimension = params.dimension
        aval = type_of(primals[0])
        positions = broadcasted_iota(
            np.dtype(np.uint32), aval.shape, dimension, out_sharding=aval.shown_sharding
        )
        *results, order = bind(self, *primals, positions, params=params)
        return results, [
            t if type(t) is Zero else take_along(t, order, dimension) for t in tangents
        ]

    def batch(self, axis, operands, dims, params):
        aligned, dim = aligned_at_one_dim(axis, operands, dims)
        batched = with_batch_dim(params, ["dimension"], dim)
        return bind(self, *aligned, params=batched), [dim] * len(operands)

    def lower(self, ctx, operands, params):
        attributes = {"dimension": params.dimension, "is_stable": params.is_stable}
        op = ctx.op("stablehlo.sort", ctx.types(ctx.avals_out), operands, attributes, regions=1)
        comparator = _comparator(tuple([a.dtype for a in ctx.avals_in]), params.num_keys)
        ctx.jaxpr_body(op.regions[0], comparator)
        return list(op.results)


sort_p = Sort()


@cached(256)
def _comparator(dtypes: tuple[Any, ...], num_keys: int) -> ClosedJaxpr:
    """The program by which a sort compares two elements of each operand: whether the first ones come first."""

    def comes_first(*scalars: Any) -> Values:
        pairs = list(strict_zip(scalars[::2], scalars[1::2]))[:num_keys]
        keys = [key for x, y in pairs for key in strict_zip(_ordered_parts(x), _ordered_parts(y))]
        result: Any = None
        for x, y in reversed(keys):
            floating = kind_of(type_of(x).dtype) == "floating"
            less = bind1(lt_to_p, x, y) if floating else lt(x, y)
            if result is not None:
                equal = bind1(eq_to_p, x, y) if floating else eq(x, y)
                less = bitwise_or(less, bitwise_and(equal, result))
            result = less
        return [result]

    return scalar_program(comes_first, *(dtype for dtype in dtypes for _ in range(2)))


def _ordered_parts(x) -> Values:
    """Real numbers, with one zero and one NaN only, by whose total order `x` is ordered."""
    match kind_of(type_of(x).dtype):
        case "complex":
            return [*_ordered_parts(real(x)), *_ordered_parts(imag(x))]
        case "floating":
            # XLA recognizes exactly this pattern and sorts by radix where it can.
            zero = constant_like(x, 0)
            one_zero = select_n(eq(x, zero), x, zero)
            return [select_n(ne(x, x), one_zero, constant_like(x, np.nan))]
    return [x]


@overload
def sort(
    operand: ArrayLike, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array: ...
@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> tuple[Array, ...]: ...
def sort(
    operand: Any,
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Any:
    """`operand` in increasing order along `dimension`; of a sequence of arrays, all in the order of the first.

    The first `num_keys` arrays are compared, one after the other. NaNs come last; 0.0 and -0.0 are equal, as are
    all NaNs; complex numbers are ordered by their real, then their imaginary parts. A stable sort keeps the order
    of equal elements. Gives a tuple if `operand` is a sequence.

    Results have the shapes and dtypes of the operands, any but PRNG keys among those compared.
    Raises: AxisError for a dimension out of bounds, ShapeError for arrays of different shapes, DtypeError for PRNG
    keys, ArgumentValueError for a number of keys that is not between 1 and that of the arrays, ArgumentTypeError for
    what isn't an array.
    Source: StableHLO specification, `sort`.

    >>> sort(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    if not is_list_or_tuple(operand):
        return sort((operand,), dimension, is_stable, num_keys)[0]
    if not operand:
        raise ArgumentValueError("sort needs at least one array.")
    if not 1 <= num_keys <= len(operand):
        raise ArgumentValueError(
            f"sort needs between 1 and {len(operand)} keys, the number of arrays, got num_keys={num_keys}."
        )
    dimension = canonical_axis(dimension, type_of(operand[0]).ndim)
    return tuple(bind(sort_p, *operand, params=SortParams(dimension, bool(is_stable), num_keys)))


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """`keys` in increasing order along `dimension`, and `values` in the same order.

    Results have the shapes and dtypes of the operands.
    Raises: AxisError for a dimension out of bounds, ShapeError for operands of different shapes, DtypeError for keys of
    PRNGs as `keys`, ArgumentTypeError for lists and strings.

    >>> sort_key_val(np.array([3, 1, 2]), np.array([30, 10, 20]))[1]
    Array([10, 20, 30], dtype=int32)
    """
    keys, values = sort((keys, values), dimension, is_stable)
    return keys, values


# top_k --------------------------------------------------------------------------------------------


class Greatest(Primitive[P]):
    """A primitive that returns the k greatest, or least, elements along an axis, and their positions."""

    traits = Traits(kind="reduction", flops=top_k_comparisons, returns_list=True, parts="none")

    def factors(self, avals, results, params):
        return alike(avals, results, "!", [self.axis_of(params, avals[0].ndim)])

    axis_field: ClassVar[str]
    """The name of the param that is the axis along which elements are compared."""

    def axis_of(self, params: Any, ndim: int) -> int:
        """The axis along which elements are compared."""
        return canonical_axis(getattr(params, self.axis_field), ndim, self.axis_field)

    def results(self, x: ShapedArray, axis: int, size: int) -> Sequence[ShapedArray]:
        """Types of the elements and of their positions."""
        shape = replace_axis_size(x.shape, axis, size)
        return [shaped_array(shape, x.dtype, x.weak_type), shaped_array(shape, _INT32, x.weak_type)]

    def jvp(self, primals, tangents, params):
        axis = self.axis_of(params, type_of(primals[0]).ndim)
        values, positions = bind(self, *primals, params=params)
        zero = zero_of(positions)
        return [values, positions], [take_along(tangents[0], positions, axis), zero]

    def batch(self, axis, operands, dims, params):
        dim: Any = dims[0]
        compared = self.axis_of(params, type_of(operands[0]).ndim - 1)
        fields: Any = params
        batched = fields._replace(**{self.axis_field: compared + (dim <= compared)})
        return bind(self, *operands, params=batched), [dim, dim]


class TopKParams(NamedTuple):
    axis: int
    k: int


class TopK(Greatest[TopKParams]):
    name = "top_k"
    axis_field = "axis"

    def abstract_eval(self, avals, params):
        [x] = avals
        axis, k = params
        if kind_of(x.dtype) in ("complex", "key"):
            raise ArgumentValueError("top_k needs real numbers.", got=f"operand: {x.text()}")
        if not 0 <= k <= x.shape[axis]:
            raise ShapeError(
                f"top_k needs 0 <= k <= {x.shape[axis]}, the size of axis {axis}, got k={k}.",
                got=f"operand: {x.text()}",
            )
        return self.results(x, axis, k)

    def lower(self, ctx, operands, params):
        [x], [aval] = operands, ctx.avals_in
        if params.axis != aval.ndim - 1:
            return ctx.from_python(_top_k_along_last_axis, operands, params)
        if isinstance(params.k, Symbol):
            return ctx.from_python(_sorted_k, operands, params)
        x = ctx.in_even_parts(UNEVEN_TOP_K, x, aval)
        return ctx.op("chlo.top_k", ctx.types(ctx.avals_out), [x], {"k": params.k}).results


def _top_k_along_last_axis(x, axis: int, k: int):
    """`top_k` along another axis than the last, along which the operation compares."""
    last = type_of(x).ndim - 1
    greatest = top_k(move_axis(x, axis, last), k)
    return [move_axis(values, last, axis) for values in greatest]


def _sorted_k(x, axis: int, k: Any):
    """`top_k` for a symbolic `k`, which the operation doesn't support: sorts all elements and takes the first k."""
    # Sorted in reverse, so that among equal elements the first ones come first.
    backwards = [rev(x, (axis,)), rev(broadcasted_iota(_INT32, type_of(x).shape, axis), (axis,))]
    return [
        slice_in_dim(rev(values, (axis,)), 0, k, axis=axis)
        for values in sort(backwards, dimension=axis, num_keys=1)
    ]


top_k_p = TopK()


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> Values:
    """The `k` greatest elements along `axis` in decreasing order, and their positions (int32).

    Of equal elements the first ones come first; NaNs are greatest. Needs real numbers.

    Values have the dtype of `operand`; both results have its shape with size `k` along `axis`.
    Raises: ArgumentValueError for complex numbers and PRNG keys, AxisError for an axis out of bounds, ShapeError for a
    `k` that is not between 0 and the size, TypeError for one that isn't an integer, ArgumentTypeError for lists and
    strings.
    Source: CHLO, `top_k`.

    >>> top_k(np.array([1, 3, 2]), 2)
    [Array([3, 2], dtype=int32), Array([1, 2], dtype=int32)]
    """
    ndim = type_of(operand).ndim
    params = TopKParams(canonical_axis(axis, ndim), *canonical_shape([k]))
    return list(bind(top_k_p, operand, params=params))


# approx_top_k -------------------------------------------------------------------------------------


class ApproxTopKParams(NamedTuple):
    k: int
    reduction_dimension: int
    recall_target: float
    is_max_k: bool
    reduction_input_size_override: int
    aggregate_to_topk: bool


class ApproxTopK(Greatest[ApproxTopKParams]):
    name = "approx_top_k"
    traits = Greatest.traits.replace(parts="factors")
    axis_field = "reduction_dimension"

    def abstract_eval(self, avals, params):
        [x] = avals
        axis, k = self.axis_of(params, x.ndim), params.k
        if kind_of(x.dtype) != "floating":
            raise ArgumentValueError(
                "approx_max_k and approx_min_k need floating numbers.", got=f"operand: {x.text()}"
            )
        if not 0 < k <= x.shape[axis]:
            raise ShapeError(
                f"approx_max_k and approx_min_k need 0 < k <= {x.shape[axis]}, the size of axis {axis}, got k={k}.",
                got=f"operand: {x.text()}",
            )
        if not params.aggregate_to_topk:
            override = params.reduction_input_size_override
            k, _ = approx_top_k_sizes(
                x.shape[axis], x.ndim, k, params.recall_target, False, override
            )
        return self.results(x, axis, k)

    def lower(self, ctx, operands, params):
        [x] = ctx.avals_in
        axis = self.axis_of(params, x.ndim)
        positions = ctx.op1(
            "stablehlo.iota", shaped_array(x.shape, _INT32), [], {"iota_dimension": axis}
        )
        worst = -np.inf if params.is_max_k else np.inf
        initial = [ctx.constant(np.asarray(worst, x.dtype)), ctx.constant(np.int32(-1))]
        comparator = ctx.symbol(_better(x.dtype, params.is_max_k).jaxpr, "better")
        config = {
            "aggregate_to_topk": str(params.aggregate_to_topk).lower(),
            "is_fallback": str(ctx.platform != "tpu").lower(),
            "recall_target": f"{params.recall_target!r} : f32",
            "reduction_dim": f"{axis} : i64",
            "reduction_input_size_override": f"{params.reduction_input_size_override} : i64",
            "top_k": f"{params.k} : i64",
        }
        attributes = {
            "call_target_name": "ApproxTopK",
            "called_computations": ctx.attribute(f"[{comparator}]"),
            "mhlo.backend_config": ctx.attribute(
                "{" + ", ".join(f"{k} = {v}" for k, v in config.items()) + "}"
            ),
        }
        operands = [operands[0], positions, *initial]
        shapes, more_attributes = shape_operands(ctx, ctx.avals_out, len(operands))
        call = ctx.op(
            "stablehlo.custom_call", ctx.types(ctx.avals_out), [*operands, *shapes],
            attributes | more_attributes,
        )  # fmt: skip
        return list(call.results)


approx_top_k_p = ApproxTopK()


@cached(64)
def _better(dtype, greater: bool) -> ClosedJaxpr:
    """The program that compares two elements; their positions come along unused."""
    compare = gt if greater else lt
    return scalar_program(lambda x, y, i, j: [compare(x, y)], dtype, dtype, _INT32, _INT32)


def _approx_function(name: str, is_max_k: bool, doc: str) -> Function:
    """`approx_max_k` or `approx_min_k`, described by `doc`."""

    def approx(
        operand: ArrayLike,
        k: int,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
    ) -> Values:
        [size] = canonical_shape([k])
        dimension, override = ints([reduction_dimension, reduction_input_size_override])
        if isinstance(size, Symbol):
            # The operation supports no symbolic k; exact results are what most platforms return anyway.
            count: Any = size
            values, positions = top_k(operand if is_max_k else neg(operand), count, axis=dimension)
            return [values if is_max_k else neg(values), positions]
        params = ApproxTopKParams(
            size, dimension, float(recall_target), is_max_k, override, bool(aggregate_to_topk)
        )
        return bind(approx_top_k_p, operand, params=params)

    approx.__name__ = approx.__qualname__ = name
    approx.__doc__ = doc
    return approx


approx_max_k = _approx_function(
    "approx_max_k",
    True,
    """About the `k` greatest elements along `reduction_dimension` in decreasing order, and their positions.

    `recall_target` is the share of the true ones that is expected among them. Platforms without the
    approximation give the exact ones. Without `aggregate_to_topk` there are more than `k`, unsorted, as many as
    the partial reduction leaves; `reduction_input_size_override` is the size on which its recall is computed.

    Takes floating-point elements. Values have the dtype of `operand`, positions int32, both its shape with size `k`
    along the dimension.
    Raises: ArgumentValueError for other elements, AxisError for a dimension out of bounds, ShapeError for a `k` that is
    not between 1 and the size, TypeError for one that is no integer, ArgumentTypeError for lists and strings.
    Source: Chern et al., TPU-KNN (2022).

    >>> approx_max_k(np.array([1.0, 3.0, 2.0], np.float32), 2)[0]
    Array([3., 2.], dtype=float32)
    """,
)
approx_min_k = _approx_function(
    "approx_min_k",
    False,
    """About the `k` least elements along `reduction_dimension` in increasing order, and their positions.

    Otherwise as `approx_max_k`.

    Results have the shapes and dtypes of those of `approx_max_k`.
    Raises: as `approx_max_k`.

    >>> approx_min_k(np.array([1.0, 3.0, 2.0], np.float32), 2)[0]
    Array([1., 2.], dtype=float32)
    """,
)
