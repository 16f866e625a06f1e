"""Lowering rules under the names of `jax.interpreters.mlir`.

A rule is `rule(ctx, *operands, **params)`: it builds operations on MLIR values at the insertion point and returns a
list of the results' values. `ctx.avals_in` and `ctx.avals_out` are the types of operands and results, and `ctx.op` and
`ctx.op1` build operations by name, in the location of the equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    MissingRule,
    UnsupportedError,
)
from pellucid._machine.base.functional import copy_with_name
from pellucid._machine.base.typing import Function
from pellucid._machine.ir.avals import abstract_token, shaped_array
from pellucid._machine.ir.effects import Effect
from pellucid._machine.ir.primitive import Primitive
from pellucid._machine.lowering.custom_calls import typed_attribute
from pellucid._machine.lowering.module import LoweringContext as LoweringRuleContext
from pellucid._machine.lowering.operations import OperationBuilder
from pellucid._machine.lowering.rule_context import TokenSet
from pellucid._machine.sharding.mesh import Mesh
from pellucid._machine.xla.mlir import bytecode, ir, new_context
from pellucid.interpreters.lowered_programs import (
    LoweringParameters,
    LoweringResult,
    ModuleContext,
    ShapePolyLoweringState,
    core_call_lowering,
    emit_python_callback,
    jaxpr_subcomp,
    lower_jaxpr_to_fun,
    lower_jaxpr_to_module,
)
from pellucid.interpreters.tables import register, registered_rule
from pellucid.interpreters.user_primitive import Keywords

make_ir_context = copy_with_name(new_context, "make_ir_context", __name__)

_GPUS = ("cuda", "rocm")
PLATFORMS = ("cpu", "gpu", "tpu", *_GPUS)


def register_lowering(
    prim: Primitive[Any],
    rule: Function,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> Function:
    """Lower `prim` by `rule`, on one `platform` ("cpu", "gpu", "cuda", "rocm", "tpu") or on those without an own rule.

    Rules run at each equation, so `inline` and `cacheable` change nothing. Returns `rule`.

    Raises: ArgumentTypeError for anything that isn't a primitive, a function or a platform.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("negated")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, lambda ctx, x: [ctx.op1("stablehlo.negate", ctx.avals_out[0], [x])])
    >>> pl.jit(p.bind)(np.float32(2))
    Array(-2., dtype=float32)
    """
    if not callable(rule):
        raise ArgumentTypeError(
            f"a lowering rule of `{prim}` must be a function.", got=f"got {type(rule).__name__}"
        )
    if platform is not None and platform not in PLATFORMS:
        raise UnsupportedError(
            f"register_lowering of `{prim}` got an unknown platform.",
            got=f"got {platform!r}",
            do=f"Give one of {', '.join(PLATFORMS)}, or None for all.",
        )
    registered = registered_rule(prim, "lower")
    rules = {**(registered.rule if registered else {}), platform: rule}

    def lower(ctx: LoweringRuleContext, operands: Any, params: Any) -> Any:
        names = (ctx.platform, "gpu" if ctx.platform in _GPUS else None, None)
        chosen = next((rules[name] for name in names if name in rules), None)
        if chosen is None:
            return _own_lowering(prim, ctx, operands, params)
        with ctx.location:
            values = chosen(ctx, *operands, **params._asdict())
        return _checked_values(prim, ctx, values)

    register(prim, "lower", rules, lower)
    return rule


def _own_lowering(
    prim: Primitive[Any], ctx: LoweringRuleContext, operands: Any, params: Any
) -> Any:
    if type(prim).lower is Primitive.lower:
        raise MissingRule(
            f"`{prim.name}` has no lowering rule for this platform.",
            got=f"compiling for {ctx.platform}",
            do=f"Register one: `mlir.register_lowering({prim.name}_p, rule)`.",
        )
    return type(prim).lower(prim, ctx, operands, params)


def _checked_values(prim: Primitive[Any], ctx: LoweringRuleContext, values: Any) -> list[ir.Value]:
    results = flatten_ir_values(values) if isinstance(values, Sequence) else [values]
    expected = ctx.types(ctx.avals_out)
    types = [x.type if isinstance(x, ir.Value) else type(x).__name__ for x in results]
    if types != expected:
        raise ArgumentTypeError(
            f"the lowering rule of `{prim.name}` must return values of its results' types.",
            got=f"got {', '.join(map(str, types)) or 'none'}; expected {', '.join(map(str, expected)) or 'none'}",
        )
    return results


class _Applied:
    """A function with keywords bound; equal if both are, so that its program is traced once for each type."""

    def __init__(self, function: Function, params: Keywords) -> None:
        self.key = function, params
        self.function = function
        self.params = params

    def __call__(self, *operands: Any) -> Any:
        return self.function(*operands, **self.params._asdict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Applied) and self.key == other.key

    def __hash__(self) -> int:
        try:
            return hash(self.key)
        except TypeError:  # unhashable params; equality decides
            return hash(self.function)


def lower_fun(fun: Function, multiple_results: bool = True) -> Function:
    """A lowering rule that traces `fun(*operands, **params)` and lowers its operations.

    With `multiple_results`, `fun` returns a list.

    Raises: ArgumentTypeError, when it lowers, if `fun` returns a list where it should not, or the other way round.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("plus_one")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, lower_fun(lambda x: x + 1, multiple_results=False))
    >>> pl.jit(p.bind)(np.float32(2))
    Array(3., dtype=float32)
    """

    def rule(ctx: LoweringRuleContext, *operands: Any, **params: Any) -> list[ir.Value]:
        return ctx.from_python(_Applied(call_checked_function, Keywords(**params)), operands)

    def call_checked_function(*operands: Any, **params: Any) -> Any:
        results = fun(*operands, **params)
        if isinstance(results, (list, tuple)) is not multiple_results:
            raise ArgumentTypeError(
                f"lower_fun was told multiple_results={multiple_results}.",
                got=f"its function returned {type(results).__name__}",
            )
        return results

    return rule


# Values, types and attributes in the context that is being lowered ------------------------------------


def _here() -> OperationBuilder:
    current: Any = ir  # the stubs of these class properties have no types
    context = OperationBuilder(current.Context.current, ("",))
    context.location = current.Location.current
    return context


ConstantHandler = Callable[[Any, Any], Sequence[ir.Value]]
"""A function that builds the MLIR values of a constant of a type: `handler(value, aval)`."""
_constant_handlers: dict[type, ConstantHandler] = {}


def register_constant_handler(type_: type, handler_fun: ConstantHandler) -> None:
    """Let `ir_constants` build constants of the type `type_` by `handler_fun(value, aval)`, which returns a list.

    >>> class Pair(tuple):
    ...     pass
    >>> register_constant_handler(Pair, lambda pair, aval: [ir_constant(x) for x in pair])
    >>> with make_ir_context(), ir.Location.unknown():
    ...     module = ir.Module.create()
    ...     with ir.InsertionPoint(module.body):
    ...         len(ir_constants(Pair([np.int32(1), np.int32(2)])))
    2
    """
    _constant_handlers[type_] = handler_fun


def ir_constants(val: Any, *, const_lowering: Any = None, aval: Any = None) -> tuple[ir.Value, ...]:
    """The MLIR values of the constant `val`, built at the insertion point: one, unless a handler builds others.

    `const_lowering` has values that were built before, by (id of the value, type).

    >>> with make_ir_context(), ir.Location.unknown():
    ...     module = ir.Module.create()
    ...     with ir.InsertionPoint(module.body):
    ...         len(ir_constants(np.float32(2)))
    1
    """
    before = (const_lowering or {}).get((id(val), aval))
    if before is not None:
        return tuple(flatten_ir_values([before]))
    for base in type(val).__mro__:
        if base in _constant_handlers:
            return tuple(_constant_handlers[base](val, aval))
    dtype = dtypes.result_type(val) if aval is None else aval.dtype
    return (_here().constant(np.asarray(val, dtype)),)


def ir_constant(val: Any, *, const_lowering: Any = None, aval: Any = None) -> ir.Value:
    """The one MLIR value of the constant `val`, as `ir_constants`.

    Raises: ArgumentTypeError for a constant of several values.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     module = ir.Module.create()
    ...     with ir.InsertionPoint(module.body):
    ...         value = ir_constant(np.float32(2))
    ...     print(value.type)
    tensor<f32>
    """
    values = ir_constants(val, const_lowering=const_lowering, aval=aval)
    if len(values) != 1:
        raise ArgumentTypeError(
            f"a constant of type {type(val).__name__} has {len(values)} values in MLIR.",
            do="Use `ir_constants`.",
        )
    return values[0]


def ir_attribute(val: Any) -> ir.Attribute:
    """`val` as an attribute that keeps its type: Python's numbers have 64 bits, those of NumPy their own size.

    Arrays are dense attributes, dtypes types, mappings dictionaries of attributes, and sequences arrays of them.

    Raises: ArgumentTypeError for other values.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(ir_attribute("a"), ir_attribute({"a": np.int32(1)}))
    "a" {a = 1 : i32}
    """
    return typed_attribute(_here(), val)


def i32_attr(i: int) -> ir.Attribute:
    """`i : i32`.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(i32_attr(3))
    3 : i32
    """
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), i)


def i64_attr(i: int) -> ir.Attribute:
    """`i : i64`.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(i64_attr(3))
    3 : i64
    """
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), i)


def dense_int_elements(xs: Any) -> ir.Attribute:
    """`dense<xs> : tensor<...xi64>`.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(dense_int_elements([1, 2]))
    dense<[1, 2]> : tensor<2xi64>
    """
    return ir.DenseIntElementsAttr.get(np.asarray(xs, np.int64))


def dense_int_array(xs: Any) -> ir.Attribute:
    """`array<i64: xs>`.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(dense_int_array([1, 2]))
    array<i64: 1, 2>
    """
    return ir.DenseI64ArrayAttr.get(list(xs))


def dtype_to_ir_type(dtype: Any) -> ir.Type:
    """The type of one element of `dtype`, in the context that is being lowered.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(dtype_to_ir_type(np.float32))
    f32
    """
    return _here().element_type(np.dtype(dtype))


def aval_to_ir_type(ctx: Any, aval: Any) -> ir.Type:
    """The type of values of type `aval`; `ctx` may be None where a context is current.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(aval_to_ir_type(None, pl.typeof(np.ones(3, np.float32))))
    tensor<3xf32>
    """
    return (ctx if isinstance(ctx, LoweringRuleContext) else _here()).type(aval)


def aval_to_ir_types(ctx: Any, aval: Any) -> tuple[ir.Type, ...]:
    """The types of the MLIR values of a value of type `aval`: one.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(*aval_to_ir_types(None, pl.typeof(np.ones(3, np.float32))))
    tensor<3xf32>
    """
    return (aval_to_ir_type(ctx, aval),)


def token_type() -> ir.Type:
    """The type of tokens.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(token_type())
    !stablehlo.token
    """
    return _here().type(abstract_token)


def shape_tensor(ctx: Any, sizes: Sequence[int | ir.Value]) -> ir.Value:
    """An int32 vector of `sizes`, integers and scalars, built at the insertion point.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     module = ir.Module.create()
    ...     with ir.InsertionPoint(module.body):
    ...         value = shape_tensor(None, [2, ir_constant(np.int64(3))])
    ...     print(value.type)
    tensor<2xi32>
    """
    context = ctx if isinstance(ctx, LoweringRuleContext) else _here()
    scalar, one = (shaped_array((1,) * n, np.dtype(np.int32)) for n in (0, 1))
    parts = []
    for size in sizes:
        if isinstance(size, ir.Value):
            as_int32 = context.op1("stablehlo.convert", scalar, [size])
            parts.append(context.op1("stablehlo.reshape", one, [as_int32]))
        else:
            parts.append(context.constant(np.array([size], np.int32)))
    if not parts:
        return context.constant(np.zeros(0, np.int32))
    whole = shaped_array((len(parts),), np.dtype(np.int32))
    dimension = {"dimension": i64_attr(0)}
    return (
        parts[0]
        if len(parts) == 1
        else context.op1("stablehlo.concatenate", whole, parts, dimension)
    )


def flatten_ir_values(xs: Any) -> list[Any]:
    """The values of `xs`, a sequence of values and sequences of values, in one list.

    >>> flatten_ir_values([1, (2, 3)])
    [1, 2, 3]
    """
    return [v for x in xs for v in (x if isinstance(x, Sequence) else (x,))]


def flatten_ir_types(xs: Any) -> list[Any]:
    """The types of `xs`, a sequence of types and sequences of types, in one list.

    >>> flatten_ir_types(["f32", ("i1", "i8")])
    ['f32', 'i1', 'i8']
    """
    return [t for x in xs for t in (x if isinstance(x, (tuple, list)) else (x,))]


def unflatten_ir_values_like_types(xs: Any, ys: Sequence[Any]) -> list[Any]:
    """The values `xs`, one for each type in `ys`; tuples of values where `ys` has tuples of types.

    Raises: ValueError where there are more values, or fewer.

    >>> unflatten_ir_values_like_types([1, 2, 3], ["f32", ("i1", "i8")])
    [1, (2, 3)]
    """
    values = list(xs)
    if len(values) != len(flatten_ir_types(ys)):
        raise ArgumentValueError(
            "there must be a value for each type.",
            got=f"{len(values)} values, {len(flatten_ir_types(ys))} types",
        )
    rest = iter(values)
    return [
        tuple([next(rest) for _ in y]) if isinstance(y, (tuple, list)) else next(rest) for y in ys
    ]


class EffectTypes:
    """Types of effects whose equations can be lowered: all subclasses of `core.Effect`."""

    def add_type(self, effect_type: type[Effect]) -> None:
        """State that `effect_type` is one of them.

        Raises: ArgumentTypeError for a class that isn't derived from `core.Effect`.
        """
        if not issubclass(effect_type, Effect):
            raise ArgumentTypeError(
                "types of effects must be derived from `core.Effect`.", got=effect_type.__name__
            )

    def contains(self, eff: Any) -> bool:
        """Whether equations with the effect `eff` can be lowered."""
        return isinstance(eff, Effect)

    def filter_in(self, effects: Any) -> list[Any]:
        """The `effects` that can be lowered."""
        return [e for e in effects if self.contains(e)]

    def filter_not_in(self, effects: Any) -> list[Any]:
        """The `effects` that can't be lowered."""
        return [e for e in effects if not self.contains(e)]


lowerable_effects = EffectTypes()
"""Types of effects whose equations can be lowered; ordered ones get a token."""
LoweringRule = Callable[..., Sequence[Any]]
"""A function that lowers an equation: `rule(ctx, *values, **params)`."""
Token = Value = ir.Value
MeshAxisName = Any
DEVICE_TO_DEVICE_TYPE, SEND_TO_HOST_TYPE, RECV_FROM_HOST_TYPE = 1, 2, 3
"""Kinds of channels of StableHLO's sends and receives."""


def module_to_string(module: ir.Module, enable_debug_info: bool | None = None) -> str:
    """The text of `module`, with locations if `enable_debug_info`.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     print(module_to_string(ir.Module.create()))
    module {
    }
    <BLANKLINE>
    """
    return str(module.operation.get_asm(enable_debug_info=bool(enable_debug_info)))


def module_to_bytecode(module: ir.Module) -> bytes:
    r"""`module` as MLIR bytecode.

    >>> with make_ir_context(), ir.Location.unknown():
    ...     module_to_bytecode(ir.Module.create())[:4]
    b'ML\xefR'
    """
    return bytecode(module)


__all__ = [
    "ConstantHandler", "DEVICE_TO_DEVICE_TYPE", "LoweringParameters", "LoweringResult", "LoweringRule",
    "LoweringRuleContext", "Mesh", "MeshAxisName", "ModuleContext", "RECV_FROM_HOST_TYPE", "SEND_TO_HOST_TYPE",
    "ShapePolyLoweringState", "Token", "TokenSet", "Value", "aval_to_ir_type", "aval_to_ir_types",
    "core_call_lowering", "dense_int_array", "dense_int_elements", "dtype_to_ir_type", "emit_python_callback",
    "flatten_ir_types", "flatten_ir_values", "i32_attr", "i64_attr", "ir_attribute", "ir_constant", "ir_constants",
    "jaxpr_subcomp", "lower_fun", "lower_jaxpr_to_fun", "lower_jaxpr_to_module", "lowerable_effects",
    "make_ir_context", "module_to_bytecode", "module_to_string", "register_constant_handler", "register_lowering",
    "shape_tensor", "token_type", "unflatten_ir_values_like_types",
]  # fmt: skip
