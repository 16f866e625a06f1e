"""Finds or compiles the executable of a program for the placement of its arguments."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pellucid._machine.base import capture, strict_zip
from pellucid._machine.compilation.pipeline import (
    CompilationUnit,
    Request,
    compile_lowered,
    lower_jaxpr,
)
from pellucid._machine.compilation.placement import (
    ResolvedPlacement,
    placements_in,
    resolved_placement,
)
from pellucid._machine.ir import Operands
from pellucid._machine.runtime import donation
from pellucid._machine.runtime.executable import Executable
from pellucid._machine.sharding.layout import Layout
from pellucid._machine.tracing import result_paths
from pellucid._machine.xla import ARRAY_TYPES

from .misses import Miss, reasons_for_place
from .traced_function import JitOptions, TracedFunction
from .traced_function_cache import TracedFunctionCache


def executable_of(
    cache: TracedFunctionCache, traced_function: TracedFunction, leaves: Operands
) -> Executable:
    """The executable of `traced_function`, in `cache`, for the placement of `leaves`; compiled if it isn't cached."""
    options = cache.options
    place = placement_of(options, traced_function, leaves)
    executable = traced_function.executables.get(place)
    if executable is not None:
        return executable
    with traced_function.lock:
        executable = traced_function.executables.get(place)
        if executable is None:
            start = time.perf_counter()
            lowered = lower_jaxpr(
                traced_function.values.closed, request_for(options, traced_function, place)
            )
            lower_seconds = time.perf_counter() - start
            executable = traced_function.executables[place] = compile_lowered(lowered)
            if any(traced_function.params.donated_invars):
                donation.note(options.spec, traced_function.call, capture())
            seconds = time.perf_counter() - start
            _note_compilation(cache, traced_function, place, lower_seconds, seconds)
    return executable


def lower_traced_function(
    options: JitOptions,
    traced_function: TracedFunction,
    leaves: Operands,
    platforms: Sequence[str] = (),
    *,
    is_portable: bool = False,
) -> CompilationUnit:
    """The StableHLO module for arguments placed like `leaves`, for `platforms` or the arguments' own platform."""
    request = request_for(options, traced_function, placement_of(options, traced_function, leaves))
    request = request._replace(is_portable=is_portable)
    if platforms and tuple(platforms) != (request.placement.platform,):
        request = request._replace(other_platforms=tuple(platforms))
    has_effects = bool(traced_function.params.jaxpr.effects)
    # One entry per operand: the layout that was asked for, else that of the argument itself, else None.
    own_layouts = [_layout_of(x, has_effects) for x in traced_function.values.operands(leaves)]
    if any(own_layouts):
        layouts = request.argument_layouts or [None] * len(own_layouts)
        orders = tuple(a or layout for a, layout in strict_zip(layouts, own_layouts))
        request = request._replace(argument_layouts=orders)
    return lower_jaxpr(traced_function.values.closed, request)


def placement_of(
    options: JitOptions, traced_function: TracedFunction, leaves: Operands
) -> ResolvedPlacement:
    """The devices and shardings with which `traced_function` runs on `leaves`."""
    places = placements_in(traced_function.params.jaxpr.jaxpr)
    if traced_function.params.out_shardings is not None:
        places = (*filter(None, traced_function.params.out_shardings), *places)
    values = traced_function.values
    return resolved_placement(
        values.operands(leaves), options.name, places, device=options.device,
        requested=values.of_inputs(traced_function.in_shardings), closed_over=values.closed.consts,
        names=traced_function.argument_names,
    )  # fmt: skip


def request_for(
    options: JitOptions, traced_function: TracedFunction, place: ResolvedPlacement
) -> Request:
    """The compilation request for `traced_function` with placement `place`."""
    # Inputs of the executable: what references closed over hold, then arguments. Results: those of the function, then what
    # written references hold. `donated_invars` has entries for constants in front, which aren't inputs.
    values, params = traced_function.values, traced_function.params
    return Request(
        options.spec.name, place.placement, place.shardings, values.of_results(params.out_shardings),
        donated=values.donated_inputs(params.donated_invars[len(traced_function.consts) :]),
        keep_unused=options.keep_unused, committed=place.committed,
        compiler_options=options.compiler_options, mesh=place.mesh,
        argument_names=traced_function.argument_names(),
        result_names=values.of_results(result_paths(traced_function.out_tree)) or (),
        argument_layouts=values.of_inputs(traced_function.in_layouts),
        result_layouts=values.of_results(traced_function.out_layouts),
        is_exact=traced_function.is_exact,
    )  # fmt: skip


def _layout_of(x, has_effects: bool) -> Layout | None:
    """The layout of a ShapeDtypeStruct, or of a committed array with a non-default layout; else None.

    Programs with effects take arrays in the default layout.
    """
    if type(x) not in ARRAY_TYPES:
        return getattr(x, "layout", None)
    if has_effects or not x._committed or x.is_deleted():
        return None
    layout = x.format.layout
    is_usual = layout is None or layout.major_to_minor == tuple(range(x.ndim))
    return None if is_usual else layout


def _note_compilation(
    cache: TracedFunctionCache,
    traced_function: TracedFunction,
    place: ResolvedPlacement,
    lower_seconds: float,
    seconds: float,
) -> None:
    options = cache.options
    if not options.share:
        return
    facts = traced_function.executables[place].precompiled
    source = None if facts is None else facts.source
    if traced_function.miss is not None and not traced_function.miss.compile_seconds:
        traced_function.miss.compile_seconds, traced_function.miss.lower_seconds = (
            seconds,
            lower_seconds,
        )
        traced_function.miss.executable_from = source
        return
    names = traced_function.debug_info.argument_names
    miss = Miss(
        options.spec.name,
        reasons_for_place(place, traced_function.executables, names),
        capture(),
        compile_seconds=seconds,
        lower_seconds=lower_seconds,
        executable_from=source,
        entry_count=len(cache.programs),
    )
    cache.publish_miss(miss, None)
