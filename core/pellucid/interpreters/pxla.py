"""Placements under the names of `jax.interpreters.pxla`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.ir.avals import ShapedArray
from pellucid._machine.runtime.assembly import make_array_from_single_device_arrays
from pellucid._machine.sharding import PartitionSpec, Sharding, mesh_context
from pellucid._machine.sharding.hlo_shardings import tiles_of
from pellucid._machine.sharding.mesh import Mesh, empty_mesh
from pellucid._machine.xla.arrays import assemble, shards_of
from pellucid._machine.xla.compile import compile_options
from pellucid._machine.xla.shardings import HloSharding, OpSharding

Index = tuple[slice, ...]
"""Index of the part of an array that a device holds."""
MeshAxisName = Any
ArrayMapping = OrderedDict[MeshAxisName, int]
"""The dimension that each mesh axis cuts."""


class _Resources:
    """The mesh that a `with` block or `set_mesh` made current."""

    @property
    def physical_mesh(self) -> Mesh:
        """The current mesh of devices, without axes where there is none."""
        return mesh_context.concrete.value or empty_mesh


class _ThreadResources:
    """Resources of the calling thread."""

    env = _Resources()


thread_resources = _ThreadResources()


def is_hlo_sharding_replicated(hc: HloSharding) -> bool:
    """Whether all devices of a compiler's sharding hold the whole value.

    >>> from pellucid.sharding import PartitionSpec as P
    >>> sharding = pl.NamedSharding(pl.make_mesh((2,), ("a",)), P("a"))
    >>> is_hlo_sharding_replicated(sharding._to_xla_hlo_sharding(1))
    False
    """
    return hc.is_replicated() or (hc.is_tiled() and _has_one_tile(hc))


def _has_one_tile(hc: HloSharding) -> bool:
    n_groups = 1 if hc.replicate_on_last_tile_dim() else len(hc.subgroup_types())
    dims = hc.tile_assignment_dimensions()
    return all(n == 1 for n in dims[: len(dims) - n_groups])


def are_hlo_shardings_equal(hc1: Any, hc2: Any) -> bool:
    """Whether two shardings of the compiler place values alike.

    >>> from pellucid._machine.xla.shardings import HloSharding
    >>> are_hlo_shardings_equal(HloSharding.replicate(), HloSharding.replicate())
    True
    """
    first, second = (
        HloSharding.from_proto(x) if isinstance(x, OpSharding) else x for x in (hc1, hc2)
    )
    if is_hlo_sharding_replicated(first) and is_hlo_sharding_replicated(second):
        return True
    return first == second


def array_mapping_to_axis_resources(array_mapping: Mapping[MeshAxisName, int]) -> PartitionSpec:
    """The spec of an `ArrayMapping`; of several axes in one dimension, the first is the major one.

    >>> array_mapping_to_axis_resources({"a": 0, "b": 2, "c": 2})
    P('a', None, ('b', 'c'))
    """
    axes: list[list[MeshAxisName]] = [
        [] for _ in range(max(array_mapping.values(), default=-1) + 1)
    ]
    for axis, dim in array_mapping.items():
        axes[dim].append(axis)
    return PartitionSpec(*[tuple(a) if len(a) > 1 else (a[0] if a else None) for a in axes])


def op_sharding_to_indices(
    op_sharding: HloSharding | OpSharding, shape: Sequence[int], num_devices: int
) -> tuple[Index, ...]:
    """For each device, the part that it holds of an array of `shape`.

        Raises: ArgumentValueError where a dimension isn't split evenly, or parts are addends.

    >>> from pellucid._machine.xla.shardings import HloSharding
    >>> op_sharding_to_indices(HloSharding.iota_tile((2, 1)), (4, 3), 2)
    ((slice(0, 2, None), slice(None, None, None)), (slice(2, 4, None), slice(None, None, None)))
    """
    hlo = (
        HloSharding.from_proto(op_sharding) if isinstance(op_sharding, OpSharding) else op_sharding
    )
    tiling = tiles_of(hlo, len(shape), num_devices)
    if tiling.addends.any() or any(n % k for n, k in strict_zip(shape, tiling.counts)):
        raise ArgumentValueError(
            "op_sharding_to_indices needs a sharding that cuts the shape into even parts.",
            got=f"shape {tuple(shape)}, {hlo}",
        )
    return tuple(tiling.indices(tuple(shape)))


ResultHandler = Callable[[Sequence[Any]], Any]
"""Function from arrays of one device each, one for each device of this process, to the array that consists of them."""


def _array_handler(aval: Any, out_sharding: Sharding, committed: bool) -> ResultHandler:
    def assemble_array(parts: Sequence[Any]) -> Any:
        array = make_array_from_single_device_arrays(
            aval.shape, out_sharding, list(parts), dtype=aval.dtype
        )
        return assemble(array.aval, array.sharding, shards_of(array), committed)

    return assemble_array


global_result_handlers: dict[type, Callable[[Any, Sharding, bool], ResultHandler]] = {
    ShapedArray: _array_handler
}
"""By class of type, what `global_aval_to_result_handler` calls."""


def global_aval_to_result_handler(
    aval: Any, out_sharding: Sharding, committed: bool
) -> ResultHandler:
    """A function from arrays of one device each, in the order of `out_sharding`'s, to the array of type `aval`.

    Raises: ArgumentValueError for a type that has no entry in `global_result_handlers`.

    >>> sharding = pl.sharding.SingleDeviceSharding(pl.devices()[0])
    >>> global_aval_to_result_handler(pl.typeof(np.ones(2, np.float32)), sharding, True)([pl.numpy.ones(2)])
    Array([1., 1.], dtype=float32)
    """
    make = global_result_handlers.get(type(aval))
    if make is None:
        raise ArgumentValueError(
            "there is no handler of results of this type.", got=f"got {type(aval).__name__}"
        )
    return make(aval, out_sharding, committed)


class ResultsHandler:
    """Handlers of several results; a call takes a list of each result's parts, and returns the arrays."""

    def __init__(
        self, handlers: Sequence[ResultHandler], out_shardings: Sequence[Sharding], out_avals: Sequence[Any]
    ) -> None:  # fmt: skip
        self.handlers = handlers
        self.out_shardings = out_shardings
        self.out_avals = out_avals

    def __call__(self, parts: Sequence[Sequence[Any]]) -> list[Any]:
        return [handler(p) for handler, p in strict_zip(self.handlers, parts)]


def global_avals_to_results_handler(
    global_out_avals: Sequence[Any], shardings: Sequence[Sharding], committed: bool
) -> ResultsHandler:
    """The handlers of results of these types and shardings, as one function.

    >>> sharding = pl.sharding.SingleDeviceSharding(pl.devices()[0])
    >>> handler = global_avals_to_results_handler([pl.typeof(np.float32(1))], [sharding], True)
    >>> handler([[pl.numpy.ones(())]])
    [Array(1., dtype=float32)]
    """
    handlers = [
        global_aval_to_result_handler(aval, sharding, committed)
        for aval, sharding in strict_zip(global_out_avals, shardings)
    ]
    return ResultsHandler(handlers, shardings, global_out_avals)


def create_compile_options(
    computation: Any,
    tuple_args: bool,
    allow_prop_to_inputs: Sequence[bool],
    allow_prop_to_outputs: Sequence[bool],
    backend: Any,
    np_dev: Any,
    compiler_options: Mapping[str, Any] | None,
) -> Any:
    """Options of XLA for a program that is partitioned over all devices in the array `np_dev`.

    `allow_prop_to_inputs` and `allow_prop_to_outputs` have for each input and result whether the partitioner chooses its
    sharding. `computation` and `backend` change nothing: options depend on neither.

    >>> options = create_compile_options(None, False, (False,), (True,), None, np.array(pl.devices()[:2]), {})
    >>> options.num_partitions
    2
    """
    overrides = tuple((compiler_options or {}).items())
    options = compile_options(np.ravel(np_dev).tolist(), overrides, is_partitioned=True)
    options.parameter_is_tupled_arguments = tuple_args
    build = options.executable_build_options
    build.allow_spmd_sharding_propagation_to_parameters = list(allow_prop_to_inputs)
    build.allow_spmd_sharding_propagation_to_output = list(allow_prop_to_outputs)
    return options


_STAGES = {
    "MeshComputation": "`jit(f).lower(*args)`, a `stages.Lowered` with `compile` and `compiler_ir`",
    "MeshExecutable": "`jit(f).lower(*args).compile()`, a `stages.Compiled` with `call`, `input_shardings` and `runtime_executable`",
}
"""Public stages that replace the reference's deprecated classes, by the name of the class."""


def __getattr__(name: str) -> NoReturn:
    advice = _STAGES.get(name)
    text = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(f"{text}\n  Use {advice}." if advice else text)


__all__ = [
    "ArrayMapping", "Index", "MeshAxisName", "are_hlo_shardings_equal", "array_mapping_to_axis_resources",
    "create_compile_options", "global_aval_to_result_handler", "global_avals_to_results_handler", "global_result_handlers",
    "is_hlo_sharding_replicated", "op_sharding_to_indices", "thread_resources",
]  # fmt: skip
