"""Typed events that core publishes to observers, such as tools, tests and logs.

An event contains references, never formatted text. A hook without observers costs an attribute access and a truth
test. An observer that raises is reported once; it stays, and can't disturb core.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import re
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar, dataclass_transform

from pellucid._machine.xla import transfers_watched

logger = logging.getLogger("pellucid")
P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E")
Stage: TypeAlias = Literal["trace", "lower", "compile"]
Direction: TypeAlias = Literal["host_to_device", "device_to_host", "device_to_device"]


is_by_tool = contextvars.ContextVar("pellucid.by_tool", default=False)


def by_tool(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for functions of tools: marks events within as caused by a tool rather than by the user's program."""

    @functools.wraps(function)
    def run_by_tool(*args: P.args, **kwargs: P.kwargs) -> R:
        token = is_by_tool.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            is_by_tool.reset(token)

    return run_by_tool


@dataclass(slots=True, eq=False)
class Event:
    """Base class of events, with time and thread.

    Observers receive events of the class `TraceFinished` through the method `trace_finished`, and so on; `hook` is its
    name.
    """

    hook: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.hook = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    time_ns: int = field(default_factory=time.monotonic_ns, kw_only=True)
    thread: int = field(default_factory=threading.get_ident, kw_only=True)
    is_by_tool: bool = field(default_factory=is_by_tool.get, kw_only=True)
    """Whether a function decorated with `by_tool` was running."""


@dataclass_transform(eq_default=False)
def _happening(kind: type[E]) -> type[E]:
    """Class decorator of event classes: a dataclass with slots, compared by identity."""
    return dataclass(slots=True, eq=False)(kind)


@_happening
class StageStarted(Event):
    """A stage of compilation, which may take minutes, begins. Its `StageEnded` follows, also after an error."""

    stage: Stage
    name: str
    program: Any
    """Jaxpr of the function; for a trace, the trace itself, whose `equations` grow during the stage."""


@_happening
class StageEnded(Event):
    """The most recently started stage in this thread ended or failed."""

    stage: Stage
    name: str


@_happening
class TraceFinished(Event):
    """A Python function was traced to a program."""

    name: str
    function: Any
    program: Any
    seconds: float


@_happening
class EquationStaged(Event):
    """An equation was added to a program being traced. Frequent: published only if an observer requests it."""

    equation: Any


@_happening
class EquationEntered(Event):
    """The operations that run from here on are made of an equation, by a transformation that goes through a program.

    Frequent: published only if an observer requests it, and where the operations run at once. `source` is where the equation was
    made; None, with no transformation, where the outermost transformation leaves its program.
    """

    source: Any
    transformation: str


@_happening
class PassFinished(Event):
    """A pass of the compilation pipeline ended; `before` and `after` are the programs themselves."""

    name: str
    before: Any
    after: Any
    seconds: float


@_happening
class CacheLooked(Event):
    """A jitted function looked up a program or executable. After a miss, `miss.reasons` are its causes."""

    name: str
    function: Any
    hit: bool
    miss: Any = None
    """The miss, to which durations are added as they are measured; None after a hit."""
    key: Any = None


@_happening
class CompilationFinished(Event):
    """One XLA compilation ended."""

    name: str
    seconds: float
    cache: Literal["miss", "disk"]
    executable: Any
    asked_disk: bool = False
    """Whether the executable was looked up in the disk cache."""
    seconds_of_disk: float = 0.0
    """Compilation time in the process that stored the executable in the disk cache; 0 if it wasn't found there."""


@_happening
class TransferStarted(Event):
    """A transfer between host and device, or between devices, is about to begin; nothing waits for it."""

    direction: Direction
    n_bytes: int


@_happening
class TransferFinished(Event):
    """Data was transferred between host and device, or between devices."""

    direction: Direction
    n_bytes: int
    seconds: float


@_happening
class WaitStarted(Event):
    """Python begins to wait for arrays to be computed, which may take minutes. Its `WaitEnded` follows, also after an
    error.
    """

    arrays: Any
    """The arrays that are waited for. Observers must not keep them."""


@_happening
class WaitEnded(Event):
    """The most recently started wait in this thread ended."""

    is_left: bool
    """Whether it was interrupted with Ctrl-C while devices continue."""


@_happening
class CallbackRan(Event):
    """Compiled code called a Python function."""

    function: Any
    seconds: float


@_happening
class TracerLeaked(Event):
    """A traced value was used after its trace ended."""

    tracer: Any


class Observer:
    """Base class of observers; subclasses override only the hooks that they need.

    >>> class Compilations(pl.Observer):
    ...     def compilation_finished(self, event):
    ...         print("compiled", event.name)
    >>> with pl.observe(Compilations()):
    ...     _ = pl.jit(lambda x: 23 * x)(1.0)
    compiled <lambda>
    """

    def stage_started(self, event: StageStarted, /) -> None: ...
    def stage_ended(self, event: StageEnded, /) -> None: ...
    def trace_finished(self, event: TraceFinished, /) -> None: ...
    def equation_staged(self, event: EquationStaged, /) -> None: ...
    def equation_entered(self, event: EquationEntered, /) -> None: ...
    def pass_finished(self, event: PassFinished, /) -> None: ...
    def cache_looked(self, event: CacheLooked, /) -> None: ...
    def compilation_finished(self, event: CompilationFinished, /) -> None: ...
    def transfer_started(self, event: TransferStarted, /) -> None: ...
    def transfer_finished(self, event: TransferFinished, /) -> None: ...
    def wait_started(self, event: WaitStarted, /) -> None: ...
    def wait_ended(self, event: WaitEnded, /) -> None: ...
    def callback_ran(self, event: CallbackRan, /) -> None: ...
    def tracer_leaked(self, event: TracerLeaked, /) -> None: ...


_HOOKS = tuple(name for name in vars(Observer) if not name.startswith("_"))


class Hooks:
    """For each hook, the observers' methods. Code that publishes frequent events tests whether the tuple is empty."""

    __slots__ = _HOOKS

    def __init__(self) -> None:
        for name in _HOOKS:
            setattr(self, name, ())


on: Any = Hooks()
_lock = threading.Lock()


def add_observer(observer: Observer) -> None:
    """Call the overridden hooks of `observer` from now on, in all threads."""
    with _lock:
        for name in _HOOKS:
            if getattr(type(observer), name) is not getattr(Observer, name):
                setattr(on, name, (*getattr(on, name), getattr(observer, name)))
        _note_watching()


def remove_observer(observer: Observer) -> None:
    """Stop calling `observer`."""
    with _lock:
        for name in _HOOKS:
            remaining = tuple(m for m in getattr(on, name) if m.__self__ is not observer)
            setattr(on, name, remaining)
        _note_watching()


def _note_watching() -> None:
    """Sets the flag, part of the key of C++ calls, for whether an observer listens to transfers."""
    transfers_watched.set_global(bool(on.transfer_started or on.transfer_finished))


@contextlib.contextmanager
def observe(observer: Observer) -> Generator[Observer]:
    """Call the hooks of `observer` until the block ends.

    The hooks run in the threads of the events, of all threads.

    >>> class Transfers(pl.Observer):
    ...     def transfer_finished(self, event):
    ...         print(event.direction, event.n_bytes)
    >>> with pl.observe(Transfers()):
    ...     _ = pl.device_put(np.ones(4, np.float32))
    host_to_device 16
    """
    add_observer(observer)
    try:
        yield observer
    finally:
        remove_observer(observer)


@contextlib.contextmanager
def stage_events(stage: Stage, name: str, program: Any) -> Generator[None]:
    """Publish `StageStarted` before the block, and `StageEnded` after it, also where it fails."""
    if on.stage_started:
        publish(StageStarted(stage, name, program))
    try:
        yield
    finally:
        if on.stage_ended:
            publish(StageEnded(stage, name))


_reported: set[Any] = set()


def publish(event: Event) -> None:
    """Pass `event` to the observers' methods; an observer that raises is logged once, and can't disturb core."""
    for method in getattr(on, event.hook):
        try:
            method(event)
        except Exception:
            key = getattr(method, "__func__", method)
            if key not in _reported:
                _reported.add(key)
                logger.exception("an observer of %s failed; it is skipped", type(event).__name__)


class _Counter(Observer):
    def __init__(self) -> None:
        self.events: list[Event] = []

    @property
    def count(self) -> int:
        return len(self.events)

    def add(self, event: Event) -> None:
        self.events.append(event)


@contextlib.contextmanager
def counting(kind: type[Event]) -> Generator[_Counter]:
    """Collect events of one kind: `with counting(CompilationFinished) as n: ...; n.count`."""
    counter_type = type("Counter", (_Counter,), {kind.hook: _Counter.add})
    with observe(counter_type()) as counter:
        yield counter  # pyright: ignore[reportReturnType]
