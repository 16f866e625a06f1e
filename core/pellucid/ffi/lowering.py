"""Lowering rules that call a native function, for primitives of libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, Axes, Function, strict_zip
from pellucid._machine.ir import AbstractToken, physical
from pellucid._machine.lowering.custom_calls import TYPED, custom_call, row_major, typed_attribute
from pellucid._machine.sharding.layout import Layout


def fastest_first(caller: str, aval: Any, layout: Any, *, is_slowest_first: bool) -> Axes:
    """The dimensions of a value of type `aval` from the fastest to the slowest, as `layout` describes them.

    None is row-major, a `Layout` is slowest first, and a sequence of dimensions is as the flag says.

    Raises: ArgumentValueError for a layout with tiles, or of other dimensions than the value has.
    """
    if layout is None:
        return row_major(aval)
    if isinstance(layout, Layout):
        if layout.tiling is not None:
            raise ArgumentValueError(
                f"{caller}: native functions take no layouts with tiles.", got=str(layout)
            )
        order = layout.major_to_minor[::-1]
    else:
        order = tuple(map(int, layout))[:: -1 if is_slowest_first else 1]
    ndim = 0 if isinstance(aval, AbstractToken) else physical(aval).ndim
    if sorted(order) != [*range(ndim)]:
        raise ArgumentValueError(
            f"{caller}: a layout must list each dimension of its value once.",
            got=f"layout {tuple(layout) if not isinstance(layout, Layout) else layout} of {aval.text()}",
        )
    return order


def checked_layouts(
    caller: str, what: str, avals: Sequence[Any], layouts: Any, *, is_slowest_first: bool
) -> tuple[Axes, ...]:
    """`fastest_first` of one layout for each of `avals`; all are row-major where `layouts` is None.

    Raises: ArgumentValueError for another number of layouts than values.
    """
    if layouts is None:
        return tuple(map(row_major, avals))
    layouts = tuple(layouts)
    if len(layouts) != len(avals):
        raise ArgumentValueError(
            f"{caller} needs one layout for each of its {what}.",
            got=f"{len(layouts)} layouts for {len(avals)} {what}",
        )
    return tuple(
        fastest_first(caller, a, x, is_slowest_first=is_slowest_first)
        for a, x in strict_zip(avals, layouts)
    )


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Function:
    """A function `(ctx, *operands, **attributes)` that builds the operation which calls a registered native function.

    Layouts are `Layout`s, sequences of dimensions with the fastest first, or None for row-major. Attributes are added to
    `backend_config`. `lowering_args` are `result_types`, `has_side_effect`, `api_version` (4 by default),
    `operand_output_aliases` and `extra_attributes`; with `skip_ffi_layout_processing` they may hold layouts, too.

    Raises: ArgumentTypeError for unknown ones; ArgumentValueError, when it is called, for attributes or a dictionary
    where `api_version` is below 4, and for a string where it isn't.

    >>> build_ffi_lowering_function("absolute_value", has_side_effect=True).__name__
    'call_absolute_value'
    """
    unknown = lowering_args.keys() - _LOWERING_ARGUMENTS
    if unknown:
        raise ArgumentTypeError(
            f"the lowering of a call of {call_target_name!r} got unknown arguments.",
            got=", ".join(sorted(unknown)),
            do=f"It takes {', '.join(sorted(_LOWERING_ARGUMENTS))}.",
        )

    def call(ctx: Any, *operands: Any, **attributes: Any) -> Any:
        arguments = dict(lowering_args)
        arguments.setdefault("api_version", TYPED)
        arguments.setdefault("result_types", ctx.types(ctx.avals_out))
        if not skip_ffi_layout_processing:
            for key, avals, layouts in (
                ("operand_layouts", ctx.avals_in, operand_layouts),
                ("result_layouts", ctx.avals_out, result_layouts),
            ):
                arguments[key] = checked_layouts(
                    call_target_name, key, avals, layouts, is_slowest_first=False
                )
        arguments.setdefault("operand_layouts", None)
        arguments.setdefault("result_layouts", None)
        is_typed = arguments["api_version"] >= TYPED
        if (
            isinstance(backend_config, str)
            if is_typed
            else attributes or (isinstance(backend_config, Mapping))
        ):
            raise ArgumentValueError(
                f"the call of {call_target_name!r} has a configuration of the other kind than its version takes.",
                got=f"api_version={arguments['api_version']}",
                do="Version 4 takes attributes, or a dictionary of them, and older ones a string.",
            )
        config: Any = backend_config
        if is_typed:
            config = {
                k: typed_attribute(ctx, v) for k, v in {**(config or {}), **attributes}.items()
            }
        return custom_call(ctx, call_target_name, operands, backend_config=config, **arguments)

    call.__name__ = f"call_{call_target_name}"
    return call


_LOWERING_ARGUMENTS = {
    "api_version", "extra_attributes", "has_side_effect", "operand_layouts", "operand_output_aliases",
    "result_layouts", "result_types",
}  # fmt: skip


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Function:
    """A lowering rule for `interpreters.mlir.register_lowering` that calls a registered native function.

    The params of the primitive are the function's attributes. Arguments are as in `build_ffi_lowering_function`.

    >>> from pellucid.extend.core import Primitive
    >>> from pellucid.interpreters import mlir
    >>> _ = mlir.register_lowering(Primitive("absolute"), ffi_lowering("absolute_value"))
    """
    call = build_ffi_lowering_function(
        call_target_name,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
        backend_config=backend_config,
        skip_ffi_layout_processing=skip_ffi_layout_processing,
        **lowering_args,
    )
    return lambda ctx, *operands, **attributes: list(call(ctx, *operands, **attributes).results)
