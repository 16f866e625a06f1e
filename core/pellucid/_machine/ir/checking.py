"""The type checker of programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pellucid._machine.base import JaxprTypeError, strict_zip

from .effects import StateEffect
from .jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, subjaxprs


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raise JaxprTypeError unless each variable is bound once, before its uses, with the type that the primitive's rule
    computes.

    >>> good = pl.make_jaxpr(lambda x: x + 1)(1.0).jaxpr
    >>> pl.core.check_jaxpr(good)
    >>> pl.core.check_jaxpr(good.replace(eqns=[]))
    Traceback (most recent call last):
        ...
    pellucid.errors.JaxprTypeError: ...
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    bound: set[Any] = {*jaxpr.constvars, *jaxpr.invars}
    binders = [v for e in jaxpr.equations for v in e.results]
    for var, times in Counter([*jaxpr.constvars, *jaxpr.invars, *binders]).items():
        if times > 1:
            raise JaxprTypeError("a variable is bound twice.", got=repr(var))

    def use(atom: Atom, user: Any) -> None:
        if not isinstance(atom, Literal) and atom not in bound:
            raise JaxprTypeError(
                "a variable is used before it is bound.", got=f"{atom!r} in {user!r}"
            )

    for equation in jaxpr.equations:
        for atom in equation.operands:
            use(atom, equation)
        avals = tuple(a.aval for a in equation.operands)
        expected, effects = equation.primitive.types(avals, equation.params)
        stated = tuple(v.aval for v in equation.results)
        if len(expected) != len(stated) or any(
            e is not f and e.strip_weak_type() is not f.strip_weak_type()  # type: ignore[attr-defined]
            for e, f in strict_zip(expected, stated)
        ):
            raise JaxprTypeError(
                f"`{equation.primitive.name}` gives other types than its equation says.",
                got=[
                    f"rule: {', '.join(map(repr, expected))}",
                    f"equation: {', '.join(map(repr, stated))}",
                ],
            )
        if effects - equation.effects:
            raise JaxprTypeError(
                f"an equation of `{equation.primitive.name}` hides effects.", got=repr(effects)
            )
        hidden = equation.effects - jaxpr.effects
        if any(not isinstance(effect, StateEffect) for effect in hidden):
            raise JaxprTypeError("a program hides effects of its equations.", got=repr(equation))
        for inner in subjaxprs(equation.params):
            check_jaxpr(inner)
        bound.update(equation.results)
    for atom in jaxpr.outvars:
        use(atom, "the results")
