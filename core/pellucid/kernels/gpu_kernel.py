"""Kernels over the blocks and threads of a GPU: `kernel` and `Mesh`. A thread is a warpgroup, 128 lanes that act as one."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    tree_map,
)
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.parallel.axes import SizeWithPosition
from pellucid._machine.tracing import name_of
from pellucid._machine.tracing.current import bound_axes
from pellucid._machine.transforms import check_callable
from pellucid.kernels.grid import current_position
from pellucid.kernels.kernel_call import KernelDescription
from pellucid.kernels.specs import GridSpec, outside

from .gpu.params import CompilerParams

_OMITTED: Any = object()


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """The blocks of a kernel along named axes, those of a cluster, and the threads of each block.

    >>> Mesh(grid=(4,), grid_names=("x",), num_threads=2, thread_name="wg").shape
    {'x': 4, 'wg': 2}
    """

    grid: Sequence[int] = ()
    grid_names: Sequence[str] = ()
    cluster: Sequence[int] = ()
    cluster_names: Sequence[str] = ()
    num_threads: int | None = None
    thread_name: str | None = None
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        for name in ("grid", "grid_names", "cluster", "cluster_names"):
            found = getattr(self, name)
            if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
                what = "names" if name.endswith("names") else "sizes"
                raise ArgumentTypeError(f"`{name}` is a tuple of {what}.", got=f"{name}={found!r:.60}")  # fmt: skip
            object.__setattr__(self, name, tuple(found))
        for name in (*self.grid_names, *self.cluster_names, self.thread_name):
            if not isinstance(name, Hashable):
                raise ArgumentTypeError("names of axes are strings.", got=f"got {name!r:.60}")
        pairs = ("grid", self.grid, self.grid_names), ("cluster", self.cluster, self.cluster_names)
        for name, sizes, names in pairs:
            if len(sizes) != len(names):
                raise ArgumentValueError(
                    f"`{name}_names` has a name for each axis of `{name}`.",
                    got=f"{name}={sizes}, {name}_names={names}",
                )
        if (self.num_threads is None) != (self.thread_name is None):
            raise ArgumentValueError(
                "`num_threads` and `thread_name` are given together, or neither.",
                got=f"num_threads={self.num_threads}, thread_name={self.thread_name!r}",
            )
        n = self.num_threads
        if n is not None and (type(n) is not int or not 1 <= n <= 8):
            raise ArgumentValueError(
                "a block has 1 to 8 threads, each a warpgroup of 128 lanes.",
                got=f"num_threads={n!r:.60}",
            )
        names = [*self.shape]
        if len(names) != len(self.grid) + len(self.cluster) + (self.num_threads is not None):
            raise ArgumentValueError("the axes of a mesh have different names.", got=f"{self}")

    @property
    def shape(self) -> dict[str, int]:
        """The sizes of all axes by name: of the grid, of clusters, threads."""
        found = dict(zip(self.grid_names, self.grid, strict=True))
        found |= dict(zip(self.cluster_names, self.cluster, strict=True))
        if self.num_threads is not None and self.thread_name is not None:
            found[self.thread_name] = self.num_threads
        return found

    @property
    def size(self) -> int:
        """The number of threads of all blocks."""
        return math.prod(self.shape.values())


def kernel(
    body: Any = _OMITTED,
    out_shape: Any = _OMITTED,
    *,
    out_type: Any = _OMITTED,
    scratch_types: Any = _OMITTED,
    scratch_shapes: Any = _OMITTED,
    compiler_params: Any = None,
    grid: Sequence[int] = (),
    grid_names: Sequence[str] = (),
    cluster: Sequence[int] = (),
    cluster_names: Sequence[str] = (),
    num_threads: int | None = None,
    thread_name: str | None = None,
    interpret: Any = None,
    **mesh_kwargs: Any,
) -> Any:
    """A function of arrays that runs `body` in each thread of each block, with references to the arrays and the results in the memory of the device, and scratch.

    Results are described by `out_type` (or `out_shape`), one or a tree; scratch by `scratch_types` (or `scratch_shapes`), which all threads of a block have in common. In
    the body `lax.axis_index` gives the position along an axis of `grid_names`, `cluster_names`, or `thread_name`. Without a `body` it gives a decorator.

    It is compiled as any other program where no thread waits for another; else, or with `interpret=mosaic_gpu.InterpretParams()`, it runs in a
    simulator of blocks. Raises: ArgumentTypeError, ArgumentValueError for a mesh, types or parameters that are none.

    >>> import numpy as np
    >>> from pellucid import lax
    >>> def body(x_ref, o_ref):
    ...     i = lax.axis_index("x")
    ...     o_ref[i] = x_ref[i] * 2
    >>> x = np.arange(3, dtype=np.float32)
    >>> kernel(body, x, grid=(3,), grid_names=("x",))(x)
    Array([0., 2., 4.], dtype=float32)
    """
    results = _one_of("out_type", out_type, "out_shape", out_shape, ())
    scratch = _one_of("scratch_types", scratch_types, "scratch_shapes", scratch_shapes, ())
    unknown = [name for name in mesh_kwargs if name != "kernel_name"]
    if unknown:
        raise ArgumentTypeError(
            "mosaic_gpu.kernel has no such parameter.", got=f"{unknown[0]}={mesh_kwargs[unknown[0]]!r:.40}"
        )  # fmt: skip
    mesh = Mesh(
        grid=grid, grid_names=grid_names, cluster=cluster, cluster_names=cluster_names,
        num_threads=num_threads, thread_name=thread_name, **mesh_kwargs,
    )  # fmt: skip
    params = CompilerParams() if compiler_params is None else compiler_params
    if not isinstance(params, CompilerParams):
        raise ArgumentTypeError(
            "mosaic_gpu.kernel takes `compiler_params=mosaic_gpu.CompilerParams(…)`.",
            got=f"got {params!r:.60}",
        )
    decorate = functools.partial(on_mesh, mesh, results, scratch, params, interpret)
    return decorate if body is _OMITTED else decorate(body)


def _one_of(name: str, x: Any, other_name: str, y: Any, default: Any) -> Any:
    if x is not _OMITTED and y is not _OMITTED:
        raise ArgumentTypeError(f"kernel takes `{name}` or `{other_name}`, not both.")
    return default if x is y else y if x is _OMITTED else x


def on_mesh(
    mesh: Mesh, out_type: Any, scratch_types: Any, params: Any, interpret: Any, body: Function
) -> Function:
    """A function of arrays that runs `body` on a mesh."""
    check_callable(body, "kernel")
    name = mesh.kernel_name or name_of(body)
    sizes = mesh.shape
    n_axes = len(sizes)

    @functools.wraps(body)
    def in_thread(*refs: Any, **named: Any) -> Any:
        position: Any = current_position()
        places = zip(sizes.items(), position.ids, strict=True)
        axes = {name: SizeWithPosition.of(n, i) for (name, n), i in places}
        with bound_axes(axes):
            return body(*refs, **named)

    def run(*args: Any) -> Any:
        in_specs = tree_map(lambda _: outside, args)
        results = tuple(out_type) if isinstance(out_type, list) else out_type
        out_specs = tree_map(lambda _: outside, results, is_leaf=_is_type)
        spec = GridSpec([*sizes.items()], in_specs, out_specs, scratch_types)
        thread_axis = None if mesh.num_threads is None else n_axes - 1
        description = KernelDescription(
            in_thread, name, results, spec, {}, params, None, interpret, thread_axis, "kernel"
        )
        return description(*args)

    run.__name__ = run.__qualname__ = name
    return jit(run, inline=True)


def _is_type(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")
