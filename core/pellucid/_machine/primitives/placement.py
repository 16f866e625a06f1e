"""Statements of place and layout: `device_put`, `reshard` over Explicit mesh axes, `with_sharding_constraint`, and the order of elements in memory."""

from __future__ import annotations

import enum
import functools
from itertools import compress
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    Names,
    UnsupportedError,
    broadcast_prefix,
    inserted,
    is_none,
    shown_path,
    strict_zip,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    MOVEMENT,
    BatchAxis,
    BatchDim,
    Placed,
    Primitive,
    Runs,
    Shown,
    Values,
    Zero,
    aval_at,
    element_shape,
)
from pellucid._machine.lowering.addends import is_product_of_parts
from pellucid._machine.sharding import (
    AxisType,
    NamedSharding,
    PartitionSpec,
    Sharding,
    get_abstract_mesh,
    use_abstract_mesh,
)
from pellucid._machine.sharding.errors import (
    LayoutAssertionError,
    MissingMeshError,
    PartitionSpecError,
    ShardingArgumentError,
    ShardingError,
)
from pellucid._machine.sharding.explicit_types import (
    check_divisible,
    explicit_part,
    operand_of,
    shown_sharding,
)
from pellucid._machine.sharding.layout import Format, Layout
from pellucid._machine.sharding.memory import MemorySpace, space_of_kind
from pellucid._machine.sharding.mesh import AnyMesh, axis_not_in_mesh_error
from pellucid._machine.sharding.partition_spec import UNCONSTRAINED
from pellucid._machine.sharding.placement import tiles
from pellucid._machine.sharding.stated import (
    check_fits,
    check_no_manual_axis,
    leaves_to_put,
    sharding_for,
    stated_layout,
    stated_result,
    stated_sharding,
)
from pellucid._machine.tracing import bind, bind1, bottom, context, type_of
from pellucid._machine.xla import ArrayImpl, Device

from .families import zero_of
from .movement import Identity


class ArrayCopySemantics(enum.Enum):
    """Whether a value that already is where it should be is used again, copied, or given away."""

    REUSE_INPUT = 0
    ALWAYS_COPY = 1
    DONATE_INPUT = 2

    def __str__(self) -> str:
        return f"ArrayCopySemantics.{self.name}"

    __repr__ = __str__


class DevicePutParams(NamedTuple):
    """One entry for each operand; a destination is a device, a sharding, a memory space, or None."""

    copy_semantics: tuple[ArrayCopySemantics, ...]
    devices: tuple[Any, ...]
    srcs: tuple[Any, ...]


class DevicePut(Placed, Runs, Primitive[DevicePutParams]):
    """The identity, to another place; outside a trace, a transfer without a compiled program."""

    name = statement = "device_put"
    traits = MOVEMENT
    types_are_laid_out = True

    def run(self, operands, params):
        return [
            bottom().put(
                x, destination, donate=semantics is ArrayCopySemantics.DONATE_INPUT,
                may_alias=False if semantics is ArrayCopySemantics.ALWAYS_COPY else None,
            )
            for x, destination, semantics in strict_zip(operands, params.devices, params.copy_semantics)
        ]  # fmt: skip

    def abstract_eval(self, avals, params):
        return [
            aval if destination is None else _moved(aval, destination)
            for aval, destination in strict_zip(avals, params.devices)
        ]

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        moved = self._moved(tangents, params)
        return results, [zero_of(y) if t is None else t for t, y in strict_zip(moved, results)]

    def transpose(self, cotangents, operands, params):
        _, devices, srcs = params
        back = DevicePutParams((ArrayCopySemantics.ALWAYS_COPY,) * len(devices), srcs, devices)
        moved = self._moved(cotangents, back)
        return [Zero(x.aval) if ct is None else ct for ct, x in strict_zip(moved, operands)]

    def _moved(self, tangents, params: DevicePutParams) -> Values:
        """`tangents`, or cotangents, at their places; None for known zeros."""
        nonzero = [type(t) is not Zero for t in tangents]
        chosen = DevicePutParams(*(tuple(compress(field, nonzero)) for field in params))
        moved = iter(bind(self, *compress(tangents, nonzero), params=chosen))
        return [next(moved) if nz else None for nz in nonzero]

    def batch(self, axis, operands, dims, params):
        devices, srcs = (
            tuple([_batched_place(place, dim) for place, dim in strict_zip(places, dims)])
            for places in (params.devices, params.srcs)
        )
        return bind(self, *operands, params=params._replace(devices=devices, srcs=srcs)), dims

    def placed(self, params):
        return [place for place in params.devices if isinstance(place, (Device, Sharding))]

    def lower(self, ctx, operands, params):
        return [
            _lowered_put(ctx, x, aval, destination)
            for x, aval, destination in strict_zip(operands, ctx.avals_in, params.devices)
        ]


def _moved(aval, destination):
    """The type of a value of type `aval` at `destination`."""
    if isinstance(destination, Sharding):
        destination.check_compatible_aval(aval.shape)
        return aval_at(aval, destination)
    return aval.update(memory_space=_space(destination))


def _lowered_put(ctx, x, aval, destination):
    """A value of type `aval` at `destination` within a program."""
    if isinstance(destination, Sharding) and destination.num_devices > 1:
        x = ctx.constrain(x, destination, aval)
    if isinstance(destination, Sharding) and _space(destination) is aval.memory_space:
        return x
    return _in_memory(ctx, x, aval, _kind(destination))


device_put_p = DevicePut()


def _in_memory(ctx, x, aval, kind: str | None):
    """`x` in memory of a kind.

    On the CPU all memories are one, so only results of a program can be of a kind; their types say it.
    """
    if kind is None or ctx.platform == "cpu":
        return x
    placement = ctx.string(kind)
    return ctx.op1(
        "stablehlo.custom_call",
        aval,
        [x],
        {
            "call_target_name": "annotate_device_placement",
            "has_side_effect": True,
            "mhlo.frontend_attributes": ctx.dictionary({"_xla_buffer_placement": placement}),
        },
    )


def _kind(destination) -> str | None:
    """The memory kind that a destination asks for."""
    return getattr(destination, "memory_kind", None)


def _space(destination) -> MemorySpace | None:
    return space_of_kind(_kind(destination))


def _batched_place(place, dim: BatchDim):
    """The place of a batch whose elements go to `place`."""
    if not isinstance(place, NamedSharding) or dim is None:
        return place
    spec = place.spec.padded(dim)
    return place.with_spec(spec.update(partitions=inserted(spec.partitions, dim, None)))


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: bool | Any = False,
    may_alias: bool | Any | None = None,
) -> Any:
    """`x`, a tree of arrays, on a device, laid out as a sharding, or in a memory space.

    `device`, `src`, `donate` and `may_alias` may be trees that are prefixes of `x`. Without a device, what is on
    the host goes to the default device and the rest stays. `may_alias=False` copies in any case, `donate` gives
    the memory of `x` away. `src` says where `x` is; a trace can't know it, and cotangents go there.

    >>> device_put({"a": 1.5})
    {'a': Array(1.5, dtype=float32, weak_type=True)}
    """
    if context.trace.is_eager:
        return bottom().put_tree(x, device, src=src, donate=donate, may_alias=may_alias)
    leaves, structure, places = leaves_to_put(x, device, src, donate, may_alias)
    if not leaves:
        return x
    devices, srcs = (tuple([_checked_place(place[i]) for place in places]) for i in (0, 1))
    semantics = tuple([_semantics(donate, may_alias) for _, _, donate, may_alias in places])
    return structure.unflatten(
        bind(device_put_p, *leaves, params=DevicePutParams(semantics, devices, srcs))
    )


def _checked_place(place):
    """`place` as it stands among the params; raises for what is no place."""
    if isinstance(place, (MemorySpace, Device)):
        return place
    sharding = sharding_for(place)
    check_no_manual_axis("device_put", sharding)
    return sharding


def _semantics(donate: bool, may_alias: bool | None) -> ArrayCopySemantics:
    if donate and may_alias:
        raise ArgumentValueError("device_put: `donate` and `may_alias` can't both be True.")
    if donate:
        return ArrayCopySemantics.DONATE_INPUT
    return ArrayCopySemantics.ALWAYS_COPY if may_alias is False else ArrayCopySemantics.REUSE_INPUT


class LayoutConstraintParams(NamedTuple):
    layout: Layout


class LayoutConstraint(Runs, Identity[LayoutConstraintParams]):
    """The same value, laid out in memory as stated."""

    name = "layout_constraint"

    def abstract_eval(self, avals, params):
        params.layout.check_compatible_aval(avals[0].shape)
        return avals

    def run(self, operands, params):
        self.abstract_eval(tuple(map(type_of, operands)), params)
        [x] = operands
        array = x if isinstance(x, ArrayImpl) else bottom().from_host(x)
        return [device_put(array, Format(params.layout, array.sharding))]

    def batch(self, axis, operands, dims, params):
        [dim] = dims
        if dim is None:
            return bind(self, *operands, params=params), dims
        # Elements of the batch lie one behind the other, each as stated.
        order = [d + (d >= dim) for d in params.layout.major_to_minor]
        layout = params.layout.update(major_to_minor=(dim, *order))
        return bind(self, *operands, params=LayoutConstraintParams(layout)), dims

    def lower(self, ctx, operands, params):
        [aval] = ctx.avals_in
        words = range(aval.ndim, aval.ndim + len(element_shape(aval)))
        order = [*params.layout.major_to_minor, *words][::-1]
        layouts = ctx.attribute(f"[dense<{order}> : tensor<{len(order)}xindex>]")
        attributes = {
            "call_target_name": "LayoutConstraint",
            "api_version": ctx.integer(1, 32),
            "operand_layouts": layouts,
            "result_layouts": layouts,
        }
        return [ctx.op1("stablehlo.custom_call", aval, operands, attributes)]


layout_constraint_p = LayoutConstraint()


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """`x`, arrays in a tree, with their elements in memory in the order that `layouts` says, a tree of `Layout`.

    In a program the compiler brings a value into this order at this point; outside of one it is moved at once.

    Raises: LayoutError for a layout of another rank; ArgumentTypeError for what is no `Layout`.

    >>> x = with_layout_constraint(np.ones((2, 3), np.float32), Layout((1, 0)))
    >>> x.format.layout.major_to_minor
    (1, 0)
    """

    def constrained(leaf, layout):
        if not isinstance(layout, Layout):
            raise ArgumentTypeError(
                "with_layout_constraint takes a `Layout` for each array.",
                got=f"{type(layout).__name__} ({layout!r:.60})",
                do="Write `Layout(major_to_minor)`; of a `Format`, pass its `layout`.",
            )
        return bind1(layout_constraint_p, leaf, params=LayoutConstraintParams(layout))

    return tree_map(constrained, x, layouts)


# Shardings -----------------------------------------------------------------------------------------


class ShardingConstraintParams(NamedTuple):
    """How the operand is laid out; unconstrained dimensions of a NamedSharding are left to the compiler."""

    sharding: Any


class ShardingConstraint(Placed, Identity[ShardingConstraintParams]):
    """The identity, laid out as stated."""

    name = "sharding_constraint"
    statement = "with_sharding_constraint"
    traits = COLLECTIVE

    def placed(self, params):
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
    return sharding.with_spec(spec.update(partitions=inserted(spec.partitions, dim, entry)))


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """`x`, a tree of arrays, laid out as `shardings` say at this point of a program.

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
    return _by_leaf(_constrained_as, x, shardings, "with_sharding_constraint: shardings", "x")


def _by_leaf(function: Function, xs, stated, what: str, name: str):
    """`function(leaf, what is stated for it, its path)` of the leaves of `xs`; `stated` is a prefix of this tree."""
    with_paths, structure = tree_flatten_with_path(xs)
    entries = broadcast_prefix(stated, xs, is_none, caller=what, name=name)
    return structure.unflatten(
        [function(x, s, shown_path(name, path)) for (path, x), s in strict_zip(with_paths, entries)]
    )


def _constrained_as(x, stated, path: str):
    """One array, laid out as a user stated it."""
    name = "with_sharding_constraint"
    place = stated.sharding if isinstance(stated, Format) else stated
    sharding = stated_sharding(name, PartitionSpec() if place is None else place)
    # None is a layout over a mesh without axes, as types show it
    result = x if sharding is None else constrained(x, sharding, path)
    layout = stated_layout(stated)
    return with_layout_constraint(result, layout) if isinstance(layout, Layout) else result


def constrained(x: Any, sharding: Any, path: str = "x") -> Any:
    """One array, laid out as `sharding`; `path` is what messages call it."""
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
        sharding = _over_auto_axes(x, sharding, path)
        if sharding is None:
            return x
    return bind1(sharding_constraint_p, x, params=ShardingConstraintParams(sharding))


def _over_auto_axes(x, sharding: NamedSharding, path: str) -> NamedSharding | None:
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
            f"with_sharding_constraint: {spec!r} names Explicit mesh axes.",
            got=[f"{path}: {aval.text()}", f"{mesh}"],
            do="Name Auto axes only; over Explicit ones, use `reshard(x, spec)`.",
        )
    return sharding


# Layouts over Explicit axes ------------------------------------------------------------------------


class ReshardParams(NamedTuple):
    """How the result is laid out, over a mesh whose axis types the result's type has."""

    dst_sharding: NamedSharding
    source: AnyMesh | None = None
    """The mesh that cotangents go back to where the operand's type shows none; by default that of the result."""


class Reshard(Placed, Shown, Identity[ReshardParams]):
    """The identity, with another sharding in its type. Devices exchange what they need for it."""

    name = statement = "reshard"
    traits = COLLECTIVE
    unshown = ReshardParams._fields  # the result's type says it

    def abstract_eval(self, avals, params):
        [aval] = avals
        mesh = params.dst_sharding.mesh.abstract_mesh
        spec = explicit_part(params.dst_sharding.spec, mesh, aval.ndim)
        check_divisible(aval.shape, spec, mesh, "reshard: ")
        return [aval.update(shown_sharding=shown_sharding(mesh, spec))]

    def placed(self, params):
        return (params.dst_sharding,)

    def undo(self, cotangent, aval, params):
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
            # Else what makes the operand would be laid out as addends are, each of which is then the whole value.
            whole = NamedSharding(sharding.mesh, PartitionSpec())
            return [ctx.constrain(operands[0], whole, ctx.avals_in[0], leave_auto_open=True)]
        if not sharding.mesh.explicit_axes or ctx.avals_out[0].shown_sharding is not None:
            return operands  # nothing moves, or what the type says is laid out by the caller
        return [ctx.constrain(operands[0], sharding, ctx.avals_in[0], leave_auto_open=True)]


reshard_p = Reshard()


def reshard(xs: Any, out_shardings: Any) -> Any:
    """`xs`, a tree of arrays, laid out as `out_shardings` say; their types then say it too.

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
    """`reshard` of values that are over the mesh `source`, where their types don't say."""
    resharded = functools.partial(_resharded, source)
    return _by_leaf(resharded, xs, out_shardings, "reshard: out_shardings", "xs")


def _resharded(source: AnyMesh | None, x, stated, path: str):
    sharding = stated_sharding("reshard", stated)
    if not isinstance(sharding, NamedSharding):
        raise ShardingArgumentError(
            "reshard takes NamedShardings or PartitionSpecs.", got=f"{type(stated).__name__}"
        )
    check_no_manual_axis("reshard", sharding)
    mesh, spec = sharding.mesh, sharding.spec
    if source is not None and not mesh.explicit_axes:
        # Types show nothing here, on either side of the border.
        return constrained(x, sharding, path)
    for axis in spec.axis_names | spec.unreduced | spec.reduced:
        if mesh.axis_type_by_name[axis] is not AxisType.Explicit:
            raise PartitionSpecError(
                f"reshard: a spec names Explicit mesh axes only; {axis!r} is {mesh.axis_type_by_name[axis]!r}.",
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
    return not get_abstract_mesh().empty or any(map(_shown, tree_flatten(args)[0]))


def with_out_sharding(out_sharding: Any, function: Function, *operands: Any) -> Any:
    """`function(*operands)`, laid out over Explicit mesh axes as `out_sharding` says, where it says something."""
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
    """The current mesh, else the one that the types of the arrays `args` show, and the same with `axes` of another type."""
    mesh = get_abstract_mesh()
    if mesh.empty:
        shown = [*filter(None, map(_shown, tree_flatten(args)[0]))]
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
        old = _shown(x)
        if old is None or old.mesh is mesh:
            return x
        # The same everywhere, which is what reduced means of the value itself, needs no words over Auto axes.
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


def _shown(x):
    """The sharding that the type of `x` shows; None also for what is no array."""
    return getattr(getattr(x, "aval", None), "shown_sharding", None)
