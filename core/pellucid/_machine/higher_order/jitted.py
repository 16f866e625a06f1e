"""`jit`: trace once for each kind of arguments, compile, and call through C++."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    CacheLooked,
    ExecutionError,
    Function,
    IntegerRangeError,
    NonFiniteError,
    cached,
    capture,
    clearing,
    config,
    is_by_tool,
    logger,
    on,
    publish,
    strict_zip,
)
from pellucid._machine.base.late import late
from pellucid._machine.compilation import interception, key_reuse
from pellucid._machine.compilation.finite import check_results, is_checking
from pellucid._machine.compilation.interception import Pending
from pellucid._machine.compilation.options import frozen
from pellucid._machine.compilation.pipeline import (
    LoweredProgram,
    Request,
    compile_lowered,
    lower_program,
)
from pellucid._machine.compilation.placement import (
    ResolvedPlacement,
    placements_in,
    resolved_placement,
)
from pellucid._machine.ir import (
    ClosedJaxpr,
    DebugInfo,
    Operands,
    Values,
    forget_sources,
)
from pellucid._machine.runtime import donation, platforms
from pellucid._machine.runtime.calls import clear_entries, make_call, shared_entries
from pellucid._machine.runtime.executable import Executable
from pellucid._machine.sharding.errors import LayoutError
from pellucid._machine.sharding.layout import Layout
from pellucid._machine.tracing import (
    FunctionCall,
    FunctionSpec,
    Tracer,
    ValueProgram,
    bind,
    check_distinct,
    check_results_are_values,
    code_of,
    compares_by_identity,
    context,
    name_of,
    replay,
    resolve_arguments,
    result_paths,
    stage,
    type_of,
)
from pellucid._machine.transforms import check_callable
from pellucid._machine.xla import ARRAY_TYPES, LibraryValues, flatten, trace_context

from . import misses, stages
from .calls import JitParams, jit_p
from .compiled_calls import no_callable, wrapped
from .jit_shardings import (
    Layouts,
    Stated,
    for_arguments,
    for_results,
    layouts,
    stated,
    typed_by,
    with_constraints,
)
from .misses import Miss, ProgramKey, reasons_for, reasons_for_function, reasons_for_place


@dataclass(eq=False, slots=True, weakref_slot=True)
class TracedProgram:
    """A traced function: its program, what it closes over, its executables by where they run."""

    params: JitParams
    consts: Values
    out_tree: Any
    call: FunctionCall
    debug_info: DebugInfo
    """Names of the call's arguments, which are worked out once."""
    in_layouts: Layouts = None
    out_layouts: Layouts = None
    is_exact: bool = field(default_factory=lambda: config.exact_arithmetic.value)
    """What the option `exact_arithmetic` was when it was traced."""
    executables: dict[ResolvedPlacement, Executable] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)  # pyright: ignore[reportGeneralTypeIssues]
    """Held while an executable is compiled: threads that need the same one wait for it."""
    miss: Miss | None = None
    nested: JitParams | None = None
    in_shardings: Any = field(init=False)
    values: ValueProgram = field(init=False)
    """The program that is compiled."""

    def __post_init__(self) -> None:
        placements = self.params.in_shardings
        self.in_shardings = None if placements is None else placements[len(self.consts) :]
        self.values = ValueProgram(self.params.jaxpr.jaxpr, self.consts)

    @property
    def is_of_tool(self) -> bool:
        """Whether only viewers have used it."""
        return self.miss is not None and self.miss.is_by_tool

    def params_of_call(self) -> JitParams:
        """The params of a call from another program: there, placements are constraints inside."""
        params = self.params
        if params.in_shardings is None and params.out_shardings is None:
            return params
        if self.nested is None:
            avals = [*map(type_of, self.consts), *self.call.avals]
            program = with_constraints(
                params.jaxpr.jaxpr, avals, params.in_shardings, params.out_shardings
            )
            self.nested = params._replace(jaxpr=program)
        return self.nested


_MAX_FUNCTIONS = 4096
"""Functions whose programs are found again when they are jitted again."""
_lock = threading.RLock()
"""Held while the list of all jitted functions is looked at or changed."""


@cached(_MAX_FUNCTIONS, weakly=True)
def _programs_of(function: Function, options: tuple[Any, ...]) -> dict[ProgramKey, TracedProgram]:
    """The programs of all forms of one function object that are jitted with these options."""
    return {}


def _is_traced(x) -> bool:
    return isinstance(x, Tracer)


def _layout_of(x, has_effects: bool) -> Layout | None:
    """The layout of a ShapeDtypeStruct, or of a committed array whose elements aren't in the usual order; else None.

    Programs with effects take arrays in the usual order.
    """
    if type(x) not in ARRAY_TYPES:
        return getattr(x, "layout", None)
    if has_effects or not x._committed or x.is_deleted():
        return None
    layout = x.format.layout
    is_usual = layout is None or layout.major_to_minor == tuple(range(x.ndim))
    return None if is_usual else layout


def _fits(value: int, dtype) -> bool:
    limits = np.iinfo(dtype)
    return limits.min <= value <= limits.max


@dataclass(eq=False)
class Jitted:
    """The Python side of a jitted function: its programs and executables."""

    spec: FunctionSpec
    _: KW_ONLY
    inline: bool = False
    keep_unused: bool = False
    device: Any = None
    compiler_options: tuple[tuple[str, Any], ...] = ()
    in_shardings: Stated | None = None
    out_shardings: Stated | None = None
    share: bool = True
    """False for pellucid's own functions."""
    programs: dict[ProgramKey, TracedProgram] = field(init=False)
    callable: Function = no_callable
    """The C++ callable, referred to weakly."""

    def __post_init__(self) -> None:
        function = self.spec.function
        is_found_again = self.share and compares_by_identity(function)
        self.programs = _programs_of(function, self.options_key()) if is_found_again else {}
        with _lock:
            _all_jitted.add(self)

    def options_key(self) -> tuple[Any, ...]:
        """The part of the cache key that depends on neither function nor arguments."""
        spec = self.spec
        return (
            code_of(spec.function), spec.static_nums, spec.static_names, spec.donated_nums, spec.donated_names, self.inline,
            self.keep_unused, self.device, self.compiler_options, self.in_shardings, self.out_shardings,
        )  # fmt: skip

    def call_of_jit(self) -> tuple[Function, tuple[Function]]:
        """(`jit` with the options of this function, (the user's function,)), as which it is pickled."""
        spec = self.spec
        options = {
            "static_argnums": spec.static_nums, "static_argnames": spec.static_names,
            "donate_argnums": spec.donated_nums, "donate_argnames": spec.donated_names,
            "inline": self.inline, "keep_unused": self.keep_unused, "device": self.device,
            "compiler_options": dict(self.compiler_options), "in_shardings": _as_stated(self.in_shardings),
            "out_shardings": _as_stated(self.out_shardings),
        }  # fmt: skip
        options = {name: value for name, value in options.items() if value}
        return functools.partial(jit, **options) if options else jit, (spec.function,)

    def __reduce__(self) -> Any:
        return _jitted_of, self.call_of_jit()

    def cache_miss(self, *args: Any, **kwargs: Any) -> Any:
        """Callback of C++ for a call without an executable: (results, fast path that runs without Python, or None)."""
        try:
            return self._results(self.spec.call(args, kwargs))
        except LibraryValues:
            return late("call with values of libraries")(self, args, kwargs), None
        except BaseException:
            # After an exception, C++ would call Python for all later calls of this kind.
            self.clear_fast_paths()
            raise

    def _results(self, call: FunctionCall):
        program = self.program(call)
        if program.values.takes_references:
            names = ["used from outside"] * len(program.consts)
            names += self.spec.debug_info(call).argument_names
            check_distinct(f"`{self.spec.name}`", names, [*program.consts, *call.leaves])
        if not context.trace.is_eager or any(map(_is_traced, [*program.consts, *call.leaves])):
            return program.out_tree.unflatten(self.staged(program, call.leaves)), None
        executable = self.executable(program, call.leaves)
        if program.in_layouts is not None:
            self._check_layouts(program.in_layouts, call)
        values = program.values
        operands = values.operands(call.leaves)
        follows_keys = key_reuse.is_checking()
        records = (
            key_reuse.follow_program(
                program.params.jaxpr, [*program.consts, *call.leaves], knows_operands=not self.share
            )
            if follows_keys
            else ()
        )
        runner = interception.runner if self.share else None
        pending = Pending(
            self.spec.name, values.closed, operands, executable, self.clear_fast_paths
        )
        try:
            stepped = runner and runner.run(pending)
            results = values.settle(
                call.leaves, executable(operands) if stepped is None else stepped
            )
            if is_checking():
                check_results(self.spec.name, results, values.closed, operands)
        except IntegerRangeError as error:
            raise self._at_argument(error, call) from None
        except (ExecutionError, NonFiniteError) as error:
            error.failed_call = pending
            raise
        if follows_keys:
            key_reuse.remember(results, records)
        tree, is_kept = interception.returned(program.out_tree, results, pending)
        if is_checking() or values.takes_references or follows_keys or stepped is not None:
            return tree, None
        return tree, None if is_kept else executable.fast_path(program.out_tree, call.leaves)

    def _check_layouts(self, layouts: Sequence[Any], call: FunctionCall) -> None:
        """Raise LayoutError for arrays that the user put in another order than `in_shardings` state."""
        for i, (x, layout) in enumerate(strict_zip(call.leaves, layouts)):
            if type(x) not in ARRAY_TYPES or not x._committed or not isinstance(layout, Layout):
                continue
            actual = x.format.layout
            if actual.major_to_minor != layout.major_to_minor or actual.tiling != (
                layout.tiling or actual.tiling
            ):
                raise LayoutError(
                    f"`{self.spec.name}` got an array whose elements are in another order than its `in_shardings` say.",
                    got=[
                        f"{self.spec.debug_info(call).argument_names[i]}: {actual}",
                        f"in_shardings: {layout}",
                    ],
                    do="Put it there first, `device_put(x, format)`, or ask for `Layout.AUTO`.",
                )

    def _at_argument(self, error: IntegerRangeError, call: FunctionCall) -> IntegerRangeError:
        """`error`, with the names of the arguments that are too large."""
        names = self.spec.debug_info(call).argument_names
        paths = [
            name
            for name, leaf, aval in strict_zip(names, call.leaves, call.avals)
            if type(leaf) is int and not _fits(leaf, aval.dtype)
        ]
        what = f"`{self.spec.name}`: a Python integer is too large for its argument's dtype."
        got = [f"{path}: {text}" for path, text in zip(paths, error.got * len(paths), strict=False)]
        return IntegerRangeError(what, got=got, do=error.do)

    def staged(self, program: TracedProgram, leaves: Operands) -> Values:
        """Results of a call under a trace."""
        params = program.params_of_call()
        if params.inline:
            return replay(params.jaxpr.jaxpr, (), *program.consts, *leaves)
        return bind(jit_p, *program.consts, *leaves, params=params)

    def clear_cache(self) -> None:
        """Forget this function's programs and executables."""
        self.programs.clear()
        self.clear_fast_paths()

    def clear_fast_paths(self) -> None:
        """Let the next calls of each kind come through Python; programs and executables stay."""
        clear_entries(self.callable())

    # Programs ---------------------------------------------------------------------------------

    def program(self, call: FunctionCall) -> TracedProgram:
        """The program for a call's arguments, traced unless it is cached."""
        key = ProgramKey(call.tree, call.avals, call.static, trace_context())
        program = self.programs.get(key)
        if program is not None:
            if program.is_of_tool and not is_by_tool.get():
                self._note_miss(program, key, call, program.miss.trace_seconds)  # pyright: ignore[reportOptionalMemberAccess]
            elif on.cache_looked:
                publish(CacheLooked(self.spec.name, self.spec.function, True))
            return program
        start = time.perf_counter()
        tracing = interception.tracing if self.share else contextlib.nullcontext
        with tracing():
            program = self.trace(call)
        self._note_miss(program, key, call, time.perf_counter() - start)
        if any(map(_is_traced, program.consts)):
            return program
        # Another thread may have traced the function meanwhile: all take the same program, compiled once.
        program = self.programs.setdefault(key, program)
        if self.share:
            with _lock:
                _users_programs.add(program)
        return program

    def _note_miss(
        self, program: TracedProgram, key: ProgramKey, call: FunctionCall, seconds: float
    ) -> None:
        if not self.share:  # pellucid's own functions
            return
        earlier = [each for each, program in self.programs.items() if not program.is_of_tool]
        if earlier:
            reasons = reasons_for(key, earlier, self.spec.debug_info(call).argument_names)
        else:
            reasons = reasons_for_function(None if is_by_tool.get() else self.spec.function)
        miss = program.miss = Miss(
            self.spec.name, reasons, capture(), seconds, entry_count=len(earlier) + 1
        )
        if config.explain_cache_misses.value and not miss.is_by_tool:
            logger.warning("%s", misses.explanation(miss))
        self._publish_miss(miss, key)

    def _publish_miss(self, miss: Miss, key: ProgramKey | None) -> None:
        if not miss.is_by_tool:
            misses.recent.append(miss)
        if on.cache_looked:
            event = CacheLooked(self.spec.name, self.spec.function, False, miss, key)
            publish(event)

    def trace(self, call: FunctionCall) -> TracedProgram:
        """Trace the function for a call's arguments."""
        spec = self.spec
        trees: list[Any] = []
        # What refers to the call outlives it where tracing fails, and must not keep its arrays.
        call = call._replace(leaves=[])

        def flat(*leaves):
            results, tree = flatten(spec.run(call, leaves))
            check_results_are_values(f"`{spec.name}`", results)
            trees.append(tree)
            return results

        debug = spec.debug_info(call, trees)
        arguments = for_arguments(self.in_shardings, spec.name, call, lambda: debug.argument_names)
        jaxpr, consts = stage(flat, typed_by(arguments, call.avals), debug)
        if not self.share:
            forget_sources(jaxpr)
        results = for_results(self.out_shardings, spec.name, trees[0], jaxpr.out_avals)
        jaxpr = jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
        donated = spec.donated(call)
        params = JitParams(
            spec.name, ClosedJaxpr(jaxpr), (*[False] * len(consts), *donated) if any(donated) else (),
            self.inline, self.keep_unused,
            None if arguments is None else (*[None] * len(consts), *arguments), results,
            self.compiler_options,
        )  # fmt: skip
        return TracedProgram(
            params, consts, trees[0], call, debug, layouts(self.in_shardings, call.tree.children()[0], call.avals),
            layouts(self.out_shardings, trees[0], jaxpr.out_avals),
        )  # fmt: skip

    # Executables ------------------------------------------------------------------------------

    def place(self, program: TracedProgram, leaves: Operands) -> ResolvedPlacement:
        """Where `program` runs on `leaves`."""
        places = placements_in(program.params.jaxpr.jaxpr)
        if program.params.out_shardings is not None:
            places = (*filter(None, program.params.out_shardings), *places)
        values = program.values
        return resolved_placement(
            values.operands(leaves), self.spec.name, places, device=self.device,
            requested=values.of_inputs(program.in_shardings), closed_over=values.closed.consts,
            names=lambda: self.argument_names(program),
        )  # fmt: skip

    def argument_names(self, program: TracedProgram) -> tuple[str, ...]:
        """A name for each input of the compiled program."""
        names = program.debug_info.argument_names
        return (*["a reference from outside"] * len(program.values.closed_over), *names)

    def request(self, program: TracedProgram, place: ResolvedPlacement) -> Request:
        """The compilation request for `program` at `place`."""
        values, params = program.values, program.params
        return Request(
            self.spec.name, place.placement, place.shardings, values.of_results(params.out_shardings),
            donated=values.donated(params.donated_invars[len(program.consts) :]),
            keep_unused=self.keep_unused, committed=place.committed,
            compiler_options=self.compiler_options, mesh=place.mesh,
            argument_names=self.argument_names(program),
            result_names=values.of_results(result_paths(program.out_tree)) or (),
            argument_layouts=values.of_inputs(program.in_layouts),
            result_layouts=values.of_results(program.out_layouts),
            is_exact=program.is_exact,
        )  # fmt: skip

    def lower(
        self,
        program: TracedProgram,
        leaves: Operands,
        platforms: Sequence[str] = (),
        *,
        is_portable: bool = False,
    ) -> LoweredProgram:
        """The StableHLO module for arguments that lie where `leaves` do, with operations of `platforms` or theirs."""
        request = self.request(program, self.place(program, leaves))
        request = request._replace(is_portable=is_portable)
        if platforms and tuple(platforms) != (request.placement.platform,):
            request = request._replace(other_platforms=tuple(platforms))
        has_effects = bool(program.params.jaxpr.effects)
        own_layouts = [_layout_of(x, has_effects) for x in program.values.operands(leaves)]
        if any(own_layouts):
            layouts = request.argument_layouts or [None] * len(own_layouts)
            orders = tuple(a or layout for a, layout in strict_zip(layouts, own_layouts))
            request = request._replace(argument_layouts=orders)
        return lower_program(program.values.closed, request)

    def executable(self, program: TracedProgram, leaves: Operands) -> Executable:
        """The executable of `program` where `leaves` lie, compiled unless it is cached."""
        place = self.place(program, leaves)
        executable = program.executables.get(place)
        if executable is not None:
            return executable
        with program.lock:
            executable = program.executables.get(place)
            if executable is None:
                start = time.perf_counter()
                lowered = lower_program(program.values.closed, self.request(program, place))
                lower_seconds = time.perf_counter() - start
                executable = program.executables[place] = compile_lowered(lowered)
                if any(program.params.donated_invars):
                    donation.note(self.spec, program.call, capture())
                seconds = time.perf_counter() - start
                self._note_compilation(program, place, lower_seconds, seconds)
        return executable

    def _note_compilation(
        self, program: TracedProgram, place: ResolvedPlacement, lower_seconds: float, seconds: float
    ) -> None:
        if not self.share:
            return
        facts = program.executables[place].precompiled
        source = None if facts is None else facts.source
        if program.miss is not None and not program.miss.compile_seconds:
            program.miss.compile_seconds, program.miss.lower_seconds = seconds, lower_seconds
            program.miss.executable_from = source
            return
        names = program.debug_info.argument_names
        miss = Miss(
            self.spec.name,
            reasons_for_place(place, program.executables, names),
            capture(),
            compile_seconds=seconds,
            lower_seconds=lower_seconds,
            executable_from=source,
            entry_count=len(self.programs),
        )
        self._publish_miss(miss, None)


def _as_stated(placements: Stated | None) -> Any:
    return None if placements is None else placements.tree.unflatten(placements.leaves)


def _jitted_of(make: Function, arguments: tuple[Function]) -> Jitted:
    return make(*arguments).jitted


_all_jitted: weakref.WeakSet[Jitted] = weakref.WeakSet()
_users_programs: weakref.WeakSet[TracedProgram] = weakref.WeakSet()


def users_programs() -> list[TracedProgram]:
    """The programs of users' functions that are alive, in no order; their jitted forms may be gone."""
    with _lock:
        return list(_users_programs)


def all_jitted() -> list[Jitted]:
    """All jitted functions that are alive, pellucid's own among them, in no order."""
    with _lock:
        return list(_all_jitted)


@clearing
def _forget_programs() -> None:
    for jitted in all_jitted():
        jitted.clear_cache()


def jit(
    fun: Function | None = None,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, Any] | None = None,
) -> Any:
    """`fun`, traced and compiled at its first call for each kind of arguments.

    A kind is the structure, shapes, dtypes and places of the arrays, and the values of static arguments.
    Donated arguments give their memory to the results and can't be used afterwards. A function that is defined again
    is traced again, and compiled again only if it has become another program.

    `in_shardings` place the positional arguments, `out_shardings` the results: a sharding, a PartitionSpec over
    the current mesh, None where nothing is said, or a tree of these that is a prefix. Arguments that the user
    has not put anywhere are brought there. `.trace`, `.lower` and `.eval_shape` stop on the way.

    >>> jit(lambda x: x + x)(np.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if fun is None:
        options = {**locals()}
        del options["fun"]
        return functools.partial(jit, **options)
    check_callable(fun, "jit")
    static_nums, static_names = resolve_arguments(fun, static_argnums, static_argnames, "static")
    donated_nums, donated_names = resolve_arguments(fun, donate_argnums, donate_argnames, "donate")
    overlap = set(static_nums) & set(donated_nums)
    if overlap:
        raise ArgumentValueError(f"jit: argument {overlap.pop()} can't be both static and donated.")
    spec = FunctionSpec(fun, name_of(fun), static_nums, static_names, donated_nums, donated_names)
    if backend is not None:
        if device is not None:
            raise ArgumentValueError(
                "jit takes `device` or `backend`, not both.",
                got=f"device: {device}, backend: {backend!r}",
            )
        device = platforms.client(backend).local_devices()[0]
    jitted = Jitted(
        spec,
        inline=inline,
        keep_unused=keep_unused,
        device=device,
        compiler_options=frozen(compiler_options),
        in_shardings=stated(
            tuple(in_shardings) if isinstance(in_shardings, list) else in_shardings
        ),
        out_shardings=stated(out_shardings),
    )
    return callable_of(jitted, fun)


def callable_of(jitted: Jitted, fun: Function) -> Any:
    """The C++ callable of a jitted function, with its stages as attributes."""
    spec = jitted.spec
    call = _bare_callable(jitted)
    if spec.static_nums or spec.static_names or spec.donated_nums or spec.donated_names:
        call = wrapped(call, spec, spec.donated_nums)
    else:
        call.made_by = jitted.call_of_jit
    functools.update_wrapper(call, fun)
    return with_stages(call, jitted)


def _bare_callable(jitted: Jitted) -> Any:
    """The C++ callable of a jitted function."""
    spec, fun = jitted.spec, jitted.spec.function
    call = make_call(
        spec.name,
        fun,
        jitted.cache_miss,
        spec.static_nums,
        spec.static_names,
        jitted.options_key(),
        # jaxlib ends the process where a function in a shared cache can't be referred to weakly.
        shared_entries if compares_by_identity(fun) else None,
    )
    jitted.callable = weakref.ref(call)
    call.made_by = lambda: (_bare_callable, (jitted,))
    return call


def with_stages(call: Any, jitted: Jitted) -> Any:
    """`call`, with the stages of the jitted function as attributes."""
    call.jitted = jitted
    call.trace = functools.partial(stages.trace, jitted)
    call.lower = functools.partial(stages.lower, jitted)
    call.eval_shape = functools.partial(stages.shapes, jitted)
    call.clear_cache = jitted.clear_cache
    return call
