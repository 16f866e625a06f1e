"""Custom calls: native functions, and Python functions called from compiled programs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    CompilationError,
    Function,
    Ints,
    dtypes,
    identity,
)
from pellucid._machine.base.narrowing import (
    is_dtype,
    is_host_array,
    is_list_or_tuple,
    is_mapping,
    is_numpy_scalar,
)
from pellucid._machine.ir import (
    AbstractToken,
    Effect,
    Operands,
    Results,
    abstract_token,
    batched_factors,
    physical,
)
from pellucid._machine.sharding.sharding_rule import parse_rule
from pellucid._machine.xla import Device
from pellucid._machine.xla.mlir import ir

from .module import LoweringContext
from .operations import Attributes, OperationBuilder

TYPED = 4
"""Version of custom calls whose attributes are a typed dictionary."""


def row_major(aval: Any) -> tuple[int, ...]:
    """Dimensions of a value of type `aval` from the fastest to the slowest, in row-major order."""
    ndim = 0 if isinstance(aval, AbstractToken) else physical(aval).ndim
    return tuple(range(ndim - 1, -1, -1))


def typed_attribute(ctx: OperationBuilder, value: Any) -> ir.Attribute:
    """Converts `value` to an attribute of corresponding type.

    Python numbers become 64-bit attributes, NumPy numbers keep their width; arrays become dense attributes, dtypes
    types, mappings dictionaries, and sequences arrays. float0 arrays become bool arrays, as on devices.

    Raises: ArgumentTypeError for other values.
    """
    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, bool) or (is_numpy_scalar(value) and value.dtype == np.bool_):
        return ctx.boolean(bool(value))
    if isinstance(value, int):
        return ctx.integer(value)
    if isinstance(value, float) and not is_numpy_scalar(value):
        return ir.FloatAttr.get(ir.F64Type.get(ctx.context), value, loc=ctx.location)
    if isinstance(value, (str, bytes)):
        return ctx.string(value)
    if is_numpy_scalar(value) and value.dtype.kind != "c":
        element = ctx.element_type(value.dtype)
        if isinstance(element, ir.IntegerType):
            return ir.IntegerAttr.get(element, int(value))
        return ir.FloatAttr.get(element, float(value), loc=ctx.location)
    if is_dtype(value):
        return ir.TypeAttr.get(ctx.element_type(value), context=ctx.context)
    if is_host_array(value):
        array = np.asarray(value)
        return ctx.dense(np.zeros(array.shape, bool) if array.dtype == dtypes.float0 else array)
    if is_mapping(value):
        return ctx.dictionary({str(k): typed_attribute(ctx, v) for k, v in value.items()})
    if is_list_or_tuple(value):
        return ir.ArrayAttr.get([typed_attribute(ctx, v) for v in value], context=ctx.context)
    raise ArgumentTypeError(
        "attributes of operations must be bools, numbers, strings, dtypes, arrays, and mappings and sequences of them.",
        got=f"got {type(value).__name__}",
    )


def custom_call(
    ctx: LoweringContext,
    target: str,
    operands: Sequence[ir.Value],
    *,
    result_types: Sequence[ir.Type],
    operand_layouts: Sequence[Ints] | None,
    result_layouts: Sequence[Ints] | None,
    backend_config: Mapping[str, Any] | ir.Attribute | str | None = None,
    has_side_effect: bool = False,
    api_version: int = TYPED,
    operand_output_aliases: Mapping[int, int] | None = None,
    extra_attributes: Mapping[str, Any] | None = None,
) -> Any:
    """An operation that calls the native function registered as `target`.

    Layouts list dimensions from the fastest to the slowest. `operand_output_aliases` maps operands to the results that
    share their memory.
    """
    if api_version >= TYPED:
        # XLA and other readers recognize the typed interface by this attribute, regardless of the version.
        config = {
            "api_version": ctx.integer(1, 32),
            "backend_config": "",
            "mhlo.backend_config": typed_attribute(ctx, backend_config or {}),
        }
    else:
        config = {
            "api_version": ctx.integer(api_version, 32),
            "backend_config": typed_attribute(ctx, backend_config or ""),
        }
    attributes: Attributes = {
        "call_target_name": target,
        "has_side_effect": has_side_effect,
        **config,
        "output_operand_aliases": _aliases(ctx, operand_output_aliases or {}, len(result_types)),
        **(extra_attributes or {}),
    }
    if operand_layouts is not None and result_layouts is not None:
        attributes["operand_layouts"] = layouts_attribute(operand_layouts)
        attributes["result_layouts"] = layouts_attribute(result_layouts)
    return ctx.op("stablehlo.custom_call", result_types, operands, attributes)


def layouts_attribute(layouts: Sequence[Ints]) -> ir.Attribute:
    """The attribute of one layout for each value: its dimensions, fastest first."""
    return ir.ArrayAttr.get(
        [
            ir.DenseIntElementsAttr.get(np.array(order, np.int64), type=ir.IndexType.get())
            for order in layouts
        ]
    )


def _aliases(ctx: LoweringContext, aliases: Mapping[int, int], n_results: int) -> ir.Attribute:
    texts = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{result if n_results > 1 else ''}], "
        f"operand_index = {operand}, operand_tuple_indices = []>"
        for operand, result in sorted(aliases.items())
    ]
    return ctx.attribute(f"[{', '.join(texts)}]")


def batched_sharding_rule(ctx: LoweringContext, batch_ndim: int) -> Attributes:
    """Attribute that lets Shardy shard the current equation along `batch_ndim` leading axes of all its values.

    Empty for a program of one device.
    """
    if not batch_ndim or ctx.sharding_attributes is None:
        return {}
    shapes = [aval.shape for aval in (*ctx.avals_in, *ctx.avals_out)]
    n = len(ctx.avals_in)
    sides = batched_factors([len(shape) for shape in shapes], n, batch_ndim)
    text = " -> ".join(", ".join(" ".join(dims) for dims in side) for side in sides)
    rule = parse_rule(text.replace("!", "")).attribute_text(shapes[:n], shapes[n:])
    return {"sdy.sharding_rule": ctx.attribute(rule)}


# Calls of Python functions -------------------------------------------------------------------------


_TARGETS = {
    "cpu": "xla_ffi_python_cpu_callback",
    "cuda": "xla_ffi_python_gpu_callback",
    "rocm": "xla_ffi_python_gpu_callback",
}


def calls_python(platform: str) -> bool:
    """Whether programs on a platform can call Python functions."""
    return platform in _TARGETS


_OF_PARTS = "xla_ffi_partitioned_python_cpu_callback"


def host_call(
    ctx: LoweringContext,
    function: Function,
    operands: Operands,
    *,
    has_side_effect: bool,
    effect: Effect | None = None,
    of_parts: bool = False,
    device: Device | None = None,
) -> list[Any]:
    """Calls `function(*operands)` on the host, with NumPy arrays; it must return a tuple of NumPy arrays.

    The types are those of the current equation. With an ordered `effect`, the call is ordered after the previous call
    with that effect. `function` must check its results: the runtime copies their bytes unchecked. In a program over
    several devices it is called once, by `device` or the first device, with whole arrays. With `of_parts`, which is
    only possible without results, each device calls it with its shards.
    """
    of_parts = of_parts and ctx.platform == "cpu" and ctx.sharding_attributes is not None
    target = _OF_PARTS if of_parts else _TARGETS.get(ctx.platform)
    if target is None:
        raise CompilationError(
            f"programs on platform {ctx.platform} can't call Python functions.",
            do="Run the function on a CPU or GPU device, or return the values and call it outside.",
        )
    tokens = [] if effect is None else [ctx.tokens[effect]]
    token_avals = [abstract_token] * len(tokens)
    index = np.uint64(len(ctx.host_callbacks))
    ctx.host_callbacks.append(_PassingToken(function) if tokens else function)
    ctx.host_failures.append(getattr(function, "failures", None))
    avals_in, avals_out = [*token_avals, *ctx.avals_in], [*token_avals, *ctx.avals_out]
    operation = custom_call(
        ctx, target, [*tokens, *operands], result_types=ctx.types(avals_out),
        operand_layouts=list(map(row_major, avals_in)), result_layouts=list(map(row_major, avals_out)),
        backend_config={"index": index}, has_side_effect=has_side_effect,
        extra_attributes=None if of_parts else ctx.on_one_device(len(avals_out), device),
    )  # fmt: skip
    results = list(operation.results)
    if effect is not None:
        ctx.tokens[effect] = results.pop(0)
    return list(map(ctx.everywhere, results, ctx.avals_out))


class HostFunction:
    """A host function recreated at each lowering. Its `identity` lets equal programs be recognized."""

    @property
    def identity(self) -> Hashable:
        """A hashable value, equal for interchangeable functions. It must not keep the function alive."""
        raise NotImplementedError(type(self))


def identity_of(function: Function) -> Hashable:
    """The `identity` of a `HostFunction`, or the identity of another object."""
    return function.identity if isinstance(function, HostFunction) else identity(function)


@dataclass(frozen=True, eq=False)
class _PassingToken(HostFunction):
    """A host function whose first argument is a token, which it returns as its first result."""

    function: Function

    @property
    def identity(self) -> Hashable:
        return "token", identity_of(self.function)

    def __call__(self, token: Any, *arguments: Any) -> Results:
        return (token, *self.function(*arguments))
