"""Formulas of `Term`s as functions of arrays: computed in float32 at least, with derivatives that are formulas, too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes, library_code
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.higher_order.custom_rules import SymbolicZero
from pellucid._machine.primitives import arithmetic, conversion
from pellucid._machine.primitives.families import full_as
from pellucid._machine.primitives.formulas import Term, select
from pellucid._machine.tracing import type_of

_MIN_DTYPE = np.dtype(np.float32)
"""Narrowest dtype of intermediate values."""

Formula = Callable[..., Any]


def evaluate_formula(formula: Formula, operands: Sequence[Any]) -> Any:
    """Results of `formula`, computed in float32 at least and returned in the dtype of `operands`."""
    aval = type_of(operands[0])
    weak = all(type_of(x).weak_type for x in operands)
    is_narrow = dtypes.itemsize_bits(aval.dtype) < dtypes.itemsize_bits(_MIN_DTYPE)
    wide = _MIN_DTYPE if is_narrow else aval.dtype
    terms = [Term(conversion.convert_quietly(x, wide, False)) for x in operands]
    narrowed = lambda y: conversion.convert_quietly(y.value, aval.dtype, weak)
    result = formula(*terms)
    return tuple(map(narrowed, result)) if isinstance(result, tuple) else narrowed(result)


def with_partials(*partials: Formula | None) -> Callable[[Formula], Formula]:
    """Decorator that states derivatives of a formula: `partial(y, *terms)` for each argument, None where it is zero."""

    def decorate(formula: Formula) -> Formula:
        call = custom_jvp(lambda *xs: formula(*map(Term, xs)).value)

        @library_code
        def rule(primals: Any, tangents: Any) -> Any:
            y = call(*primals)
            total = full_as(y, 0)
            for t, partial in zip(tangents, partials, strict=True):
                if partial is not None and type(t) is not SymbolicZero:
                    slope = partial(Term(y), *map(Term, primals)).value
                    total = arithmetic.add(total, arithmetic.mul(t, slope))
            return y, total

        call.defjvp(rule, symbolic_zeros=True)
        return functools.wraps(formula)(
            lambda *terms: Term(call(*[x.value for x in same_dtype(terms)]))
        )

    return decorate


def removable(x: Term, quotient: Formula, radius: float, near: Formula) -> Term:
    """`quotient(x)`, or its series `near` where |x| is below `radius`, as the quotient is 0 / 0 at 0.

    Unlike a limit put in at one place, this has the derivatives of the function there.
    """
    is_near = abs(x) < radius
    return select(is_near, near(select(is_near, x, 0.0)), quotient(select(is_near, 1.0, x)))


def same_dtype(terms: Sequence[Any]) -> list[Term]:
    """`terms`, with numbers converted to terms of the dtype and shape of the first `Term`."""
    like = next(x for x in terms if isinstance(x, Term))
    return [x if isinstance(x, Term) else like.filled(x) for x in terms]
