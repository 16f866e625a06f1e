"""Thread-local context: current trace, name stack, lineage, named axes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator
from typing import Any, Self

from pellucid._machine.base import (
    ArgumentTypeError,
    EquationEntered,
    Function,
    ScopeStack,
    block,
    on,
    publish,
    wrapping,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import Equation, Lineage
from pellucid._machine.xla import by_name, flags


class _LateTrace:
    """Placeholder for the bottom trace, which is made on first use."""

    is_eager = True

    def __getattr__(self, name: str) -> Any:
        Context.trace = late("bottom trace")
        return getattr(Context.trace, name)


def bottom() -> Any:
    """The bottom trace: compiles and runs primitives, and moves values to devices."""
    return Context.trace


class Context(threading.local):
    """Thread-local state. `bind` calls the current `trace`; `scope`, `lineage` and `source` are stored on equations."""

    trace: Any = _LateTrace()
    scope: ScopeStack | None = None
    lineage: Lineage | None = None
    source: Any = None
    """Source of the equation that is being replayed; None while the user's code runs."""
    axes: dict[Any, Any] = {}  # noqa: RUF012  (replaced, never changed)
    """Sizes of the named axes in scope, by name."""
    checked_axes: frozenset[Any] = frozenset()
    """The mesh axes among `axes` for which types record whether values vary (checked axes)."""
    unify: Any = None
    """Casts the operands of an equation to vary over the same checked axes; None without checked axes."""

    def __reduce__(self) -> Any:
        return by_name(self)


context = Context()
"""The thread-local instance. `Context.trace` is the bottom trace of all threads."""

_tracing_now = flags.tracing_now
_named_axes = flags.flag("pellucid_named_axes", None, in_trace_key=True)
"""The named axes in scope, as part of cache keys of traced functions."""


computes_known = flags.flag("pellucid_computes_known", None, in_call_key=True, in_trace_key=True)
"""Whether staging computes results of known values at once; see `ensure_compile_time_eval`."""

keeps_calls = flags.RareFlag("pellucid_keeps_calls", False, in_trace_key=True)
"""Whether programs of the user's functions that rules would add to a program equation by equation stay calls, so that a debugger
can stop in them.
"""

keeps_layers = flags.flag("pellucid_keeps_layers", False)
"""Whether equal layers stay as they are in what is traced, as it is for several devices. In no key: who calls first decides."""

_metadata = flags.flag("pellucid_xla_metadata", None, in_call_key=True, in_trace_key=True)
"""The user's metadata in scope, as part of cache keys of programs."""


class use_trace:
    """Context manager that sets the current trace.

    >>> with take_current_trace() as trace, use_trace(trace):
    ...     context.trace is trace
    True
    """

    __slots__ = ("trace", "previous")

    def __init__(self, trace: Any) -> None:
        self.trace = trace

    def __enter__(self) -> Any:
        trace = self.trace
        self.previous = previous = context.trace
        if trace.is_eager is not previous.is_eager:
            _tracing_now.set_local(None if trace.is_eager else True)
        context.trace = trace
        return trace

    def __exit__(self, *exception: object) -> None:
        previous = self.previous
        if self.trace.is_eager is not previous.is_eager:
            _tracing_now.set_local(None if previous.is_eager else True)
        context.trace = previous


@contextlib.contextmanager
def take_current_trace() -> Generator[Any]:
    """Context manager in which primitives run at once; yields the trace that was current.

    >>> with take_current_trace() as trace:
    ...     trace.is_eager
    True
    """
    trace = context.trace
    with use_trace(Context.trace):
        yield trace


class _Override:
    """Context manager that sets a field of the context."""

    __slots__ = ("field", "value")

    def __init__(self, field: str, value: Any) -> None:
        self.field, self.value = field, value

    def __enter__(self) -> None:
        previous = getattr(context, self.field)
        setattr(context, self.field, self.value)
        self.value = previous

    def __exit__(self, *exception: object) -> None:
        setattr(context, self.field, self.value)


def use_lineage(lineage: Lineage | None) -> _Override:
    """Context manager that sets the lineage of new equations."""
    return _Override("lineage", lineage)


def plumbing(transformation: str) -> _Override:
    """Context manager that marks new equations as made by the transformation itself.

    Within the transformation of an equation, they keep that equation as their origin.
    """
    return use_lineage(context.lineage or Lineage(transformation, ()))


def use_scope(scope: ScopeStack | None) -> _Override:
    """Context manager that sets the name stack."""
    return _Override("scope", scope)


def use_transformation(name: str, batch: Any = None) -> _Override:
    """Context manager that puts a transformation, and the batch of a `vmap`, on the name stack: names read
    `vmap(layer)/mul`.
    """
    return use_scope(ScopeStack(context.scope, name, (), True, batch))


def use_no_scope() -> _Override:
    """Context manager for a separate program: clears the names of the name stack, and keeps its metadata."""
    scope = context.scope
    return use_scope(None if scope is None else scope.metadata_only())


class use_source:
    """Context manager in which new equations have a source, where it is known, instead of the line that is run."""

    __slots__ = ("outer", "source")

    def __init__(self, source: Any) -> None:
        self.source = source

    def __enter__(self) -> None:
        self.outer = context.source
        context.source = self.source or self.outer

    def __exit__(self, *_: object) -> None:
        context.source = self.outer


def use_own_source() -> _Override:
    """Context manager in which new equations have the line that is run, also while an equation is replayed."""
    return _Override("source", None)


class use_facts:
    """Context manager that copies an equation's scope and source to the equations made of it, after `enter`."""

    __slots__ = ("outer", "scope", "joined")

    def __enter__(self) -> Self:
        self.outer = context.scope, context.source, context.lineage
        self.scope, self.joined = None, context.scope
        return self

    def enter(self, equation: Equation, lineage: Lineage) -> None:
        """Sets the scope and source of `equation`, and `lineage`, for new equations."""
        scope = equation.scope
        if scope is not self.scope:
            self.scope, outer = scope, self.outer[0]
            self.joined = outer if scope is None else scope.on(outer)
        context.scope, context.source, context.lineage = self.joined, equation.source, lineage
        if on.equation_entered and _runs_at_once():
            publish(EquationEntered(equation.source, lineage.transformation))

    def __exit__(self, *exception: object) -> None:
        context.scope, context.source, context.lineage = self.outer
        if on.equation_entered and _runs_at_once():
            _, source, lineage = self.outer
            publish(EquationEntered(source, "" if lineage is None else lineage.transformation))


def _runs_at_once() -> bool:
    """Whether the current trace computes, also for transforms around it, instead of staging."""
    trace = context.trace
    while not trace.is_eager:
        trace = getattr(trace, "parent", None)
        if trace is None:
            return False
    return True


@contextlib.contextmanager
def use_no_facts() -> Generator[None]:
    """Context manager in which equations have no scope, source and lineage of those around: they are a tool's own."""
    outer = context.scope, context.source, context.lineage
    context.scope = context.source = context.lineage = None
    try:
        yield
    finally:
        context.scope, context.source, context.lineage = outer


@block
def named_scope(name: str) -> Iterator[None]:
    """Puts `name` on the name stack: equations made in the block, and their kernels, carry it.

    >>> with named_scope("layer1"):
    ...     context.scope.path()
    ('layer1',)
    """
    with use_scope(ScopeStack(context.scope, _checked_name("named_scope", name))):
        yield


@block
def xla_metadata(metadata: dict[str, Any]) -> Iterator[None]:
    """Adds `metadata` to operations made in the block, as frontend attributes."""
    texts = tuple([(k, None if v is None else attribute_text(v)) for k, v in metadata.items()])
    scope = ScopeStack(context.scope, "", texts)
    metadata_in_force = tuple(scope.all_metadata().items())
    with use_scope(scope), flags.overridden(_metadata, metadata_in_force):
        yield


def attribute_text(value: Any) -> str:
    """Text of a value in frontend attributes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def named_call(fun: Function, *, name: str | None = None) -> Function:
    """`fun` wrapped in `named_scope(name)`, by default the name of `fun`.

    Raises: ArgumentTypeError for a name that isn't a string, and for a function without a name where none is given.

    >>> named_call(lambda: context.scope.path(), name="attention")()
    ('attention',)
    """
    scope_name = getattr(fun, "__name__", None) if name is None else name
    return wrapping(fun)(named_scope(_checked_name("named_call", scope_name))(fun))


def _checked_name(caller: str, name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"{caller} needs a name that is a string.", got=f"name: {type(name).__name__}"
        )
    return name


@block
def ensure_compile_time_eval() -> Iterator[None]:
    """Computes results of known values in the block or decorated function at once, even while tracing.

    These results are concrete values, which Python can inspect; they become constants of the program. What depends on
    traced values is traced as usual.

    >>> from pellucid import jit, numpy as jnp
    >>> @jit
    ... def rows(x):
    ...     with ensure_compile_time_eval():
    ...         n = jnp.prod(jnp.array([2, 3]))
    ...     return jnp.broadcast_to(x, int(n))
    >>> rows(1.0).shape
    (6,)
    """
    with flags.overridden(computes_known, True):
        yield


@contextlib.contextmanager
def unbound_axes() -> Generator[None]:
    """Context manager without named axes in scope."""
    outer = context.axes, context.checked_axes, context.unify
    key = _named_axes.swap_local(None)
    context.axes, context.checked_axes, context.unify = {}, frozenset(), None
    try:
        yield
    finally:
        context.axes, context.checked_axes, context.unify = outer
        _named_axes.set_local(key)


@contextlib.contextmanager
def unchecked_axes() -> Generator[None]:
    """Context manager in which types don't record over which axes values vary; the axes stay in scope."""
    outer = context.checked_axes, context.unify
    key = _named_axes.swap_local((tuple(context.axes.items()), frozenset()))
    context.checked_axes, context.unify = frozenset(), None
    try:
        yield
    finally:
        context.checked_axes, context.unify = outer
        _named_axes.set_local(key)


class bound_axes:
    """Context manager that binds named `axes` (name to size).

    `checked` are the mesh axes for which types record whether values vary; `unify` casts the operands of an equation to
    vary over the same of them.
    """

    __slots__ = ("axes", "checked", "unify", "previous")

    def __init__(
        self, axes: dict[Any, Any], checked: frozenset[Any] = frozenset(), unify: Any = None
    ) -> None:
        self.axes = axes
        self.checked = checked
        self.unify = unify

    def __enter__(self) -> None:
        self.previous = None
        if self.axes:
            outer = context.axes, context.checked_axes, context.unify
            context.axes = axes = context.axes | self.axes
            context.checked_axes = context.checked_axes.difference(self.axes) | self.checked
            context.unify = self.unify or context.unify
            key = (tuple(axes.items()), context.checked_axes)
            self.previous = *outer, _named_axes.swap_local(key)

    def __exit__(self, *exception: object) -> None:
        if self.previous is not None:
            context.axes, context.checked_axes, context.unify, key = self.previous
            _named_axes.set_local(key)
