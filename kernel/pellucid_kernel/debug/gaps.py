"""Derivatives that divide by differences of eigenvalues or singular values: NaN where these are equal, noise where they nearly are."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid as pl
from pellucid.introspect.evaluation import Evaluation
from pellucid.introspect.lineage import ancestors_of
from pellucid.introspect.stepping import line_text

_VALUES = {"eigh": 1, "svd": 0, "eig": 0}
"""Decompositions, and which of the results holds their eigenvalues or singular values."""
_BETWEEN = frozenset(("sub", "add", "select_n", "convert_element_type", "broadcast_in_dim"))
"""Primitives that may be between their eigenvalues or singular values and a division."""
ADVICE = (
    "a function of a Hermitian matrix has all derivatives by jnp.linalg.hermitian_function(f, A); "
    "of others see docs/when-nan-is-the-answer.md"
)


def decomposition_behind(equation: Any) -> str:
    """Name of the decomposition in whose derivative `equation` divides; empty if there is none."""
    if equation.primitive.name != "div":
        return ""
    return next(
        (e.primitive.name for e in ancestors_of(equation) if e.primitive.name in _VALUES), ""
    )


def notes_on_gaps(run: Evaluation) -> list[str]:
    """A line for each decomposition of `run` whose derivative divides by differences that are 0 or a few eps."""
    makers = {v: e for e in run.jaxpr.equations for v in e.results}
    notes: dict[Any, str] = {}
    for equation in run.jaxpr.equations:
        if not decomposition_behind(equation):
            continue
        origin = _origin(equation.operands[1], makers)
        if origin is None:
            continue
        values = np.abs(np.asarray(run.read(origin.results[_VALUES[origin.primitive.name]])))
        divisors = np.abs(np.asarray(run.read(equation.operands[1])))
        dividends = np.asarray(run.read(equation.operands[0]))
        eps = float(pl.numpy.finfo(values.dtype).eps)
        largest = values.max(-1).reshape(
            *values.shape[:-1], *[1] * (divisors.ndim - values.ndim + 1)
        )
        # Where nothing is divided by a difference, it doesn't matter.
        # Values that are all 0 have gaps of 0, whatever their size.
        scaled = np.divide(divisors, largest, out=np.zeros_like(divisors), where=largest > 0)
        shares = np.where((dividends != 0) | (divisors == 0), scaled, np.inf)
        least = float(shares.min(initial=np.inf)) / eps
        if least <= 4 * values.shape[-1]:
            notes[origin] = _note(origin, least)
    return [*notes.values()]


def _origin(atom: Any, makers: dict[Any, Any]) -> Any:
    """The decomposition of whose values `atom` is made."""
    waiting = [atom]
    for each in waiting:  # grows during the loop
        equation = makers.get(each) if hasattr(each, "aval") and not hasattr(each, "val") else None
        if equation is None:
            continue
        if equation.primitive.name in _VALUES:
            return equation
        if equation.primitive.name in _BETWEEN:
            waiting += equation.operands
    return None


def _note(origin: Any, least: float) -> str:
    kind = "singular values" if origin.primitive.name == "svd" else "eigenvalues"
    how = (
        f"{kind} that are equal, and the gradient divides by their difference, 0"
        if least == 0
        else f"{kind} that are equal up to rounding, {least:.2g} eps of the largest apart, and the gradient divides by "
        "their difference: it may be noise"
    )
    return f"`{origin.primitive.name}` ({line_text(origin)}) has {how}; {ADVICE}"
