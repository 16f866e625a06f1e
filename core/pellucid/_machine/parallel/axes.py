"""Named axes: scope, sizes and positions along them; common parts of collectives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    AxisNameError,
    CollectiveError,
    UnsupportedError,
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
from pellucid._machine.lowering.collectives import Groups, position_along
from pellucid._machine.primitives import (
    Movement,
    add,
    brought_to,
    index_take,
    iota,
    move_axis,
    mul,
    reshape,
    with_batch_dim,
)
from pellucid._machine.primitives.varying import (
    AxisNames,
    recast,
    reduced_p,
    states_of,
    vary,
    vary_unreduced_cast_p,
    with_state,
)
from pellucid._machine.sharding.partition_spec import AxisName
from pellucid._machine.tracing import bind, bind1, context, type_of
from pellucid._machine.transforms import batch_flat
from pellucid._machine.xla import Array

POSITION = np.dtype(np.int32)
"""Dtype of positions along named axes."""


def as_tuple(caller: str, axis_name: Any) -> AxisNames:
    """`axis_name`, one or several, as a tuple; raises ArgumentTypeError for a set, which is unordered."""
    if isinstance(axis_name, (set, frozenset)):
        raise ArgumentTypeError(
            f"{caller} needs one axis name or a tuple of names.", got=f"axis_name={axis_name!r}"
        )
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def listed_axes(caller: str, axis_name: Any) -> AxisNames:
    """`axis_name`, one or several, as a tuple of names that are in scope.

    Raises AxisNameError, which lists the axes in scope, ArgumentTypeError for a set, CollectiveError for a repeated
    name.
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


def checked_groups(caller: str, axes: AxisNames, groups: Any) -> Groups | None:
    """`axis_index_groups` as tuples; raises CollectiveError unless they contain each position along `axes` once."""
    if groups is None:
        return None
    with expecting(f"{caller}: axis_index_groups must be a list of lists of positions", groups):
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
    """(the names in `axis_name`, `axis_index_groups` of positions along them, which must have equal sizes).

    Raises: as `listed_axes`; CollectiveError unless groups contain each position once, and have equal sizes.
    """
    axes = listed_axes(caller, axis_name)
    listed = checked_groups(caller, axes, groups)
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
    """Number of positions that communicate along `axes`: all, or those in one group."""
    return math.prod(context.axes[a] for a in axes) if groups is None else len(groups[0])


def axis_size(axis_name: AxisName | Sequence[AxisName]) -> int:
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
    """`checked` says whether it is a mesh axis for which types record whether values vary."""

    axis_name: Any
    checked: bool


class AxisIndex(Collective, Shown, Primitive[AxisIndexParams]):
    """The position along a named axis."""

    name = "axis_index"
    traits = COLLECTIVE.replace(linear=None)
    unshown = ("checked",)
    waits = False

    def abstract_eval(self, avals, params):
        varying = frozenset({params.axis_name}) if params.checked else frozenset()
        return [shaped_array((), POSITION, varying=varying)]

    def axis_names(self, params, inner):
        return frozenset({params.axis_name})

    def batch(self, axis, operands, dims, params):
        return [iota(POSITION, axis.size)], [0]

    def lower(self, ctx, operands, params):
        return [position_along(ctx, (params.axis_name,))]


axis_index_p = AxisIndex()


class SizeWithPosition(int):
    """The size of an axis along which the position is a value, of the program that is being traced. Compared by identity, as the value is."""

    position: Any

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @classmethod
    def of(cls, size: int, position: Any) -> SizeWithPosition:
        """The size of an axis, on which `position` is where the program is."""
        found = cls(size)
        found.position = position
        return found


def axis_index(axis_name: AxisName | Sequence[AxisName]) -> Array:
    """The position along `axis_name`, an int32 scalar; along several names, counted with the last one fastest.

    Raises: AxisNameError where no axis has that name.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x + axis_index("i"), axis_name="i")(np.zeros(3, int))
    Array([0, 1, 2], dtype=int32)
    """
    index: Any = None
    for name in listed_axes("axis_index", axis_name):
        size = context.axes[name]
        if type(size) is SizeWithPosition:
            position = size.position
        else:
            params = AxisIndexParams(name, name in context.checked_axes)
            position = bind1(axis_index_p, params=params)
        outer = None if index is None else mul(index, np.int32(context.axes[name]))
        index = position if outer is None else add(outer, position)
    return np.int32(0) if index is None else index  # pyright: ignore[reportReturnType]  # a constant of no axes


# Casts between types ------------------------------------------------------------------------------


def pcast(x: Any, axis_name: AxisName | Sequence[AxisName], *, to: str) -> Any:
    """`x`, a tree of arrays, cast to the state `to` over the mesh axes `axis_name`; no data move.

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
            'pcast: `to` must be "varying", "reduced" or "unreduced".', got=f"to={to!r}"
        )
    axes = listed_axes("pcast", axis_name) if axis_name != () else ()
    if not axes:
        return x
    if to == "varying":
        return tree_map(lambda leaf: _cast(leaf, axes), x)
    return tree_map(lambda leaf: _recast(leaf, axes, to), x)


def _recast(x, axes: AxisNames, to: str):
    """`x` with summands along `axes`, or with a cotangent that has them."""
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


class LinearExchange(Collective, Movement[P]):
    """A linear exchange of values along `params.axis_name`, optionally within `params.axis_index_groups`."""

    traits = COLLECTIVE
    state: ClassVar[str | None] = None
    """The state of the result along the axes (see `with_state`), if it differs from the operand's."""

    def abstract_eval(self, avals, params):
        return avals

    def factors(self, avals, results, params):
        return alike(avals, results, "!", self.worked_dims(params))

    def typed(self, avals, results, params: Any):
        [result] = super().typed(avals, results, params)
        if self.state is None:
            return [result]
        mesh = getattr(params, "mesh", None)
        return [with_state(result, frozenset(params.axis_name), self.state, mesh)]

    def batch(self, axis, operands, dims, params: Any):
        [x], [dim] = operands, dims
        if axis.name is None or axis.name not in params.axis_name:
            if dim is None:
                return bind(self, x, params=params), [None]
            behind = with_batch_dim(params, self.dim_fields, 0)
            return bind(self, move_axis(x, dim, 0), params=behind), [0]
        if getattr(params, "axis_index_groups", None) is not None:
            return batch_in_groups(self, axis, x, dim, params, params.axis_name)
        return self.among_batch(axis, x, dim, params)

    def among_batch(
        self, axis: BatchAxis, x: Any, dim: BatchDim, params: Any
    ) -> tuple[Results, Dims]:
        """The batching rule if the batch is one of the named axes, and there are no groups."""
        raise self.missing("batch")


def batch_in_groups(
    primitive: Primitive[Any],
    axis: BatchAxis,
    x: Any,
    dim: BatchDim,
    params: Any,
    axes: Sequence[Any],
) -> tuple[Results, Dims]:
    """The batching rule of a collective over `axes` whose `axis_index_groups` divide the batch `axis`.

    Each group is treated as a batch, nested in a batch of groups.

    Raises: UnsupportedError for groups of different sizes, and if positions are counted along other axes too.
    """
    groups = params.axis_index_groups
    if len(axes) > 1 or len({len(group) for group in groups}) > 1:
        raise UnsupportedError(
            f"{primitive.name}: vmap needs groups of one size, along its axis alone.",
            got=f"axis_index_groups={[list(g) for g in groups]}, axis_name={tuple(axes)!r}",
            do="Use shard_map, or two nested vmaps with an axis name each.",
        )
    # Before: elements by position. Grouped: [groups, positions in the group]. After: by position again.
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
