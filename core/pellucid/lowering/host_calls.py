"""Calls of Python functions from compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pellucid.base.errors import CompilationError
from pellucid.ir.avals import abstract_token
from pellucid.ir.rules import Effect, Operands
from pellucid.lowering.context import LoweringContext
from pellucid.lowering.custom_calls import row_major_layouts
from pellucid.xla.mlir import ir
from pellucid.xla.shardings import Device

_TARGETS = {
    "cpu": "xla_ffi_python_cpu_callback",
    "cuda": "xla_ffi_python_gpu_callback",
    "rocm": "xla_ffi_python_gpu_callback",
}


_OF_PARTS = "xla_ffi_partitioned_python_cpu_callback"


def host_call(
    ctx: LoweringContext,
    function: Callable[..., tuple[Any, ...]],
    operands: Operands,
    *,
    has_side_effect: bool,
    effect: Effect | None = None,
    of_parts: bool = False,
    device: Device | None = None,
) -> list[Any]:
    """Values of `function(*operands)`, which gets NumPy arrays and returns them in a tuple.

    The types are those of the equation at hand. With an ordered `effect`, the call comes after the last one with
    that effect. `function` must check what it returns: the runtime copies bytes, whatever they are. In a program over
    several devices it is called once, by `device` or the first, with whole arrays; `of_parts` calls it for each device
    with its part, which is possible without results.
    """
    of_parts = of_parts and ctx.platform == "cpu" and ctx.sharding_attributes is not None
    target = _OF_PARTS if of_parts else _TARGETS.get(ctx.platform)
    if target is None:
        raise CompilationError(
            f"programs on platform {ctx.platform} can't call Python functions.",
            do="Run the function on a CPU or GPU device, or return the values and call it outside.",
        )
    tokens = 0 if effect is None else 1
    token_avals = [abstract_token] * tokens
    index = len(ctx.host_callbacks)
    ctx.host_callbacks.append(_passing_token(function) if tokens else function)
    ctx.host_failures.append(getattr(function, "failures", None))
    attributes = {
        "call_target_name": target,
        "api_version": ctx.integer(4, 32),
        "has_side_effect": has_side_effect,
        "backend_config": ctx.dictionary(
            {"index": ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), index)}
        ),
        "operand_layouts": row_major_layouts([*token_avals, *ctx.avals_in]),
        "result_layouts": row_major_layouts([*token_avals, *ctx.avals_out]),
    }
    if not of_parts:
        attributes |= ctx.on_one_device(tokens + len(ctx.avals_out), device)
    operation = ctx.op(
        "stablehlo.custom_call",
        ctx.types([*token_avals, *ctx.avals_out]),
        [*([ctx.tokens[effect]] if effect is not None else []), *operands],
        attributes,
    )
    results = list(operation.results)
    if effect is not None:
        ctx.tokens[effect] = results[0]
    return [ctx.everywhere(x, a) for x, a in zip(results[tokens:], ctx.avals_out, strict=True)]


def _passing_token(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    def call(token: Any, *arguments: Any) -> tuple[Any, ...]:
        return (token, *function(*arguments))

    return call
