"""An estimate of the memory that a program needs at once, from the lifetimes of its values.

Each value lives from the equation that gives it to the last that takes it; arguments live throughout. XLA fuses
operations, orders them otherwise and shares memory, so that a compiled program usually needs less.
"""

from __future__ import annotations

from collections.abc import Callable

from pellucid.introspect.costs import bodies_of
from pellucid.ir.jaxpr import Jaxpr, Literal, Var

BytesOf = Callable[[Var], float]
"""Bytes of a value on one device."""


def peak_bytes(jaxpr: Jaxpr, bytes_of: BytesOf) -> float:
    """The most bytes that are alive at once in a run of `jaxpr`, its arguments among them."""
    arguments = sum(map(bytes_of, (*jaxpr.constvars, *jaxpr.invars)))
    return arguments + _peak_within(jaxpr, bytes_of, {})


def _peak_within(jaxpr: Jaxpr, bytes_of: BytesOf, known: dict[Jaxpr, float]) -> float:
    """The most bytes of values that `jaxpr` computes; what it is given lives in its caller."""
    found = known.get(jaxpr)
    if found is not None:
        return found
    last_use = {
        atom: place
        for place, equation in enumerate(jaxpr.equations)
        for atom in equation.operands
        if type(atom) is not Literal
    }
    last_use |= {a: len(jaxpr.equations) for a in jaxpr.outvars if type(a) is not Literal}
    given = {*jaxpr.constvars, *jaxpr.invars}
    alive, peak = 0.0, 0.0
    for place, equation in enumerate(jaxpr.equations):
        results = sum(map(bytes_of, equation.results))
        bodies = bodies_of(equation)
        inner = max((_peak_within(body.jaxpr, bytes_of, known) for body in bodies), default=0.0)
        # What a body gives that runs once is what its equation gives; a loop has results of its own besides.
        is_once = all(body.trips == 1 for body in bodies)
        peak = max(peak, alive + (max(results, inner) if is_once else results + inner))
        alive += sum(bytes_of(v) for v in equation.results if v in last_use)
        ending = {a for a in equation.operands if last_use.get(a) == place} - given
        alive -= sum(bytes_of(a) for a in ending)  # type: ignore[arg-type]
    known[jaxpr] = peak
    return peak
