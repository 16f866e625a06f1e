"""`ffi_call`: native functions as part of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Axes,
    DerivativeRuleError,
    Function,
    UnsupportedError,
    canonical_shape,
    strict_zip,
)
from pellucid._machine.higher_order.custom_vmap import batched_call, check_vmap_method
from pellucid._machine.ir import (
    AbstractToken,
    Effect,
    Mask,
    Primitive,
    Shown,
    Traits,
    batched_factors,
    no_effects,
    shaped_array,
)
from pellucid._machine.lowering.custom_calls import (
    TYPED,
    batched_sharding_rule,
    custom_call,
    typed_attribute,
)
from pellucid._machine.lowering.dynamic_shapes import shape_operands
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla import lapack

from .lowering import checked_layouts


class FfiEffect(Effect):
    """Side effect of a native function."""

    control_flow_allowed = True


_EFFECTS = frozenset({FfiEffect()})


class FfiAttribute:
    """An attribute of a native call, equal to another one where type and value are: 1, 1.0 and True are three."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = _content(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FfiAttribute) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def _content(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "mapping", tuple(sorted((str(k), _content(v)) for k, v in value.items()))
    if isinstance(value, (tuple, list)):
        return "sequence", tuple(map(_content, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, value.dtype.str, value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, np.dtype):
        return "dtype", value
    if isinstance(value, float):
        return "float", np.float64(value).tobytes()
    if isinstance(value, (bool, int, str, bytes)):
        return type(value).__name__, value
    raise ArgumentTypeError(
        "attributes of native functions must be bools, numbers, strings, dtypes, NumPy arrays, and mappings and sequences of them.",
        got=f"got {type(value).__name__}",
        do="Pass arrays that a program computes as operands.",
    )


class FfiCallParams(NamedTuple):
    """Layouts list dimensions from the fastest to the slowest; aliases are pairs (operand, result)."""

    attributes: tuple[tuple[str, FfiAttribute], ...]
    custom_call_api_version: int
    has_side_effect: bool
    input_layouts: tuple[Axes, ...]
    input_output_aliases: tuple[tuple[int, int], ...]
    legacy_backend_config: str | None
    output_layouts: tuple[Axes, ...]
    result_avals: tuple[Any, ...]
    target_name: str
    vmap_method: str | None
    batch_ndim: int
    """Number of leading axes that all operands and results have because of `vmap`."""


class FfiCall(Shown, Primitive[FfiCallParams]):
    """Calls a native function; XLA assumes that it depends on operands and attributes only, unless it has effects."""

    name = "ffi_call"
    traits = Traits(kind="custom", flops=None, makes_nan=True, returns_list=True)

    def abstract_eval(self, avals, params):
        return params.result_avals

    def effects(self, avals, params):
        return _EFFECTS if params.has_side_effect else no_effects

    def factors(self, avals, results, params):
        return batched_factors([a.ndim for a in (*avals, *results)], len(avals), params.batch_ndim)

    def jvp(self, primals, tangents, params):
        raise _not_differentiable(params)

    def transpose(self, cotangents, operands, params):
        raise _not_differentiable(params)

    def batch(self, axis, operands, dims, params):
        def with_batch(mask: Mask) -> FfiCallParams:
            has_whole_axis = None not in dims or params.vmap_method == "broadcast_all"
            return params._replace(
                input_layouts=tuple(
                    _batched_layout(layout) if has_axis else layout
                    for layout, has_axis in strict_zip(params.input_layouts, mask)
                ),
                output_layouts=tuple(map(_batched_layout, params.output_layouts)),
                result_avals=tuple(axis.add_to(aval, 0) for aval in params.result_avals),
                batch_ndim=params.batch_ndim + 1 if has_whole_axis else 0,
            )

        target = f"{params.target_name!r}"
        return batched_call(self, axis, operands, dims, params, with_batch, target)

    def lower(self, ctx, operands, params):
        is_cut = ctx.sharding_attributes is not None and ctx.manual is None
        if params.has_side_effect and is_cut:
            raise UnsupportedError(  # XLA has no placement for it
                "a program over several devices can't call a native function with side effects for all of them.",
                got=f"the call of {params.target_name!r}",
                do="Call it within `shard_map`, where each device calls it with its part.",
            )
        config = (
            {name: typed_attribute(ctx, attribute.value) for name, attribute in params.attributes}
            if params.custom_call_api_version >= TYPED
            else params.legacy_backend_config
        )
        if params.target_name.startswith("lapack_") and ctx.platform == "cpu":
            lapack.register()
        shapes, indices = shape_operands(ctx, ctx.avals_out, len(operands))
        call = custom_call(
            ctx,
            params.target_name,
            [*operands, *shapes],
            result_types=ctx.types(ctx.avals_out),
            operand_layouts=[*params.input_layouts, *[(0,)] * len(shapes)],
            result_layouts=params.output_layouts,
            backend_config=config,
            has_side_effect=params.has_side_effect,
            api_version=params.custom_call_api_version,
            operand_output_aliases=dict(params.input_output_aliases),
            extra_attributes={**batched_sharding_rule(ctx, params.batch_ndim), **indices},
        )
        results = list(call.results)
        if params.batch_ndim and results:
            ctx.note_metadata(results[0], {"num_batch_dims": str(params.batch_ndim)})
        return results

    def printed_params(self, equation):
        shown = equation.params._asdict()
        del shown["batch_ndim"]
        return shown


ffi_call_p = FfiCall()


def _batched_layout(layout: Axes) -> Axes:
    return (*[dim + 1 for dim in layout], 0)


def _not_differentiable(params: FfiCallParams) -> DerivativeRuleError:
    return DerivativeRuleError(
        "ffi_call has no derivative: what its native function computes is not known.",
        got=f"the call of {params.target_name!r}",
        do="Give the function that contains it a derivative with `custom_jvp` or `custom_vjp`.",
    )


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Function:
    """A function of arrays that calls the native function registered as `target_name`.

    Its keywords are attributes of the call: bools, strings, numbers (Python's have 64 bits, those of NumPy their own
    size), dtypes, arrays, and mappings of them. `result_shape_dtypes` describes the result, or each of several in a list or
    tuple. With `has_side_effect` the function is called though nobody uses its results. `vmap_method` is as for
    `pure_callback`. `input_layouts` and `output_layouts` hold for each operand and result a `Layout`, or an order of
    dimensions with the slowest first, or None for row-major. `input_output_aliases` maps operands to results of equal
    type that share their memory. `custom_call_api_version` below 4 is for functions of older interfaces, which take
    `legacy_backend_config` in place of attributes. It has no derivative.

    Raises: ArgumentValueError for layouts and aliases that don't fit, for an unknown `vmap_method`,
    and for results without shape and dtype; ArgumentTypeError for other attributes; CompilationError where no such function was registered for the
    platform; ExecutionError with the message of a handler that fails.

    >>> f = ffi_call("my_handler", pl.ShapeDtypeStruct((3,), np.float32), vmap_method="broadcast_all")
    >>> pl.eval_shape(lambda x: f(x, eps=np.float32(1e-5)), np.zeros(3, np.float32))
    ShapeDtypeStruct(shape=(3,), dtype=float32)
    """
    check_vmap_method("ffi_call", vmap_method)
    is_typed = custom_call_api_version >= TYPED
    if is_typed and legacy_backend_config is not None:
        raise ArgumentValueError(
            "ffi_call takes legacy_backend_config for older interfaces only.",
            got=f"custom_call_api_version={custom_call_api_version}",
            do="Pass attributes as keywords of the call.",
        )
    has_several = isinstance(result_shape_dtypes, (list, tuple))
    described = result_shape_dtypes if has_several else [result_shape_dtypes]
    result_avals = tuple(_result_type(target_name, i, x) for i, x in enumerate(described))
    out_layouts = output_layouts if has_several or output_layouts is None else [output_layouts]
    checked_out_layouts = checked_layouts(
        "ffi_call", "results", result_avals, out_layouts, is_slowest_first=True
    )

    def call(*args: Any, **attributes: Any) -> Any:
        if attributes and not is_typed:
            raise ArgumentValueError(
                "ffi_call takes attributes from version 4 of the interface on.",
                got=f"attributes {', '.join(attributes)}, custom_call_api_version={custom_call_api_version}",
                do="Write them into legacy_backend_config.",
            )
        avals = tuple(map(type_of, args))
        in_layouts = checked_layouts(
            "ffi_call", "operands", avals, input_layouts, is_slowest_first=True
        )
        aliases = tuple(sorted((input_output_aliases or {}).items()))
        for operand, result in aliases:
            _check_alias(operand, result, avals, result_avals, in_layouts, checked_out_layouts)
        params = FfiCallParams(
            tuple(sorted((name, FfiAttribute(value)) for name, value in attributes.items())),
            custom_call_api_version, bool(has_side_effect), in_layouts, aliases, legacy_backend_config,
            checked_out_layouts, result_avals, target_name, vmap_method, 0,
        )  # fmt: skip
        results = list(bind(ffi_call_p, *args, params=params))
        if has_several:
            return tuple(results) if isinstance(result_shape_dtypes, tuple) else results
        return results[0]

    return call


def _result_type(target: str, position: int, described: Any) -> Any:
    if isinstance(described, AbstractToken):
        return described
    if not (hasattr(described, "shape") and hasattr(described, "dtype")):
        raise ArgumentValueError(
            f"ffi_call of {target!r}: result_shape_dtypes holds something without shape and dtype.",
            got=f"result {position}: {type(described).__name__} ({described!r:.60})",
            do="Describe each result by `ShapeDtypeStruct(shape, dtype)`, or by an array of its type.",
        )
    # As stated: the native function writes as many bytes whether 64-bit dtypes are on or off.
    return shaped_array(canonical_shape(described.shape), np.dtype(described.dtype))


def _check_alias(
    operand: Any,
    result: Any,
    avals: Sequence[Any],
    result_avals: Sequence[Any],
    in_layouts: Sequence[Axes],
    out_layouts: Sequence[Axes],
) -> None:
    what = f"{operand}: {result}"
    if not 0 <= operand < len(avals) or not 0 <= result < len(result_avals):
        raise ArgumentValueError(
            "ffi_call: input_output_aliases names an operand or a result that there isn't.",
            got=f"{what}, with {len(avals)} operands and {len(result_avals)} results",
        )
    aval, result_aval = avals[operand], result_avals[result]
    if (aval.shape, aval.dtype) != (result_aval.shape, result_aval.dtype):
        raise ArgumentValueError(
            "ffi_call: an operand and a result that share memory must have one shape and dtype.",
            got=f"{what}, that is {aval.text()} and {result_aval.text()}",
        )
    if in_layouts[operand] != out_layouts[result]:
        raise ArgumentValueError(
            "ffi_call: an operand and a result that share memory must have one layout.",
            got=f"{what}, that is {in_layouts[operand]} and {out_layouts[result]}, fastest dimension first",
        )
