"""The call of a kernel on TPUs in a program."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from pellucid._machine.base import UnsupportedError, describe, strict_zip
from pellucid._machine.ir import ShapedArray, shaped_array
from pellucid._machine.lowering.custom_calls import custom_call, row_major
from pellucid._machine.xla.mosaic_tpu import serialized
from pellucid.kernels.lowering.costs import cost_attributes
from pellucid.kernels.mappings import BlockMapping
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.tpu import SideEffectType

from .module import lowered
from .windows import in_rows

_TARGET = "tpu_custom_call"


def config_of(kernel: GridKernel, line: str | None, mesh: Any) -> dict[str, Any]:
    """What the compiler is told of a kernel: its module, cost and limits. `line` is the user's that calls it."""
    params = kernel.compiler_params
    made = serialized(lowered(kernel, line=line, mesh=mesh).module)
    if getattr(params, "flags", None) or getattr(params, "serialization_format", 1) != 1:
        raise UnsupportedError(
            f"the kernel `{kernel.name}` can't be lowered to TPUs: its module has one form, and no flags.",
            got=f"flags: {getattr(params, 'flags', None)}, serialization_format: {getattr(params, 'serialization_format', 1)}",
            where=line,
        )
    config: dict[str, Any] = {
        "body": base64.b64encode(made.body).decode("ascii"),
        "serialization_format": 1,
        "needs_layout_passes": bool(getattr(params, "needs_layout_passes", True)),
    }
    if not getattr(params, "shape_invariant_numerics", True):
        config["shape_invariant_numerics"] = False
    if made.communicates:
        config["has_communication"] = True
    has_id = getattr(params, "collective_id", None) is not None
    if made.has_custom_barrier != has_id and not (
        has_id and getattr(params, "allow_collective_id_without_custom_barrier", False)
    ):
        raise UnsupportedError(
            f"the kernel `{kernel.name}` can't be lowered to TPUs: a `collective_id` belongs to a barrier semaphore, and a barrier semaphore "
            "has one.",
            got=f"collective_id: {getattr(params, 'collective_id', None)}, get_barrier_semaphore: {'' if made.has_custom_barrier else 'not '}called",
            where=line,
            do="State `tpu.CompilerParams(collective_id=…)` exactly where the kernel calls `tpu.get_barrier_semaphore()`.",
        )
    if kernel.cost is not None:
        config["cost_estimate"] = json.loads(kernel.cost.to_json())
    for name in _OPTIONS:
        value = getattr(params, name, None)
        if value is not None and value is not False:
            config[name] = value
    found: dict[str, Any] = {"custom_call_config": config}
    if (limit := getattr(params, "vmem_limit_bytes", None)) is not None:
        found["scoped_memory_configs"] = [{"memory_space": 1, "offset": 0, "size": int(limit)}]
    return found


_OPTIONS = (
    "allow_input_fusion", "collective_id", "disable_bounds_checks", "disable_semaphore_checks",
    "internal_scratch_in_bytes", "skip_device_barrier",
)  # fmt: skip


def call(ctx: Any, kernel: GridKernel, operands: list[Any]) -> list[Any]:
    """Values of the results of a kernel in a program for TPUs, which calls it; `operands` are traced sizes of the grid, scalars, inputs."""
    line = None if ctx.equation is None else describe(ctx.equation.source)
    mesh = None if ctx.manual is None else ctx.manual.mesh
    if ctx.is_partitioned:
        raise UnsupportedError(
            f"the kernel `{kernel.name}` can't be lowered to TPUs: nothing divides its blocks among devices.",
            where=line,
            do="Call it under `shard_map` over all axes of the mesh.",
        )
    n_bounds = kernel.grid.count(None)
    avals = [*kernel.scalars, *[m.aval for m in kernel.inputs]]
    given = [*map(_in_memory, kernel.scalars), *map(_of_blocks, kernel.inputs)]
    passed = [_passed(ctx, *each) for each in strict_zip(operands[n_bounds:], avals, given)]
    results = [*map(_of_blocks, kernel.results)]
    operation = custom_call(
        ctx,
        _TARGET,
        [*[ctx.convert(x, _SIZE) for x in operands[:n_bounds]], *passed],
        result_types=ctx.types(results),
        operand_layouts=[*[()] * n_bounds, *map(row_major, given)],
        result_layouts=[*map(row_major, results)],
        backend_config=json.dumps(config_of(kernel, line, mesh), sort_keys=True),
        api_version=1,
        operand_output_aliases={n_bounds + i: o for o, i in kernel.aliases.items()},
        has_side_effect=_has_side_effect(kernel),
        extra_attributes={"kernel_name": kernel.name} | cost_attributes(ctx, kernel),
    )
    found = [
        _seen(ctx, x, a, m.aval)
        for x, a, m in strict_zip([*operation.results], results, kernel.results)
    ]
    # What may fail on other devices is reported by one more result, which says here that nothing did.
    return found + [ctx.zeros(a) for a in ctx.avals_out[len(found) :]]


def _has_side_effect(kernel: GridKernel) -> bool:
    """Whether the call stays where nothing uses its results."""
    stated = getattr(kernel.compiler_params, "has_side_effects", False)
    return stated not in (False, SideEffectType.PURE)


_SIZE = shaped_array((), np.dtype(np.int32))


def _in_memory(aval: ShapedArray) -> ShapedArray:
    """The type of an array as the kernel gets it: booleans become int32, and scalars vectors of one element."""
    dtype = np.dtype(np.int32) if aval.dtype == np.bool_ else aval.dtype
    return aval.update(dtype=dtype, shape=aval.shape or (1,))


def _of_blocks(mapping: BlockMapping) -> ShapedArray:
    """`_in_memory` of a mapping's array, with one more dimension where its blocks are single rows."""
    aval = _in_memory(mapping.aval)
    return aval.update(shape=in_rows(mapping, aval.shape))


def _passed(ctx: Any, x: Any, aval: ShapedArray, goal: ShapedArray) -> Any:
    """`x`, an operand of type `aval`, in the type `goal` in which the kernel takes it."""
    if goal.dtype != aval.dtype:
        x = ctx.convert(x, aval.update(dtype=goal.dtype))
    return x if goal.shape == aval.shape else ctx.reshape(x, goal)


def _seen(ctx: Any, x: Any, given: ShapedArray, aval: ShapedArray) -> Any:
    """`x`, a result of type `given` from the kernel, in the type `aval` that it has in the program."""
    if given.dtype != aval.dtype:
        x = ctx.compare(x, ctx.zeros(given), "NE", given)
    return x if given.shape == aval.shape else ctx.reshape(x, aval)
