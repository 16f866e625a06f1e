"""The older form of `shard_map` under the names of `jax.experimental.shard_map`."""

from collections.abc import Callable
from typing import Any

from pellucid._machine.parallel.shard_map import shard_map as _shard_map


def shard_map(
    f: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Any:
    """`pellucid.shard_map` with positional arguments; `check_rep` is its `check_vma`.

    >>> from pellucid import P, make_mesh
    >>> from pellucid.sharding import AxisType
    >>> mesh = make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    >>> shard_map(lambda x: 2 * x, mesh, P("x"), P("x"))(np.arange(2))
    Array([0, 2], dtype=int32)
    """
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)


__all__ = ["shard_map"]
