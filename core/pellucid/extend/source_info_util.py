"""Sources and name stacks of equations, under the names of `jax.extend.source_info_util`.

The name stack is that of `named_scope` and of the transformations around it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from pellucid._machine.base.source import ScopeStack as Stack, capture, describe, user_frames
from pellucid._machine.ir.jaxpr import SourceInfo as SourceInfo
from pellucid._machine.tracing.current import context, use_scope

excluded_paths: list[str] = []
"""Files and folders that libraries listed by `register_exclusion`."""


class Scope(NamedTuple):
    """An entry of a name stack that `named_scope` made."""

    name: str


class Transform(NamedTuple):
    """An entry of a name stack for a transformation; it encloses the next inner scope."""

    name: str


class NameStack:
    """The names in force, outermost first, as an immutable sequence of scopes and transformations.

    >>> stack = new_name_stack("model").transform("jvp").extend("layer")
    >>> str(stack), len(stack), str(stack[1:])
    ('model/jvp(layer)', 3, 'jvp(layer)')
    """

    __slots__ = ("stack",)

    def __init__(self, stack: tuple[Scope | Transform, ...] = ()) -> None:
        self.stack = tuple(stack)

    def extend(self, name: str) -> NameStack:
        """This stack with a scope on top."""
        return NameStack((*self.stack, Scope(name)))

    def transform(self, transform_name: str) -> NameStack:
        """This stack with a transformation on top."""
        return NameStack((*self.stack, Transform(transform_name)))

    def __add__(self, other: Any) -> NameStack:
        return NameStack((*self.stack, *as_name_stack(other).stack))

    def __radd__(self, other: Any) -> NameStack:
        return as_name_stack(other) + self

    def __getitem__(self, part: slice) -> NameStack:
        return NameStack(self.stack[part])

    def __len__(self) -> int:
        return len(self.stack)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameStack) and self.stack == other.stack

    def __hash__(self) -> int:
        return hash(self.stack)

    def __str__(self) -> str:
        scope = as_scope(self)
        return "" if scope is None else str(scope)

    def __repr__(self) -> str:
        return f"NameStack(stack={self.stack})"


def as_name_stack(stack: Any) -> NameStack:
    """`stack`, which may be that of an equation, or None for no names, as a `NameStack`."""
    if isinstance(stack, NameStack):
        return stack
    entries = [] if stack is None else stack.entries()
    return NameStack(
        tuple([(Transform if e.is_transformation else Scope)(e.name) for e in entries if e.name])
    )


def as_scope(stack: Any) -> Stack | None:
    """`stack` in the form that equations have; None if it is empty."""
    if not isinstance(stack, NameStack):
        return stack
    scope = None
    for entry in stack.stack:
        scope = Stack(scope, entry.name, (), isinstance(entry, Transform))
    return scope


def new_name_stack(name: str = "") -> NameStack:
    """A stack of the one scope `name`, or of none.

    >>> new_name_stack("model")
    NameStack(stack=(Scope(name='model'),))
    """
    return NameStack((Scope(name),) if name else ())


def current_name_stack() -> NameStack:
    """The names in force.

    >>> with pl.named_scope("layer"):
    ...     str(current_name_stack())
    'layer'
    """
    return as_name_stack(context.scope)


def _with_entry(name: str, is_transformation: bool) -> contextlib.AbstractContextManager[None]:
    return use_scope(Stack(context.scope, name, (), is_transformation))


@contextlib.contextmanager
def extend_name_stack(name: str) -> Iterator[NameStack]:
    """A context with one more scope, as `named_scope`; its value is the new stack.

    >>> with extend_name_stack("layer") as stack:
    ...     print(stack)
    layer
    """
    with _with_entry(name, False):
        yield current_name_stack()


@contextlib.contextmanager
def transform_name_stack(name: str) -> Iterator[None]:
    """A context in which a transformation encloses the next inner scope.

    >>> with transform_name_stack("vmap"), extend_name_stack("layer") as stack:
    ...     print(stack)
    vmap(layer)
    """
    with _with_entry(name, True):
        yield


@contextlib.contextmanager
def set_name_stack(name_stack: Any) -> Iterator[None]:
    """A context whose names are those of `name_stack` alone; metadata of the outer scopes hold.

    >>> with pl.named_scope("outer"), set_name_stack(new_name_stack("inner")):
    ...     print(current_name_stack())
    inner
    """
    outer = None if context.scope is None else context.scope.metadata_only()
    scope = as_scope(name_stack)
    with use_scope(outer if scope is None else scope.on(outer)):
        yield


def reset_name_stack() -> contextlib.AbstractContextManager[None]:
    """A context without names.

    >>> with pl.named_scope("outer"), reset_name_stack():
    ...     len(current_name_stack())
    0
    """
    return set_name_stack(None)


def new_source_info() -> SourceInfo:
    """A source without a traceback and without names.

    >>> new_source_info().traceback is None
    True
    """
    return SourceInfo(None, NameStack())


def current() -> SourceInfo:
    """The source of an operation that would be made here: the Python stack, and the names in force.

    >>> with pl.named_scope("layer"):
    ...     str(current().name_stack)
    'layer'
    """
    return SourceInfo(context.source or capture(), current_name_stack())


def summarize(source_info: Any, num_frames: int = 1) -> str:
    """The innermost frames of the user in a source, one a line, outermost first.

    >>> summarize(new_source_info())
    ''
    """
    frames = user_frames(source_info.traceback)[:num_frames]
    lines = [f"{f.file}:{f.line}:{f.column} ({f.function})" for f in reversed(frames)]
    return "\n".join(lines)


@contextlib.contextmanager
def user_context(traceback: Any, *, name_stack: Any = None) -> Iterator[None]:
    """A context whose operations come from `traceback`, with the names of `name_stack`.

    Interpreters enter it for each equation. An error that leaves it has a note with the line of `traceback`.

    >>> program = pl.make_jaxpr(pl.lax.sin)(1.0)
    >>> source = program.eqns[0].source_info
    >>> with user_context(source.traceback, name_stack=new_name_stack("layer")):
    ...     str(current().name_stack)
    'layer'
    """
    outer = context.source
    context.source = traceback
    try:
        with set_name_stack(name_stack):
            yield
    except Exception as error:
        where = describe(traceback)
        if where is not None and not hasattr(error, "__notes__"):
            error.add_note(f"While interpreting an operation of {where}")
        raise
    finally:
        context.source = outer


def register_exclusion(path: str) -> None:
    """List `path` among the files of libraries; tools show their frames as they show the user's.

    >>> register_exclusion("library.py")
    """
    excluded_paths.append(path)


__all__ = [
    "NameStack", "SourceInfo", "current", "current_name_stack", "extend_name_stack", "new_name_stack", "new_source_info",
    "register_exclusion", "reset_name_stack", "set_name_stack", "summarize", "transform_name_stack", "user_context",
]  # fmt: skip
