"""Constraints on the shardings of values: `with_sharding_constraint`."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import (
    Function,
    UnsupportedError,
    broadcast_prefix,
    insert_at,
    is_none,
    shown_path,
    strict_zip,
    tree_flatten_with_path,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    BatchAxis,
    Placed,
)
from pellucid._machine.sharding import (
    AxisType,
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
)
from pellucid._machine.sharding.errors import (
    LayoutAssertionError,
    PartitionSpecError,
    ShardingError,
)
from pellucid._machine.sharding.explicit_types import (
    explicit_part,
    operand_of,
)
from pellucid._machine.sharding.layout import Format, Layout
from pellucid._machine.sharding.partition_spec import UNCONSTRAINED
from pellucid._machine.sharding.placement import tiles
from pellucid._machine.sharding.stated import (
    check_no_manual_axis,
    stated_layout,
    stated_sharding,
)
from pellucid._machine.tracing import bind, bind1, type_of

from .layout_constraint import with_layout_constraint
from .movement import Identity


class ShardingConstraintParams(NamedTuple):
    """The sharding of the operand; unconstrained dimensions of a NamedSharding are left to the compiler."""

    sharding: Any


class ShardingConstraint(Placed, Identity[ShardingConstraintParams]):
    """The identity, laid out as stated."""

    name = "sharding_constraint"
    statement = "with_sharding_constraint"
    traits = COLLECTIVE

    def placements(self, params):
        return (params.sharding,)

    def stated_results(self, avals, params):
        [aval], sharding = avals, params.sharding
        if getattr(sharding, "is_abstract", False) or UNCONSTRAINED in getattr(
            sharding, "spec", ()
        ):
            return None
        counts = tiles(sharding, aval.ndim).counts  # a constraint may cut unevenly, a result not
        return None if any(size % n for size, n in strict_zip(aval.shape, counts)) else (sharding,)

    def batch(self, axis, operands, dims, params):
        [x], [dim] = operands, dims
        sharding = batched_sharding(params.sharding, dim, type_of(x).ndim - 1, axis)
        return bind(self, x, params=ShardingConstraintParams(sharding)), dims

    def lower(self, ctx, operands, params):
        return [ctx.constrain(operands[0], params.sharding, ctx.avals_in[0])]


sharding_constraint_p = ShardingConstraint()


def batched_sharding(sharding: Any, dim: int, ndim: int, axis: BatchAxis) -> Any:
    """The sharding of a batch along `dim` of values of `ndim` dimensions laid out as `sharding`.

    The batch is sharded over the mesh axes of `spmd_axis_name`, an argument of `vmap`, else as the compiler likes.

    Raises: UnsupportedError for a tile assignment without a mesh; ShardingError if the values use those axes.
    """
    if sharding.is_fully_replicated and sharding.num_devices == 1:
        return sharding
    if not isinstance(sharding, NamedSharding):
        raise UnsupportedError(
            "vmap of with_sharding_constraint needs a NamedSharding.",
            got=f"{sharding}",
            do="Write the constraint with NamedSharding(mesh, spec).",
        )
    if axis.spmd_name is not None:
        twice = sharding.spec.axis_names & set(axis.spmd_name)
        if twice:
            raise ShardingError(
                "vmap's `spmd_axis_name` shards the batch over a mesh axis that a constraint inside uses.",
                got=[f"spmd_axis_name: {axis.spmd_name}", f"the constraint: {sharding.spec!r}"],
            )
        entry: Any = axis.spmd_name
    else:
        entry = UNCONSTRAINED if AxisType.Auto in sharding.mesh.axis_types else None
    spec = sharding.spec.padded(ndim)
    return sharding.with_spec(spec.update(partitions=insert_at(spec.partitions, dim, entry)))


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """`x`, a tree of arrays, with the shardings `shardings` at this point of a program.

    `shardings` is a sharding, a format, a PartitionSpec over the current mesh, None for `PartitionSpec()`, or a
    tree of these that is a prefix of `x`. The compiler brings the value there, and plans the rest around it;
    dimensions that are `PartitionSpec.UNCONSTRAINED` are left to it.

    Raises: MissingMeshError for a PartitionSpec without a mesh; PartitionSpecError where a spec does not fit
    the rank of its array.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> mesh = pl.sharding.Mesh(np.array(pl.devices()).reshape(-1), ("x",))
    >>> sharding = pl.NamedSharding(mesh, pl.P("x"))
    >>> pl.jit(lambda x: with_sharding_constraint(2 * x, sharding))(np.arange(8)).sharding.spec
    P('x',)
    """
    return map_leaves(_constrain, x, shardings, "with_sharding_constraint: shardings", "x")


def map_leaves(function: Function, xs, stated, what: str, name: str):
    """Applies `function(leaf, its entry of stated, its path)` to the leaves of `xs`; `stated` is a prefix of this
    tree.
    """
    with_paths, structure = tree_flatten_with_path(xs)
    entries = broadcast_prefix(stated, xs, is_none, caller=what, name=name)
    return structure.unflatten(
        [function(x, s, shown_path(name, path)) for (path, x), s in strict_zip(with_paths, entries)]
    )


def _constrain(x, stated, path: str):
    """One array, constrained to the sharding and the memory layout that the user specified (`stated`)."""
    name = "with_sharding_constraint"
    place = stated.sharding if isinstance(stated, Format) else stated
    sharding = stated_sharding(name, PartitionSpec() if place is None else place)
    # None is a layout over a mesh without axes, as types show it
    result = x if sharding is None else constrain_leaf(x, sharding, path)
    layout = stated_layout(stated)
    return with_layout_constraint(result, layout) if isinstance(layout, Layout) else result


def constrain_leaf(x: Any, sharding: Any, path: str = "x") -> Any:
    """One array constrained to `sharding`; `path` is its name in messages."""
    check_no_manual_axis("with_sharding_constraint", sharding)
    shape = type_of(x).shape
    try:
        sharding.check_compatible_aval(shape)
    except ShardingError as error:
        raise type(error)(
            error.what, got=f"with_sharding_constraint: {path}: {type_of(x).text()}", do=error.do
        ) from None
    current = get_abstract_mesh()
    if (
        isinstance(sharding, NamedSharding)
        and current.are_all_axes_explicit
        and sharding.mesh.shape_tuple == current.shape_tuple
    ):
        sharding = sharding.update(mesh=sharding.mesh.update(axis_types=current.axis_types))
    if isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes:
        sharding = _auto_axes_part(x, sharding, path)
        if sharding is None:
            return x
    return bind1(sharding_constraint_p, x, params=ShardingConstraintParams(sharding))


def _auto_axes_part(x, sharding: NamedSharding, path: str) -> NamedSharding | None:
    """`sharding`, provided that the type of `x` agrees over Explicit axes; None if there are no others.

    Raises: LayoutAssertionError if it doesn't; PartitionSpecError if only some of the mesh's axes are Explicit and
    the spec names one of them.
    """
    mesh, spec, aval = sharding.mesh, sharding.spec, type_of(x)
    explicit = explicit_part(spec, mesh, aval.ndim)
    shown = operand_of(aval).spec
    if mesh.are_all_axes_explicit:
        if explicit is shown:
            return None
        raise LayoutAssertionError(
            "with_sharding_constraint only checks over Explicit mesh axes, and the layouts differ.",
            got=[f"{path}: {aval.text()}, laid out as {shown!r}", f"the constraint: {spec!r}"],
            do="To change the layout, use `reshard(x, spec)`.",
        )
    if explicit.axis_names:
        raise PartitionSpecError(
            f"with_sharding_constraint: {spec!r} can't name Explicit mesh axes.",
            got=[f"{path}: {aval.text()}", f"{mesh}"],
            do="Name Auto axes only; over Explicit ones, use `reshard(x, spec)`.",
        )
    return sharding
