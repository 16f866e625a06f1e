"""Functions over values in several memories, under the name of `jax.experimental.fused`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.tree import tree_flatten, tree_map
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.primitives.placement import device_put
from pellucid._machine.sharding.memory import MemorySpace
from pellucid._machine.tracing.operands import type_of


def fused(*, out_spaces: Sequence[MemorySpace]) -> Callable[[Function], Function]:
    """A decorator for a function that is compiled as one call, takes arguments from any memory, and gives its results to others.

    `out_spaces` has the memory of each array of the result. Inside, values lie in the memory of the device.

    Raises: ArgumentValueError for another number of results than of memories, and for what is no `memory.Space`.

    >>> @fused(out_spaces=(pl.memory.Space.Host, pl.memory.Space.Device))
    ... def split(x):
    ...     return x + 1, x * 2
    >>> [pl.typeof(y) for y in pl.jit(split)(np.ones(2, np.float32))]
    [ShapedArray(float32<host>[2]), ShapedArray(float32[2])]
    """
    spaces = tuple(out_spaces)
    if not all(isinstance(space, MemorySpace) for space in spaces):
        raise ArgumentValueError("fused: out_spaces must be `memory.Space`s.", got=f"got {spaces}")

    def decorate(function: Function) -> Function:
        @jit
        @functools.wraps(function)
        def call_on_device(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = tree_map(_on_device, (args, kwargs))
            results, tree = tree_flatten(function(*args, **kwargs))
            if len(results) != len(spaces):
                raise ArgumentValueError(
                    "fused: out_spaces must have one memory for each array of the result.",
                    got=f"{len(spaces)} memories for {len(results)} arrays",
                )
            return tree.unflatten(
                [
                    x if s is MemorySpace.Device else device_put(x, s)
                    for x, s in strict_zip(results, spaces)
                ]
            )

        return call_on_device

    return decorate


def _on_device(x: Any) -> Any:
    space = getattr(type_of(x), "memory_space", None)
    return x if space in (None, MemorySpace.Device) else device_put(x, MemorySpace.Device)


__all__ = ["fused"]
