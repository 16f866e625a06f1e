"""`jit`: trace once for each kind of arguments, compile, and call through C++."""

from __future__ import annotations

import functools
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid.base import config
from pellucid.base.caching import clearing
from pellucid.base.errors import ArgumentTypeError, NonFiniteError
from pellucid.base.events import CacheLooked, on, publish
from pellucid.base.source import capture, describe
from pellucid.compilation.options import frozen
from pellucid.compilation.pipeline import LoweredProgram, Request, compile_lowered, lower_program
from pellucid.compilation.placement import Where, where
from pellucid.higher_order import misses, stages
from pellucid.higher_order.jit import JitParams, jit_p
from pellucid.higher_order.misses import Key, Miss, MissReason, reasons_for
from pellucid.ir.jaxpr import ClosedJaxpr
from pellucid.runtime import donation, platforms
from pellucid.runtime.executable import Executable
from pellucid.runtime.transfer import shard_argument
from pellucid.tracing.context import context
from pellucid.tracing.fingerprint import fingerprint
from pellucid.tracing.function import Call, FunctionSpec, name_of, resolve_arguments
from pellucid.tracing.replay import replay, steps
from pellucid.tracing.staging import stage
from pellucid.tracing.trace import bind
from pellucid.tracing.tracer import Tracer
from pellucid.xla.calls import make_call
from pellucid.xla.flags import trace_context
from pellucid.xla.pytree import flatten


class Program:
    """A traced function: its program, what it closes over, its executables by where they run."""

    __slots__ = ("call", "consts", "executables", "miss", "out_tree", "params", "__weakref__")

    def __init__(self, params: JitParams, consts: list[Any], out_tree: Any, call: Call) -> None:
        self.params = params
        self.consts = consts
        self.out_tree = out_tree
        self.call = call
        self.executables: dict[Where, Executable] = {}
        self.miss: Miss | None = None

    @property
    def closed(self) -> ClosedJaxpr:
        """The program with what it closes over as constants."""
        jaxpr, n = self.params.jaxpr.jaxpr, len(self.consts)
        opened = jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:])
        return ClosedJaxpr(opened, self.consts)


_SHARED_PROGRAMS = 128
_shared: OrderedDict[Any, Program] = OrderedDict()
"""Programs by the content of their functions, latest last: for functions that are defined again."""


@clearing
def _forget_shared() -> None:
    _shared.clear()


class Jitted:
    """The Python side of a jitted function: its programs and executables."""

    def __init__(
        self,
        spec: FunctionSpec,
        *,
        inline: bool = False,
        keep_unused: bool = False,
        device: Any = None,
        compiler_options: tuple[tuple[str, Any], ...] = (),
        share: bool = True,
    ) -> None:
        self.spec = spec
        self.inline = inline
        self.keep_unused = keep_unused
        self.device = device
        self.compiler_options = compiler_options
        self.share = share
        self.programs: dict[Key, Program] = {}
        _all_jitted.add(self)

    def options_key(self) -> tuple[Any, ...]:
        """What besides the function and the arguments decides its programs."""
        spec = self.spec
        return (
            spec.static_nums, spec.static_names, spec.donated_nums, spec.donated_names, self.inline,
            self.keep_unused, self.device, self.compiler_options,
        )  # fmt: skip

    def cache_miss(self, *args: Any, **kwargs: Any) -> Any:
        """What C++ calls when it has no executable: (results, how to run without Python)."""
        call = self.spec.call(args, kwargs)
        program = self.program(call)
        if not context.trace.is_eager or any(isinstance(x, Tracer) for x in call.leaves):
            return program.out_tree.unflatten(self.staged(program, call.leaves)), None
        executable = self.executable(program, call.leaves)
        results = executable(call.leaves)
        if config.debug_nans.value or config.debug_infs.value:
            self.check_finite(program, call.leaves, results)
            return program.out_tree.unflatten(results), None
        return program.out_tree.unflatten(results), executable.fast_path(program.out_tree, call.leaves)

    def staged(self, program: Program, leaves: Sequence[Any]) -> list[Any]:
        """Results of a call under a trace."""
        if program.params.inline:
            return replay(program.params.jaxpr.jaxpr, (), *program.consts, *leaves)
        return bind(jit_p, *program.consts, *leaves, params=program.params)

    # Programs ---------------------------------------------------------------------------------

    def program(self, call: Call) -> Program:
        """The program for a call's arguments, traced unless it is known."""
        key = Key(call.tree, call.avals, call.static, trace_context())
        program = self.programs.get(key)
        if program is not None:
            if on.cache_looked:
                publish(on.cache_looked, CacheLooked(self.spec.name, self.spec.function, True))
            return program
        content = (fingerprint(self.spec.function), self.options_key(), key) if self.share else None
        if content is not None and content[0] is not None:
            program = _shared.get(content)
            if program is not None:
                _shared.move_to_end(content)
                self.programs[key] = program
                return program
        start = time.perf_counter()
        program = self.trace(call)
        self._note_miss(program, key, call, time.perf_counter() - start)
        if not any(isinstance(c, Tracer) for c in program.consts):
            self.programs[key] = program
            if content is not None and content[0] is not None:
                _shared[content] = program
                while len(_shared) > _SHARED_PROGRAMS:
                    _shared.popitem(last=False)
        return program

    def _note_miss(self, program: Program, key: Key, call: Call, seconds: float) -> None:
        if not self.share:  # pellucid's own functions
            return
        names = self.spec.debug_info(call).argument_names if self.programs else ()
        reasons = reasons_for(key, self.programs, names)
        miss = program.miss = Miss(
            self.spec.name, reasons, capture(), seconds, entry_count=len(self.programs) + 1
        )
        misses.recent.append(miss)
        if config.explain_cache_misses.value:
            misses.logger.warning("%s", misses.explanation(miss))
        if on.cache_looked:
            event = CacheLooked(self.spec.name, self.spec.function, False, reasons, key, miss.source)
            publish(on.cache_looked, event)

    def trace(self, call: Call) -> Program:
        """Trace the function for a call's arguments."""
        spec = self.spec
        trees: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            results, tree = flatten(spec.run(call, leaves))
            trees.append(tree)
            return results

        jaxpr, consts = stage(flat, call.avals, spec.debug_info(call))
        jaxpr = jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
        donated = spec.donated(call)
        params = JitParams(
            spec.name, ClosedJaxpr(jaxpr), (*[False] * len(consts), *donated) if donated else (),
            self.inline, self.keep_unused, compiler_options=self.compiler_options,
        )  # fmt: skip
        return Program(params, consts, trees[0], call._replace(leaves=[]))

    # Executables ------------------------------------------------------------------------------

    def request(self, program: Program, place: Where) -> Request:
        """What decides the executable of `program` at `place`."""
        return Request(
            self.spec.name, place.placement, place.shardings, None,
            donated=program.params.donated_invars[len(program.consts) :],
            keep_unused=self.keep_unused, committed=place.committed,
            compiler_options=self.compiler_options,
        )  # fmt: skip

    def lower(self, program: Program, leaves: Sequence[Any]) -> LoweredProgram:
        """The StableHLO module for arguments that lie where `leaves` do."""
        place = where(leaves, self.spec.name, self.device)
        return lower_program(program.closed, self.request(program, place))

    def executable(self, program: Program, leaves: Sequence[Any]) -> Executable:
        """The executable of `program` where `leaves` lie, compiled unless it is known."""
        place = where(leaves, self.spec.name, self.device)
        found = program.executables.get(place)
        if found is None:
            start = time.perf_counter()
            lowered = lower_program(program.closed, self.request(program, place))
            found = program.executables[place] = compile_lowered(lowered)
            if any(program.params.donated_invars):
                donation.note(self.spec, program.call, capture())
            self._note_compilation(program, place, time.perf_counter() - start)
        return found

    def _note_compilation(self, program: Program, place: Where, seconds: float) -> None:
        if not self.share:
            return
        if program.miss is not None and not program.miss.compile_seconds:
            program.miss.compile_seconds = seconds
            return
        devices = ", ".join(map(str, place.placement.devices))
        reason = MissReason("device", "arguments", "elsewhere", f"on {devices}", "Keep arguments in one place.")
        misses.recent.append(Miss(self.spec.name, (reason,), capture(), compile_seconds=seconds, entry_count=len(self.programs)))

    def check_finite(self, program: Program, leaves: Sequence[Any], results: Sequence[Any]) -> None:
        """Raise NonFiniteError, naming the first equation that made it, if a result is NaN or infinite."""
        if not any(_is_bad(x) for x in results):
            return
        closed = program.closed
        found = first_bad_equation(closed, leaves)
        where_ = None if found is None else describe(found.source)
        what = "NaN" if any(np.isnan(np.asarray(x)).any() for x in results if _is_inexact(x)) else "infinity"
        raise NonFiniteError(
            f"`{self.spec.name}` gave a result with {what} in it.",
            got=[] if found is None else [f"first made by `{found.primitive.name}`"],
            where=where_,
            do="Turn off `debug_nans` (or `debug_infs`) to get the value nevertheless.",
        )


_all_jitted: weakref.WeakSet[Jitted] = weakref.WeakSet()


@clearing
def _forget_programs() -> None:
    for jitted in list(_all_jitted):
        jitted.programs.clear()


def _is_inexact(x: Any) -> bool:
    return np.issubdtype(np.asarray(x).dtype, np.inexact) or x.dtype.name.startswith(("bfloat", "float"))


def _is_bad(x: Any) -> bool:
    if not hasattr(x, "dtype") or not isinstance(x.dtype, np.dtype) or not _is_inexact(x):
        return False
    host = np.asarray(x)
    host = host.astype(np.float32) if host.dtype.kind not in "fc" else host
    return bool(
        (config.debug_nans.value and np.isnan(host).any()) or (config.debug_infs.value and np.isinf(host).any())
    )


def first_bad_equation(program: ClosedJaxpr, leaves: Sequence[Any]) -> Any:
    """The first equation of `program` whose results are NaN or infinite though its operands are not."""
    with config.debug_nans(False), config.debug_infs(False):
        run = steps(program.jaxpr, program.consts, *leaves)
        previous = None
        try:
            while True:
                pause = next(run)
                if previous is not None and _made_bad(previous, pause.values):
                    return previous
                previous = pause.equation
        except StopIteration:
            return previous
    return None


def _made_bad(equation: Any, values: dict[Any, Any]) -> bool:
    for var in equation.results:
        value = values.get(var)
        if value is not None and hasattr(value, "dtype") and isinstance(value.dtype, np.dtype) and _is_inexact(value):
            host = np.asarray(value).astype(np.complex128)
            if not np.isfinite(host).all():
                return True
    return False


def jit(
    fun: Callable[..., Any] | None = None,
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
    Donated arguments give their memory to the results and can't be used afterwards. A function defined again
    with the same content finds its old programs. `.trace`, `.lower` and `.eval_shape` stop on the way.

    >>> jit(lambda x: x + x)(np.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if fun is None:
        return functools.partial(
            jit, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
            static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options,
        )  # fmt: skip
    if not callable(fun):
        raise ArgumentTypeError("jit takes a function.", got=f"got {type(fun).__name__}")
    if in_shardings is not None or out_shardings is not None:
        raise NotImplementedError("jit's in_shardings and out_shardings come with the many-devices work.")
    static_nums, static_names = resolve_arguments(fun, static_argnums, static_argnames, "static")
    donated_nums, donated_names = resolve_arguments(fun, donate_argnums, donate_argnames, "donate")
    overlap = set(static_nums) & set(donated_nums)
    if overlap:
        raise ArgumentTypeError(f"jit: argument {overlap.pop()} can't be both static and donated.")
    spec = FunctionSpec(fun, name_of(fun), static_nums, static_names, donated_nums, donated_names)
    if backend is not None:
        device = platforms.client(backend).local_devices()[0]
    jitted = Jitted(
        spec, inline=inline, keep_unused=keep_unused, device=device, compiler_options=frozen(compiler_options)
    )
    return callable_of(jitted, fun)


def callable_of(jitted: Jitted, fun: Callable[..., Any]) -> Any:
    """The C++ callable of a jitted function, with its stages as attributes."""
    spec = jitted.spec
    call = make_call(
        spec.name, fun, jitted.cache_miss, spec.static_nums, spec.static_names, jitted.options_key(), shard_argument
    )
    functools.update_wrapper(call, fun)
    call.jitted = jitted
    call.trace = functools.partial(stages.trace, jitted)
    call.lower = functools.partial(stages.lower, jitted)
    call.eval_shape = functools.partial(stages.shapes, jitted)
    weak = weakref.ref(call)

    def clear_cache() -> None:
        """Forget this function's programs and executables."""
        jitted.programs.clear()
        live = weak()
        if live is not None:
            live._clear_cache()

    call.clear_cache = clear_cache
    return call
