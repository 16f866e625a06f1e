"""Cache misses of jitted functions: how the key differs from the most similar earlier one."""

from __future__ import annotations

import functools
import inspect
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid._machine.base import (
    CacheUse,
    Function,
    cache_uses,
    clearing,
    describe,
    is_by_tool,
    strict_zip,
    structure_differences,
)
from pellucid._machine.compilation.placement import ResolvedPlacement, devices_text
from pellucid._machine.sharding.stated import placement_text
from pellucid._machine.xla.flags import trace_context_names


class MissReason(NamedTuple):
    """One part of a call that differs from the most similar earlier call."""

    kind: Literal[
        "first call", "shape", "dtype", "weak type", "sharding", "tree", "static", "option", "device", "function", "closure"
    ]  # fmt: skip
    path: str
    old: str
    new: str
    advice: str

    def __str__(self) -> str:
        if self.kind == "first call":
            return "it was never called before"
        if self.kind == "function":
            return self.new
        return f"{self.path}: was {self.old}, is {self.new}. {self.advice}"


@dataclass(slots=True)
class Miss:
    """A cache miss of a jitted function, with its cost."""

    name: str
    reasons: tuple[MissReason, ...]
    source: Any
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0
    """Seconds of lowering and compiling; 0 while no executable was needed."""
    lower_seconds: float = 0.0
    """The part of `compile_seconds` spent lowering to StableHLO."""
    executable_from: Literal["disk", "memory"] | None = None
    """Where the executable was found, if it wasn't compiled."""
    entry_count: int = 1
    """Number of programs of the function, this one included."""
    time_ns: int = field(default_factory=time.monotonic_ns)
    """Time of the miss, on a monotonic clock."""
    is_by_tool: bool = field(default_factory=is_by_tool.get)
    """Whether a viewer caused it, rather than the user's program."""


_KEEP_SHARDING = "Keep its sharding the same between calls."
recent: deque[Miss] = deque(maxlen=500)
"""The latest misses, oldest first."""


class TracedFunctionKey(NamedTuple):
    """The key of a traced function in the cache of its Python function: types and static values of a call, options in force."""

    tree: Any
    avals: tuple[Any, ...]
    static: Any
    context: tuple[Any, ...]


def reasons_for(
    key: TracedFunctionKey, earlier: Iterable[TracedFunctionKey], paths: Sequence[str]
) -> tuple[MissReason, ...]:
    """The differences between `key` and the most similar of the latest `earlier` keys."""
    differences = [_differences(other, key, paths) for other in reversed(list(earlier)[-16:])]
    return min(differences, key=len, default=_FIRST_CALL)


# Functions that one line defines again and again ----------------------------------------------------------


class _Definition(NamedTuple):
    """The last definition at a source line: the function's code, and texts of the values that it refers to."""

    code: CodeType
    values: dict[str, str]
    count: int


_MAX_DEFINITIONS = 1024
_definitions: dict[Any, _Definition] = {}
"""The latest jitted definition at each source line."""
clearing(_definitions.clear)


def reasons_for_function(function: Function | None) -> tuple[MissReason, ...]:
    """Why `function`, which was never called before, differs from the last function defined at the same line.

    None stands for a function requested by a viewer. These texts are only for people.
    """
    maker: Any = function
    # Attributes of user objects aren't read, because `__getattr__` may have side effects.
    while isinstance(maker, (MethodType, functools.partial)):
        maker = maker.func if isinstance(maker, functools.partial) else maker.__func__
    if not isinstance(maker, FunctionType):
        return _FIRST_CALL
    code = maker.__code__
    place = code.co_filename, code.co_firstlineno, code.co_qualname
    before = _definitions.pop(place, None)
    values = _values_of(maker)
    count = 1 if before is None else before.count + 1
    _definitions[place] = _Definition(code, values, count)
    if len(_definitions) > _MAX_DEFINITIONS:
        del _definitions[next(iter(_definitions))]
    if before is None or before.code != code:
        return _FIRST_CALL
    changed = [
        MissReason("closure", what, was, values[what], _ADVICE_ON_VALUES)
        for what, was in before.values.items()
        if values.get(what, was) != was
    ]
    made = "defined" if maker is function else "wrapped"
    again = f"the same line has {made} it {count} times. Make it, and `jit` of it, once, outside of loops and functions."
    return (*changed[:3],) or (MissReason("function", "", "", again, ""),)


_FIRST_CALL = (MissReason("first call", "", "", "", ""),)
_ADVICE_ON_VALUES = "Pass it as an argument, and make `jit` once."
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _values_of(function: FunctionType) -> dict[str, str]:
    """Texts of a function's captured values and defaults, and of numbers and strings among the globals that it uses."""
    code = function.__code__
    texts: dict[str, str] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            texts[f"`{name}` in the closure"] = _value_text(cell.cell_contents)
        except ValueError:  # a closure variable without a value yet
            continue
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    by_name = {**dict(zip(names, defaults, strict=False)), **(function.__kwdefaults__ or {})}
    texts |= {f"default of `{name}`": _value_text(x) for name, x in by_name.items()}
    for name in code.co_names:
        value = function.__globals__.get(name)
        if value is not None and type(value) in _PLAIN:
            texts[f"global `{name}`"] = _value_text(value)
    return texts


def _value_text(x: Any) -> str:
    """Short text of a value: numbers and strings themselves, the type of other values."""
    kind = type(x)
    if kind in _PLAIN or (kind is tuple and all(type(y) in _PLAIN for y in x)):
        return f"{x!r:.60}"
    if hasattr(kind, "aval") and hasattr(x.aval, "text"):
        return x.aval.text()
    if isinstance(x, np.ndarray):
        return f"a NumPy array {x.dtype}{list(x.shape)}"
    if inspect.isroutine(x) or isinstance(x, type):
        return str(getattr(x, "__qualname__", kind.__name__))
    return f"a {kind.__name__}"


# The parts of a key ----------------------------------------------------------------------------------------


def _differences(
    old: TracedFunctionKey, new: TracedFunctionKey, paths: Sequence[str]
) -> tuple[MissReason, ...]:
    reasons: list[MissReason] = []
    if old.tree != new.tree:
        advice = "Call with the same containers and keys."
        pairs = [(str(d), "another structure") for d in structure_differences(old.tree, new.tree)]
        pairs = pairs[:4] or [(str(old.tree), str(new.tree))]
        reasons += [MissReason("tree", "arguments", *pair, advice) for pair in pairs]
    else:
        for path, a, b in zip(paths, old.avals, new.avals, strict=False):
            if a is not b:
                reasons.append(_argument_reason(path, a, b))
    advice = "Each value of a static argument is compiled for itself."
    for values, new_values in strict_zip(old.static, new.static):
        for was, now in zip(values, new_values, strict=False):
            if was != now:
                path = f"static argument {now[0]!r}"
                reasons.append(MissReason("static", path, repr(was[2]), repr(now[2]), advice))
    for name, was, now in zip(trace_context_names(), old.context, new.context, strict=False):
        if was != now:
            path, advice = (
                f"option {name.removeprefix('pellucid_')}",
                "Keep options the same between calls.",
            )
            reasons.append(MissReason("option", path, repr(was), repr(now), advice))
    return tuple(reasons)


def _type_text(aval) -> str:
    return aval.text() + (" of a Python number" if getattr(aval, "weak_type", False) else "")


def _argument_reason(path: str, old, new) -> MissReason:
    """Why an argument of type `new` doesn't match a program for type `old`."""
    differing = [a for a in _ASPECTS if getattr(old, a[1], None) != getattr(new, a[1], None)]
    kind, _, advice = [*differing, ("sharding", "", _KEEP_SHARDING)][0]
    return MissReason(kind, path, _type_text(old), _type_text(new), advice)


_ASPECTS: Sequence[tuple[Any, str, str]] = (
    ("shape", "shape", "Pad to a fixed shape, or batch the calls."),
    ("dtype", "dtype", "Convert it before the call."),
    ("weak type", "weak_type", "Pass `jnp.asarray(value, dtype)` instead of a Python number."),
)
"""For each kind of difference between argument types, the attribute that differs, and advice."""


def reasons_for_place(
    place: ResolvedPlacement, earlier: Iterable[ResolvedPlacement], paths: Sequence[str]
) -> tuple[MissReason, ...]:
    """Why a traced program is compiled again for `place`, compared with the most similar of the `earlier` placements."""
    on_its_devices = [w for w in earlier if w.placement == place.placement and w != place]
    if not on_its_devices:
        where = devices_text(place.placement.devices)
        advice = "Keep arguments in one place."
        return (MissReason("device", "arguments", "elsewhere", f"on {where}", advice),)

    def differing(other: ResolvedPlacement) -> list[tuple[str, Any, Any]]:
        pairs = zip(paths, other.shardings, place.shardings, strict=False)
        return [(path, a, b) for path, a, b in pairs if a != b]

    return tuple(
        MissReason(
            "sharding", path, _placement_or_none(old), _placement_or_none(new), _KEEP_SHARDING
        )
        for path, old, new in min(map(differing, on_its_devices), key=len)[:4]
    )


def _placement_or_none(sharding) -> str:
    return "not placed" if sharding is None else placement_text(sharding)


_VERBS = {None: "compiled", "disk": "loaded from disk", "memory": "found compiled before"}


def explanation(miss: Miss) -> str:
    """Text of a cache miss."""
    costs = [("traced", miss.trace_seconds), (_VERBS[miss.executable_from], miss.compile_seconds)]
    what = " and ".join(f"{step} ({seconds * 1e3:.1f} ms)" for step, seconds in costs if seconds)
    where = describe(miss.source)
    head = f"`{miss.name}` was {what}" + (f" in {where}" if where else "")
    return "\n".join([head, *(f"  because {reason}" for reason in miss.reasons)])


def explain_misses(n: int = 20, *, caches: bool = False) -> None:
    """Prints the latest `n` cache misses of jitted functions: what was recompiled, why, and the cost.

    With `caches`, also the use of each cache of the process: number of entries, capacity, hits and misses.

    >>> explain_misses(0)
    no jitted function was traced or compiled yet
    """
    shown = list(recent)[-n:] if n else []
    print(  # noqa: T201
        "\n".join(map(explanation, shown))
        if shown
        else "no jitted function was traced or compiled yet"
    )
    if caches:
        uses = sorted(cache_uses(), key=lambda use: -use.misses)
        print("\n".join(["", "caches: entries of size, hits, misses", *map(_use_text, uses)]))  # noqa: T201


def _use_text(use: CacheUse) -> str:
    name = use.name.removeprefix("pellucid.")
    return f"  {name}: {use.entries} of {use.size}, {use.hits} hits, {use.misses} misses"
