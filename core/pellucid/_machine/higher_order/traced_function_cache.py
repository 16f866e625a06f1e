"""Finds the traced function for a call of a jitted function, or traces a new one."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from typing import Any

from pellucid._machine.base import (
    CacheLooked,
    Function,
    cached,
    capture,
    config,
    is_by_tool,
    logger,
    on,
    publish,
)
from pellucid._machine.compilation import interception
from pellucid._machine.compilation.placement import has_several_devices
from pellucid._machine.ir import ClosedJaxpr, forget_sources
from pellucid._machine.sharding import mesh_context
from pellucid._machine.tracing import (
    FunctionCall,
    Tracer,
    check_results_are_values,
    compares_by_identity,
    keeps_layers,
    stage,
)
from pellucid._machine.xla import flatten, trace_context
from pellucid._machine.xla.flags import overridden

from . import misses
from .calls import JitParams
from .jit_shardings import for_arguments, for_results, layouts, placed_types
from .misses import Miss, TracedFunctionKey, reasons_for, reasons_for_function
from .traced_function import JitOptions, TracedFunction

_MAX_FUNCTIONS = 4096
"""Maximum number of functions whose programs are kept for when they are jitted again."""
_lock = threading.Lock()
"""Lock of the list of user programs."""


@cached(_MAX_FUNCTIONS, weakly=True)
def _programs_of(
    function: Function, options: tuple[Any, ...]
) -> dict[TracedFunctionKey, TracedFunction]:
    """The programs of a function jitted with these options, shared by all its jitted forms."""
    return {}


def is_traced(x: Any) -> bool:
    """Whether `x` belongs to a trace."""
    return isinstance(x, Tracer)


class TracedFunctionCache:
    """The traced functions of a jitted function, by structure, types and static values of the arguments."""

    def __init__(self, options: JitOptions) -> None:
        self.options = options
        function = options.spec.function
        is_found_again = options.share and compares_by_identity(function)
        self.programs: dict[TracedFunctionKey, TracedFunction] = (
            _programs_of(function, options.key()) if is_found_again else {}
        )

    def find(self, call: FunctionCall) -> TracedFunction:
        """The traced function for a call's arguments; traced if it isn't cached."""
        key = TracedFunctionKey(call.tree, call.avals, call.static, trace_context())
        traced_function = self.programs.get(key)
        if traced_function is not None:
            if traced_function.is_of_tool and not is_by_tool.get():
                self._note_miss(traced_function, key, call, traced_function.miss.trace_seconds)  # pyright: ignore[reportOptionalMemberAccess]
            elif on.cache_looked:
                publish(CacheLooked(self.options.spec.name, self.options.spec.function, True))
            return traced_function
        start = time.perf_counter()
        tracing = interception.tracing if self.options.share else contextlib.nullcontext
        with tracing():
            traced_function = self.trace(call)
        self._note_miss(traced_function, key, call, time.perf_counter() - start)
        if any(map(is_traced, traced_function.consts)):
            return traced_function
        # Another thread may have traced the function meanwhile: all use the same program, so that it is compiled once.
        traced_function = self.programs.setdefault(key, traced_function)
        if self.options.share:
            with _lock:
                _users_programs.add(traced_function)
        return traced_function

    def _note_miss(
        self,
        traced_function: TracedFunction,
        key: TracedFunctionKey,
        call: FunctionCall,
        seconds: float,
    ) -> None:
        spec = self.options.spec
        if not self.options.share:  # pellucid's own functions
            return
        earlier = [
            each
            for each, traced_function in self.programs.items()
            if not traced_function.is_of_tool
        ]
        if earlier:
            reasons = reasons_for(key, earlier, spec.debug_info(call).argument_names)
        else:
            reasons = reasons_for_function(None if is_by_tool.get() else spec.function)
        miss = traced_function.miss = Miss(
            spec.name, reasons, capture(), seconds, entry_count=len(earlier) + 1
        )
        if config.explain_cache_misses.value and not miss.is_by_tool:
            logger.warning("%s", misses.explanation(miss))
        self.publish_miss(miss, key)

    def publish_miss(self, miss: Miss, key: TracedFunctionKey | None) -> None:
        """Publishes the reason for tracing or compiling the function; `key` is that of a new program."""
        if not miss.is_by_tool:
            misses.recent.append(miss)
        if on.cache_looked:
            spec = self.options.spec
            publish(CacheLooked(spec.name, spec.function, False, miss, key))

    def trace(self, call: FunctionCall) -> TracedFunction:
        """Traces the function for a call's arguments."""
        options, spec = self.options, self.options.spec
        # Calls are inlined where XLA partitions a program, but residuals of layers that were calls stay those of calls.
        is_partitioned = self._is_partitioned(call)
        trees: list[Any] = []
        # If tracing fails, references to the call survive in the traceback, and must not keep its arrays alive.
        call = call._replace(leaves=[])

        def flat(*leaves):
            results, tree = flatten(spec.run(call, leaves))
            check_results_are_values(f"`{spec.name}`", results)
            trees.append(tree)
            return results

        debug = spec.debug_info(call, trees)
        arguments = for_arguments(
            options.in_shardings, spec.name, call, lambda: debug.argument_names
        )
        with overridden(keeps_layers, keeps_layers.value or is_partitioned):
            jaxpr, consts = stage(flat, placed_types(arguments, call.avals), debug)
        if not options.share:
            forget_sources(jaxpr)
        results = for_results(options.out_shardings, spec.name, trees[0], jaxpr.out_avals)
        # Inputs before: arguments. After: what the function closes over, then arguments; so in all params per input.
        jaxpr = jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
        donated = spec.donated_leaves(call)
        params = JitParams(
            spec.name, ClosedJaxpr(jaxpr), (*[False] * len(consts), *donated) if any(donated) else (),
            options.inline, options.keep_unused,
            None if arguments is None else (*[None] * len(consts), *arguments), results,
            options.compiler_options,
        )  # fmt: skip
        return TracedFunction(
            params, consts, trees[0], call, debug, layouts(options.in_shardings, call.tree.children()[0], call.avals),
            layouts(options.out_shardings, trees[0], jaxpr.out_avals),
        )  # fmt: skip

    def _is_partitioned(self, call: FunctionCall) -> bool:
        """Whether this call runs over several devices, as far as that is known before its function is traced."""
        stated = (self.options.in_shardings, self.options.out_shardings)
        places = (place for each in stated if each is not None for place in each.leaves)
        meshes = (
            mesh_context.concrete.value,
            mesh_context.abstract.value,
            mesh_context.entered.value,
        )
        return has_several_devices((*call.leaves, *places, *meshes))


_users_programs: weakref.WeakSet[TracedFunction] = weakref.WeakSet()


def users_programs() -> list[TracedFunction]:
    """The existing programs of user functions, unordered; their jitted forms may be gone."""
    with _lock:
        return list(_users_programs)
