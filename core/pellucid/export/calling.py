"""Calls of exported programs: their primitive, and its derivative by the exported derivative."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    Keywords,
    Size,
    UnsupportedError,
    is_static,
    keystr,
    known_at_least,
    leaf_paths,
    strict_zip,
    structure_differences,
)
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.ir import (
    Avals,
    Operands,
    Primitive,
    Shown,
    Traits,
    Values,
    abstract_token,
    aval_at,
    derived_types,
)
from pellucid._machine.tracing import bind
from pellucid._machine.xla import lapack
from pellucid._machine.xla.mlir import ir, module_of_artifact, with_static_shapes
from pellucid._machine.xla.pytree import flatten

from .checks import DisabledSafetyCheck, custom_calls
from .dimensions import evaluate
from .errors import ExportError


class CallExportedParams(NamedTuple):
    """The `Exported` that is called."""

    exported: Any


class CallExported(Shown, Primitive[CallExportedParams]):
    """A call of a program of which only its StableHLO module is known."""

    name = "call_exported"
    traits = Traits(kind="control", flops=None, returns_list=True)
    types = derived_types  # not remembered, which would keep the module alive

    def memory(self, params):
        return vars(params.exported).setdefault("_memory", {})

    def abstract_eval(self, avals, params):
        exported = params.exported
        variables = _variables(exported, avals)
        results = [
            a.update(shape=tuple([evaluate(size, variables) for size in a.shape]))
            for a in exported.out_avals
        ]
        shardings = exported._out_named_shardings
        return [a if s is None else aval_at(a, s) for a, s in strict_zip(results, shardings)]

    def effects(self, avals, params):
        return frozenset((*params.exported.ordered_effects, *params.exported.unordered_effects))

    def factors(self, avals, results, params):
        return None

    def batch(self, axis, operands, dims, params):
        raise UnsupportedError(
            f"vmap can't batch a call of the exported `{params.exported.fun_name}`: its program is fixed.",
            do="Export the batched function, `jit(vmap(f))`, or map over the batch with `lax.map`.",
        )

    def lower(self, ctx, operands, params):
        exported = params.exported
        _check_devices(exported, ctx)
        shardings = exported._in_named_shardings
        inputs = [
            x if s is None else ctx.constrain(x, s, aval)
            for x, s, aval in strict_zip(operands, shardings, ctx.avals_in)
        ]
        arguments: list[ir.Value] = []
        index = _platform_position(exported, ctx)
        if len(exported.platforms) > 1:
            arguments.append(ctx.constant(np.int32(index)))
        effects = exported.ordered_effects
        arguments += [ctx.tokens[effect] for effect in effects]
        positions = exported.module_kept_var_idx
        is_refined = exported.equations is not None and all(map(_has_static_shape, ctx.avals_in))
        arguments += [
            inputs[i] if is_refined else _reshape_to_type(ctx, inputs[i], exported.in_avals[i])
            for i in positions
        ]
        types = [x.type for x in arguments] if is_refined else []
        symbol = ctx.symbol_of_module(
            (exported, *types),
            f"call_exported_{exported.fun_name}",
            lambda: _module(exported, ctx, types),
        )
        out_avals = ctx.avals_out if is_refined else exported.out_avals
        result_types = ctx.types([*[abstract_token] * len(effects), *out_avals])
        callee = ir.FlatSymbolRefAttr.get(symbol)
        results = list(ctx.op("func.call", result_types, arguments, {"callee": callee}).results)
        ctx.tokens.update(zip(effects, results, strict=False))
        results = map(
            _reshape_to_type, itertools.repeat(ctx), results[len(effects) :], ctx.avals_out
        )
        return [
            x if s is None else ctx.constrain(x, s, aval)
            for x, s, aval in strict_zip(results, exported._out_named_shardings, ctx.avals_out)
        ]

    def printed_params(self, equation):
        return {"exported": str(equation.params.exported)}


call_exported_p = CallExported()


def _has_static_shape(aval: Any) -> bool:
    return is_static(aval.shape)


def _reshape_to_type(ctx: Any, x: ir.Value, aval: Any) -> ir.Value:
    """`x` as a value of type `aval`: a known size may be symbolic there, or the other way round."""
    return x if x.type == ctx.type(aval) else ctx.convert(x, aval)


def _module(exported: Any, ctx: Any, types: Sequence[ir.Type]) -> ir.Module:
    """The module of an exported program, refined to arguments of these types if there are any."""
    module = module_of_artifact(exported.mlir_module_serialized, ctx.context)
    if types:
        try:
            module = with_static_shapes(module, types)
        except RuntimeError as error:
            problem = str(error).partition("error: ")[2].partition("\n")[0]
            raise ExportError(
                f"the exported `{exported.fun_name}` can't run with arguments of these shapes.",
                got=[f"arguments: {', '.join(map(str, types))}", problem or str(error)],
            ) from None
    if any(target.startswith("lapack_") for target in custom_calls(module)):
        lapack.register()
    return module


def _variables(exported: Any, avals: Avals) -> dict[str, Any]:
    """The dimension variables of an exported program, solved from argument types; raises for types that it doesn't
    accept.
    """
    wrong = [
        (i, a, b)
        for i, (a, b) in enumerate(strict_zip(exported.in_avals, avals))
        if a.dtype != b.dtype or a.ndim != b.ndim or not all(map(_may_equal, a.shape, b.shape))
    ]
    if wrong:
        names = argument_names(exported.in_tree)
        raise ExportError(
            f"the exported `{exported.fun_name}` was called with arguments of other types than it was exported for.",
            got=[f"{names[i]}: exported for {a.text()}, got {b.text()}" for i, a, b in wrong[:5]],
        )

    def require(left: Any, relation: str, right: Any, message: str) -> None:
        difference = left - right
        is_wrong = relation == ">=" and known_at_least(-1, difference)
        if is_wrong or (relation == "==" and is_static((difference,)) and difference != 0):
            raise ExportError(
                f"the exported `{exported.fun_name}` was called with arguments of other shapes than it was exported for.",
                got=message.format(left, right),
            )

    if exported.equations is None:
        return {}
    return exported.equations.solve(lambda i, dim: avals[i].shape[dim], require)


def _may_equal(stated: Size, size: Size) -> bool:
    return not is_static((stated, size)) or stated == size


def argument_names(in_tree: Any) -> list[str]:
    """A name for each flat argument: `args[0]['w']`, `kwargs['scale']`."""
    return [f"{('args', 'kwargs')[path[0].idx]}{keystr(path[1:])}" for path in leaf_paths(in_tree)]


def _check_devices(exported: Any, ctx: Any) -> None:
    size = 1 if ctx.sharding_attributes is None else ctx.sharding_attributes.size
    if exported.nr_devices not in (1, size):
        raise ExportError(
            f"the exported `{exported.fun_name}` runs on {exported.nr_devices} devices.",
            got=f"called in a program of {size} device{'s' if size > 1 else ''}",
            do="Put its arguments on a mesh of as many devices: `device_put(x, exported.in_shardings_jax(mesh)[0])`.",
        )


def _platform_position(exported: Any, ctx: Any) -> int:
    """The position of the current platform among those of the exported program."""
    platform = ctx.platform
    if platform in exported.platforms:
        return exported.platforms.index(platform)
    if DisabledSafetyCheck.platform() in exported.disabled_safety_checks:
        return 0
    raise ExportError(
        f"the exported `{exported.fun_name}` can't run on the platform {platform!r}.",
        got=f"exported for {', '.join(exported.platforms)}",
        do="Export it with `platforms=[...]`, or with the check `DisabledSafetyCheck.platform()` disabled.",
    )


def call(exported: Any, args: Operands, kwargs: Keywords) -> Any:
    """Results of an exported program; differentiated in reverse mode by its exported derivative.

    Raises: ExportError for arguments of another structure or of other types, and where a derivative is needed that
    the program doesn't have.
    """
    leaves, tree = flatten((args, dict(kwargs)))
    if tree != exported.in_tree:
        differences = structure_differences(exported.in_tree, tree)
        raise ExportError(
            f"the exported `{exported.fun_name}` was called with arguments of another structure.",
            got=[d.text("(args, kwargs)") for d in differences[:4]],
        )
    return exported.out_tree.unflatten(_differentiable(exported)(*leaves))


def _differentiable(exported: Any) -> Any:
    params = CallExportedParams(exported)

    def flat_call(*leaves: Any) -> Values:
        return list(bind(call_exported_p, *leaves, params=params))

    def forward(*leaves: Any) -> tuple[Values, Operands]:
        return function(*leaves), leaves

    def backward(leaves: Operands, cotangents: Sequence[Any]) -> Operands:
        return tuple(_differentiable(exported.vjp())(*leaves, *cotangents))

    function = custom_vjp(flat_call)
    function.defvjp(forward, backward)
    return function
