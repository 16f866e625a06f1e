"""`debug_nans` and `debug_infs`: checks of results, and the search for the equation that created the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import NonFiniteError, by_tool, capture, config, describe, dtypes
from pellucid._machine.ir import Atom, ClosedJaxpr, Equation, Literal, Operands, Results
from pellucid._machine.tracing import steps, type_of
from pellucid._machine.xla import ARRAY_TYPES, flatten

from .launches import Launch, Listener

_nans, _infs = config.debug_nans.state, config.debug_infs.state
_KINDS = {"NaN": (np.isnan, config.debug_nans), "infinity": (np.isinf, config.debug_infs)}
"""(test, option) of each kind of value that may be forbidden."""


class FiniteCheck(Listener):
    """Checks the results of each launch. For an operation, the launch itself is the place that the error names."""

    def hears(self, launch: Launch) -> bool:
        return _nans.value or _infs.value

    def around(self, launch: Launch, run: Callable[[], Results]) -> Results:
        results = run()
        launch.needs_python = True
        program = None if launch.is_operation else launch.program
        check_results(launch.name, results, program, launch.operands)
        return results


def check_results(
    name: str, results: Results, program: ClosedJaxpr | None = None, leaves: Operands = ()
) -> None:
    """Raise NonFiniteError if a result contains NaN or infinity and the option forbids it.

    `program`, run again on `leaves` one equation at a time, finds what made it, or by what it came in.
    """
    kind = _kind_of_bad([kind for kind, (_, option) in _KINDS.items() if option.value], results)
    if kind is None:
        return
    got, source = [], capture()
    if any(type(x) in ARRAY_TYPES and x.is_deleted() for x in leaves):
        got = ["its arguments were donated, so it can't be run again to find where"]
    elif program is not None:
        with config.debug_nans(False), config.debug_infs(False):
            cause = by_tool(_cause)(kind, program, leaves)
        got = [cause.text(program)]
        source = (cause.equation and cause.equation.source) or source
    elif any(_is_bad(kind, x) for x in leaves):
        got = ["came in by an operand"]
    raise NonFiniteError(
        f"`{name}` gave a result with {kind} in it.",
        got=got,
        where=describe(source),
        do=f"Turn off the option `{_KINDS[kind][1].name}` to get the value nevertheless.",
    )


def check_library_result(name: str, result: Any) -> None:
    """Raise NonFiniteError if arrays in the result of a library function contain forbidden values."""
    check_results(name, [x for x in flatten(result)[0] if type(x) in ARRAY_TYPES])


def _kind_of_bad(kinds: Sequence[str], values: Operands) -> str | None:
    """The first of `kinds` ("NaN", "infinity") in the first of `values` that contains any; None if none does."""
    for value in values:
        dtype = getattr(value, "dtype", None)
        if not isinstance(dtype, np.dtype) or not dtypes.is_inexact(dtype):
            continue
        host = np.asarray(value)
        if dtype.kind not in "fc":  # NumPy's tests don't support the small floating dtypes
            host = host.astype(np.float32)
        for kind in kinds:
            if _KINDS[kind][0](host).any():
                return kind
    return None


def _is_bad(kind: str, value: Any) -> bool:
    return (
        _kind_of_bad([kind], [np.asarray(value) if type(value) in (float, complex) else value])
        is not None
    )


class _Cause(NamedTuple):
    """The origin of a NaN or an infinity: an equation, or an input or a constant that it took."""

    equation: Equation | None
    atom: Atom | None = None
    """The input or the constant; None where the equation made it."""

    def text(self, program: ClosedJaxpr) -> str:
        """Its text; `program` has names for its inputs."""
        name = "" if self.equation is None else f"`{self.equation.primitive.name}`"
        if self.atom is None:
            return f"first made by {name}"
        jaxpr = program.jaxpr
        names = () if jaxpr.debug is None else jaxpr.debug.argument_names
        inputs = jaxpr.invars[len(jaxpr.invars) - len(names) :]  # after those that have no name
        named = {v: f"argument {n}" for v, n in zip(inputs, names, strict=False) if n}
        came_by = named.get(self.atom, "an argument" if self.atom in jaxpr.invars else "a constant")  # type: ignore[arg-type]
        return f"came in by {came_by}" + f", first taken by {name}" * bool(name)


def _cause(
    kind: str, program: ClosedJaxpr, leaves: Operands, position: int | None = None
) -> _Cause:
    """Where the first bad result of a program comes from, or the one at `position`; in called programs, too.

    The way goes back from the result, by operands that are bad themselves.
    """
    jaxpr = program.jaxpr
    operands_of: dict[Equation, Operands] = {}
    values: dict[Any, Any] = {}
    for pause in steps(jaxpr, program.consts, *leaves):
        operands_of[pause.equation], values = pause.operands, pause.values
    maker = {v: (e, i) for e in operands_of for i, v in enumerate(e.results)}
    value_of = lambda atom: atom.val if isinstance(atom, Literal) else values.get(atom)
    is_bad = lambda atom: _is_bad(kind, value_of(atom))
    ends = jaxpr.outvars if position is None else [jaxpr.outvars[position]]
    atom, taken_by = next(filter(is_bad, ends), ends[0]), None
    while not isinstance(atom, Literal) and atom in maker:
        equation, i = maker[atom]
        inner = getattr(equation.params, "jaxpr", None)
        # A program with a scope runs on parts of operands, over mesh axes.
        is_mapped = hasattr(equation.params, "scope")
        if (
            isinstance(inner, ClosedJaxpr)
            and _takes(inner, operands_of[equation])
            and not is_mapped
        ):
            cause = _cause(kind, inner, operands_of[equation], i)
            if cause.atom not in inner.jaxpr.invars:
                return cause
            atom = equation.operands[inner.jaxpr.invars.index(cause.atom)]
            taken_by = cause.equation or taken_by
            continue
        bad = next(filter(is_bad, equation.operands), None)
        if bad is None:
            return _Cause(equation)
        atom, taken_by = bad, equation
    return _Cause(taken_by, atom)


def _takes(program: ClosedJaxpr, operands: Operands) -> bool:
    """Whether `program` accepts `operands`; a loop's body takes slices of some."""
    shapes = [
        [getattr(aval, "shape", None) for aval in avals]
        for avals in (program.in_avals, map(type_of, operands))
    ]
    return shapes[0] == shapes[1]
