"""Calls of native solvers: LAPACK's on CPUs, those of cuSOLVER and its relatives on GPUs, the compiler's own on TPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.ir import Primitive, ShapedArray, Traits, batched_factors, shaped_array
from pellucid._machine.lowering.custom_calls import TYPED, batched_sharding_rule, custom_call
from pellucid._machine.lowering.dynamic_shapes import shape_operands
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla import lapack

_PREFIXES = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
INT32 = np.dtype(np.int32)


class NativeCallParams(NamedTuple):
    """Params of a native call: `batch_ndim` leading axes of operands and results are batch axes; `aliases` are pairs
    (result, operand) that share memory, `linear` the operands in which the routine is linear. Matrices are
    column-major unless `row_major`.

    `config` is the text of a dictionary of attributes, or of the whole configuration where `api_version` is below 4.
    """

    target: str
    results: tuple[ShapedArray, ...]
    batch_ndim: int
    config: str
    aliases: tuple[tuple[int, int], ...]
    linear: tuple[int, ...] | None
    row_major: bool
    api_version: int


class NativeCall(Primitive[NativeCallParams]):
    """Calls a native routine; only lowering rules of this folder make it, so it has no derivative and no batch rule."""

    name = "native_call"
    traits = Traits(
        kind="host", flops=None, makes_nan=True, returns_list=True,
        linear=lambda avals, params: params.linear,
    )  # fmt: skip

    def abstract_eval(self, avals, params):
        return params.results

    def factors(self, avals, results, params):
        return batched_factors([a.ndim for a in (*avals, *results)], len(avals), params.batch_ndim)

    def lower(self, ctx, operands, params):
        if ctx.platform == "cpu":
            lapack.register()
        avals, results = ctx.avals_in, ctx.avals_out
        typed = params.api_version == TYPED
        shapes, shape_attributes = shape_operands(ctx, results, len(operands))
        layouts = [*(_layout(aval.ndim, params) for aval in avals), *((0,) for _ in shapes)]
        call = custom_call(
            ctx,
            params.target,
            [*operands, *shapes],
            result_types=ctx.types(results),
            operand_layouts=layouts if typed else None,
            result_layouts=[_layout(aval.ndim, params) for aval in results] if typed else None,
            backend_config=ctx.attribute(f"{{{params.config}}}") if typed else params.config,
            api_version=params.api_version,
            operand_output_aliases={operand: result for result, operand in params.aliases},
            extra_attributes=batched_sharding_rule(ctx, params.batch_ndim) | shape_attributes,
        )
        ctx.note_metadata(call.results[0], {"num_batch_dims": str(params.batch_ndim)})
        return list(call.results)


native_call_p = NativeCall()


def native(
    target: str,
    operands: Sequence[Any],
    results: Sequence[tuple[Sequence[int], Any]],
    batch_ndim: int,
    config: str = "",
    aliases: Sequence[tuple[int, int]] = (),
    *,
    linear: tuple[int, ...] | None = None,
    row_major: bool = False,
    api_version: int = TYPED,
) -> list[Any]:
    """Results, of the shapes and dtypes given, of a native routine; see `NativeCallParams`."""
    avals = tuple([shaped_array(tuple(shape), np.dtype(dtype)) for shape, dtype in results])
    params = NativeCallParams(
        target, avals, batch_ndim, config, tuple(aliases), linear, row_major, api_version
    )
    return list(bind(native_call_p, *operands, params=params))


def lapack_name(routine: str, x: Any, unitary: str | None = None) -> str:
    """Call target of a LAPACK routine for the dtype of `x`; `unitary` is the routine's name for complex matrices."""
    dtype = type_of(x).dtype
    name = unitary if unitary is not None and dtype.kind == "c" else routine
    return f"lapack_{_PREFIXES[dtype.name]}{name}_ffi"


def gpu_name(target: str, platform: str) -> str:
    """Call target of a routine of a CUDA library, or of its ROCm counterpart."""
    return target.replace("cu", "hip", 1) if platform == "rocm" else target


def byte(letter: str) -> str:
    """Attribute text of a LAPACK option, which is a letter.

    >>> byte("L")
    '76 : ui8'
    """
    return f"{ord(letter)} : ui8"


def boolean(value: bool) -> str:
    """Attribute text of a bool."""
    return "true" if value else "false"


def _layout(rank: int, params: NativeCallParams) -> list[int]:
    """Memory layout: the axes from the fastest to the slowest."""
    order = list(range(rank))[::-1]
    if rank - params.batch_ndim == 2 and not params.row_major:
        order[:2] = order[1::-1]
    return order
