"""Context of a thread: the current trace, the name stack, the lineage, the named axes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator
from typing import Any, Self

from pellucid._machine.base import ArgumentTypeError, Function, ScopeStack, block, wrapping
from pellucid._machine.base.late import late
from pellucid._machine.ir import Equation, Lineage
from pellucid._machine.xla import by_name, flags


class _LateTrace:
    """Stands at the bottom until the trace is asked for that compiles and runs primitives."""

    is_eager = True

    def __getattr__(self, name: str) -> Any:
        Context.trace = late("bottom trace")
        return getattr(Context.trace, name)


def bottom() -> Any:
    """The bottom trace: it runs primitives at once, and has the operations that move values to devices."""
    return Context.trace


class Context(threading.local):
    """The state of one thread. `trace` is what `bind` asks; the others are stored on equations."""

    trace: Any = _LateTrace()
    scope: ScopeStack | None = None
    lineage: Lineage | None = None
    source: Any = None
    """Where the equation comes from that is being run again; None while the user's code runs."""
    axes: dict[Any, Any] = {}  # noqa: RUF012  (replaced, never changed)
    """Sizes of the named axes in scope, by name."""
    checked_axes: frozenset[Any] = frozenset()
    """Those of `axes` that are mesh axes over which types say whether values vary."""
    unify: Any = None
    """Makes the operands of one equation vary over the same mesh axes; None where there is no checked axis."""

    def __reduce__(self) -> Any:
        return by_name(self)


context = Context()
"""The one instance; `Context.trace` is the bottom trace of all threads."""

_tracing_now = flags.tracing_now
_named_axes = flags.flag("pellucid_named_axes", None, in_trace_key=True)
"""The named axes in scope, so that what a function traces to is remembered for them only."""


computes_known = flags.flag("pellucid_computes_known", None, in_call_key=True, in_trace_key=True)
"""True where staging computes at once what depends on no traced value; see `ensure_compile_time_eval`."""

_metadata = flags.flag("pellucid_xla_metadata", None, in_call_key=True, in_trace_key=True)
"""The metadata in force, so that programs are remembered for it only."""


class use_trace:
    """Make `trace` the current one until the block ends.

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
    """Run primitives at once until the block ends; the block gets the trace that was current.

    >>> with take_current_trace() as trace:
    ...     trace.is_eager
    True
    """
    trace = context.trace
    with use_trace(Context.trace):
        yield trace


class _Override:
    """Put `value` into `field` of the context until the block ends."""

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
    """Note `lineage` on the equations made until the block ends."""
    return _Override("lineage", lineage)


def plumbing(transformation: str) -> _Override:
    """Say of the equations made until the block ends that they are the transformation's own work.

    Where something is being transformed right now, that is what they come from.
    """
    return use_lineage(context.lineage or Lineage(transformation, ()))


def use_scope(scope: ScopeStack | None) -> _Override:
    """Make `scope` the name stack until the block ends."""
    return _Override("scope", scope)


def use_transformation(name: str, batch: Any = None) -> _Override:
    """Put a transformation, with the batch of a `vmap`, on the name stack until the block ends: names read `vmap(layer)/mul`."""
    return use_scope(ScopeStack(context.scope, name, (), True, batch))


def use_no_scope() -> _Override:
    """Begin a program of its own, whose names don't repeat those of the scopes around it; their metadata hold."""
    scope = context.scope
    return use_scope(None if scope is None else scope.metadata_only())


class use_facts:
    """Note the facts of equations on those that they turn into, from `enter` on until the block ends."""

    __slots__ = ("outer", "scope", "joined")

    def __enter__(self) -> Self:
        self.outer = context.scope, context.source, context.lineage
        self.scope, self.joined = None, context.scope
        return self

    def enter(self, equation: Equation, lineage: Lineage) -> None:
        """Note the scope and source of `equation`, and `lineage`, from now on."""
        scope = equation.scope
        if scope is not self.scope:
            self.scope, outer = scope, self.outer[0]
            self.joined = outer if scope is None else scope.on(outer)
        context.scope, context.source, context.lineage = self.joined, equation.source, lineage

    def __exit__(self, *exception: object) -> None:
        context.scope, context.source, context.lineage = self.outer


@block
def named_scope(name: str) -> Iterator[None]:
    """Put `name` on the name stack: equations made in the block, and their kernels, carry it.

    >>> with named_scope("layer1"):
    ...     context.scope.path()
    ('layer1',)
    """
    with use_scope(ScopeStack(context.scope, _checked_name("named_scope", name))):
        yield


@block
def xla_metadata(metadata: dict[str, Any]) -> Iterator[None]:
    """Give the operations made until the block ends `metadata`, as frontend attributes."""
    texts = tuple([(k, None if v is None else attribute_text(v)) for k, v in metadata.items()])
    scope = ScopeStack(context.scope, "", texts)
    metadata_in_force = tuple(scope.all_metadata().items())
    with use_scope(scope), flags.overridden(_metadata, metadata_in_force):
        yield


def attribute_text(value: Any) -> str:
    """A value as frontend attributes, which are texts, have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def named_call(fun: Function, *, name: str | None = None) -> Function:
    """`fun` under `named_scope(name)`; by default the name is that of `fun`.

    Raises: ArgumentTypeError for a name that is no string, and for a function without a name where none is given.

    >>> named_call(lambda: context.scope.path(), name="attention")()
    ('attention',)
    """
    scope_name = getattr(fun, "__name__", None) if name is None else name
    return wrapping(fun)(named_scope(_checked_name("named_call", scope_name))(fun))


def _checked_name(caller: str, name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"{caller} takes a name that is a string.", got=f"name: {type(name).__name__}"
        )
    return name


@block
def ensure_compile_time_eval() -> Iterator[None]:
    """Compute at once what the block, or the decorated function, computes from known values, also while tracing.

    What comes out of that are values, which Python can look at; they become constants of the program. What depends
    on traced values is traced as it would be outside of the block.

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
    """Let the block run where no axis is named."""
    outer = context.axes, context.checked_axes, context.unify
    key = _named_axes.swap_local(None)
    context.axes, context.checked_axes, context.unify = {}, frozenset(), None
    try:
        yield
    finally:
        context.axes, context.checked_axes, context.unify = outer
        _named_axes.set_local(key)


class bound_axes:
    """Bind the named `axes` (name to size) until the block ends.

    `checked` are those that are mesh axes over which types say whether values vary; `unify` makes the operands of
    one equation vary over the same of them.
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
