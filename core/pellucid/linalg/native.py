"""Calls of native solvers: LAPACK's on CPUs, those of cuSOLVER and its relatives on GPUs, the compiler's own on TPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.ir.avals import ShapedArray, shaped_array
from pellucid.ir.factors import Factors, words
from pellucid.ir.primitive import Primitive
from pellucid.ir.traits import Traits
from pellucid.sharding.sharding_rule import parse_rule
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.xla import lapack

_FFI = 4
_PREFIXES = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
INT32 = np.dtype(np.int32)


class NativeCallParams(NamedTuple):
    """`batch_ndim` leading axes of each operand and result count problems; `aliases` are pairs (result, operand) that
    share memory, `linear` the operands in which the routine is linear. Matrices are column-major unless `row_major`.

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
    """Made by lowering rules of this folder only, so it has no derivative, nor a batch rule."""

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
        attributes = {"call_target_name": params.target}
        if params.api_version == _FFI:
            attributes |= {
                "api_version": ctx.integer(_FFI, 32),
                "backend_config": ctx.attribute(f"{{{params.config}}}"),
                "operand_layouts": _layouts(ctx, avals, params),
                "result_layouts": _layouts(ctx, results, params),
                "output_operand_aliases": _aliases(ctx, params.aliases, len(results)),
            }
        else:
            attributes |= {
                "api_version": ctx.integer(params.api_version, 32),
                "backend_config": params.config,
            }
        if params.batch_ndim and ctx.sharding_attributes is not None:
            arrays, n = [*avals, *results], len(avals)
            sides = batched_factors([a.ndim for a in arrays], n, params.batch_ndim)
            text = " -> ".join(", ".join(" ".join(dims) for dims in side) for side in sides)
            shapes = [a.shape for a in arrays]
            rule = parse_rule(text.replace("!", "")).attribute_text(shapes[:n], shapes[n:])
            attributes["sdy.sharding_rule"] = ctx.attribute(rule)
        call = ctx.op("stablehlo.custom_call", ctx.types(results), operands, attributes)
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
    api_version: int = _FFI,
) -> list[Any]:
    """Results, of the shapes and dtypes given, of a native routine; see `NativeCallParams`."""
    avals = tuple([shaped_array(tuple(shape), np.dtype(dtype)) for shape, dtype in results])
    params = NativeCallParams(
        target, avals, batch_ndim, config, tuple(aliases), linear, row_major, api_version
    )
    return list(bind(native_call_p, *operands, params=params))


def lapack_name(routine: str, x: Any, unitary: str | None = None) -> str:
    """Target of a LAPACK routine for the elements of `x`; `unitary` is its name for complex ones."""
    dtype = type_of(x).dtype
    name = unitary if unitary is not None and dtype.kind == "c" else routine
    return f"lapack_{_PREFIXES[dtype.name]}{name}_ffi"


def gpu_name(target: str, platform: str) -> str:
    """Target of a CUDA library, or of its counterpart in ROCm."""
    return target.replace("cu", "hip", 1) if platform == "rocm" else target


def byte(letter: str) -> str:
    """An attribute that holds a LAPACK option, a letter.

    >>> byte("L")
    '76 : ui8'
    """
    return f"{ord(letter)} : ui8"


def boolean(value: bool) -> str:
    """An attribute that holds a truth value."""
    return "true" if value else "false"


def batched_factors(ranks: Sequence[int], n_operands: int, batch_ndim: int) -> Factors:
    """Factors of operands and results of these ranks: leading axes are shared, the others are whole."""
    batch = words(batch_ndim)
    dims: list[list[str]] = []
    start = batch_ndim
    for rank in ranks:
        whole = words(rank - batch_ndim, start, "!")
        start += len(whole)
        dims.append([*batch, *whole])
    return dims[:n_operands], dims[n_operands:]


def _layouts(ctx: Any, avals: Sequence[Any], params: NativeCallParams) -> Any:
    return ctx.attribute(f"[{', '.join(_layout(aval.ndim, params) for aval in avals)}]")


def _layout(rank: int, params: NativeCallParams) -> str:
    """Axes from the fastest to the slowest."""
    order = list(range(rank))[::-1]
    if rank - params.batch_ndim == 2 and not params.row_major:
        order[:2] = order[1::-1]
    return f"dense<{order if rank else ''}> : tensor<{rank}xindex>"


def _aliases(ctx: Any, aliases: Sequence[tuple[int, int]], n_results: int) -> Any:
    texts = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{result if n_results > 1 else ''}], "
        f"operand_index = {operand}, operand_tuple_indices = []>"
        for result, operand in aliases
    ]
    return ctx.attribute(f"[{', '.join(texts)}]")
