"""What is in force in this thread: the current trace, the name stack, the lineage, named axes."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from typing import Any

from pellucid.base.source import NameStack
from pellucid.ir.jaxpr import Lineage
from pellucid.xla import flags


class _LateTrace:
    """Stands at the bottom until `wiring` puts the trace there that compiles and runs primitives."""

    is_eager = True

    def interpret(self, primitive: Any, operands: tuple[Any, ...], params: Any) -> Any:
        importlib.import_module("pellucid.wiring")
        return Context.trace.interpret(primitive, operands, params)


class Context(threading.local):
    """The state of one thread. `trace` is what `bind` asks; the others are stored on equations."""

    trace: Any = _LateTrace()
    scope: NameStack | None = None
    lineage: Lineage | None = None
    source: Any = None
    """Where the equation comes from that is being run again; None while the user's code runs."""
    axes: dict[Any, Any] = {}  # noqa: RUF012  (replaced, never changed)
    """Sizes of the named axes in scope, by name."""
    checked_axes: frozenset[Any] = frozenset()
    """Those of `axes` that are mesh axes over which types say whether values vary."""
    unify: Any = None
    """Makes the operands of one equation vary over the same mesh axes; None where there is no checked axis."""


context = Context()
"""The one instance; `wiring` puts the bottom trace into `Context.trace`, for all threads."""

_tracing_now = flags.tracing_now
_named_axes = flags.flag("pellucid_named_axes", None, in_trace_key=True)
"""The named axes in scope, so that what a function traces to is remembered for them only."""


class use_trace:
    """Make `trace` the current one until the block ends."""

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


class use_lineage:
    """Note `lineage` on the equations made until the block ends."""

    __slots__ = ("lineage", "previous")

    def __init__(self, lineage: Lineage | None) -> None:
        self.lineage = lineage

    def __enter__(self) -> None:
        self.previous = context.lineage
        context.lineage = self.lineage

    def __exit__(self, *exception: object) -> None:
        context.lineage = self.previous


def plumbing(transformation: str) -> use_lineage:
    """Say of the equations made until the block ends that they are the transformation's own work.

    Where something is being transformed right now, that is what they come from.
    """
    return use_lineage(context.lineage or Lineage(transformation, ()))


@contextlib.contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Put `name` on the name stack: equations made in the block, and their kernels, carry it.

    >>> with named_scope("layer1"):
    ...     context.scope.path()
    ('layer1',)
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope takes a string, got {type(name).__name__}.")
    previous = context.scope
    context.scope = NameStack(previous, name)
    try:
        yield
    finally:
        context.scope = previous


@contextlib.contextmanager
def extended_axes(**axes: Any) -> Iterator[None]:
    """Bind named axes (name to size) until the block ends."""
    with bound_axes(axes):
        yield


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
