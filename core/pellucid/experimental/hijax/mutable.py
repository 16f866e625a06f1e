"""Values that change in place, under traces: a trace changes its own values; those from outside are held in
references.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.refs.access import new_ref
from pellucid._machine.tracing import Tracer, bottom, context, use_trace
from pellucid._machine.xla.pytree import library_types

from .types import MutableHiType


@dataclass
class Held:
    """A value that a trace may change; `refs` hold its arrays, once another trace within has used it."""

    value: Any
    refs: list[Any] | None = None
    state: Any = None
    """State of the value, as `cur_qdd` returns it, where `refs` is set."""


_of_traces: weakref.WeakKeyDictionary[Any, dict[int, Held]] = weakref.WeakKeyDictionary()
"""Values made under each trace, by identity."""
_of_eager_code: dict[int, Held] = {}
"""Values of eager code that traced functions captured: compiled programs may refer to their references."""


def is_mutable(x: Any) -> bool:
    """Whether `x` is a value that changes in place."""
    handler = library_types.get(type(x))
    return handler is not None and is_mutable_type(handler(x))


def is_mutable_type(hi_type: Any) -> bool:
    """Whether values of `hi_type` change in place."""
    return isinstance(hi_type, MutableHiType) and hi_type.has_qdd


def hold(value: Any) -> None:
    """Registers `value` as one of the current trace, which alone may change it."""
    if not context.trace.is_eager:
        _of_traces.setdefault(context.trace, {})[id(value)] = Held(value)


def state_of(value: Any) -> Any:
    """State of a value, as `cur_qdd` returns it."""
    _, held = _owner(value)
    if held is not None and held.refs is not None:
        return held.state
    method = getattr(value, "cur_qdd", None) or value.type_state
    return method()


def read(value: Any) -> tuple[Any, list[Any]]:
    """State of a value, and the arrays that it consists of, under the current trace."""
    trace, held = _owner(value)
    if trace is context.trace and (held is None or held.refs is None):
        state = state_of(value)
        return state, _type_of(value).read_loval(state, value)
    held = _with_references(trace, held, value)
    return held.state, [ref[...] for ref in held.refs or ()]


def write(value: Any, state: Any, arrays: Sequence[Any], previous: Sequence[Any] = ()) -> None:
    """Bring a value into `state`, where it consists of `arrays`, under the current trace.

    Of arrays in references, those that aren't among `previous`, which were read there, are written.

    Raises: UnsupportedError where a traced function changes the types of the arrays of a value from outside.
    """
    trace, held = _owner(value)
    hi_type = _type_of(value)
    if trace is context.trace and (held is None or held.refs is None):
        hi_type.update_from_loval(state, value, *arrays)
        return
    held = _with_references(trace, held, value)
    refs = held.refs or []
    before, after = hi_type.lo_ty_qdd(held.state), hi_type.lo_ty_qdd(state)
    if [(a.shape, a.dtype) for a in before] != [(a.shape, a.dtype) for a in after]:
        raise UnsupportedError(
            "a value that a traced function captured can't get arrays of other types.",
            got=f"{', '.join(a.text() for a in before)} became {', '.join(a.text() for a in after)}",
            do="Pass the value to the jitted function as an argument.",
        )
    held.state = state
    for ref, array, old in strict_zip(refs, arrays, previous or [None] * len(refs)):
        if array is not old:
            ref[...] = array


def copy(value: Any, state: Any, arrays: Sequence[Any]) -> Any:
    """A value of the current trace like `value`, in `state`, which consists of `arrays`."""
    copied = _type_of(value).new_from_loval(state, *arrays)
    hold(copied)
    return copied


def is_changed_in_place(value: Any) -> bool:
    """Whether the current trace may change `value` in place: it owns the value, which no references hold."""
    trace, held = _owner(value)
    return trace is context.trace and (held is None or held.refs is None)


def _type_of(value: Any) -> Any:
    return library_types[type(value)](value)


def _traces() -> Iterator[Any]:
    """The current trace, and those around it, innermost first."""
    trace = context.trace
    while trace is not None and not trace.is_eager:
        yield trace
        trace = getattr(trace, "parent", None)


def _owner(value: Any) -> tuple[Any, Held | None]:
    """The trace that made `value`, and its `Held`; this is None for a value of eager code that no trace has used."""
    for trace in _traces():
        held = _of_traces.get(trace, {}).get(id(value))
        if held is not None:
            return trace, held
    held = _of_eager_code.get(id(value))
    if context.trace.is_eager:
        return context.trace, held
    return (bottom(), held) if held is not None else _owner_by_arrays(value)


def _owner_by_arrays(value: Any) -> tuple[Any, Held | None]:
    """For a value that no primitive made, the innermost trace that made one of its arrays, and its `Held`."""
    with use_trace(bottom()):
        arrays = _type_of(value).read_loval(state_of(value), value)
    traces = [x._trace for x in arrays if isinstance(x, Tracer)]
    for trace in _traces():
        if trace in traces:
            held = _of_traces.setdefault(trace, {})[id(value)] = Held(value)
            return trace, held
    return bottom(), None


def _with_references(trace: Any, held: Held | None, value: Any) -> Held:
    if held is None:
        held = _of_eager_code[id(value)] = Held(value)
    if held.refs is None:
        with use_trace(trace):
            hi_type, state = _type_of(value), state_of(value)
            arrays = hi_type.read_loval(state, value)
            held.refs, held.state = [new_ref(x) for x in arrays], state
    return held
