"""`jit`: traces once for each kind of arguments, compiles, and calls through C++."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ExecutionError,
    Function,
    IntegerRangeError,
    NonFiniteError,
    clearing,
    strict_zip,
    wrapping,
)
from pellucid._machine.base.late import late
from pellucid._machine.compilation import interception
from pellucid._machine.compilation.launches import Launch
from pellucid._machine.compilation.listeners import run
from pellucid._machine.compilation.options import hashable_options
from pellucid._machine.compilation.pipeline import CompilationUnit
from pellucid._machine.ir import Operands, Values
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.calls import clear_entries, make_call, shared_entries
from pellucid._machine.runtime.executable import Executable
from pellucid._machine.sharding.errors import LayoutError
from pellucid._machine.sharding.layout import Layout
from pellucid._machine.tracing import (
    FunctionCall,
    FunctionSpec,
    bind,
    check_distinct,
    compares_by_identity,
    context,
    name_of,
    replay,
    resolve_arguments,
)
from pellucid._machine.transforms import check_callable
from pellucid._machine.xla import ARRAY_TYPES, FastPath, LibraryValues

from . import stages
from .calls import jit_p
from .compiled_calls import no_callable, wrap_call
from .executables import executable_of, lower_traced_function
from .jit_shardings import Stated, hashable_placements
from .traced_function import JitOptions, TracedFunction
from .traced_function_cache import TracedFunctionCache, is_traced

_lock = threading.RLock()
"""Lock of the list of all jitted functions."""


def _fits(value: int, dtype) -> bool:
    limits = np.iinfo(dtype)
    return limits.min <= value <= limits.max


@dataclass(eq=False)
class Jitted:
    """Python side of a jitted function: finds the program of a call, then its executable, and runs it.

    What observes a launch is registered in `compilation/listeners.py`.
    """

    options: JitOptions
    callable: Function = no_callable
    """Weak reference to the C++ callable."""
    spec: FunctionSpec = field(init=False)
    cache: TracedFunctionCache = field(init=False)

    def __post_init__(self) -> None:
        self.spec = self.options.spec
        self.cache = TracedFunctionCache(self.options)
        with _lock:
            _all_jitted.add(self)

    def call_of_jit(self) -> tuple[Function, tuple[Function]]:
        """(`jit` with this function's options, (the user's function,)), used for pickling."""
        spec = self.spec
        options = {
            "static_argnums": spec.static_nums, "static_argnames": spec.static_names,
            "donate_argnums": spec.donated_nums, "donate_argnames": spec.donated_names,
            "inline": self.options.inline, "keep_unused": self.options.keep_unused, "device": self.options.device,
            "compiler_options": dict(self.options.compiler_options), "in_shardings": _placement_tree(self.options.in_shardings),
            "out_shardings": _placement_tree(self.options.out_shardings),
        }  # fmt: skip
        options = {name: value for name, value in options.items() if value}
        return functools.partial(jit, **options) if options else jit, (spec.function,)

    def __reduce__(self) -> Any:
        return _make_jitted, self.call_of_jit()

    def cache_miss(self, *args: Any, **kwargs: Any) -> Any:
        """Called by C++ for a call without an executable: returns (results, fast path without Python, or None)."""
        try:
            return self.results(self.spec.call(args, kwargs))
        except LibraryValues:
            return late("call with values of libraries")(self, args, kwargs), None
        except BaseException:
            # After an exception, C++ would call Python for all later calls of this kind.
            self.clear_fast_paths()
            raise

    def results(self, call: FunctionCall) -> tuple[Any, FastPath | None]:
        """(results of a call, fast path by which C++ runs the next call of its kind, or None if that needs Python)."""
        traced_function = self.traced_function(call)
        if traced_function.values.takes_references:
            self._check_references(traced_function, call)
        if not context.trace.is_eager or any(
            map(is_traced, [*traced_function.consts, *call.leaves])
        ):
            return traced_function.out_tree.unflatten(
                self.stage_call(traced_function, call.leaves)
            ), None
        return self._run(traced_function, self.executable(traced_function, call.leaves), call)

    def traced_function(self, call: FunctionCall) -> TracedFunction:
        """The traced function for the arguments of a call; traced now if it isn't cached."""
        return self.cache.find(call)

    def executable(self, traced_function: TracedFunction, leaves: Operands) -> Executable:
        """The executable of `traced_function` for the placement of `leaves`; compiled if it isn't cached."""
        return executable_of(self.cache, traced_function, leaves)

    def lower(
        self,
        traced_function: TracedFunction,
        leaves: Operands,
        platforms: Sequence[str] = (),
        *,
        is_portable: bool = False,
    ) -> CompilationUnit:
        """The StableHLO module for arguments placed like `leaves`."""
        return lower_traced_function(
            self.options, traced_function, leaves, platforms, is_portable=is_portable
        )

    def _run(
        self, traced_function: TracedFunction, executable: Executable, call: FunctionCall
    ) -> tuple[Any, FastPath | None]:
        if traced_function.in_layouts is not None:
            self._check_layouts(traced_function.in_layouts, call)
        launch = Launch(
            self.spec.name, traced_function.values, call.leaves, executable, self.clear_fast_paths,
            traced=traced_function.params.jaxpr, closed_over=traced_function.consts, is_of_user=self.options.share,
        )  # fmt: skip
        try:
            results = run(launch)
        except IntegerRangeError as error:
            raise self._at_argument(error, call) from None
        except (ExecutionError, NonFiniteError) as error:
            error.failed_call = launch
            raise
        tree, is_kept = interception.results_of_launch(traced_function.out_tree, results, launch)
        if is_kept or launch.needs_python or traced_function.values.takes_references:
            return tree, None
        return tree, executable.fast_path(traced_function.out_tree, call.leaves)

    def _check_references(self, traced_function: TracedFunction, call: FunctionCall) -> None:
        names = ["used from outside"] * len(traced_function.consts)
        names += self.spec.debug_info(call).argument_names
        check_distinct(f"`{self.spec.name}`", names, [*traced_function.consts, *call.leaves])

    def _check_layouts(self, layouts: Sequence[Any], call: FunctionCall) -> None:
        """Raises LayoutError for arrays with another layout than `in_shardings` specify."""
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
        """`error` with the names of the arguments that are too large."""
        names = self.spec.debug_info(call).argument_names
        paths = [
            name
            for name, leaf, aval in strict_zip(names, call.leaves, call.avals)
            if type(leaf) is int and not _fits(leaf, aval.dtype)
        ]
        what = f"`{self.options.name}`: a Python integer is too large for its argument's dtype."
        got = [f"{path}: {text}" for path, text in zip(paths, error.got * len(paths), strict=False)]
        return IntegerRangeError(what, got=got, do=error.do)

    def stage_call(self, traced_function: TracedFunction, leaves: Operands) -> Values:
        """Results of a call under a trace."""
        params = traced_function.params_of_call()
        if params.inline:
            return replay(params.jaxpr.jaxpr, (), *traced_function.consts, *leaves)
        return bind(jit_p, *traced_function.consts, *leaves, params=params)

    def clear_cache(self) -> None:
        """Drops this function's programs and executables."""
        self.cache.programs.clear()
        self.clear_fast_paths()

    def clear_fast_paths(self) -> None:
        """Makes the next calls of each kind go through Python; keeps programs and executables."""
        clear_entries(self.callable())


def _placement_tree(placements: Stated | None) -> Any:
    return None if placements is None else placements.tree.unflatten(placements.leaves)


def _make_jitted(make: Function, arguments: tuple[Function]) -> Jitted:
    return make(*arguments).jitted


_all_jitted: weakref.WeakSet[Jitted] = weakref.WeakSet()


def all_jitted_functions() -> list[Jitted]:
    """All existing jitted functions, including pellucid's own, unordered."""
    with _lock:
        return list(_all_jitted)


@clearing
def _forget_programs() -> None:
    for jitted in all_jitted_functions():
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

    The kind consists of structure, shapes, dtypes and placements of the arrays, and the values of static arguments.
    Buffers of donated arguments are reused for results; such arguments can't be used afterwards. A redefined function
    is traced again, but only compiled again if its program differs.

    `in_shardings` place the positional arguments, `out_shardings` the results: a sharding, a PartitionSpec over the
    current mesh, None for unspecified, or a tree prefix of these. Uncommitted arguments are moved there. `.trace`,
    `.lower` and `.eval_shape` run only a part of the way.

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
    options = JitOptions(
        spec,
        inline=inline,
        keep_unused=keep_unused,
        device=device,
        compiler_options=hashable_options(compiler_options),
        in_shardings=hashable_placements(
            tuple(in_shardings) if isinstance(in_shardings, list) else in_shardings
        ),
        out_shardings=hashable_placements(out_shardings),
    )
    return callable_of(Jitted(options), fun)


def callable_of(jitted: Jitted, fun: Function) -> Any:
    """The C++ callable of a jitted function, with its stages as attributes."""
    spec = jitted.spec
    call = bare = _bare_callable(jitted)
    if spec.static_nums or spec.static_names or spec.donated_nums or spec.donated_names:
        call = wrap_call(bare, spec, spec.donated_nums)
        call._cache_size = lambda: bare._cache_size()  # a method of a C++ function can't be pickled
    else:
        call.made_by = jitted.call_of_jit
    call = with_stages(wrapping(fun)(call), jitted)
    call._fun = fun  # libraries written for the reference read it there
    return call


def _bare_callable(jitted: Jitted) -> Any:
    """The C++ callable of a jitted function."""
    spec, fun = jitted.spec, jitted.spec.function
    call = make_call(
        spec.name,
        fun,
        jitted.cache_miss,
        spec.static_nums,
        spec.static_names,
        jitted.options.key(),
        # jaxlib crashes if a function in a shared cache isn't weakly referenceable.
        shared_entries if compares_by_identity(fun) else None,
    )
    jitted.callable = weakref.ref(call)
    call.made_by = lambda: (_bare_callable, (jitted,))
    return call


def with_stages(call: Any, jitted: Jitted) -> Any:
    """`call` with the stages of the jitted function as attributes."""
    call.jitted = jitted
    call.trace = functools.partial(stages.trace, jitted)
    call.lower = functools.partial(stages.lower, jitted)
    call.eval_shape = functools.partial(stages.shapes, jitted)
    call.clear_cache = jitted.clear_cache
    return call
