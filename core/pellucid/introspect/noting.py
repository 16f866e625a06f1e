"""Records the user's lines in the order in which Python ran them during a trace, with the values of variables at each.

Lines are observed with a trace function (`sys.settrace`), which is set only while a debugger traces a function. Other
traces record nothing and have no overhead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import config, is_user_file
from pellucid._machine.base.narrowing import is_tuple
from pellucid._machine.ir import DebugInfo, Equation, HigherOrderPrimitive, Jaxpr, Literal, Var
from pellucid._machine.tracing import (
    Draft,
    StagingTrace,
    StagingTracer,
    context,
    keeps_calls,
)
from pellucid._machine.transforms.jvp import JVPTracer
from pellucid._machine.transforms.vmap import BatchTrace, BatchTracer, Lanes
from pellucid._machine.xla import ARRAY_TYPES
from pellucid._machine.xla.flags import RareFlag, overridden

from .lineage import origins_of, transformation_of

__all__ = [
    "Activation",
    "TracedMoment",
    "Images",
    "TraceNotes",
    "held_values",
    "images_of",
    "is_noting",
    "are_equal",
    "noting",
    "watching",
]

MAX_LEAVES = 512
"""Maximum number of recorded values of one container."""
MAX_DEPTH = 8
"""Maximum depth of nested containers whose values are recorded."""
MAX_COPIED_BYTES = 1 << 20
"""Maximum size of NumPy arrays that are recorded; they are copied because they may change later."""

_is_noting = RareFlag("pellucid_is_noting", False, in_trace_key=True)
"""Part of the trace key: a function that was traced without notes is traced once more with notes."""
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
_numbers = itertools.count()


class Activation(NamedTuple):
    """One run of a function of the user."""

    number: int
    code: CodeType
    n_batches: int
    """Number of `vmap` transformations around it in its program."""


Held = Mapping[str, Any]
"""Maps a path such as `state['sum']` to what it refers to: a variable of the program, or a known value."""


class TracedMoment(NamedTuple):
    """A moment in a trace: a line of the user is about to run, or a function of the user has returned."""

    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """Number of equations staged before."""
    activations: tuple[Activation, ...]
    """The active function runs that began in this program, outermost first."""
    lines: tuple[int, ...]
    """The current line of each activation."""
    held: tuple[Held, ...]
    """The values of the variables of each activation."""
    is_line: bool


class TraceNotes:
    """The lines and values that were recorded while one program was staged."""

    def __init__(
        self,
        debug: DebugInfo | None,
        inputs: Sequence[Var],
        equations: Sequence[Equation],
        n_around: int,
    ) -> None:
        self.n_around = n_around
        """Number of the user's frames that were active where the program begins."""
        self.events: list[TracedMoment] = []
        self.debug = debug
        self.inputs = inputs
        self.equations = equations
        """All staged equations, including those that were replaced later."""


def is_noting() -> bool:
    """Whether this thread records lines."""
    return _is_noting.value


@contextlib.contextmanager
def noting() -> Generator[None]:
    """Record the user's lines in what this thread traces within the block.

    Functions that were traced without notes are traced again. Repeated layers are called in place, not outlined, and
    what rules would add equation by equation stays a call, so that one can stop in each.
    """
    with (
        overridden(_is_noting, True), overridden(keeps_calls, True),
        config.call_repeated_layers(False), watching(),
    ):  # fmt: skip
        yield


@contextlib.contextmanager
def watching() -> Generator[None]:
    """Like `noting`, but nothing is traced again: programs traced before have no notes. May be nested."""
    previous = sys.gettrace()
    if isinstance(getattr(previous, "__self__", None), _Watcher):
        yield
        return
    watcher = _Watcher()
    watch, set_trace = watcher.on_call, _set_trace()
    set_trace(watch)
    try:
        yield
    finally:
        # Keep a trace function that the traced function itself has set, as `breakpoint()` does.
        if sys.gettrace() == watch:
            set_trace(previous)
        watcher.finish()


def _set_trace() -> Any:
    """Python's own `sys.settrace`; pydevd replaces it by one that warns."""
    holder = getattr(sys.modules.get("pydevd_tracing"), "TracingFunctionHolder", None)
    return getattr(holder, "_original_tracing", None) or sys.settrace


class _Watcher:
    """The trace function of one thread."""

    def __init__(self) -> None:
        self._stack: list[tuple[FrameType, Activation, StagingTrace | None]] = []
        """The user's frames, each with its activation and the trace in which it began."""
        self._generators: dict[FrameType, Activation] = {}
        self._notes: dict[StagingTrace, TraceNotes] = {}
        self._n_around = _n_user_frames(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # public by use

    def finish(self) -> None:
        self._notes.clear()
        self._stack.clear()
        self._generators.clear()

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Called when a Python function starts; returns the trace function for its lines if it is the user's."""
        code = frame.f_code
        if event != "call" or not is_user_file(code.co_filename) or _is_no_function(frame):
            return None
        if _is_of_garbage_collection(frame):
            return None
        trace, n_batches = _staging()
        activation = self._generators.get(frame) or Activation(next(_numbers), code, n_batches)
        if code.co_flags & _GENERATOR:
            self._generators[frame] = activation
        self._stack.append((frame, activation, trace))
        return self._ran

    def _ran(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            while self._stack and self._stack.pop()[0] is not frame:
                pass
            self._note(is_line=False)
        elif event == "line":
            self._note(is_line=True)
        return self._ran

    def _note(self, *, is_line: bool) -> None:
        trace, _ = _staging()
        if trace is None:
            return
        notes = self._notes.get(trace)
        within = [each for each in self._stack if each[2] is trace]
        if notes is None:
            n_around = self._n_around + len(self._stack) - len(within)
            trace.debug = trace.debug or DebugInfo("unknown", "program")
            notes = TraceNotes(trace.debug, trace.invars, trace.equations, n_around)
            self._notes[trace] = trace.debug.notes = notes
        notes.events.append(
            TracedMoment(
                len(trace.equations),
                tuple([activation for _, activation, _ in within]),
                tuple([frame.f_lineno for frame, _, _ in within]),
                tuple([held_values(frame) for frame, _, _ in within]),
                is_line,
            )
        )


_GENERATOR = 0x20 | 0x80 | 0x200
"""Code flags of generators and coroutines, whose frames are resumed."""


def _staging() -> tuple[StagingTrace | None, int]:
    """The innermost staging trace whose program will run, and the number of `vmap` within it."""
    trace: Any = context.trace
    n_batches = 0
    while trace is not None and (not isinstance(trace, StagingTrace) or isinstance(trace, Draft)):
        n_batches += isinstance(trace, BatchTrace)
        trace = getattr(trace, "parent", None)
    return trace, n_batches


def _is_no_function(frame: FrameType) -> bool:
    """Whether a frame is that of a module, or of a method generated from a text, as those of a NamedTuple are."""
    code = frame.f_code
    is_method = code.co_name.startswith("__") or "namedtuple_" in frame.f_globals.get(
        "__name__", ""
    )
    return code.co_name == "<module>" or (code.co_filename == "<string>" and is_method)


def _is_of_garbage_collection(frame: FrameType | None) -> bool:
    """Whether a frame runs because Python collects garbage, which it does in the middle of any line."""
    # A callback that isn't a function runs its class's `__call__`.
    called = [x if hasattr(x, "__code__") else type(x).__call__ for x in gc.callbacks]
    codes = [getattr(each, "__code__", None) for each in called]
    while frame is not None and codes:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


def _n_user_frames(frame: FrameType | None) -> int:
    count = 0
    while frame is not None:
        count += is_user_file(frame.f_code.co_filename)
        frame = frame.f_back
    return count


# What names hold ----------------------------------------------------------------------------------------


def held_values(frame: FrameType, value_of: Callable[[Any], Any] | None = None) -> Held:
    """The recordable values of a function's variables; mutable ones are copied.

    `value_of` gives the variable or the known value of a tracer, None to leave it out (default: those of the program).
    """
    held: dict[str, Any] = {}
    if frame.f_code.co_name != "<module>":
        for name, value in frame.f_locals.items():
            if name.isidentifier():
                leaves: dict[str, Any] = {}
                _collect(name, value, leaves, 0, value_of or _variable)
                if len(leaves) <= MAX_LEAVES:
                    held.update(leaves)
    return held


def _collect(
    path: str, value: Any, leaves: dict[str, Any], depth: int, value_of: Callable[[Any], Any]
) -> None:
    """Add the leaves of `value`, keyed by their expressions. Attributes that may be computed aren't read."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if len(leaves) > MAX_LEAVES:
        return
    if isinstance(value, (StagingTracer, BatchTracer, JVPTracer)):
        held = value_of(value)
        if held is not None:
            leaves[path] = held
    elif isinstance(value, _CONSTANTS) or kind in ARRAY_TYPES:
        leaves[path] = value
    elif kind is np.ndarray:
        if value.nbytes <= MAX_COPIED_BYTES and value.dtype.kind != "O":
            leaves[path] = value.copy()
    elif depth == MAX_DEPTH:
        return
    elif kind in (tuple, list):
        for i, item in enumerate(value):
            _collect(f"{path}[{i}]", item, leaves, depth + 1, value_of)
    elif kind is dict:
        for key, item in value.items():
            if isinstance(key, (str, int)):
                _collect(f"{path}[{key!r}]", item, leaves, depth + 1, value_of)
    elif is_tuple(value) and (names := getattr(kind, "_fields", None)) is not None:  # pyright: ignore[reportUnknownArgumentType]  # of any parameters
        for name, item in zip(names, value, strict=True):
            _collect(f"{path}.{name}", item, leaves, depth + 1, value_of)
    elif dataclasses.is_dataclass(value) and kind is not value:
        stored = getattr(value, "__dict__", {})
        for field in dataclasses.fields(value):
            if field.name in stored:
                _collect(f"{path}.{field.name}", stored[field.name], leaves, depth + 1, value_of)


def _variable(value: Any) -> Any:
    """The variable that a tracer represents, or a known value; None for anything else."""
    while True:
        if type(value) is BatchTracer:
            value = value.value
        elif type(value) is JVPTracer:
            value = value.primal
        elif isinstance(value, StagingTracer):
            return None if isinstance(value._trace, Draft) else value.variable  # pyright: ignore[reportPrivateUsage]  # tracers and traces share attributes with private names
        else:
            return value if type(value) in ARRAY_TYPES or isinstance(value, _CONSTANTS) else None  # pyright: ignore[reportUnknownVariableType]  # of any parameters


# Programs that were made from others ----------------------------------------------------------------------


class Images(NamedTuple):
    """The notes of a program, or of the one it was made from, matched to the program's equations and variables."""

    notes: TraceNotes
    order: list[int]
    """For each equation, the index of the recorded equation that it is or was made from, ascending."""
    variables: Mapping[Var, Var]
    """Maps recorded variables to variables of this program with the same value; only certain matches."""


def images_of(jaxpr: Jaxpr) -> Images | None:
    """The notes of a program, matched to its equations and variables; None if it has none.

    A transformed program has its lines in the same order as the original, except in backward passes.
    """
    if "images" not in jaxpr.memo:
        jaxpr.memo["images"] = _images_of(jaxpr)
    return jaxpr.memo["images"]


def _images_of(jaxpr: Jaxpr) -> Images | None:
    notes: TraceNotes | None = None if jaxpr.debug is None else jaxpr.debug.notes
    if notes is None:
        return None
    lanes: Lanes | None = jaxpr.memo.get("lanes")
    base = jaxpr.memo.get("batched") if lanes is None else lanes.unbatched
    if base is None:
        return _match_program(notes, notes.debug, notes.inputs, notes.equations, jaxpr, None)
    images = images_of(base)
    step = (
        None
        if images is None
        else _match_program(notes, base.debug, base.invars, base.equations, jaxpr, lanes)
    )
    if images is None or step is None:
        return None
    order = [images.order[i] if i >= 0 else -1 for i in step.order]
    variables = {v: step.variables[w] for v, w in images.variables.items() if w in step.variables}
    return Images(notes, order, variables)


def _match_program(
    notes: TraceNotes,
    debug: DebugInfo | None,
    inputs: Sequence[Var],
    equations: Sequence[Equation],
    jaxpr: Jaxpr,
    lanes: Lanes | None,
) -> Images | None:
    """Match a program to the recorded inputs and equations that it consists of, or was made from."""
    index = {e.id: i for i, e in enumerate(equations)}
    # For each equation of `jaxpr`, the last recorded one that it is, or was made from; -1 at first where there is none.
    ids, order = frozenset(index), list[int]()
    copies: dict[int, list[Equation]] = {}
    own = {v: v for v in (*jaxpr.constvars, *jaxpr.invars)}
    for equation in jaxpr.equations:
        if equation.id in index:
            origins = [index[equation.id]]
            own.update((v, v) for v in equation.results)
        elif transformation_of(equation) == "transpose" and not _is_mixed(jaxpr, ids):
            return None
        else:
            origins = sorted([index[e.id] for e in origins_of(equation, ids)] if ids else [])
            if len(origins) == 1:
                copies.setdefault(origins[0], []).append(equation)
        order.append(origins[-1] if origins else -1)
    # One without an origin belongs to the equation before it. The rest of a match needs the recorded order.
    for i, n in enumerate(order):
        order[i] = order[i - 1] if n < 0 < i else n
    if order != sorted(order):
        return None
    if not copies:
        return Images(notes, order, own)
    variables = own | {
        v: w for v, w in _match_inputs(debug, inputs, jaxpr, lanes) if _is_alike(v, w, lanes)
    }
    for i, equation in enumerate(equations):
        if equation.results and equation.results[0] not in variables:
            variables.update(_results_among(copies.get(i, ()), equation, variables, lanes))
    return Images(notes, order, variables)


def _match_inputs(
    debug: DebugInfo | None, inputs: Sequence[Var], jaxpr: Jaxpr, lanes: Lanes | None
) -> Iterator[tuple[Var, Var]]:
    """Maps recorded inputs to inputs of a program made from theirs: by position if it was batched, else by name."""
    if lanes is not None:  # captured values come first
        yield from zip(inputs, jaxpr.invars[len(jaxpr.invars) - len(inputs) :], strict=False)
        return
    named, own = _inputs_by_name(debug, inputs), _inputs_by_name(jaxpr.debug, jaxpr.invars)
    yield from [(v, own[name]) for name, v in named.items() if name in own]


def _inputs_by_name(debug: DebugInfo | None, inputs: Sequence[Var]) -> dict[str, Var]:
    """Maps names to inputs, without the constants before them, which have none; empty if two have the same name."""
    names = () if debug is None else debug.argument_names
    if len(names) > len(inputs):
        return {}
    named = [*zip(names, inputs[len(inputs) - len(names) :], strict=True)]
    named = [(name, v) for name, v in named if name]
    return dict(named) if len(named) == len(dict(named)) else {}


def _is_mixed(jaxpr: Jaxpr, ids: frozenset[int]) -> bool:
    """Whether a program has equations of its own besides those of a backward pass."""
    return any(e.id in ids for e in jaxpr.equations)


def _results_among(
    copies: Sequence[Equation],
    equation: Equation,
    variables: Mapping[Var, Var],
    lanes: Lanes | None,
) -> dict[Var, Var]:
    """Maps results of a recorded equation to variables of the program; empty if it is uncertain.

    An operation on the same values has the same results. A batched result must have the recorded batch dimension.
    """
    results = equation.results
    if lanes is not None:
        noted = [v for e in copies for v in e.results if v in lanes.dims]
        if len(noted) == len(results) and all(map(_is_batch_in(lanes), results, noted)):
            return dict(zip(results, noted, strict=True))
    for copy in copies:
        if copy.primitive is not equation.primitive or transformation_of(copy) == "transpose":
            continue
        if isinstance(copy.primitive, HigherOrderPrimitive):
            is_same = len(copies) == 1
        else:
            is_same = are_equal(copy.params, equation.params) and all(
                a.val is b.val
                if isinstance(a, Literal) and isinstance(b, Literal)
                else variables.get(a) is b  # type: ignore[arg-type]
                for a, b in zip(equation.operands, copy.operands, strict=False)
            )
        same = [*map(lambda v, w: v.aval == w.aval, results, copy.results)]
        if is_same and len(same) == len(results) and all(same):
            return dict(zip(results, copy.results, strict=False))
    return {}


def _is_batch_in(lanes: Lanes) -> Callable[[Var, Var], bool]:
    return lambda v, w: _is_alike(v, w, lanes)


def _is_alike(variable: Var, copy: Var, lanes: Lanes | None) -> bool:
    """Whether `copy` has the type of `variable`, with a batch dimension where one was recorded."""
    dim = None if lanes is None else lanes.dims.get(copy)
    if dim is None:
        return variable.aval == copy.aval
    shape = [*getattr(copy.aval, "shape", ())]
    del shape[dim]
    return tuple(shape) == getattr(variable.aval, "shape", ())


def are_equal(params: Any, other: Any) -> bool:
    """Whether params of two equations are equal."""
    try:
        return bool(params == other)
    except Exception:  # params that can't be compared, such as arrays
        return False
