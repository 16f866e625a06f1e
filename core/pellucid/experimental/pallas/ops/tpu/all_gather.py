"""Parts of an array that devices hand on around a ring, until each device has all of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, ShapeError
from pellucid._machine.higher_order.cond import platform_dependent
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import shaped_array
from pellucid._machine.parallel.axes import axis_index, axis_size
from pellucid._machine.parallel.gathering import all_gather as gather_parts
from pellucid._machine.parallel.shard_map import shard_map
from pellucid._machine.tracing import type_of
from pellucid.kernels.copies import make_async_remote_copy, sync_copy
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.semaphores import get_barrier_semaphore, semaphore_signal, semaphore_wait
from pellucid.kernels.simulator.params import simulation_of
from pellucid.kernels.specs import BlockSpec, SemaphoreType
from pellucid.kernels.tpu import CompilerParams, MemorySpace
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec, reshard


@functools.partial(jit, static_argnames=("mesh", "axis_name", "memory_space"))
def all_gather(
    x: Any,
    *,
    mesh: Any,
    axis_name: str | Sequence[str],
    memory_space: MemorySpace = MemorySpace.VMEM,
) -> Any:
    """`x`, of which each device of a mesh has a part along axis 0, with all of it on each device.

    The result has the shape and dtype of `x`. `axis_name` has the mesh axes that cut it, one or several, the first one the outermost. On TPUs, and in their simulator, a device
    sends its part to both neighbours on the ring of these axes, and hands on what comes from either; elsewhere it is `lax.all_gather`. `memory_space` is where
    parts lie meanwhile. The derivative is that of `x` itself. Raises: ArgumentValueError for axes that the mesh lacks, ShapeError for parts of different sizes.

    >>> from pellucid import make_mesh
    >>> all_gather(np.arange(4), mesh=make_mesh((1,), ("ring",)), axis_name="ring")
    Array([0, 1, 2, 3], dtype=int32)
    """
    names = (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)
    unknown = [name for name in names if name not in mesh.shape]
    if unknown or not names or len(set(names)) < len(names):
        raise ArgumentValueError(
            "all_gather: `axis_name` must have axes of the mesh, each once.",
            got=f"axis_name={axis_name!r}; the mesh has {', '.join(mesh.shape)}",
        )
    aval, n = type_of(x), math.prod(mesh.shape[name] for name in names)
    if not aval.ndim or aval.shape[0] % n:
        raise ShapeError(
            "all_gather: the devices must have equal parts along axis 0.",
            got=f"{aval.text()} on {n} devices",
        )
    return _all_gather(mesh, names, memory_space, _cut(mesh, names, jnp.asarray(x)))


def _cut(mesh: Any, names: tuple[str, ...], x: Any) -> Any:
    """`x` with its parts on the devices, where types say so."""
    is_explicit = AxisType.Explicit in mesh.axis_types
    return reshard(x, NamedSharding(mesh, PartitionSpec(names))) if is_explicit else x


@functools.partial(custom_vjp, nondiff_argnums=(0, 1, 2))
def _all_gather(mesh: Any, names: tuple[str, ...], space: MemorySpace, x: Any) -> Any:
    def gather(part: Any) -> Any:
        ring = functools.partial(_by_ring, names, space)
        if simulation_of(False) is not None:
            return ring(part)
        plain = lambda part: gather_parts(part, names, tiled=True)
        return platform_dependent(part, tpu=ring, default=plain)

    cut = PartitionSpec(names)
    return shard_map(gather, mesh=mesh, in_specs=cut, out_specs=PartitionSpec(), check_vma=False)(x)


def _forward(mesh: Any, names: Any, space: Any, x: Any) -> Any:
    return _all_gather(mesh, names, space, x), None


def _backward(mesh: Any, names: Any, space: Any, _: None, cotangent: Any) -> Any:
    return (_cut(mesh, names, cotangent),)


_all_gather.defvjp(_forward, _backward)


def _by_ring(names: tuple[str, ...], space: MemorySpace, part: Any) -> Any:
    """All parts, within `shard_map`, by copies between neighbours."""
    aval, n = type_of(part), axis_size(names)
    if n == 1:
        return part
    kernel = functools.partial(_hand_on, names, n)
    there = BlockSpec(memory_space=space)
    steps = SemaphoreType.DMA((n,))
    call = pallas_call(
        kernel,
        shaped_array((n, *aval.shape), aval.dtype),
        in_specs=[there],
        out_specs=there,
        scratch_shapes=[steps, steps, steps, steps],
        compiler_params=CompilerParams(collective_id=0),
    )
    return call(part).reshape(n * aval.shape[0], *aval.shape[1:])


def _hand_on(
    names: tuple[str, ...],
    n: int,
    x_ref: Any,
    o_ref: Any,
    right_sends: Any,
    right_receives: Any,
    left_sends: Any,
    left_receives: Any,
) -> None:
    """Parts go both ways around the ring: to the right one step further, where the number of devices is even."""
    me = axis_index(names)
    right, left = (_place(names, (me + step) % n) for step in (1, n - 1))
    # A neighbour's memory may be written once it runs this kernel.
    barrier = get_barrier_semaphore()
    for other in (left, right):
        semaphore_signal(barrier, device_id=other)
    semaphore_wait(barrier, 2)
    sync_copy(x_ref, o_ref.at[me])

    def copy(step: Any, way: int) -> Any:
        """Hand on to a neighbour what came from the other one in the last step, at first the own part."""
        part = o_ref.at[(me + (n - way) * step) % n]
        sends, receives = (right_sends, right_receives) if way > 0 else (left_sends, left_receives)
        return make_async_remote_copy(
            part, part, sends.at[step], receives.at[step], right if way > 0 else left
        )

    def both_ways(step: Any, _: None) -> None:
        copies = [copy(step, way) for way in (1, -1)]
        for each in copies:
            each.start()
        for each in copies:
            each.wait()

    fori_loop(np.int32(0), np.int32((n - 1) // 2), both_ways, None)
    if n % 2 == 0:
        last = copy(np.int32(n // 2 - 1), 1)
        last.start()
        last.wait()


def _place(names: tuple[str, ...], index: Any) -> dict[str, Any]:
    """Where a device lies along mesh axes, from its number on their ring."""
    found = {}
    for name in reversed(names):
        size = axis_size(name)
        found[name], index = index % size, index // size
    return found


__all__ = ["all_gather"]
