"""`pmap`: runs a function on several devices at once, each with its element of the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceError,
    Function,
    Ints,
    Keywords,
    UnsupportedError,
    broadcast_prefix_to,
    is_none,
    strict_zip,
    tree_leaves,
    tree_map,
    wrapping,
)
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import Operands, Values
from pellucid._machine.primitives import canonical_axis, device_put, expand_dims, move_axis, squeeze
from pellucid._machine.runtime import platforms
from pellucid._machine.sharding import Mesh, NamedSharding, PartitionSpec, get_abstract_mesh
from pellucid._machine.sharding.partition_spec import axes_text
from pellucid._machine.tracing import name_of, resolve_arguments, type_of
from pellucid._machine.transforms import (
    batch_size,
    check_callable,
    checked_leaves,
    input_dims,
    result_leaves,
    wraps,
)
from pellucid._machine.xla import ARRAY_TYPES, flatten

from .manual import REPLICATED, spec_along
from .multihost import global_array_to_host_local_array, host_local_array_to_global_array
from .shard_map import shard_map


class _Unnamed:
    """The name of an axis to which the user gave none."""

    def __repr__(self) -> str:
        return "unnamed"


class _Elements(NamedTuple):
    """The non-static leaves of the arguments, their structure, and the number and axes of their elements."""

    leaves: Values
    tree: Any
    size: int
    dims: list[int | None]


def pmap(
    fun: Function,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Ints = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Ints = (),
) -> Any:
    """`fun` compiled and run on several devices at once, each with its element of the arguments.

    `in_axes` and `out_axes` say as in `vmap` along which axes arguments and results have one element for each device
    (results with None are taken from the first). Collectives inside `fun` may name `axis_name`. Arguments at
    `static_broadcasted_argnums` stay Python values; memory of those at `donate_argnums` may hold results. `devices`
    are by default the first ones (of `backend`). Where they belong to several processes, each process gives, and gets,
    the elements of its own devices, and `fun` runs on all. In new code, `jit` with shardings or `shard_map` say more.

    Raises: ArgumentValueError for axes that don't fit the arguments or whose sizes differ (it names each);
    DeviceError where there are fewer devices than elements.

    >>> pmap(lambda x: 2 * x)(np.array([3.0]))
    Array([6.], dtype=float32)
    """
    check_callable(fun, "pmap")
    if not all(type(axis) is int for axis in tree_leaves((in_axes, out_axes))):
        raise ArgumentTypeError(
            "pmap: in_axes and out_axes must be ints or None, or trees of those.",
            got=f"in_axes={in_axes!r}, out_axes={out_axes!r}",
        )
    name = _Unnamed() if axis_name is None else axis_name
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    static, _ = resolve_arguments(fun, static_broadcasted_argnums, (), "static_broadcasted")
    out_specs = tree_map(
        lambda axis: REPLICATED if axis is None else PartitionSpec(name), out_axes, is_leaf=is_none
    )

    def elements(
        args: Operands, kwargs: Keywords, stated_size: int | None = axis_size
    ) -> _Elements:
        """The non-static leaves of a call's arguments, with the axes of their elements."""
        dynamic = [x for i, x in enumerate(args) if i not in static]
        leaves, tree = flatten((dynamic, kwargs))
        leaves = checked_leaves(leaves, "pmap", fun, dynamic, kwargs)
        axes = in_axes
        if static and isinstance(axes, tuple):
            axes = tuple([a for i, a in enumerate(axes) if i not in static])
        dims = input_dims("pmap", fun, axes, tuple(dynamic), kwargs, tree)
        size, dims = batch_size("pmap", fun, dynamic, kwargs, leaves, dims, stated_size)
        return _Elements(leaves, tree, size, dims)

    def over_devices(*args, **kwargs):
        leaves, tree, size, dims = elements(args, kwargs)
        mesh = _row(fun, name, size, devices, backend)

        def one(*parts):
            inputs = [x if d is None else squeeze(x, (d,)) for x, d in strict_zip(parts, dims)]
            inner, inner_kwargs = _with_static(tree.unflatten(inputs), args, static)
            results, out_tree = result_leaves(fun(*inner, **inner_kwargs), "pmap", fun)
            axes = _result_axes(out_axes, out_tree)
            return out_tree.unflatten(
                [x if d is None else expand_dims(x, (0,)) for x, d in strict_zip(results, axes)]
            )

        in_specs = tuple([spec_along(d, name) for d in dims])
        mapped = shard_map(one, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        results, out_tree = flatten(mapped(*leaves))
        out_dims = _result_dims(results, out_axes, out_tree)
        return out_tree.unflatten(
            [move_axis(x, 0, d) if d else x for x, d in strict_zip(results, out_dims)]
        )

    # So that jit's messages name the arguments.
    wrapping(fun, updated=())(over_devices)
    compiled = jit(over_devices, static_argnums=static or None, donate_argnums=donate_argnums)
    settled: set[Any] = set()  # (structure, layouts) of arguments that needn't be moved

    def across_processes(mesh: Mesh, args: Operands, kwargs: Keywords) -> Any:
        """Results on this process's devices of `mesh`, from arguments with an element for each of these."""
        leaves, tree, size, dims = elements(args, kwargs, None)
        if size != len(mesh.local_devices):
            raise _misfit(fun, size, mesh.local_devices)
        there = host_local_array_to_global_array(leaves, mesh, [spec_along(d, name) for d in dims])
        new_args, new_kwargs = _with_static(tree.unflatten(there), args, static)
        results, out_tree = flatten(compiled(*new_args, **new_kwargs))
        out_dims = _result_dims(results, out_axes, out_tree)
        here = global_array_to_host_local_array(
            results, mesh, [spec_along(d, name) for d in out_dims]
        )
        return out_tree.unflatten(here)

    @wraps(fun, "Form for several devices")
    def mapped_function(*args: Any, **kwargs: Any) -> Any:
        if static and len(args) <= static[-1]:
            raise ArgumentValueError(
                f"pmap: static arguments of `{name_of(fun)}` must be passed by position.",
                got=f"static_broadcasted_argnums={static}, called with {len(args)} positional arguments",
            )
        if platforms.process_count(backend) > 1:
            mesh = Mesh(np.array(devices or platforms.devices(backend)), (name,))
            if mesh.is_multi_process:
                return across_processes(mesh, args, kwargs)
        leaves, tree = flatten((args, kwargs))
        if any(type(x) in ARRAY_TYPES and x._committed for x in leaves):
            layouts = (tree, tuple(map(_layout, leaves)))
            if layouts not in settled:
                leaves, tree, size, dims = elements(args, kwargs)
                mesh = _row(fun, name, size, devices, backend)
                there = [
                    _move_elements(x, mesh, spec_along(d, name))
                    for x, d in strict_zip(leaves, dims)
                ]
                if all(x is y for x, y in strict_zip(leaves, there)):
                    settled.add(layouts)
                else:
                    args, kwargs = _with_static(tree.unflatten(there), args, static)
        return compiled(*args, **kwargs)

    def clear_cache():
        """Drop the compiled programs."""
        settled.clear()
        compiled.clear_cache()

    mapped_function.lower = compiled.lower
    mapped_function.clear_cache = clear_cache
    return mapped_function


def _layout(x):
    """The sharding and shape of an argument, as a part of the cache key for arguments that needn't be moved."""
    shape = getattr(x, "shape", None)
    return (x._sharding, shape) if type(x) in ARRAY_TYPES and x._committed else shape


def _row(
    fun: Function, name, size: int, devices: Sequence[Any] | None, backend: str | None
) -> Mesh:
    """The one-dimensional mesh of the devices for `size` elements."""
    outer = get_abstract_mesh()
    if outer.manual_axes:
        raise UnsupportedError(
            f"pmap: `{name_of(fun)}` is mapped where each position has one device already.",
            got=f"axes of the pmap or shard_map around it: {axes_text(outer.manual_axes)}",
            do="Use `vmap`, or one `shard_map` over a mesh with two axes.",
        )
    available = list(devices) if devices is not None else platforms.devices(backend)
    if size > len(available):
        raise _misfit(fun, size, available)
    return Mesh(np.array(available[:size]), (name,))


def _misfit(fun: Function, size: int, devices: Sequence[Any]) -> DeviceError:
    return DeviceError(
        f"pmap: `{name_of(fun)}` has {size} elements to run, and {len(devices)} devices to run them on.",
        got=f"devices: {', '.join(map(str, devices[:8]))}{', …' if len(devices) > 8 else ''}",
        do="Give each device one element of the mapped axes; `vmap` the rest of them.",
    )


def _result_axes(out_axes, out_tree) -> list[int | None]:
    return broadcast_prefix_to(out_axes, out_tree, is_none, caller="pmap out_axes", name="result")


def _result_dims(results: Operands, out_axes, out_tree) -> list[int | None]:
    """The axes along which results have their elements, counted from 0."""
    return [
        None if axis is None else canonical_axis(axis, type_of(x).ndim, "pmap: out_axes")
        for x, axis in strict_zip(results, _result_axes(out_axes, out_tree))
    ]


def _move_elements(x, mesh: Mesh, spec: PartitionSpec):
    """`x`, moved to the devices of its elements if it is committed elsewhere."""
    if type(x) not in ARRAY_TYPES or not x._committed:
        return x
    # The type of an array sharded over another mesh's Explicit axes contains that mesh.
    is_there = x._sharding._internal_device_list == mesh._internal_device_list
    if is_there and x.aval.shown_sharding is None:
        return x
    return device_put(x, NamedSharding(mesh, spec))


def _with_static(
    dynamic: tuple[Values, Keywords], args: Operands, static: tuple[int, ...]
) -> tuple[tuple[Any, ...], Keywords]:
    """The arguments `dynamic`, merged with the static ones among `args`."""
    new_args, new_kwargs = dynamic
    for i in static:
        new_args.insert(i, args[i])
    return tuple(new_args), new_kwargs
