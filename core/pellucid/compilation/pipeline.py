"""The named passes in order: the table of contents of compilation.

`lower_program` and `compile_lowered` list the passes; `run_pass` runs one, times it, publishes it and turns
a failure into an error that names it. No pass runs any other way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.base import config
from pellucid.base.errors import CompilationError, PellucidError
from pellucid.base.events import CompilationFinished, PassFinished, logger, on, publish
from pellucid.base.source import warn_user
from pellucid.compilation import disk_cache, options as xla_options
from pellucid.compilation.discharge import without_references
from pellucid.compilation.interruption import interruptible
from pellucid.compilation.placement import Placement
from pellucid.ir.checking import check_jaxpr
from pellucid.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, subjaxprs
from pellucid.ir.rewriting import constants_as_inputs, inlined, remove_dead_equations
from pellucid.lowering.module import LoweredModule, ModuleOptions, lower_module, ordered
from pellucid.runtime.executable import Executable
from pellucid.sharding.single_device import make_single_device_sharding
from pellucid.xla.compile import JaxRuntimeError, compile_module, compile_options


class UnusedDonationWarning(UserWarning):
    """Arguments were donated to a function that can't use their memory."""


class Request(NamedTuple):
    """Everything besides the program that decides an executable."""

    name: str
    placement: Placement
    argument_shardings: tuple[Any, ...]
    """For each argument, a sharding over the placement's devices."""
    result_shardings: tuple[Any, ...] | None
    """For each result a sharding, or None where the compiler decides; None on a single device."""
    donated: tuple[bool, ...] = ()
    keep_unused: bool = False
    committed: bool = False
    compiler_options: tuple[tuple[str, Any], ...] = ()
    argument_names: tuple[str, ...] = ()
    result_names: tuple[str, ...] = ()
    shardy: Any = None
    """Turns shardings into Shardy attributes; None on a single device."""
    infer_result_shardings: Callable[[Any], Sequence[Any]] | None = None
    """From the loaded executable to the shardings the compiler chose."""


class LoweredProgram(NamedTuple):
    """A StableHLO module with what its executable will need."""

    request: Request
    jaxpr: Jaxpr
    """The program that was lowered; its first arguments are the constants."""
    consts: list[Any]
    kept: list[bool]
    module: LoweredModule
    in_avals: tuple[Any, ...]
    aliases: tuple[int | None, ...]


def run_pass(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run one pass over `arguments[0]`."""
    start = time.perf_counter()
    try:
        result = function(*arguments)
    except PellucidError:
        raise
    except (JaxRuntimeError, ValueError, RuntimeError) as error:
        raise _failed(name, error) from error
    if on.pass_finished:
        seconds = time.perf_counter() - start
        publish(on.pass_finished, PassFinished(name, arguments[0], result, seconds))
    if config.enable_checks.value and isinstance(result, Jaxpr):
        check_jaxpr(result)
    return result


def lower_program(program: ClosedJaxpr, request: Request) -> LoweredProgram:
    """From a program to a StableHLO module, in this order."""
    in_avals = program.in_avals
    jaxpr, first_consts = run_pass("discharge references", without_references, program.jaxpr)
    jaxpr, more_consts = run_pass("inline small calls", inline_small_calls, jaxpr)
    consts = [*first_consts, *program.consts, *more_consts]
    jaxpr, consts, kept = run_pass(
        "remove dead equations", _without_dead_code, jaxpr, consts, request
    )
    jaxpr = run_pass("pass constants as arguments", constants_as_inputs, jaxpr)
    module_options = _module_options(jaxpr, len(consts), kept, request)
    module = run_pass("lower to StableHLO", lower_module, jaxpr, module_options, request.shardy)
    aliases = module_options.aliases
    return LoweredProgram(request, jaxpr, consts, kept, module, in_avals, aliases)


def compile_lowered(lowered: LoweredProgram) -> Executable:
    """From a StableHLO module to a loaded executable."""
    request, module = lowered.request, lowered.module
    placement = request.placement
    start = time.perf_counter()
    overrides = xla_options.overrides(request.compiler_options, placement.platform, module.calls)
    options = compile_options(placement.devices, len(placement.devices), overrides)

    def build(_: LoweredProgram) -> tuple[Any, str, dict[int, int] | None]:
        key = disk_cache.key_of(lowered, options)
        cached = disk_cache.load(key, lowered, options) if key is not None else None
        if cached is not None:
            return cached.loaded, "disk", cached.equation_ids
        before = time.perf_counter()
        loaded = interruptible(
            compile_module, placement.client, module.module, placement.devices, options,
            module.host_callbacks,
        )  # fmt: skip
        if key is not None:
            disk_cache.store(key, lowered, loaded, time.perf_counter() - before)
        return loaded, "miss", None

    loaded, cache, equation_ids = run_pass("compile with XLA", build, lowered)
    seconds = time.perf_counter() - start
    executable = _executable(lowered, loaded)
    executable.equation_ids = equation_ids
    if config.log_compiles.value:
        logger.warning("compiled %s in %.3f s (%s)", request.name, seconds, cache)
    if on.compilation_finished:
        publish(
            on.compilation_finished, CompilationFinished(request.name, seconds, cache, executable)
        )  # type: ignore[arg-type]
    return executable


def compile_program(program: ClosedJaxpr, request: Request) -> Executable:
    """From a program to a loaded executable."""
    return compile_lowered(lower_program(program, request))


def _executable(lowered: LoweredProgram, loaded: Any) -> Executable:
    request, jaxpr = lowered.request, lowered.jaxpr
    n_consts = len(lowered.consts)
    one_device = len(request.placement.devices) == 1
    const_sharding = replicated_sharding(request)
    if request.result_shardings is None or any(s is None for s in request.result_shardings):
        if one_device or request.infer_result_shardings is None:
            chosen: Sequence[Any] = [const_sharding] * len(jaxpr.outvars)
        else:
            chosen = request.infer_result_shardings(loaded)
        asked = request.result_shardings or [None] * len(jaxpr.outvars)
        results = [c if a is None else a for a, c in zip(asked, chosen, strict=True)]
    else:
        results = list(request.result_shardings)
    return Executable(
        request.name,
        loaded,
        in_avals=lowered.in_avals,
        out_avals=jaxpr.out_avals,
        in_shardings=[*[const_sharding] * n_consts, *request.argument_shardings],
        out_shardings=results,
        kept=lowered.kept,
        consts=lowered.consts,
        committed=request.committed or not one_device,
        effects=lowered.module.ordered_effects,
        has_side_effects=bool(jaxpr.effects - set(ordered(jaxpr.effects))),
        calls_host=bool(lowered.module.host_callbacks),
        is_small=_is_small(jaxpr),
        keep_alive=(lowered.module.keep_alive, lowered.module.host_callbacks),
    )


_SMALL_BYTES = 1 << 20


def _is_small(jaxpr: Jaxpr) -> bool:
    """Whether all that the equations compute takes so little that nobody need ask XLA what a run allocates.

    Asking takes 150 us and more, which would show in small programs. What inner programs compute isn't known here.
    """
    total = 0
    for equation in jaxpr.equations:
        if subjaxprs(equation.params):
            return False
        total += sum(getattr(var.aval, "nbytes", 0) for var in equation.results)
    return total < _SMALL_BYTES


def replicated_sharding(request: Request) -> Any:
    """The sharding of constants: everywhere in full."""
    if request.shardy is not None:
        return request.shardy.replicated()
    return (
        request.argument_shardings[0] if request.argument_shardings else _single(request.placement)
    )


def _single(placement: Placement) -> Any:
    return make_single_device_sharding(placement.devices[0])


def inline_small_calls(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Any]]:
    """The program in which calls marked `inline` have become part of their caller."""

    def body_of(equation: Equation) -> ClosedJaxpr | None:
        return equation.params.jaxpr if getattr(equation.params, "inline", False) is True else None

    if not any(getattr(e.params, "inline", False) is True for e in jaxpr.equations):
        return jaxpr, []
    return inlined(jaxpr, body_of)


def _without_dead_code(
    jaxpr: Jaxpr, consts: list[Any], request: Request
) -> tuple[Jaxpr, list[Any], list[bool]]:
    pruned, used = remove_dead_equations(jaxpr, keep_inputs=request.keep_unused)
    live = set(pruned.constvars)
    consts = [c for v, c in zip(jaxpr.constvars, consts, strict=True) if v in live]
    return pruned, consts, used


def _module_options(
    jaxpr: Jaxpr, n_consts: int, kept: list[bool], request: Request
) -> ModuleOptions:
    keep = [i for i, k in enumerate(kept) if k]
    donated = (*[False] * n_consts, *(bool(request.donated) and request.donated[i] for i in keep))
    shardings = tuple(request.argument_shardings[i] for i in keep)
    const_sharding = None if request.shardy is None else request.shardy.replicated()
    return ModuleOptions(
        name=request.name,
        platform=request.placement.platform,
        n_partitions=len(request.placement.devices),
        donated=donated,
        aliases=_aliases(jaxpr, donated, request),
        argument_shardings=(*[const_sharding] * n_consts, *shardings),
        result_shardings=request.result_shardings or (),
        result_names=request.result_names,
    )


def _aliases(jaxpr: Jaxpr, donated: Sequence[bool], request: Request) -> tuple[int | None, ...]:
    """For each donated argument, the first result of its type that no other argument took.

    With several devices the partitioner decides layouts, so only XLA can match them.
    """
    if not any(donated) or len(request.placement.devices) > 1:
        return ()
    free: dict[Any, list[int]] = {}
    for i, aval in enumerate(jaxpr.out_avals):
        free.setdefault(_memory_key(aval), []).append(i)
    aliases: list[int | None] = []
    for aval, is_donated in zip(jaxpr.in_avals, donated, strict=True):
        candidates = free.get(_memory_key(aval)) if is_donated else None
        aliases.append(candidates.pop(0) if candidates else None)
    unusable = [
        aval.text()
        for aval, is_donated, alias in zip(jaxpr.in_avals, donated, aliases, strict=True)
        if is_donated and alias is None
    ]
    if unusable:
        warn_user(
            f"`{request.name}` has no result of the type of some donated arguments, so their memory is not "
            f"reused: {', '.join(unusable)}.",
            UnusedDonationWarning,
        )
    return tuple(aliases)


def _memory_key(aval: Any) -> Any:
    return (aval.shape, aval.dtype) if hasattr(aval, "shape") else aval


def _failed(name: str, error: Exception) -> PellucidError:
    return xla_options.error_for(str(error)) or CompilationError(
        f"the pass “{name}” failed.", got=str(error).splitlines()[:30]
    )
