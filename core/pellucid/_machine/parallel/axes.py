"""Named axes: which are in scope, how long they are, where a program stands along them; collectives, and reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Axes,
    AxisNameError,
    CollectiveError,
    Function,
    UnsupportedError,
    dtypes,
    expecting,
    ints,
    tree_map,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    BatchAxis,
    BatchDim,
    Collective,
    Dims,
    P,
    Primitive,
    Results,
    Shown,
    Values,
    alike,
    shaped_array,
)
from pellucid._machine.lowering.collectives import Groups, all_reduce, device_groups, position_along
from pellucid._machine.primitives import (
    MONOIDS,
    Movement,
    add,
    brought_to,
    canonical_axis,
    constant_like,
    convert_element_type,
    div,
    eq,
    index_take,
    iota,
    move_axis,
    mul,
    reduce_max,
    reduce_min,
    reduce_sum,
    reshape,
    through_integers,
    with_batch_dim,
)
from pellucid._machine.primitives.varying import (
    AxisNames,
    CollectiveParams,
    Recast,
    marks_of,
    recast,
    reduced_p,
    restated,
    states_of,
    vary,
    vary_unreduced_cast_p,
)
from pellucid._machine.tracing import Tracer, bind, bind1, context, type_of
from pellucid._machine.transforms import batch_flat

_INDEX = np.dtype(np.int32)


def as_tuple(caller: str, axis_name: Any) -> AxisNames:
    """`axis_name`, one name or several, as a tuple; raises ArgumentTypeError for a set, which has no order."""
    if isinstance(axis_name, (set, frozenset)):
        raise ArgumentTypeError(
            f"{caller} takes one axis name or a tuple of names.", got=f"axis_name={axis_name!r}"
        )
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def listed_axes(caller: str, axis_name: Any) -> AxisNames:
    """`axis_name`, one name or several, as a tuple of names that are in scope.

    Raises AxisNameError that lists the axes in scope, ArgumentTypeError for a set, CollectiveError for a name given
    twice.
    """
    names = as_tuple(caller, axis_name)
    for name in names:
        if name not in context.axes:
            scope = ", ".join(f"{n!r} (size {size})" for n, size in context.axes.items())
            around = (
                f"`shard_map` over a mesh with axis {name!r}, or `vmap(..., axis_name={name!r})`"
            )
            raise AxisNameError(
                f"{caller}: no axis is named {name!r} here.",
                got=f"axes in scope: {scope or 'none'}",
                do="Name one of these." if scope else f"Call it within {around}.",
            )
    if len(set(names)) < len(names):
        raise CollectiveError(
            f"{caller} got one axis name more than once.", got=f"axis_name={names!r}"
        )
    return names


def _checked_groups(caller: str, axes: AxisNames, groups: Any) -> Groups | None:
    """`axis_index_groups` as tuples; raises CollectiveError unless they hold each position along `axes` once."""
    if groups is None:
        return None
    with expecting(f"{caller}: axis_index_groups is a list of lists of positions", groups):
        listed = tuple([ints(group) for group in groups])
    size = size_along(axes)
    if sorted(i for group in listed for i in group) != list(range(size)):
        raise CollectiveError(
            f"{caller}: axis_index_groups must hold each position along the axis exactly once.",
            got=f"{[list(g) for g in listed]} for {_text(axes)} of size {size}",
        )
    return listed


def axes_and_even_groups(
    caller: str, axis_name: Any, groups: Any
) -> tuple[AxisNames, Groups | None]:
    """The names in `axis_name`, and `axis_index_groups` of positions along them, which must have one size.

    Raises: as `listed_axes`; CollectiveError for groups that don't hold each position once, or of several sizes.
    """
    axes = listed_axes(caller, axis_name)
    listed = _checked_groups(caller, axes, groups)
    sizes = [len(group) for group in listed or ()]
    if len({*sizes}) > 1:
        raise CollectiveError(
            f"{caller}: all groups in axis_index_groups must have the same size.",
            got=f"sizes {sizes}",
        )
    return axes, listed


def _text(axes: AxisNames) -> str:
    return f"axis {axes[0]!r}" if len(axes) == 1 else f"axes {axes!r}"


def size_along(axes: AxisNames, groups: Groups | None = None) -> int:
    """How many positions exchange values along `axes`: all, or those of one group."""
    return math.prod(context.axes[a] for a in axes) if groups is None else len(groups[0])


def axis_size(axis_name: Any) -> int:
    """Number of positions along `axis_name`; the product for several names. It is a Python int.

    Raises: AxisNameError where no axis has that name.

    It has no dtype: shapes may be made of it.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x / axis_size("i"), axis_name="i")(np.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return size_along(listed_axes("axis_size", axis_name))


# Positions ----------------------------------------------------------------------------------------


class AxisIndexParams(NamedTuple):
    """`checked`: the axis is a mesh axis over which types say whether values vary."""

    axis_name: Any
    checked: bool


class AxisIndex(Collective, Shown, Primitive[AxisIndexParams]):
    """The position along one named axis."""

    name = "axis_index"
    traits = COLLECTIVE.replace(linear=None)
    unshown = ("checked",)
    waits = False

    def abstract_eval(self, avals, params):
        varying = frozenset({params.axis_name}) if params.checked else frozenset()
        return [shaped_array((), _INDEX, varying=varying)]

    def axis_names(self, params, inner):
        return frozenset({params.axis_name})

    def batch(self, axis, operands, dims, params):
        return [iota(_INDEX, axis.size)], [0]

    def lower(self, ctx, operands, params):
        return [position_along(ctx, (params.axis_name,))]


axis_index_p = AxisIndex()


def axis_index(axis_name: Any) -> Any:
    """The position along `axis_name`, an int32 scalar; along several names, counted with the last one fastest.

    Raises: AxisNameError where no axis has that name.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x + axis_index("i"), axis_name="i")(np.zeros(3, int))
    Array([0, 1, 2], dtype=int32)
    """
    index: Any = None
    for name in listed_axes("axis_index", axis_name):
        params = AxisIndexParams(name, name in context.checked_axes)
        position = bind1(axis_index_p, params=params)
        outer = None if index is None else mul(index, np.int32(context.axes[name]))
        index = position if outer is None else add(outer, position)
    return np.int32(0) if index is None else index


# Casts between types ------------------------------------------------------------------------------


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """`x` (arrays in a tree) with a type that says something else of the mesh axes `axis_name`; data don't move.

    To "varying": a value that is the same at all positions is used as each one's own. Inside `shard_map` the operands
    of one operation are cast where they need it, so this is for loops and other places that need equal types. To
    "unreduced": values that differ are addends of one, which `psum` or `psum_scatter` make. To "reduced": the cotangent
    of a value that is the same everywhere stays unreduced, so that it is summed once for all its uses; the next cast
    is to "varying". For a result that is the same along an axis use `psum`, `pmax` or `all_gather(..., to="invarying")`.

    Raises: ArgumentValueError for casts that these are not.

    Shapes and dtypes stay.

    >>> pcast(1.0, (), to="varying")
    1.0
    """
    if to not in ("varying", "reduced", "unreduced"):
        raise ArgumentValueError(
            'pcast: `to` is "varying", "reduced" or "unreduced".', got=f"to={to!r}"
        )
    axes = listed_axes("pcast", axis_name) if axis_name != () else ()
    if not axes:
        return x
    if to == "varying":
        return tree_map(lambda leaf: _cast(leaf, axes), x)
    return tree_map(lambda leaf: _recast(leaf, axes, to), x)


def _recast(x, axes: AxisNames, to: str):
    """`x` with addends along `axes`, or with a cotangent that has such."""
    aval = type_of(x)
    primitive, source = (
        (vary_unreduced_cast_p, "varying") if to == "unreduced" else (reduced_p, "the same")
    )
    for axis in axes:
        if axis not in context.checked_axes:
            raise ArgumentValueError(
                f"pcast: types say nothing of axis {axis!r} here.",
                got=f"to={to!r}",
                do="Cast in a `shard_map` over that axis, without check_vma=False.",
            )
        states = [state for state, names in states_of(aval).items() if axis in names]
        state = states[0] if states else "the same"
        if state != source:
            raise ArgumentValueError(
                f"pcast: only a value that is {source} along an axis can be cast to {to!r}.",
                got=f"{aval.text()}, {state} along {axis!r}",
            )
    return recast(primitive, x, axes)


def _cast(x, axes: AxisNames):
    aval = type_of(x)
    already = [a for a in axes if a in aval.varying]
    if already:
        raise ArgumentValueError(
            f"pcast: the value varies over {_text(tuple(already))} already.", got=aval.text(),
            do="Name only axes over which it does not vary.",
        )  # fmt: skip
    return vary(x, axes)


# What collectives share ----------------------------------------------------------------------------


class Exchange(Collective, Movement[P]):
    """A linear exchange of values along `params.axis_name`, also within `params.axis_index_groups` if there are such."""

    traits = COLLECTIVE
    state: ClassVar[str | None] = None
    """The state of the result along the axes (see `restated`), where it isn't that of the operand."""

    def abstract_eval(self, avals, params):
        return avals

    def factors(self, avals, results, params):
        return alike(avals, results, "!", self.worked_dims(params))

    def typed(self, avals, results, params: Any):
        [result] = super().typed(avals, results, params)
        if self.state is None:
            return [result]
        mesh = getattr(params, "mesh", None)
        return [restated(result, frozenset(params.axis_name), self.state, mesh)]

    def batch(self, axis, operands, dims, params: Any):
        [x], [dim] = operands, dims
        if axis.name is None or axis.name not in params.axis_name:
            if dim is None:
                return bind(self, x, params=params), [None]
            behind = with_batch_dim(params, self.dim_fields, 0)
            return bind(self, move_axis(x, dim, 0), params=behind), [0]
        if getattr(params, "axis_index_groups", None) is not None:
            return batched_in_groups(self, axis, x, dim, params, params.axis_name)
        return self.among_batch(axis, x, dim, params)

    def among_batch(
        self, axis: BatchAxis, x: Any, dim: BatchDim, params: Any
    ) -> tuple[Results, Dims]:
        """The batch rule where the batch is one of the named axes, and there are no groups."""
        raise self.missing("batch")


def batched_in_groups(
    primitive: Primitive[Any],
    axis: BatchAxis,
    x: Any,
    dim: BatchDim,
    params: Any,
    axes: Sequence[Any],
) -> tuple[Results, Dims]:
    """The batch rule of a collective over `axes` whose `axis_index_groups` split the batch `axis`.

    Each group is a batch of its own, and they are a batch of groups.

    Raises: UnsupportedError for groups of several sizes, and where positions are counted along other axes too.
    """
    groups = params.axis_index_groups
    if len(axes) > 1 or len({len(group) for group in groups}) > 1:
        raise UnsupportedError(
            f"{primitive.name}: vmap needs groups of one size, along its axis alone.",
            got=f"axis_index_groups={[list(g) for g in groups]}, axis_name={tuple(axes)!r}",
            do="Use shard_map, or two nested vmaps with an axis name each.",
        )
    order = np.array(groups)
    x = brought_to(axis, x, dim, 0)
    grouped = reshape(
        index_take(x, (order.reshape(-1),), (0,)), (*order.shape, *type_of(x).shape[1:])
    )
    within = BatchAxis(order.shape[1], axis.name)
    alone = params._replace(axis_index_groups=None)

    def one_group(part: Any) -> Values:
        [result], [result_dim] = primitive.batch(within, (part,), (0,), alone)
        return [brought_to(within, result, result_dim, 0)]

    [results], [result_dim] = batch_flat(one_group, BatchAxis(len(order)), [grouped], [0])
    results = brought_to(BatchAxis(len(order)), results, result_dim, 0)
    flat = reshape(results, (axis.size, *type_of(results).shape[2:]))
    return [index_take(flat, (np.argsort(order.reshape(-1)),), (0,))], [0]


# Reductions -----------------------------------------------------------------------------------------


class AllReduce(Collective, Primitive[CollectiveParams]):
    """A reduction along named axes, whose result is the same at all positions along them."""

    traits = COLLECTIVE.replace(flops=1.0, linear=None, equalizes=True)
    axes_field = "axes"
    all_dims = ""

    def abstract_eval(self, avals, params):
        return avals

    def typed(self, avals, results, params):
        [result] = super().typed(avals, results, params)
        if params.axis_index_groups is not None:
            return [result]
        return [result.update(varying=result.varying.difference(params.axes))]

    def batch(self, axis, operands, dims, params):
        [x], [dim] = operands, dims
        if axis.name is None or axis.name not in params.axes:
            return bind(self, x, params=params), dims
        if params.axis_index_groups is not None:
            return batched_in_groups(self, axis, x, dim, params, params.axes)
        x = self.of_equals(x, axis.size) if dim is None else self.along(x, dim)
        rest = params._replace(axes=tuple([a for a in params.axes if a != axis.name]))
        return [bind1(self, x, params=rest) if rest.axes else x], [None]

    def along(self, x: Any, dim: int) -> Any:
        """`x` reduced along its axis `dim`."""
        raise self.missing("batch")

    def of_equals(self, x: Any, size: int) -> Any:
        """The reduction of `size` times `x`."""
        return x


class PSum(Shown, AllReduce, Movement[CollectiveParams]):
    """The sum along named axes. Where types say that it makes a value the same along them, its text says so."""

    name = "psum"
    traits = AllReduce.traits.replace(linear="all", makes_nan=True)

    def printed_name(self, equation):
        aval: Any = equation.operands[0].aval
        invariant = aval.varying.intersection(equation.params.axes)
        return "psum_invariant" if invariant else self.name

    def printed_params(self, equation):
        shown = super().printed_params(equation)
        if self.printed_name(equation) != self.name:
            del shown["axis_index_groups"]
        return shown

    def undo(self, cotangent, aval, params):
        if params.axis_index_groups is not None:
            return bind1(self, cotangent, params=params)
        # Where types don't say that the sum is the same everywhere, each position has a cotangent of its own.
        summed = tuple([a for a in params.axes if a not in aval.varying])
        if summed:
            cotangent = bind1(self, cotangent, params=CollectiveParams(summed))
        return vary(cotangent, aval.varying)

    def along(self, x, dim):
        return reduce_sum(x, (dim,))

    def of_equals(self, x, size):
        return mul(constant_like(x, size), x)

    def lower(self, ctx, operands, params):
        groups = device_groups(ctx, params.axes, params.axis_index_groups)
        return [all_reduce(ctx, operands[0], ctx.avals_in[0], "stablehlo.add", groups)]


psum_p = PSum()


class UnreducedSum(Recast):
    """The sum of addends along named axes, at all positions."""

    traits = COLLECTIVE.replace(flops=1.0, makes_nan=True, equalizes=True)
    waits = True

    def lower(self, ctx, operands, params):
        groups = device_groups(ctx, params.axes)
        return [all_reduce(ctx, operands[0], ctx.avals_in[0], "stablehlo.add", groups)]


unreduced_psum_p = UnreducedSum("unreduced_psum", "the same", "preduced")


def are_addends(caller: str, x: Any, axes: AxisNames, groups: Any) -> bool:
    """Whether positions along `axes` hold addends of `x`.

    Raises: CollectiveError where only some do, or in groups of positions.
    """
    aval = type_of(x)
    unreduced = [a for a in axes if a in marks_of(aval).unreduced]
    if unreduced and (len(unreduced) < len(axes) or groups is not None):
        raise CollectiveError(
            f"{caller} of addends is over axes along which positions hold such, and over all of these.",
            got=f"{aval.text()}, axis_name={axes!r}"
            + (", axis_index_groups" if groups is not None else ""),
        )
    return bool(unreduced)


class PExtreme(AllReduce):
    """The largest or smallest value along named axes."""

    def __init__(self, monoid: str, reduce: Function) -> None:
        super().__init__(f"p{monoid}")
        self.monoid = MONOIDS[monoid]
        self.reduce = reduce

    def jvp(self, primals, tangents, params):
        [x], [t] = primals, tangents
        y = bind1(self, x, params=params)
        # Positions that attain the extreme share the derivative, as those of a reduction along an axis do.
        aval = type_of(x)
        attains = convert_element_type(eq(vary(x, params.axes), vary(y, params.axes)), aval.dtype)
        shares = bind1(psum_p, attains, params=params)
        tangent = bind1(psum_p, mul(t, attains), params=params)
        return [y], [div(tangent, shares)]

    def along(self, x, dim):
        return self.reduce(x, (dim,))

    def of_leaf(
        self, caller: str, x: Any, axes: AxisNames, positional: Axes, groups: Groups | None
    ) -> Any:
        """The extreme of array `x` along its own axes `positional` and the named `axes`."""
        if positional:
            x = self.reduce(x, _own_axes(caller, x, positional))
        if not axes or not isinstance(x, Tracer):
            return x
        return bind1(self, vary(x, axes), params=CollectiveParams(axes, groups))

    def lower(self, ctx, operands, params):
        [x], [aval] = operands, ctx.avals_in
        groups = device_groups(ctx, params.axes, params.axis_index_groups)
        is_floating = dtypes.is_inexact(aval.dtype) and aval.dtype.kind != "c"
        if ctx.platform != "cpu" or not is_floating or groups.shape[1] == 1:
            return [all_reduce(ctx, x, aval, self.monoid.hlo, groups)]

        reduce = lambda keys, aval, _: all_reduce(ctx, keys, aval, self.monoid.hlo, groups)
        return [through_integers(ctx, x, aval, aval, self.monoid, reduce)]


pmax_p = PExtreme("max", reduce_max)
pmin_p = PExtreme("min", reduce_min)


def _over_leaves(of_leaf: Function, caller: str, x: Any, axis_name: Any, groups: Any) -> Any:
    """`of_leaf(caller, leaf, axes, positional, groups)` for each array of the tree `x`.

    `axes` are the names among `axis_name`, `positional` the ints that are no names: axes of the array itself.
    """
    names = as_tuple(caller, axis_name)
    positional = tuple([a for a in names if isinstance(a, int) and a not in context.axes])
    axes = listed_axes(caller, [a for a in names if a not in positional])
    listed = _checked_groups(caller, axes, groups)
    return tree_map(lambda leaf: of_leaf(caller, leaf, axes, positional, listed), x)


def _own_axes(caller: str, x, positional: Axes) -> Axes:
    ndim = type_of(x).ndim
    return tuple([canonical_axis(axis, ndim, f"{caller}: axis_name") for axis in positional])


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` (arrays in a tree) over all positions along `axis_name`, at each of them.

    Booleans are summed as int32. A Python number or array that is not traced is the same at all positions:
    `psum(1, axis)` is the number of positions, a Python int. `axis_index_groups`, lists of positions that hold each
    once, sums within groups.

    Raises: AxisNameError where no axis has that name; CollectiveError for groups that don't fit.

    Results have the structure and the shapes of `x`, and its dtypes but for bool.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    return _over_leaves(_psum, "psum", x, axis_name, axis_index_groups)


def _psum(caller: str, x, axes: AxisNames, positional: Axes, groups: Groups | None):
    if type_of(x).dtype == np.bool_:
        x = convert_element_type(x, np.int32)
    if positional:
        x = reduce_sum(x, _own_axes(caller, x, positional))
    if not axes:
        return x
    if not isinstance(x, Tracer) and (groups is None or len(set(map(len, groups))) == 1):
        size = size_along(axes, groups)
        return x * size if type(x) in (int, float, complex) else mul(x, constant_like(x, size))
    if are_addends(caller, x, axes, groups):
        return recast(unreduced_psum_p, x, axes)
    return bind1(psum_p, vary(x, axes), params=CollectiveParams(axes, groups))


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` (arrays in a tree) over all positions along `axis_name`, at each of them.

    `axis_index_groups` averages within groups of positions.

    Raises: as `psum`.

    Results have the structure and the shapes of `x`; integers become floating-point.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x - pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([-1.,  1.], dtype=float32)
    """
    return _over_leaves(_pmean, "pmean", x, axis_name, axis_index_groups)


def _pmean(caller: str, x, axes: AxisNames, positional: Axes, groups: Groups | None):
    total = _psum(caller, x, axes, positional, groups)
    shape = type_of(x).shape
    elements = math.prod(shape[axis] for axis in _own_axes(caller, x, positional))
    count = _psum(caller, elements, axes, (), groups)
    if type(total) in (int, float, complex):
        return total / count
    if not dtypes.is_inexact(type_of(total).dtype):
        total = convert_element_type(total, type_of(0.0).dtype)
    return div(total, convert_element_type(count, type_of(total).dtype))


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The largest `x` (arrays in a tree, element by element) among all positions along `axis_name`.

    `axis_index_groups` takes it within groups of positions.

    Raises: as `psum`.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x == pmax(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([False,  True], dtype=bool)
    """
    return _over_leaves(pmax_p.of_leaf, "pmax", x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The smallest `x` (arrays in a tree, element by element) among all positions along `axis_name`.

    `axis_index_groups` takes it within groups of positions.

    Raises: as `psum`.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x - pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([0., 2.], dtype=float32)
    """
    return _over_leaves(pmin_p.of_leaf, "pmin", x, axis_name, axis_index_groups)
