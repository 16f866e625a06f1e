"""Formulas with Python's operators, for functions that are defined by other primitives, and their lowering; also of iterations: series and continued fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import Function, dtypes
from pellucid._machine.ir import Operands, ShapedArray, shaped_array
from pellucid._machine.tracing import stage_with_constants, type_of

from . import arithmetic, error_functions, logical, transcendental
from .families import constant_like, full_as


class Term:
    """A floating-point or boolean array whose operators bind primitives; numbers among the operands take its dtype.

    >>> (2 * Term(np.float32(3)) + 1).value
    Array(7., dtype=float32)
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def constant(self, number: float) -> Term:
        """The scalar `number`, of the term's dtype."""
        return Term(constant_like(self.value, number))

    def filled(self, number: float) -> Term:
        """An array of the term's shape and dtype whose elements are all `number`."""
        return Term(full_as(self.value, number))

    @property
    def limits(self) -> Any:
        """`finfo` of the term's dtype."""
        return dtypes.finfo(type_of(self.value).dtype)

    @staticmethod
    def _operator(function: Function) -> Function:
        return lambda self, *others: Term(
            function(self.value, *[_operand(x, self.constant) for x in others])
        )

    @staticmethod
    def _reflect(function: Function) -> Function:
        return lambda self, other: Term(function(self.constant(other).value, self.value))

    __add__ = _operator(arithmetic.add)
    __radd__ = _reflect(arithmetic.add)
    __sub__ = _operator(arithmetic.sub)
    __rsub__ = _reflect(arithmetic.sub)
    __mul__ = _operator(arithmetic.mul)
    __rmul__ = _reflect(arithmetic.mul)
    __truediv__ = _operator(arithmetic.div)
    __rtruediv__ = _reflect(arithmetic.div)
    __neg__ = _operator(arithmetic.neg)
    __abs__ = _operator(arithmetic.abs)
    __lt__ = _operator(logical.lt)
    __le__ = _operator(logical.le)
    __gt__ = _operator(logical.gt)
    __ge__ = _operator(logical.ge)
    __and__ = _operator(logical.bitwise_and)
    __or__ = _operator(logical.bitwise_or)
    __invert__ = _operator(logical.bitwise_not)
    _equals = _operator(logical.eq)
    _differs = _operator(logical.ne)
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return self._equals(other)

    def __ne__(self, other: object) -> Any:
        return self._differs(other)


def _operand(x, as_term: Callable[[Any], Term]):
    return x.value if type(x) is Term else as_term(x).value


def _term_function(function: Function) -> Callable[..., Term]:
    return lambda *terms: Term(function(*(term.value for term in terms)))


log = _term_function(arithmetic.log)
sqrt = _term_function(arithmetic.sqrt)
square = _term_function(arithmetic.square)
maximum = _term_function(arithmetic.max)
exp = _term_function(transcendental.exp)
expm1 = _term_function(transcendental.expm1)
log1p = _term_function(transcendental.log1p)
sin = _term_function(transcendental.sin)
cos = _term_function(transcendental.cos)
atan2 = _term_function(transcendental.atan2)
tan = _term_function(transcendental.tan)
power = _term_function(arithmetic.pow)
minimum = _term_function(arithmetic.min)
floor = _term_function(arithmetic.floor)
nearest = _term_function(lambda x: arithmetic.round(x, arithmetic.RoundingMethod.TO_NEAREST_EVEN))
erfc = _term_function(error_functions.erfc)
lgamma = _term_function(transcendental.lgamma)
digamma = _term_function(transcendental.digamma)
is_nan = _term_function(lambda x: logical.ne(x, x))


def select(condition: Term, if_true: Term | float, if_false: Term | float) -> Term:
    """Elements of `if_true` where `condition` holds, of `if_false` elsewhere; one of the two may be a number."""
    like = if_true if isinstance(if_true, Term) else if_false
    cases = [_operand(case, like.filled) for case in (if_true, if_false)]  # type: ignore[union-attr]
    return Term(logical.select(condition.value, *cases))


def polynomial(x: Term, coefficients: Any) -> Term:
    """The value at `x` of the polynomial with `coefficients`, the constant first, by Horner's rule."""
    value = x.filled(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


def chebyshev(x: Term, coefficients: Sequence[float]) -> Term:
    """The sum of a Chebyshev series at `x / 2`, by Clenshaw's recurrence; the first coefficient counts half."""
    b0 = b1 = b2 = x.filled(0)
    for c in reversed(coefficients):
        b2, b1 = b1, b0
        b0 = x * b1 - b2 + c
    return 0.5 * (b0 - b2)


MAX_STEPS = 20_000
"""Maximum number of steps of an iteration, converged or not."""

_NARROWEST = np.dtype(np.float32)
"""Narrowest dtype of intermediate values: with fewer digits iterations would not converge."""

Avals = Sequence[ShapedArray]


class Formula:
    """A lowering rule: `function` of terms, computed in float32 at least."""

    def __init__(self, function: Callable[..., Term]) -> None:
        self.function = function

    def __call__(self, ctx: Any, operands: Operands, params: Any) -> Any:
        [result] = ctx.avals_out
        wide = shaped_array(result.shape, result.dtype)
        if dtypes.itemsize_bits(result.dtype) < dtypes.itemsize_bits(_NARROWEST):
            wide = wide.update(dtype=_NARROWEST)
            operands = [ctx.convert(x, wide) for x in operands]
        value = self.lower_formula(ctx, operands, [wide] * len(operands))
        return value if wide.dtype == result.dtype else ctx.convert(value, result)

    def lower_formula(self, ctx: Any, operands: Operands, avals: Avals) -> Any:
        """The result for `operands` of types `avals`, all wide enough."""
        return inline_function(ctx, lambda *terms: [self.function(*terms)], operands, avals)[0][0]


class Iteration(Formula):
    """A lowering rule: `start` a state, `step` while some element is active, `finish` with a result.

    `start(*operands)` gives the state, a list whose first item is a bool array: the active elements.
    `step(*state)` gives the next state. `finish(*operands, *state)` gives the result.
    """

    def __init__(
        self,
        start: Callable[..., Sequence[Term]],
        step: Callable[..., Sequence[Term]],
        finish: Callable[..., Term],
    ) -> None:
        super().__init__(finish)
        self.start = start
        self.step = step

    def lower_formula(self, ctx, operands, avals):
        state, state_avals = inline_function(ctx, self.start, operands, avals)
        state = self.loop(ctx, state, state_avals)
        return super().lower_formula(ctx, [*operands, *state], [*avals, *state_avals])

    def loop(self, ctx: Any, state: Sequence[Any], avals: Avals) -> list[Any]:
        """The state when no element is active any more."""
        loop = ctx.op("stablehlo.while", ctx.types(avals), state, regions=2)
        condition, body = loop.regions
        with ctx.inside(condition, avals) as [active, *_]:
            if avals[0].ndim:
                truth = shaped_array((), np.dtype(bool))
                axes = range(avals[0].ndim)
                active = ctx.reduce(active, ctx.constant(np.False_), axes, "stablehlo.or", truth)
            ctx.op("stablehlo.return", [], [active])
        with ctx.inside(body, avals) as values:
            ctx.op("stablehlo.return", [], inline_function(ctx, self.step, values, avals)[0])
        return list(loop.results)


def inline_function(
    ctx: Any, function: Callable[..., Sequence[Term]], operands: Operands, avals: Avals
) -> tuple[list[Any], list[Any]]:
    """Lowered results of a function of terms, and their types."""
    program = stage_with_constants(
        lambda *xs: [term.value for term in function(*map(Term, xs))], avals
    )
    return ctx.inline_closed(program, operands), list(program.out_avals)
