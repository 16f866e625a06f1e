"""Programs, functions and calls of Python in modules that rules of libraries build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import config
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.tree import tree_structure
from pellucid._machine.base.typing import Function
from pellucid._machine.callbacks.host import FlatCallback
from pellucid._machine.ir.effects import Effect, OrderedIOEffect
from pellucid._machine.ir.jaxpr import ClosedJaxpr, Jaxpr
from pellucid._machine.ir.rewriting import constants_as_inputs
from pellucid._machine.lowering.custom_calls import host_call
from pellucid._machine.lowering.module import (
    LoweringContext,
    ModuleOptions,
    lower_module,
    ordered_effects_of,
)
from pellucid._machine.lowering.rule_context import TokenSet
from pellucid._machine.sharding import Sharding
from pellucid._machine.sharding.layout import AutoLayout, Layout
from pellucid._machine.xla.mlir import ir, operation_classes
from pellucid.extend.source_info_util import as_name_stack

ModuleContext = LoweringContext
"""The state of the lowering of a module; the same object is the context of its rules."""


@dataclass(frozen=True)
class LoweringParameters:
    """Options of a lowering. Others than the defaults are refused where a program is lowered with them.

    >>> LoweringParameters().for_export
    False
    """

    override_lowering_rules: tuple[tuple[Any, Any], ...] | None = None
    global_constant_computation: bool = False
    for_export: bool = False
    export_ignore_forward_compatibility: bool = False
    hoist_constants_as_args: bool = False


class ShapePolyLoweringState:
    """The values that functions of a module take before their arguments: the platform at hand, and sizes.

    >>> ShapePolyLoweringState(("b",), ("cpu", "tpu")).dim_vars
    ('_platform_index', 'b')
    """

    def __init__(
        self, dim_vars: tuple[str, ...], lowering_platforms: tuple[str, ...] | None
    ) -> None:
        several = lowering_platforms is not None and len(lowering_platforms) > 1
        self.has_platform_index_argument = several
        self.dim_vars = ("_platform_index",) * several + tuple(dim_vars)
        self.uses_dim_vars = bool(self.dim_vars)


class LoweringResult(NamedTuple):
    """A lowered module, the objects that must outlive it, and the Python functions that it calls.

    >>> program = pl.make_jaxpr(pl.lax.sin)(np.float32(0))
    >>> lower_jaxpr_to_module("jit_sin", program, platforms=["cpu"])._fields
    ('module', 'keepalive', 'host_callbacks', 'shape_poly_state')
    """

    module: ir.Module
    keepalive: Any
    host_callbacks: list[Any]
    shape_poly_state: ShapePolyLoweringState


def _refuse(caller: str, options: dict[str, Any]) -> None:
    stated = {name for name, value in options.items() if value not in (None, False, ())}
    if stated:
        raise UnsupportedError(
            f"{caller} can't place arguments and results.",
            got=f"options: {', '.join(sorted(stated))}",
            do="`jit(f, in_shardings=..., out_shardings=...).lower(...)` makes modules with placements.",
        )


def jaxpr_subcomp(
    ctx: LoweringContext,
    jaxpr: Jaxpr,
    name_stack: Any,
    tokens: TokenSet,
    consts_for_constvars: Sequence[ir.Value],
    *args: ir.Value,
    dim_var_values: Sequence[ir.Value] = (),
    const_lowering: Any = None,
    outer_traceback: Any = None,
) -> tuple[list[ir.Value], TokenSet]:
    """The values of the results of `jaxpr`, whose equations are built at the insertion point, and the tokens after them.

    Names in `name_stack` beyond those of the equation at hand stand before the equations' own. The other
    keywords change nothing: sizes of symbolic dimensions and constants are known to `ctx`.

    >>> from pellucid.extend.core import Primitive
    >>> from pellucid.interpreters.mlir import register_lowering
    >>> program = pl.make_jaxpr(lambda x: pl.lax.sin(x) + 1)(np.float32(0)).jaxpr
    >>> def rule(ctx, x):
    ...     outs, _ = jaxpr_subcomp(ctx.module_context, program, ctx.name_stack, ctx.tokens_in, (), x)
    ...     return outs
    >>> p = Primitive("sin_plus_one")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, rule)
    >>> pl.jit(p.bind)(np.float32(0))
    Array(1., dtype=float32)
    """
    inner = as_name_stack(name_stack)[len(as_name_stack(ctx.name_stack)) :]
    outer = ctx.tokens
    ctx.tokens = outer | dict(tokens.items())
    try:
        with ctx.named(f"{inner}/" if inner else ""):
            results = ctx.inline(jaxpr, consts_for_constvars, args)
        return results, TokenSet(ctx.tokens).subset(tokens.effects())
    finally:
        ctx.tokens = outer


def lower_jaxpr_to_fun(
    ctx: LoweringContext,
    name: str,
    jaxpr: ClosedJaxpr,
    effects: Sequence[Effect],
    *,
    num_const_args: int = 0,
    main_function: bool = False,
    replicated_args: Sequence[bool] | None = None,
    in_avals: Sequence[Any] | None = None,
    arg_shardings: Sequence[Sharding | None] | None = None,
    result_shardings: Sequence[Sharding | None] | None = None,
    use_sharding_annotations: bool = True,
    input_output_aliases: Sequence[int | None] | None = None,
    xla_donated_args: Sequence[bool] | None = None,
    arg_names: Sequence[str | None] | None = None,
    result_names: Sequence[str | None] | None = None,
    arg_memory_kinds: Sequence[str | None] | None = None,
    result_memory_kinds: Sequence[str | None] | None = None,
    arg_layouts: Sequence[Layout | AutoLayout | None] | None = None,
    result_layouts: Sequence[Layout | AutoLayout | None] | None = None,
    propagated_out_mem_kinds: Sequence[str | None] | None = None,
) -> Any:
    """The `func.func` of `jaxpr`, added to the module; its name is `name` where that is free.

    It takes a token for each of `effects`, which are ordered, before its arguments. Placements, memory kinds, layouts,
    donation and aliases are attributes of arguments and results; without `use_sharding_annotations`, shardings are
    constraints within the function. The compiler reads most of them on the main function of a module alone.

    Raises: UnsupportedError for `num_const_args`, `propagated_out_mem_kinds`, and shardings over several devices in a
    program of one; ArgumentValueError for options that don't have one entry for each argument or result.

    >>> from pellucid.extend.core import Primitive
    >>> from pellucid.interpreters.mlir import register_lowering
    >>> from pellucid._machine.xla.mlir import ir
    >>> program = pl.make_jaxpr(lambda x: 2 * x)(np.float32(0))
    >>> def rule(ctx, x):
    ...     function = lower_jaxpr_to_fun(ctx.module_context, "twice", program, ())
    ...     callee = ir.FlatSymbolRefAttr.get(function.name.value)
    ...     return [ctx.op1("func.call", ctx.avals_out[0], [x], {"callee": callee})]
    >>> p = Primitive("twice")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, rule)
    >>> pl.jit(p.bind)(np.float32(3))
    Array(6., dtype=float32)
    """
    caller = "lower_jaxpr_to_fun"
    refused = {
        "num_const_args": num_const_args,
        "propagated_out_mem_kinds": tuple(propagated_out_mem_kinds or ()),
    }
    _refuse(caller, refused)
    _check_types(caller, jaxpr, in_avals)
    arguments = _Marks(caller, ctx, jaxpr.in_avals, "argument")
    results = _Marks(caller, ctx, jaxpr.out_avals, "result")
    shardings = [
        values.shardings(f"{what}_shardings", stated)
        for what, values, stated in (
            ("arg", arguments, arg_shardings), ("result", results, result_shardings)
        )
    ]  # fmt: skip
    if use_sharding_annotations:
        arguments.mark("sdy.sharding", shardings[0])
        results.mark("sdy.sharding", shardings[1])
    aliases = arguments.entries_or_nones("input_output_aliases", input_output_aliases)
    arguments.mark(
        "tf.aliasing_output",
        [None if i is None else ctx.integer(i + len(effects), 32) for i in aliases],
    )
    arguments.flag("jax.buffer_donor", "xla_donated_args", xla_donated_args)
    arguments.flag("mhlo.is_same_data_across_replicas", "replicated_args", replicated_args)
    results.mark("jax.result_info", results.entries_or_nones("result_names", result_names))
    for values, what, kinds, layouts in (
        (arguments, "arg", arg_memory_kinds, arg_layouts),
        (results, "result", result_memory_kinds, result_layouts),
    ):
        values.mark("mhlo.memory_kind", values.entries_or_nones(f"{what}_memory_kinds", kinds))
        values.layouts(f"{what}_layouts", layouts)
    symbol = ctx.add_function(
        name, jaxpr.jaxpr, tuple(effects), public=main_function, constants=jaxpr.consts,
        names=tuple([n or "" for n in arguments.entries_or_nones("arg_names", arg_names)]),
        attributes={
            "arg_attrs": arguments.attribute([*ctx.global_avals, *effects]),
            "res_attrs": results.attribute(effects),
        },
    )  # fmt: skip
    operation_classes("func")
    function = ctx.symbol_table[symbol]
    if not use_sharding_annotations:
        _constrain(ctx, function, *shardings)
    return function


class _Marks:
    """Attributes of the arguments or of the results of a function, of types `avals`."""

    def __init__(self, caller: str, ctx: LoweringContext, avals: Sequence[Any], kind: str) -> None:
        self.caller, self.ctx, self.avals, self.kind = caller, ctx, avals, kind
        self.attributes: list[dict[str, Any]] = [{} for _ in avals]

    def entries_or_nones(self, option: str, entries: Sequence[Any] | None) -> Sequence[Any]:
        """`entries` of `option`, or Nones if the option is None."""
        if entries is not None and len(entries) != len(self.avals):
            raise ArgumentValueError(
                f"{self.caller} needs `{option}` with an entry for each {self.kind}.",
                got=f"got {len(entries)} for {len(self.avals)}",
            )
        return [None] * len(self.avals) if entries is None else entries

    def mark(self, name: str, entries: Sequence[Any]) -> None:
        """Give values the attribute `name` where the entry isn't None."""
        for attributes, entry in strict_zip(self.attributes, entries):
            if entry is not None:
                attributes[name] = entry

    def flag(self, name: str, option: str, entries: Sequence[bool] | None) -> None:
        """Give values the attribute `name` where the entry of `option` is true, unless they have the memory of a result."""
        for attributes, entry in strict_zip(
            self.attributes, self.entries_or_nones(option, entries)
        ):
            if entry and "tf.aliasing_output" not in attributes:
                attributes[name] = True

    def layouts(self, option: str, entries: Sequence[Layout | AutoLayout | None] | None) -> None:
        """Give values their layouts in memory."""
        modes = [
            layout._to_xla_layout(aval.dtype).to_string()
            if isinstance(layout, Layout)
            else "auto" if isinstance(layout, AutoLayout) else None
            for layout, aval in strict_zip(self.entries_or_nones(option, entries), self.avals)
        ]  # fmt: skip
        self.mark("mhlo.layout_mode", modes)

    def shardings(self, option: str, entries: Sequence[Any] | None) -> list[Any]:
        """Shardings as attributes; None if there is none, or one device holds everything."""
        attributes, shardy = [], self.ctx.sharding_attributes
        for sharding, aval in strict_zip(self.entries_or_nones(option, entries), self.avals):
            if sharding is None or (shardy is None and len(sharding.device_set) == 1):
                attributes.append(None)
            elif shardy is not None:
                attributes.append(shardy.attribute(sharding, aval))
            else:
                raise UnsupportedError(
                    f"{self.caller} can't place a value over several devices in a program of one.",
                    got=f"{option}: {sharding}",
                    do="Place the arguments of the jitted function over these devices.",
                )
        return attributes

    def attribute(self, others: Sequence[Any]) -> ir.Attribute:
        """All attributes, after those of `others`, which have none."""
        every = [*({} for _ in others), *self.attributes]
        return ir.ArrayAttr.get([self.ctx.dictionary(attributes) for attributes in every])


def _constrain(
    ctx: LoweringContext, function: Any, arguments: list[Any], results: list[Any]
) -> None:
    """Constrain arguments and results of `function` within it to their shardings; None leaves them unconstrained."""

    def constrain_value(value: ir.Value, sharding: ir.Attribute) -> ir.Operation:
        return ir.Operation.create(
            "sdy.sharding_constraint",
            [value.type], [value], attributes={"sharding": sharding}, loc=ctx.location,
        )  # fmt: skip

    block = function.regions[0].blocks[0]
    values = list(block.arguments)[len(block.arguments) - len(arguments) :]
    with ir.InsertionPoint.at_block_begin(block):
        for value, sharding in strict_zip(values, arguments):
            if sharding is not None:
                constraint = constrain_value(value, sharding)
                value.replace_all_uses_except(constraint.result, constraint)
    end = list(block.operations)[-1].operation
    first = len(end.operands) - len(results)
    with ir.InsertionPoint(end):
        for i, sharding in enumerate(results):
            if sharding is not None:
                end.operands[first + i] = constrain_value(end.operands[first + i], sharding).result


def _check_types(caller: str, jaxpr: ClosedJaxpr, in_avals: Sequence[Any] | None) -> None:
    if in_avals is not None and tuple(in_avals) != jaxpr.in_avals:
        raise ArgumentValueError(
            f"{caller}: `in_avals` must be the types of the program's inputs.",
            got=f"{[a.text() for a in in_avals]}; the inputs: {[a.text() for a in jaxpr.in_avals]}",
        )


def core_call_lowering(
    ctx: LoweringContext,
    *args: ir.Value,
    name: str,
    backend: Any = None,
    call_jaxpr: ClosedJaxpr | Jaxpr,
) -> list[ir.Value]:
    """A lowering rule of calls: `call_jaxpr` becomes a function of the module, once however often it is called.

    >>> from functools import partial
    >>> from pellucid.extend.core import Primitive
    >>> from pellucid.interpreters.mlir import register_lowering
    >>> p = Primitive("called")
    >>> p.multiple_results = True
    >>> _ = p.def_abstract_eval(lambda *avals, call_jaxpr: call_jaxpr.out_avals)
    >>> _ = register_lowering(p, partial(core_call_lowering, name="called"))
    >>> program = pl.make_jaxpr(lambda x: x * x)(np.float32(0))
    >>> pl.jit(lambda x: p.bind(x, call_jaxpr=program))(np.float32(3))
    [Array(9., dtype=float32)]
    """
    if isinstance(call_jaxpr, Jaxpr):
        return ctx.call(call_jaxpr, name, args)
    consts = [ctx.constant(np.asarray(c)) for c in call_jaxpr.consts]
    return ctx.call(constants_as_inputs(call_jaxpr.jaxpr), name, [*consts, *args])


def lower_jaxpr_to_module(
    module_name: str,
    jaxpr: ClosedJaxpr,
    *,
    num_const_args: int = 0,
    in_avals: Sequence[Any] | None = None,
    ordered_effects: Sequence[Effect] = (),
    platforms: Sequence[str],
    backend: Any = None,
    axis_context: Any = None,
    donated_args: Sequence[bool] = (),
    arg_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
    num_partitions: int = 1,
    all_default_mem_kind: bool = True,
    input_output_aliases: Sequence[int | None] | None = None,
    lowering_parameters: LoweringParameters | None = None,
    **options: Any,
) -> LoweringResult:
    """The module of a program on one device; with several `platforms` its `main` takes the position of the one at hand.

    `jit(f).lower(...)` simplifies a program before it lowers it, and places it over several devices.

    Raises: UnsupportedError for options that place arguments and results, and for `lowering_parameters` other than the
    defaults.

    >>> program = pl.make_jaxpr(lambda x: pl.lax.sin(x))(np.float32(0))
    >>> module = lower_jaxpr_to_module("jit_sin", program, platforms=["cpu"]).module
    >>> "stablehlo.sine" in str(module)
    True
    """
    caller = "lower_jaxpr_to_module"
    parameters = lowering_parameters or LoweringParameters()
    for field in fields(LoweringParameters):
        if getattr(parameters, field.name) != field.default:
            options[field.name] = getattr(parameters, field.name)
    options["num_partitions"] = num_partitions != 1
    _refuse(caller, options | {"num_const_args": num_const_args})
    _check_types(caller, jaxpr, in_avals)
    if missing := [e for e in ordered_effects if e not in ordered_effects_of(jaxpr.effects)]:
        raise ArgumentValueError(f"{caller}: the program lacks ordered effects.", got=f"{missing}")
    lowered = lower_module(
        jaxpr.jaxpr,
        ModuleOptions(
            module_name, tuple(platforms), donated=tuple(donated_args),
            aliases=tuple(input_output_aliases or ()), argument_names=tuple(arg_names or ()),
            result_names=tuple(result_names or ()), constants=tuple([np.asarray(c) for c in jaxpr.consts]),
            is_exact=config.exact_arithmetic.value,
        ),
    )  # fmt: skip
    with lowered.context:
        lowered.module.operation.attributes["sym_name"] = ir.StringAttr.get(module_name)
    state = ShapePolyLoweringState((), tuple(platforms))
    return LoweringResult(lowered.module, lowered.keep_alive or None, lowered.host_callbacks, state)


class _PassedToken(OrderedIOEffect):
    """The effect of a call of Python whose token a rule passes by hand."""


def emit_python_callback(
    ctx: LoweringContext,
    callback: Function,
    token: ir.Value | None,
    operands: Sequence[ir.Value],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[ir.Value], ir.Value | None, Any]:
    """Values of `callback(*operands)`, which returns a tuple of arrays; the token after it; what must be kept alive.

    With a `token` the call comes after what gave that, and returns one. `partitioned` calls it for each device of a
    program with its part, which is possible without results.

    Raises: UnsupportedError for a `sharding`, and where a token is passed that shall not be returned; CallbackError, when the
    program runs, for a function that raises an exception or returns other types.

    >>> from pellucid.extend.core import Primitive
    >>> from pellucid.interpreters.mlir import register_lowering
    >>> def rule(ctx, x):
    ...     results, _, keepalive = emit_python_callback(
    ...         ctx, lambda x: (np.sort(x),), None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False)
    ...     ctx.module_context.add_keepalive(keepalive)
    ...     return results
    >>> p = Primitive("sorted_by_numpy")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, rule)
    >>> pl.jit(p.bind)(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    if sharding is not None or (token is not None and not returns_token):
        raise UnsupportedError(
            "emit_python_callback places results as the program does, and returns the token that it takes.",
            got=f"sharding: {sharding}, returns_token: {returns_token}",
            do="Leave out `sharding`, and pass no token where none is returned.",
        )
    in_tree = tree_structure((tuple(operand_avals), {}))
    flat = FlatCallback(
        "emit_python_callback", callback, in_tree, tree_structure(tuple(result_avals))
    )
    function = flat.for_program(ctx, tuple(result_avals))
    effect = None if token is None else _PassedToken()
    outer = ctx.avals_in, ctx.avals_out, ctx.tokens
    ctx.avals_in, ctx.avals_out = tuple(operand_avals), tuple(result_avals)
    if effect is not None and token is not None:
        ctx.tokens = {**ctx.tokens, effect: token}
    try:
        results = host_call(
            ctx, function, operands, has_side_effect=has_side_effect, effect=effect, of_parts=partitioned,
        )  # fmt: skip
        return results, None if effect is None else ctx.tokens[effect], function
    finally:
        ctx.avals_in, ctx.avals_out, ctx.tokens = outer
