"""Other shardings over Explicit mesh axes: `reshard`, and functions that run over Auto or Explicit axes."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    Function,
    Names,
    tree_flatten,
    tree_map,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    Placed,
    Shown,
)
from pellucid._machine.lowering.addends import is_product_of_parts
from pellucid._machine.sharding import (
    AxisType,
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
    use_abstract_mesh,
)
from pellucid._machine.sharding.errors import (
    MissingMeshError,
    PartitionSpecError,
    ShardingArgumentError,
)
from pellucid._machine.sharding.explicit_types import (
    check_divisible,
    explicit_part,
    shown_sharding,
)
from pellucid._machine.sharding.mesh import AnyMesh, axis_not_in_mesh_error
from pellucid._machine.sharding.stated import (
    check_fits,
    check_no_manual_axis,
    stated_result,
    stated_sharding,
)
from pellucid._machine.tracing import bind, bind1, bottom, context, type_of

from .movement import Identity
from .sharding_constraint import batched_sharding, constrain_leaf, map_leaves


class ReshardParams(NamedTuple):
    """The sharding of the result; the result's type contains the axis types of its mesh."""

    dst_sharding: NamedSharding
    source: AnyMesh | None = None
    """The mesh to which cotangents return if the operand's type shows none; by default that of the result."""


class Reshard(Placed, Shown, Identity[ReshardParams]):
    """The identity with another sharding in its type; devices exchange the data for it."""

    name = statement = "reshard"
    traits = COLLECTIVE
    unshown = ReshardParams._fields  # the result's type shows it

    def abstract_eval(self, avals, params):
        [aval] = avals
        mesh = params.dst_sharding.mesh.abstract_mesh
        spec = explicit_part(params.dst_sharding.spec, mesh, aval.ndim)
        check_divisible(aval.shape, spec, mesh, "reshard: ")
        return [aval.update(shown_sharding=shown_sharding(mesh, spec))]

    def placements(self, params):
        return (params.dst_sharding,)

    def operand_cotangent(self, cotangent, aval, params):
        shown, mesh = aval.shown_sharding, params.dst_sharding.mesh
        back = (
            NamedSharding(params.source or mesh, PartitionSpec())
            if shown is None
            else NamedSharding(shown.mesh, shown.spec.to_ct_spec())
        )
        return bind1(self, cotangent, params=ReshardParams(back, mesh))

    def batch(self, axis, operands, dims, params):
        [x], [dim] = operands, dims
        aval = type_of(x)
        sharding = batched_sharding(params.dst_sharding, dim, aval.ndim - 1, axis)
        shown = aval.shown_sharding
        if shown is not None and shown.mesh.shape_tuple == sharding.mesh.shape_tuple:
            sharding = _keeping_batch(sharding, dim, shown.spec)
        return bind(self, x, params=params._replace(dst_sharding=sharding)), dims

    def lower(self, ctx, operands, params):
        sharding, shown = params.dst_sharding, ctx.avals_in[0].shown_sharding
        if (
            sharding.spec.unreduced.intersection(sharding.mesh.explicit_axes)
            and shown is None
            and not is_product_of_parts(ctx, operands[0], sharding)
        ):
            # Otherwise the operation that makes the operand would be laid out as addends, each of which is then the
            # whole value.
            whole = NamedSharding(sharding.mesh, PartitionSpec())
            return [ctx.constrain(operands[0], whole, ctx.avals_in[0], leave_auto_open=True)]
        if not sharding.mesh.explicit_axes or ctx.avals_out[0].shown_sharding is not None:
            # Nothing moves, or the caller constrains the layout that the type states.
            return operands
        return [ctx.constrain(operands[0], sharding, ctx.avals_in[0], leave_auto_open=True)]


reshard_p = Reshard()


def reshard(xs: Any, out_shardings: Any) -> Any:
    """`xs`, a tree of arrays, moved to the shardings `out_shardings`, which their types then show.

    `out_shardings` is a NamedSharding, a PartitionSpec over the current mesh, or a tree of these that is a prefix
    of `xs`. Specs name Explicit mesh axes only; over Auto axes the compiler decides.

    Raises: MissingMeshError for a PartitionSpec without a mesh; PartitionSpecError for axes that are not Explicit;
    IndivisibleError where a dimension is not split evenly.

    >>> mesh = pl.make_mesh((len(pl.devices()),), ("x",))
    >>> reshard(np.zeros(8), pl.NamedSharding(mesh, pl.P("x"))).sharding.spec
    P('x',)
    """
    return _from_mesh(None, xs, out_shardings)


def _keeping_batch(sharding: NamedSharding, dim: int, old: PartitionSpec) -> NamedSharding:
    """`sharding`, with the batch along `dim` cut as in the spec `old`, unless the elements need those mesh axes."""
    axes = old.axes_per_dim[dim] if dim < len(old) else ()
    spec = sharding.spec
    if spec.partitions[dim] is not None or not spec.axis_names.isdisjoint(axes):
        return sharding
    entries = list(spec.partitions)
    entries[dim] = axes or None
    return sharding.with_spec(spec.update(partitions=entries))


def _from_mesh(source: AnyMesh | None, xs, out_shardings):
    """`reshard` of values over the mesh `source`, where their types don't show a mesh."""
    resharded = functools.partial(_reshard_leaf, source)
    return map_leaves(resharded, xs, out_shardings, "reshard: out_shardings", "xs")


def _reshard_leaf(source: AnyMesh | None, x, stated, path: str):
    sharding = stated_sharding("reshard", stated)
    if not isinstance(sharding, NamedSharding):
        raise ShardingArgumentError(
            "reshard needs NamedShardings or PartitionSpecs.", got=f"{type(stated).__name__}"
        )
    check_no_manual_axis("reshard", sharding)
    mesh, spec = sharding.mesh, sharding.spec
    if source is not None and not mesh.explicit_axes:
        # Types show nothing here, on either side of the border.
        return constrain_leaf(x, sharding, path)
    for axis in spec.axis_names | spec.unreduced | spec.reduced:
        if mesh.axis_type_by_name[axis] is not AxisType.Explicit:
            raise PartitionSpecError(
                f"reshard: a spec must name Explicit mesh axes only; {axis!r} is {mesh.axis_type_by_name[axis]!r}.",
                got=[f"{spec!r}", f"{mesh}"],
                do="Use `with_sharding_constraint` for axes over which the compiler decides.",
            )
    aval = type_of(x)
    check_fits("reshard", path, sharding, aval.shape)
    return bind1(reshard_p, x, params=ReshardParams(sharding, source))


def auto_axes(
    f: Function | None = None,
    /,
    *,
    axes: str | Names | None = None,
    out_sharding: Any = None,
) -> Any:
    """`f`, within which the compiler decides over the Explicit mesh axes `axes` (all of them by default).

    Types inside don't show these axes. `out_sharding`, which may also be given when the function is called,
    lays out the results: a PartitionSpec, a NamedSharding, or a tree of these that is a prefix.

    Raises: MissingMeshError where no mesh is current; ArgumentTypeError where no layout is given for results.

    >>> with pl.set_mesh(pl.make_mesh((len(pl.devices()),), ("x",))):
    ...     y = auto_axes(lambda x: 2 * x, out_sharding=pl.P("x"))(np.zeros(8))
    >>> y.sharding.spec
    P('x',)
    """
    if f is None:
        return lambda function: auto_axes(function, axes=axes, out_sharding=out_sharding)
    function = f

    def inside(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        if out_sharding is None:
            raise ArgumentTypeError(
                "auto_axes needs `out_sharding`: the sharding of its results can't be inferred.",
                do="Give `out_sharding=PartitionSpec(...)` to auto_axes or to the call.",
            )
        if _states_nothing(out_sharding) and not _has_mesh(args):
            return function(*args, **kwargs)  # without a mesh, each layout is the whole value
        _, mesh = _retyped_mesh("auto_axes", args, axes, AxisType.Auto)
        args, kwargs = _without_axes((args, kwargs), mesh)
        with use_abstract_mesh(mesh):
            results = function(*args, **kwargs)
        return _from_mesh(mesh, results, out_sharding)

    return inside


def _states_nothing(out_sharding: Any) -> bool:
    specs = tree_flatten(out_sharding)[0]
    return all(isinstance(spec, PartitionSpec) and spec == PartitionSpec() for spec in specs)


def _has_mesh(args: Any) -> bool:
    return not get_abstract_mesh().empty or any(map(_shown_sharding, tree_flatten(args)[0]))


def with_out_sharding(out_sharding: Any, function: Function, *operands: Any) -> Any:
    """`function(*operands)` with its results laid out by `out_sharding` over Explicit axes; unchanged if that states
    nothing.
    """
    if stated_result("out_sharding", out_sharding) is None:
        return function(*operands)
    return auto_axes(function, out_sharding=out_sharding)(*operands)


def explicit_axes(
    f: Function | None = None,
    /,
    *,
    axes: str | Names | None = None,
    in_sharding: Any = None,
) -> Any:
    """`f`, within which types show how values are laid out over the mesh axes `axes` (all by default).

    `in_sharding`, which may also be given when the function is called, lays out the positional arguments: a
    PartitionSpec, a NamedSharding, or a tree of these that is a prefix of them.

    Raises: MissingMeshError where no mesh is current; ArgumentTypeError where no layout is given for arguments.

    >>> mesh = pl.make_mesh((len(pl.devices()),), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    >>> with pl.set_mesh(mesh):
    ...     y = explicit_axes(lambda x: 2 * x, in_sharding=pl.P("x"))(np.zeros(8))
    >>> y.shape
    (8,)
    """
    if f is None:
        return lambda function: explicit_axes(function, axes=axes, in_sharding=in_sharding)
    function = f

    def inside(*args: Any, in_sharding: Any = in_sharding, **kwargs: Any) -> Any:
        if in_sharding is None:
            raise ArgumentTypeError(
                "explicit_axes needs `in_sharding`: the sharding that its arguments get can't be inferred.",
                do="Give `in_sharding=PartitionSpec(...)` to explicit_axes or to the call.",
            )
        outer, mesh = _retyped_mesh("explicit_axes", args, axes, AxisType.Explicit)
        with use_abstract_mesh(mesh):
            results = function(*_from_mesh(outer, args, in_sharding), **kwargs)
        return _without_axes(results, outer)

    return inside


def _retyped_mesh(caller: str, args, axes, axis_type: AxisType) -> tuple[Any, Any]:
    """(the current mesh, or the one in the types of the arrays `args`; the same mesh with `axes` of type
    `axis_type`).
    """
    mesh = get_abstract_mesh()
    if mesh.empty:
        shown = [*filter(None, map(_shown_sharding, tree_flatten(args)[0]))]
        if not shown:
            raise MissingMeshError(
                f"{caller} changes the types of the current mesh's axes, and no mesh is current.",
                do="Set the mesh first: `with set_mesh(mesh):`.",
            )
        mesh = shown[0].mesh
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    for name in names:
        if name not in mesh.axis_names:
            raise axis_not_in_mesh_error(caller, name, mesh)
    return mesh, mesh.update_axis_types(dict.fromkeys(names, axis_type))


def _without_axes(xs, mesh):
    """The tree `xs`, with types that show only axes that are Explicit in `mesh`; no data moves."""

    def cast(x):
        old = _shown_sharding(x)
        if old is None or old.mesh is mesh:
            return x
        # Over Auto axes no marks are needed: a reduced value is the same everywhere.
        kept = frozenset(mesh.explicit_axes)
        if context.trace.is_eager:
            sharding = x.sharding
            spec = sharding.spec.update(reduced=sharding.spec.reduced & kept)
            retyped = sharding.mesh.update(axis_types=mesh.axis_types)
            return bottom().put(x, NamedSharding(retyped, spec, sharding.memory_kind))
        spec = explicit_part(old.spec, mesh, type_of(x).ndim)
        spec = spec.update(reduced=spec.reduced & kept)
        return bind1(reshard_p, x, params=ReshardParams(NamedSharding(mesh, spec)))

    return tree_map(cast, xs)


def _shown_sharding(x):
    """The sharding that the type of `x` shows; None also for anything that isn't an array."""
    return getattr(getattr(x, "aval", None), "shown_sharding", None)
