"""The compilation pipeline: all named passes in order.

`lower_jaxpr` and `compile_lowered` list the passes. `run_pass` runs, times and publishes one, and converts failures
to errors that name it. All passes run this way.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    CompilationError,
    CompilationFinished,
    DeviceError,
    Function,
    Names,
    PassFinished,
    Symbol,
    UnsupportedError,
    config,
    interruptible,
    logger,
    on,
    publish,
    stage_events,
    strict_zip,
    warn_user,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Mask,
    Values,
    aval_at,
    check_jaxpr,
    constants_as_inputs,
    inline_programs,
    remove_dead_equations,
    subjaxprs,
)
from pellucid._machine.lowering.brief_programs import is_brief
from pellucid._machine.lowering.module import (
    LoweredModule,
    ModuleOptions,
    lower_module,
    ordered_effects_of,
)
from pellucid._machine.runtime.executable import MIN_LARGE_BYTES, Executable, Precompiled
from pellucid._machine.runtime.failures import callback_failure
from pellucid._machine.sharding import NamedSharding, PartitionSpec
from pellucid._machine.sharding.errors import AbstractPlacementError
from pellucid._machine.sharding.layout import AutoLayout, Layout
from pellucid._machine.sharding.mesh import AnyMesh
from pellucid._machine.sharding.placement import replicated_placement
from pellucid._machine.tracing import without_references
from pellucid._machine.xla import (
    ARRAY_TYPES,
    GPU_TARGETS,
    Device,
    ExtendedArray,
    GpuFacts,
    JaxRuntimeError,
    OpSharding,
    PluginMissingError,
    compile as xla_compile,
    compile_only_gpus,
    cudnn_version,
    gpu_target,
)
from pellucid._machine.xla.compile import LoadedExecutable, compile_only, compile_options
from pellucid._machine.xla.mlir import bytecode_without_locations

from . import disk_cache, dumps, executable_cache, options as xla_options
from .executable_cache import Loaded
from .placement import ExecutionPlacement, Shardings, mesh_over_devices, over_devices
from .shardy import ShardyAttributes, as_arguments, chosen_shardings


class UnusedDonationWarning(UserWarning):
    """Arguments were donated to a function that can't reuse their memory."""


Layouts = tuple[Layout | AutoLayout | None, ...] | None
"""The memory layout of each of several values, None for the device's default; None if all have it."""


class Request(NamedTuple):
    """Everything besides the program that determines the executable."""

    name: str
    placement: ExecutionPlacement
    argument_shardings: Shardings
    """For each argument, a sharding over the placement's devices."""
    result_shardings: Shardings | None
    """A sharding for each result; None if the compiler chooses them."""
    donated: Mask = ()
    keep_unused: bool = False
    committed: bool = False
    compiler_options: tuple[tuple[str, Any], ...] = ()
    argument_names: Names = ()
    result_names: tuple[str | None, ...] = ()
    argument_layouts: Layouts = None
    result_layouts: Layouts = None
    mesh: AnyMesh | None = None
    """The mesh whose axes name the shardings that the compiler chooses."""
    other_platforms: Names = ()
    """The platforms whose operations the module contains, if not only that of the devices; such a module can't be
    compiled.
    """
    is_portable: bool = False
    """Whether the module contains its constants instead of taking them as arguments, and nothing specific to this
    process.
    """
    is_exact: bool = False
    """Whether products and quotients are rounded as in eager operations (`lowering/exact.py`)."""

    @property
    def is_partitioned(self) -> bool:
        """Whether the program refers to meshes, or runs on several devices."""
        return self.mesh is not None or self.placement.size > 1

    @property
    def replicated_sharding(self) -> Any:
        """The sharding of a value that is replicated on all devices, over the mesh if there is one."""
        if self.mesh is not None:
            return NamedSharding(self.mesh, PartitionSpec())
        return replicated_placement(self.placement.devices)


class CompilationUnit(NamedTuple):
    """A StableHLO module, with all that its compilation needs: the request, constants, types and placements."""

    request: Request
    jaxpr: Jaxpr
    """The jaxpr that was lowered; its first inputs are the constants."""
    consts: Values
    used: Mask
    """Whether the module takes each argument of the program; unused ones are dropped."""
    module: LoweredModule
    in_avals: Avals
    options: ModuleOptions
    const_shardings: Shardings = ()


def run_pass(name: str, function: Function, *arguments: Any) -> Any:
    """Run one pass; `arguments[0]` is its input."""
    start = time.perf_counter()
    try:
        result = function(*arguments)
    except Exception as error:
        if type(error) not in (JaxRuntimeError, ValueError, RuntimeError):
            raise  # an error of pellucid, or of a user's rule or hook
        text = str(error)
        failure = (
            callback_failure(text)
            or xla_options.error_for(text)
            or CompilationError(f"the pass “{name}” failed.", got=text.splitlines()[:30])
        )
        raise failure from (failure.__cause__ or error)
    if on.pass_finished:
        seconds = time.perf_counter() - start
        publish(PassFinished(name, arguments[0], result, seconds))
    if config.enable_checks.value and isinstance(result, Jaxpr):
        check_jaxpr(result)
    return result


def lower_jaxpr(program: ClosedJaxpr, request: Request) -> CompilationUnit:
    """Lowers a closed jaxpr to a StableHLO module: runs the passes in this order."""
    with stage_events("lower", request.name, program.jaxpr):
        in_avals = program.in_avals
        is_symbolic = any(map(symbols_of, in_avals))
        request = request._replace(
            result_shardings=_result_shardings(program.out_avals, request),
            keep_unused=request.keep_unused or is_symbolic,  # sizes may be known only from shapes
        )
        jaxpr, first_consts = run_pass("discharge references", without_references, program.jaxpr)
        inline = functools.partial(inline_small_calls, is_partitioned=request.is_partitioned)
        jaxpr, more_consts = run_pass("inline small calls", inline, jaxpr)
        # (variable, value) of each constant: of references, of the program, of inlined calls.
        all_consts = strict_zip(jaxpr.constvars, [*first_consts, *program.consts, *more_consts])
        prune = functools.partial(remove_dead_equations, keep_inputs=request.keep_unused)
        jaxpr, used = run_pass("remove dead equations", prune, jaxpr)
        # Constants that are still used; `used` has a flag per argument.
        live = set(jaxpr.constvars)
        all_consts = [(var, c) for var, c in all_consts if var in live]
        # A portable module contains its constants (`embedded`); otherwise they are its first arguments (`consts`).
        embedded = {v: _host_elements(c, v.aval) for v, c in all_consts if request.is_portable}
        consts: Values = [c for var, c in all_consts if var not in embedded]
        if not request.is_portable and not request.is_partitioned:
            layers_called = functools.partial(late("with layers called"), is_final=True)
            jaxpr = run_pass("call repeated layers", layers_called, jaxpr)
        # Before: the used arguments. After: constants that aren't embedded, then these.
        jaxpr = run_pass("pass constants as arguments", constants_as_inputs, jaxpr, embedded)
        const_shardings = tuple(_const_sharding(c, request) for c in consts)
        dumps.warn_of_large_constants(request.name, consts)
        options = _module_options(jaxpr, const_shardings, used, request)._replace(
            constants=tuple(embedded.values()), identifies_equations=not request.is_portable,
            equations=_equations(jaxpr, request) if is_symbolic else None,
        )  # fmt: skip
        shardy = shardy_attributes(request)
        module = run_pass("lower to StableHLO", lower_module, jaxpr, options, shardy)
        dumps.dump_program(request.name, program, module.module)
        return CompilationUnit(
            request, jaxpr, consts, used, module, in_avals, options, const_shardings
        )


def symbols_of(aval: Any) -> list[Symbol]:
    """The symbolic sizes in a type."""
    return [size for size in getattr(aval, "shape", ()) if isinstance(size, Symbol)]


def _equations(jaxpr: Jaxpr, request: Request) -> Any:
    """The equations between a program's dimension variables and the sizes of its inputs."""
    avals = jaxpr.in_avals
    names = request.argument_names
    # Names belong to the last inputs; constants precede them.
    unnamed = [f"argument {i}" for i in range(len(avals) - len(names))]
    symbol = next(symbol for aval in avals for symbol in symbols_of(aval))
    return symbol.equations([getattr(a, "shape", ()) for a in avals], [*unnamed, *names])


def shardy_attributes(request: Request) -> ShardyAttributes | None:
    """The writer of a program's shardings as attributes of its module; None for single-device programs."""
    if not request.is_partitioned:
        return None
    placement = request.placement
    return ShardyAttributes(placement.device_list, placement.size, request.mesh)


def compile_lowered(lowered: CompilationUnit) -> Executable:
    """Turns a StableHLO module into a loaded executable: from a cache, or compiled."""
    request, module = lowered.request, lowered.module
    placement = request.placement
    if placement.abstract_mesh is not None:
        raise AbstractPlacementError(
            f"`{request.name}` can't be compiled: the devices that it runs on are not known.",
            got=f"its arguments are placed over {placement.abstract_mesh}",
            do="Lower it with shardings over a Mesh of devices, or under `set_mesh(mesh)`, to compile it.",
        )
    if request.other_platforms:
        raise DeviceError(
            f"`{request.name}` can't be compiled here: it was lowered for another platform.",
            got=f"lowered for {', '.join(request.other_platforms)}, devices: {placement.platform}",
            do="Lower it without `lowering_platforms`, or where there is such a device.",
        )
    if lowered.options.equations is not None:
        raise CompilationError(
            f"`{request.name}` can't be compiled: sizes of its arguments are symbolic.",
            got=", ".join(aval.text() for aval in lowered.in_avals if symbols_of(aval)),
            do="Compile it for arguments whose sizes are integers, or call what `export.export` makes of it.",
        )
    start = time.perf_counter()
    options = _compile_options(lowered, placement.platform, placement.devices)
    asked_disk = False

    def build(_: CompilationUnit) -> tuple[Loaded, Precompiled | None]:
        nonlocal asked_disk
        content = executable_cache.content_of(lowered)
        if content is None:
            return Loaded(compile_and_time()[0], lowered.module), None
        # If a folder is set, programs compiled before it was set are stored there too.
        key = executable_cache.key_of(lowered, options, content), disk_cache.folder()
        # Looked up in this process, then on disk; compiled if it is in neither.
        known = executable_cache.executables.get(key)
        if known is not None:
            return known, known.facts_for(module.origins)
        path = disk_cache.entry_of(lowered, options, content)
        asked_disk = path is not None
        from_disk = None if path is None else disk_cache.load(path, lowered, options)
        if from_disk is not None:
            executable, facts = from_disk
        else:
            (executable, compile_seconds), facts = compile_and_time(), None
            if path is not None:
                disk_cache.store(path, lowered, options, executable, compile_seconds)
        loaded = Loaded(executable, module, facts)
        executable_cache.executables.add(key, loaded, executable_cache.size_of(lowered.jaxpr))
        return loaded, facts

    def compile_and_time() -> tuple[LoadedExecutable, float]:
        before = time.perf_counter()
        with stage_events("compile", request.name, lowered.jaxpr), _failures_of(module):
            executable = interruptible(
                xla_compile.compile_module, placement.client, module.module, placement.devices, options,
                module.host_callbacks,
            )  # fmt: skip
        for check in module.checks:
            check(executable)
        return executable, time.perf_counter() - before

    loaded, facts = run_pass("compile with XLA", build, lowered)
    seconds = time.perf_counter() - start
    executable = _executable(lowered, loaded, facts)
    cache = "miss" if facts is None else facts.source
    if config.log_compiles.value:
        logger.warning("compiled %s in %.3f s (%s)", request.name, seconds, cache)
    if on.compilation_finished:
        stored = 0.0 if facts is None else facts.seconds
        publish(CompilationFinished(request.name, seconds, cache, executable, asked_disk, stored))
    return executable


def compile_without_devices(lowered: CompilationUnit) -> Any:
    """Compile a program for an abstract mesh of GPUs of a known kind; the result can't run.

    Raises: AbstractPlacementError for another mesh, or if no plugin can compile for it.
    """
    request, module = lowered.request, lowered.module
    mesh = request.placement.abstract_mesh
    device = None if mesh is None else mesh.abstract_device
    if mesh is None or device is None:
        raise AbstractPlacementError("the mesh doesn't say of which kind its devices are.")
    target = gpu_target(device.device_kind)
    if target is None:
        raise AbstractPlacementError(
            f"nothing can be compiled for the kind {device.device_kind!r} without a device of it.",
            do=f"Known kinds are {', '.join(GPU_TARGETS)}.",
        )
    try:
        devices = compile_only_gpus(target, mesh.size)
    except PluginMissingError as error:
        raise AbstractPlacementError(
            f"{error}, which would compile for {target.description}."
        ) from None
    options = _compile_options(lowered, "gpu", devices)

    def build(module: LoweredModule) -> Any:
        with _failures_of(module):
            return compile_only(module.module, devices, options)

    return run_pass("compile with XLA", build, module)


def _compile_options(lowered: CompilationUnit, platform: str, devices: Sequence[Device]):
    request, module = lowered.request, lowered.module
    overrides = xla_options.overrides(
        request.compiler_options, platform, module.calls, module.largest_contraction,
        is_brief=platform == "cpu" and not request.is_partitioned and is_brief(module.module),
    )  # fmt: skip
    options = compile_options(devices, overrides, is_partitioned=request.is_partitioned)
    for option in (config.exec_time_optimization_effort, config.memory_fitting_effort):
        if option.value == option.default:
            continue
        if not hasattr(options.executable_build_options, option.name):  # jaxlib 0.12
            raise UnsupportedError(
                f"the option {option.name!r} has no effect with this jaxlib, which has dropped it.",
                got=f"{option.name} = {option.value}, jaxlib {xla_compile.jaxlib_version}",
                do="Leave it at its default.",
            )
        setattr(options.executable_build_options, option.name, option.value)
    return options


@contextlib.contextmanager
def _failures_of(module: LoweredModule) -> Iterator[None]:
    """If a user's function called by the compiler raised an exception, raise it instead of the compiler's report."""
    try:
        yield
    except JaxRuntimeError:
        for callback in module.keep_alive:
            if (failure := getattr(callback, "failure", None)) is not None:
                raise failure from None
        raise


def compile_program(program: ClosedJaxpr, request: Request) -> Executable:
    """Lowers a program and turns it into a loaded executable."""
    return compile_lowered(lower_jaxpr(program, request))


def _executable(lowered: CompilationUnit, shared: Loaded, facts: Precompiled | None) -> Executable:
    request, jaxpr, loaded = lowered.request, lowered.jaxpr, shared.executable
    arguments, results = _placements(lowered, loaded)
    return Executable(
        name=request.name,
        loaded=loaded,
        in_avals=lowered.in_avals,
        out_avals=tuple(map(aval_at, jaxpr.out_avals, results)),
        # One per constant, then one per argument of the program, including unused ones.
        in_shardings=[*lowered.const_shardings, *arguments],
        out_shardings=results,
        used=lowered.used,
        consts=lowered.consts,
        committed=request.committed or request.placement.size > 1,
        donated=request.donated,
        effects=tuple(lowered.module.ordered_effects),
        has_side_effects=bool(jaxpr.effects - set(ordered_effects_of(jaxpr.effects))),
        calls_host=bool(lowered.module.host_callbacks),
        host_failures=[f for f in shared.host_failures if f is not None],
        is_small=_computed_bytes(jaxpr) < MIN_LARGE_BYTES,
        has_layouts=bool(request.argument_layouts or request.result_layouts),
        keep_alive=(lowered.module.keep_alive, lowered.module.host_callbacks),
        digest=_digest(lowered),
        jaxpr=jaxpr,
        precompiled=facts,
        shared=shared,
    )


def _digest(lowered: CompilationUnit) -> str:
    """A short text that is equal in all processes that lowered the same program, to compare programs that run across
    processes.

    Empty for other programs, and for a program that contains addresses of this process's objects.
    """
    devices = lowered.request.placement.device_list
    if devices is None or devices.is_fully_addressable or lowered.module.keep_alive:
        return ""
    return hashlib.sha256(bytecode_without_locations(lowered.module.module)).hexdigest()[:8]


def _placements(lowered: CompilationUnit, loaded: LoadedExecutable) -> tuple[Values, Values]:
    """The shardings of the executable's (arguments without constants, results)."""
    request, whole = lowered.request, lowered.request.replicated_sharding
    n_tokens = len(lowered.module.ordered_effects)
    arguments = list(request.argument_shardings)
    if None in arguments:
        # Parameters of the executable: tokens, constants, then the `used` arguments.
        used = [i for i, k in enumerate(lowered.used) if k]
        messages = (loaded.get_parameter_shardings() or ())[n_tokens + len(lowered.consts) :]
        avals = [lowered.in_avals[i] for i in used]
        # By position of the argument; unused ones may have any sharding and get `whole`.
        chosen = dict(
            strict_zip(used, _compiler_shardings(request, messages, [None] * len(used), avals))
        )
        arguments = [chosen.get(i, whole) if a is None else a for i, a in enumerate(arguments)]
    avals = lowered.jaxpr.out_avals
    results = list(request.result_shardings or [None] * len(avals))
    if None in results:
        # For each result its memory kind, and the compiler's sharding; on one device there is none.
        kinds, messages = [None] * len(avals), ()
        if request.is_partitioned or any(getattr(a, "memory_space", None) for a in avals):
            # Results of the executable: tokens, then those of the program.
            kinds = loaded.get_output_memory_kinds()[0][n_tokens:]
            messages = (loaded.get_output_shardings() or ())[n_tokens:]
        chosen = _compiler_shardings(request, messages, kinds, avals)
        chosen = as_arguments(chosen, avals, request.argument_shardings, lowered.in_avals)
        results = [c if r is None else r for r, c in strict_zip(results, chosen)]
    return arguments, results


def _compiler_shardings(
    request: Request, messages: Sequence[OpSharding], kinds: Sequence[str | None], avals: Avals
) -> list[Any]:
    """The shardings that the compiler chose for values of types `avals`, according to its `messages`."""
    if request.is_partitioned and messages:
        devices: Any = request.placement.device_list
        return chosen_shardings(messages, kinds, avals, devices, request.mesh)  # type: ignore[arg-type]
    whole = request.replicated_sharding
    return [whole if kind is None else whole.with_memory_kind(kind) for kind in kinds]


def _computed_bytes(jaxpr: Jaxpr) -> int:
    """Total bytes of all equations' results, without reuse of memory; loops count one iteration.

    If there are few, XLA needn't be asked how much a run allocates, which takes from 150 us to 0.1 s, because it
    returns the assignment of all buffers.
    """

    def total() -> int:
        results = (var for equation in jaxpr.equations for var in equation.results)
        inner = (program for e in jaxpr.equations for program in subjaxprs(e.params))
        n_bytes = sum(getattr(var.aval, "nbytes", 0) for var in results)
        return n_bytes + sum(map(_computed_bytes, inner))

    return jaxpr.remembered("computed bytes", total)


def _result_shardings(avals: Avals, request: Request) -> Shardings | None:
    """For each result the specified sharding, else that in its type if all mesh axes are Explicit, else None."""
    stated, mesh = request.result_shardings, request.mesh
    if stated is not None:
        stated = tuple([over_devices(sharding, request.placement) for sharding in stated])
    if mesh is None or not mesh.are_all_axes_explicit:
        return stated
    stated = stated or (None,) * len(avals)
    return tuple(
        [
            _sharding_of_type(aval, request) if sharding is None else sharding
            for aval, sharding in strict_zip(avals, stated)
        ]
    )


def _sharding_of_type(aval, request: Request):
    """The sharding in a type, over the program's mesh or the one that was current where the type was created."""
    mesh: Any = request.mesh
    shown = getattr(aval, "shown_sharding", None)
    if shown is not None and shown.mesh.shape_tuple != mesh.shape_tuple:
        mesh = mesh_over_devices(shown.mesh, request.placement)
    spec = PartitionSpec() if shown is None else shown.spec
    space = getattr(aval, "memory_space", None)
    kind = None if space is None else space.memory_kind
    return NamedSharding(mesh, spec.padded(getattr(aval, "ndim", 0)), kind)


def _host_elements(const: Any, aval: Any) -> np.ndarray:
    """The elements of a constant, converted to its type in the program; for keys, their words."""
    if isinstance(const, ExtendedArray):
        return np.asarray(const.words)
    return np.asarray(const).astype(aval.dtype, copy=False)


def _const_sharding(const, request: Request):
    """The required sharding of a constant: values on the program's devices keep theirs, others are replicated."""
    if type(const) in ARRAY_TYPES and request.placement.size > 1:
        sharding, devices = const._sharding, request.placement.device_list
        if devices is not None and sharding._internal_device_list == devices:
            return sharding
    return request.replicated_sharding


def inline_small_calls(jaxpr: Jaxpr, *, is_partitioned: bool) -> tuple[Jaxpr, Values]:
    """The program with calls marked `inline` inlined; if it is partitioned, those of repeated layers, too.

    XLA combines what several layers send into one message, but not across calls.
    """

    def body_of(equation: Equation) -> ClosedJaxpr | None:
        params = equation.params
        is_inlined = getattr(params, "inline", False) is True or (
            is_partitioned and getattr(params, "is_layer", False)
        )
        return params.jaxpr if is_inlined else None

    if not any(map(body_of, jaxpr.equations)):
        return jaxpr, []
    return inline_programs(jaxpr, body_of)


def _module_options(
    jaxpr: Jaxpr, const_shardings: Sequence[Any], used: Mask, request: Request
) -> ModuleOptions:
    # Positions of the arguments that the module takes. In the lists for the module, constants come first, then these.
    keep = [i for i, k in enumerate(used) if k]
    n_consts = len(const_shardings)
    # Constants are needed by later calls, so they are never donated.
    donated = (*[False] * n_consts, *(bool(request.donated) and request.donated[i] for i in keep))
    arguments = tuple(request.argument_shardings[i] for i in keep)
    return ModuleOptions(
        name=request.name,
        platforms=request.other_platforms or (request.placement.platform,),
        n_partitions=request.placement.size,
        donated=donated,
        aliases=_aliases(jaxpr, donated, request),
        argument_shardings=(*const_shardings, *arguments),
        result_shardings=request.result_shardings or (),
        argument_names=tuple([request.argument_names[i] for i in keep if request.argument_names]),
        result_names=request.result_names,
        replicated=request.replicated_sharding,
        argument_layouts=_layout_modes(
            request.argument_layouts
            and (*[None] * n_consts, *(request.argument_layouts[i] for i in keep)),
            jaxpr.in_avals,
        ),
        result_layouts=_layout_modes(request.result_layouts, jaxpr.out_avals),
        is_exact=request.is_exact,
        gpu=_gpu_facts(request),
    )


def _gpu_facts(request: Request) -> GpuFacts | None:
    """Facts of the NVIDIA GPUs that a program is for; None for other devices, and where they aren't known."""
    placement = request.placement
    if request.other_platforms or placement.platform != "cuda":
        return None
    if placement.abstract_mesh is None:
        major, _, minor = getattr(placement.devices[0], "compute_capability", "").partition(".")
        if not major.isdigit():
            return None
        return GpuFacts((int(major), int(minor or 0)), cudnn_version())
    device = placement.abstract_mesh.abstract_device
    target = None if device is None else gpu_target(device.device_kind)
    return None if target is None else target.facts


def _layout_modes(layouts: Layouts, avals: Avals) -> Names:
    """Layouts in the form that XLA reads as attributes of the main function's arguments and results."""
    if layouts is None:
        return ()
    return tuple(
        [
            layout._to_xla_layout(aval.dtype).to_string()
            if isinstance(layout, Layout)
            else "default"
            if layout is None
            else "auto"
            for layout, aval in strict_zip(layouts, avals)
        ]
    )


def _aliases(jaxpr: Jaxpr, donated: Mask, request: Request) -> tuple[int | None, ...]:
    """For each donated argument, the first result of its type that no other argument is aliased to.

    With several devices the partitioner chooses layouts, so only XLA can match them.
    """
    if not any(donated) or request.placement.size > 1:
        return ()
    # Positions of results not yet aliased, by type, in order.
    free = {}
    for i, aval in enumerate(jaxpr.out_avals):
        free.setdefault(_memory_key(aval), []).append(i)
    aliases = []
    for aval, is_donated in strict_zip(jaxpr.in_avals, donated):
        candidates = free.get(_memory_key(aval)) if is_donated else None
        aliases.append(candidates.pop(0) if candidates else None)
    unusable = [
        aval.text()
        for aval, is_donated, alias in strict_zip(jaxpr.in_avals, donated, aliases)
        if is_donated and alias is None
    ]
    if unusable:
        warn_user(
            f"`{request.name}` has no result of the type of some donated arguments, so their memory is not "
            f"reused: {', '.join(unusable)}.",
            UnusedDonationWarning,
        )
    return tuple(aliases)


def _memory_key(aval):
    return (aval.shape, aval.dtype) if hasattr(aval, "shape") else aval
