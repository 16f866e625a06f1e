"""`shard_map`: runs a function once per position along mesh axes, on its part of the arguments."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence, Set as AbstractSet
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    CollectiveError,
    EffectsError,
    Function,
    broadcast_prefix,
    broadcast_prefix_to,
    is_none,
    leaf_paths,
    merge_by_mask,
    shown_path,
    strict_zip,
    tree_map,
    wrapping,
)
from pellucid._machine.higher_order.bodies import (
    TracedBody,
    argument_names,
    body_of_flat,
    body_of_trace,
)
from pellucid._machine.ir import DebugInfo, Effects, Operands, Results, Values
from pellucid._machine.primitives import Marks, marks_of, vary
from pellucid._machine.refs.access import new_ref
from pellucid._machine.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    PartitionSpec,
    get_abstract_mesh,
    mesh_context,
)
from pellucid._machine.sharding.errors import MeshError, PartitionSpecError, ShardingArgumentError
from pellucid._machine.sharding.mesh import AnyMesh, axis_not_in_mesh_error
from pellucid._machine.sharding.partition_spec import AxisSet, axes_text, check_axes_are_used_once
from pellucid._machine.tracing import (
    bind,
    check_distinct,
    context,
    is_reference,
    name_of,
    source_of,
    type_of,
    types_of,
)
from pellucid._machine.transforms import (
    argument_paths,
    check_callable,
    checked_leaves,
    result_leaves,
    wraps,
)
from pellucid._machine.xla import flatten

from .axes import pcast
from .eager_shard_map import Looking
from .manual import (
    REPLICATED,
    ShardMapParams,
    bind_manual_axes,
    check_is_array,
    local_type,
    shard_map_p,
    spec_along,
)


class InferFromArgs:
    """Sentinel for specs that are inferred from the types of the arguments."""

    def __repr__(self) -> str:
        return "Infer"


Infer = InferFromArgs()


def shard_map(
    f: Function | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: AnyMesh | None = None,
    axis_names: AbstractSet[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """`f` run once for each position along axes of a mesh of devices, on its part of the arguments.

    `in_specs` and `out_specs` are PartitionSpecs, or trees of them that are prefixes of the arguments (a tuple) and
    of the result: an axis at a dimension cuts the argument there, and joins the results there. An axis that a spec
    does not use means the whole argument at each position, and a result that is the same at all of them. In
    `in_specs`, None marks an argument that isn't an array; left out, they are read from the types of arguments sharded
    over Explicit axes. `mesh` is by default the current one (`set_mesh`). `axis_names` are the axes over which `f`
    runs; over the others the compiler decides. Collectives (`lax.psum`, …) inside `f` may name these axes.

    With `check_vma`, types inside `f` say over which axes values vary: results that `out_specs` wrongly call the same
    are errors, and derivatives need no communication that isn't there already. `shard_map(out_specs=…)` without a
    function is a decorator.

    Outside of `jit` and other transformations, `print(x)` inside `f` shows the value at each position, and Python may
    branch on values that all positions have.

    Shapes: inside `f` a dimension cut over axes is shorter by their sizes.
    Raises: IndivisibleError, PartitionSpecError (rank, Explicit arguments with other specs), MeshError (axes), CollectiveError (results that differ).

    >>> from pellucid import P, make_mesh
    >>> mesh = make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    >>> double = shard_map(lambda x: 2 * x, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    >>> double(np.arange(4))
    Array([0, 2, 4, 6], dtype=int32)
    """
    if f is None:
        return functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names,
            check_vma=check_vma,
        )  # fmt: skip
    check_callable(f, "shard_map")

    @wraps(f, "Form for one position along mesh axes")
    def mapped_function(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ArgumentTypeError(
                f"shard_map: `{name_of(f)}` takes its arguments by position, as in_specs do.",
                got=f"keywords: {', '.join(kwargs)}",
                do="Bind other values with functools.partial.",
            )
        over = _checked_mesh(mesh)
        manual = _manual_axes(over, axis_names)
        call = functools.partial(_call, mesh=over, manual=manual, check_vma=check_vma)
        if any(map(is_reference, flatten(args)[0])):
            return _call_on_values(call, f, args, over, manual, in_specs, out_specs)
        return call(f, args, in_specs=in_specs, out_specs=out_specs)

    return mapped_function


def _call_on_values(
    call: Function, f: Function, args: Operands, mesh: AnyMesh, manual: AxisSet, in_specs, out_specs
):  # fmt: skip
    """`call(f, args, …)` for `args` with references: each position gets references to its parts of their values."""
    leaves, tree = flatten(args)
    paths = argument_paths(f, args)
    check_distinct("shard_map", paths, leaves)
    # One flag per leaf; in `values`, references are replaced by their content.
    is_ref = list(map(is_reference, leaves))
    values = [x[...] if r else x for x, r in strict_zip(leaves, is_ref)]
    specs = [
        _inferred_spec(x, mesh, manual, path) if spec is Infer else spec
        for x, spec, path in strict_zip(values, _input_specs(args, in_specs), paths)
    ]

    @wrapping(f)
    def run_on_parts(*parts: Any) -> Any:
        # Each position creates references to its parts, and returns their final contents.
        cells = [new_ref(x) if r else x for x, r in strict_zip(parts, is_ref)]
        result = f(*tree.unflatten(cells))
        return result, [x[...] for x in itertools.compress(cells, is_ref)]

    # The final contents are joined by the specs that divided them.
    all_specs = out_specs, list(itertools.compress(specs, is_ref))
    result, held = call(run_on_parts, tuple(values), in_specs=tuple(specs), out_specs=all_specs)
    # `held` has one value per reference, in the order of leaves.
    for reference, value in strict_zip(itertools.compress(leaves, is_ref), held):
        reference[...] = value
    return result


def smap(
    f: Function | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any
) -> Any:
    """`f` run once for each position along one axis of the current mesh: `shard_map` in the words of `vmap`.

    `in_axes` and `out_axes` say, as ints or None, or trees of them that are prefixes, which dimension is cut along
    `axis_name`; that dimension stays, shorter. Without `f` it is a decorator.

    >>> from pellucid import make_mesh, set_mesh
    >>> with set_mesh(make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))):
    ...     smap(lambda x: 2 * x, in_axes=0, out_axes=0, axis_name="x")(np.arange(4))
    Array([0, 2, 4, 6], dtype=int32)
    """
    if isinstance(axis_name, (list, tuple)):
        raise ArgumentTypeError("smap needs one axis name.", got=f"axis_name={axis_name!r}")
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)

    def spec(axis: Any) -> PartitionSpec:
        if axis is not None and (type(axis) is not int or axis < 0):
            raise ArgumentTypeError(
                "smap: axes must be None or ints from 0 on, or trees of those.", got=f"got {axis!r}"
            )
        return spec_along(axis, axis_name)

    in_specs = Infer if in_axes is Infer else tree_map(spec, in_axes, is_leaf=is_none)
    out_specs = tree_map(spec, out_axes, is_leaf=is_none)
    return shard_map(f, in_specs=in_specs, out_specs=out_specs, axis_names=frozenset({axis_name}))


# The mesh -----------------------------------------------------------------------------------------


def _checked_mesh(mesh) -> AnyMesh:
    """`mesh`, or the current mesh if it is None."""
    if mesh is None:
        mesh = (
            mesh_context.concrete.value or mesh_context.abstract.value or mesh_context.entered.value
        )
        if mesh is None:
            raise MeshError(
                "shard_map needs a mesh, and none is current.",
                do="Pass `mesh=`, or call it within `with set_mesh(mesh):`.",
            )
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise ShardingArgumentError(
            "shard_map needs a Mesh or an AbstractMesh.", got=f"mesh: {type(mesh).__name__}"
        )
    if mesh.empty:
        raise MeshError("shard_map: the mesh has no devices.", got=repr(mesh))
    return mesh


def _manual_axes(mesh: AnyMesh, axis_names) -> AxisSet:
    """The axes that become manual: those in `axis_names`, by default all that aren't manual already."""
    if isinstance(axis_names, str):
        raise ArgumentTypeError(
            "shard_map: axis_names must be a set of names.", got=f"axis_names={axis_names!r}",
            do=f"Write {{{axis_names!r}}}.",
        )  # fmt: skip
    for name in axis_names:
        if name not in mesh.axis_names:
            raise axis_not_in_mesh_error("shard_map: axis_names", name, mesh)
    outer = get_abstract_mesh()
    # Axes of surrounding `shard_map`s.
    already = frozenset(outer.manual_axes) & context.axes.keys()
    if already and outer.shape != mesh.shape:
        raise MeshError(
            "shard_map within another one must run over axes of the same mesh.",
            got=f"{mesh}, within {outer}",
            do="Make one mesh with all axes, and name those of each shard_map in axis_names.",
        )
    axes = frozenset(axis_names or mesh.axis_names)
    again = axes & already
    # By default, all axes that are still free; it is an error only if there are none.
    if again and (axis_names or again == axes):
        raise MeshError(
            f"shard_map: axis {min(again, key=str)!r} is manual here already.",
            got=f"axes of the shard_map around it: {axes_text(already)}",
            do="Name other axes in axis_names.",
        )
    return axes - already


# Calls --------------------------------------------------------------------------------------------


def _call(
    f: Function, args: Operands, mesh, manual: AxisSet, in_specs, out_specs,
    check_vma: bool,
):  # fmt: skip
    leaves, tree = flatten(args)
    leaf_specs = _input_specs(args, in_specs)
    # One flag per leaf: a leaf with spec None may be any object, and is passed to `f` unchanged.
    is_array = [spec is not None for spec in leaf_specs]
    # From here on, `arrays`, `paths`, `specs` and `avals` have one entry per array.
    arrays = checked_leaves([*itertools.compress(leaves, is_array)], "shard_map", f, args)
    paths = [*itertools.compress(argument_paths(f, args), is_array)]
    stated = itertools.compress(leaf_specs, is_array)
    specs = [
        _checked_spec(spec, x, mesh, manual, path, check_vma)
        for spec, x, path in strict_zip(stated, arrays, paths)
    ]
    # Types of the parts at one position: shorter along each dimension that the spec partitions.
    avals = [
        local_type(type_of(x), mesh, spec, manual, check_vma, path)
        for x, spec, path in strict_zip(arrays, specs, paths)
    ]
    out_leaves, _ = flatten(out_specs)
    for spec in out_leaves:
        _check_spec("out_specs", spec, mesh, manual)

    def flat(*parts: Any) -> tuple[Values, Any]:
        if is_eager:
            context.trace.look = looking
        # The part of each array, at the array's place among the leaves.
        inputs = tree.unflatten(merge_by_mask(is_array, parts, leaves))
        results, result_tree = result_leaves(f(*inputs), "shard_map", f)
        # One spec per leaf of the result.
        result_specs = broadcast_prefix_to(
            out_specs, result_tree, caller="shard_map out_specs", name="result"
        )
        if check_vma:
            results = [_as_addends(x, spec) for x, spec in strict_zip(results, result_specs)]
        _check_results(f, results, result_specs, result_tree, mesh, manual, check_vma)
        if check_vma:
            # A result may be the same at all positions and yet be partitioned by its spec; its type then must vary.
            results = [vary(x, s.axis_names) for x, s in strict_zip(results, result_specs)]
        return results, (result_tree, tuple(result_specs))

    def params_of(body: TracedBody) -> ShardMapParams:
        # Values that `f` closes over come first, replicated at all positions.
        in_specs = (*[REPLICATED] * len(body.consts), *specs)
        return ShardMapParams(check_vma, in_specs, body.program, manual, mesh, body.out_tree[1])

    code = getattr(f, "__code__", None)
    is_eager = context.trace.is_eager and not context.axes
    looking = Looking(mesh, manual, check_vma, arrays, tuple(specs), mesh_context.abstract.value)

    def names() -> list[str]:
        return [*itertools.compress(argument_names(code, tree), is_array)]

    def trace_body() -> TracedBody:
        body = body_of_flat(flat, avals, DebugInfo("shard_map", source_of(f), names))
        # With a single position, effects are ordered.
        if mesh.parts_of(manual) > 1:
            _check_has_no_order(f, body.program.effects)
        params_of(body).check_no_divergence(body.program.jaxpr)
        return body

    with bind_manual_axes(mesh, manual, check_vma):
        body = body_of_trace(trace_body)
    for aval in types_of(body.consts):
        check_is_array(aval, f"used from outside by `{name_of(f)}`")
    result_tree, _ = body.out_tree
    return result_tree.unflatten(bind(shard_map_p, *body.consts, *arrays, params=params_of(body)))


def _as_addends(x: Any, spec: PartitionSpec) -> Any:
    """A result whose values differ along axes that `spec` declares unreduced: they are summands."""
    aval = type_of(x)
    # Axes that are unreduced in the spec, but not in the type yet.
    axes = tuple(spec.unreduced - marks_of(aval).unreduced)
    if not axes or not aval.varying.issuperset(axes):
        return x
    return pcast(x, axes, to="unreduced")


def _check_has_no_order(f: Function, effects: Effects) -> None:
    """Raise EffectsError for ordered effects, because positions on several devices have no order."""
    ordered = [e for e in effects if e.ordered]
    if ordered:
        raise EffectsError(
            f"shard_map: `{name_of(f)}` has effects in an order, which devices don't share.",
            got=", ".join(map(repr, ordered)),
            do="Use the unordered form (ordered=False).",
        )


def _input_specs(args: Operands, in_specs) -> list[Any]:
    """For each leaf of the arguments its spec; None if it isn't an array, Infer if it is read from the type."""
    if in_specs is Infer:
        return [Infer] * len(flatten(args)[0])
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    if isinstance(in_specs, tuple) and len(in_specs) != len(args):
        raise ArgumentValueError(
            "shard_map in_specs needs one entry for each argument.",
            got=f"{len(in_specs)} entries, called with {len(args)} positional arguments",
        )
    return broadcast_prefix(in_specs, args, is_none, caller="shard_map in_specs", name="args")


def _checked_spec(
    spec, x, mesh: AnyMesh, manual: AxisSet, path: str, check_vma: bool
) -> PartitionSpec:
    if spec is Infer:
        return _inferred_spec(x, mesh, manual, path)
    _check_spec("in_specs", spec, mesh, manual)
    aval = type_of(x)
    if marks_of(aval) != Marks(spec.unreduced, spec.reduced) or (
        marks_of(aval).reduced and not check_vma
    ):
        raise PartitionSpecError(
            "shard_map in_specs must say over which axes an argument is unreduced or reduced, as its type does.",
            got=f"{path}: {aval.text()}, spec {spec!r}, check_vma={check_vma}",
            do="Write P(..., unreduced={...}, reduced={...}), or `reshard` the argument first.",
        )
    # With Explicit axes only, types contain all shardings, so a spec must agree with the type.
    types = mesh.axis_type_by_name
    if manual == types.keys() and all(t is AxisType.Explicit for t in types.values()):
        _check_matches_type(spec, aval, path)
    return spec


def _check_matches_type(spec: PartitionSpec, aval, path: str) -> None:
    """Raise PartitionSpecError if `spec` differs from the sharding over Explicit axes in the argument's type."""
    shown = aval.shown_sharding
    of_type = REPLICATED if shown is None else shown.spec
    # Pairs of mesh axes per dimension; a spec may be shorter than the rank.
    dims = itertools.zip_longest(spec.axes_per_dim, of_type.axes_per_dim, fillvalue=())
    if any(stated != typed for stated, typed in dims):
        raise PartitionSpecError(
            "shard_map in_specs must be those of the arguments' types over Explicit mesh axes.",
            got=f"{path}: {aval.text()}, spec {spec!r}",
            do="Leave in_specs out, they are read from the types then, or `reshard` the argument first.",
        )


def _inferred_spec(x, mesh: AnyMesh, manual: AxisSet, path: str) -> PartitionSpec:
    """The spec in the type of `x`."""
    if any(mesh.axis_type_by_name[a] is not AxisType.Explicit for a in manual):
        raise MeshError(
            "shard_map can leave in_specs out only over Explicit mesh axes.",
            got=f"{path}: {type_of(x).text()}, {mesh}",
            do="Give in_specs, or make the mesh with axis_types=(AxisType.Explicit, …).",
        )
    sharding = type_of(x).shown_sharding
    if sharding is None:
        return REPLICATED
    # The mesh axes per dimension, without those over which `f` doesn't run: the compiler handles these.
    entries = [
        tuple([a for a in axes if a in manual]) or None for axes in sharding.spec.axes_per_dim
    ]
    return PartitionSpec(*entries, unreduced=sharding.spec.unreduced, reduced=sharding.spec.reduced)


def _check_spec(what: str, spec, mesh: AnyMesh, manual: AxisSet) -> None:
    if not isinstance(spec, PartitionSpec):
        raise ArgumentTypeError(
            f"shard_map {what} must be a PartitionSpec, or a tree of them.", got=f"got {spec!r:.60}",
            do="Write P() for a value that every position has whole.",
        )  # fmt: skip
    for axes in spec.axes_per_dim:
        for axis in axes:
            if axis not in mesh.axis_names:
                raise axis_not_in_mesh_error(
                    f"shard_map {what}: {spec!r}", axis, mesh, PartitionSpecError
                )
            if axis not in manual:
                raise PartitionSpecError(
                    f"shard_map {what}: {spec!r} names axis {axis!r}, over which the function does not run.",
                    got=f"it runs over {axes_text(manual)}",
                    do=f"Add {axis!r} to axis_names, or leave it out: the compiler decides about it.",
                )
    for axis in spec.unreduced | spec.reduced:
        if axis not in manual or mesh.axis_type_by_name[axis] is not AxisType.Explicit:
            raise PartitionSpecError(
                f"shard_map {what}: {spec!r}: only Explicit axes over which the function runs have addends.",
                got=f"axis {axis!r} of {mesh}, runs over {axes_text(manual)}",
                do="Make the mesh with axis_types=(AxisType.Explicit, …), or sum over the axis with `psum`.",
            )
    check_axes_are_used_once(spec)


def _check_results(
    f: Function, results: Results, specs: Sequence[PartitionSpec], tree, mesh,
    manual: AxisSet, check_vma: bool,
) -> None:  # fmt: skip
    """Raise an error for results whose rank or invariance doesn't match `out_specs`."""
    for i, (aval, spec) in enumerate(strict_zip(types_of(results), specs)):
        if len(spec) > aval.ndim:
            raise PartitionSpecError(
                f"shard_map: out_specs give {spec!r} to a result of rank {aval.ndim}.",
                got=_result_text(f, tree, i, aval, spec),
                do="Give a scalar that differs a dimension, `x[None]`, at which all are joined, or sum it (`psum`)."
                if aval.ndim == 0
                else "Leave the last entries out; dimensions not mentioned are not cut.",
            )
        if check_vma and marks_of(aval) != Marks(spec.unreduced, spec.reduced):
            raise CollectiveError(
                "shard_map: out_specs must say over which axes a result is unreduced or reduced.",
                got=_result_text(f, tree, i, aval, spec),
                do="Write P(..., unreduced={...}), or sum it with `psum`.",
            )
        # Axes along which the result may vary although its spec doesn't mention them.
        differing = [a for a in mesh.axis_names if a in (aval.varying & manual) - spec.axis_names]
        if check_vma and differing:
            shown = axes_text(differing)
            raise CollectiveError(
                f"shard_map: out_specs call a result the same along {shown}, but it may differ.",
                got=_result_text(f, tree, i, aval, spec),
                do=f'Name {shown} in the spec, or reduce over it (`psum`, `pmax`, `all_gather(…, to="invarying")`); '
                "check_vma=False turns this check off.",
            )


def _result_text(f: Function, tree, index: int, aval, spec: PartitionSpec) -> str:
    path = shown_path("result", leaf_paths(tree)[index])
    return f"{path} of `{name_of(f)}`: {aval.text()}, spec {spec!r}"
