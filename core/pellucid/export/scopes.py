"""Scopes of dimension variables: their constraints, and the bounds of expressions that follow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from pellucid._machine.base import ArgumentValueError, Size, known_at_least

from .dimensions import Dimension, Factor, Monomial, SizeOperation, evaluate
from .shape_texts import parsed_sizes

Bounds: TypeAlias = tuple[int | None, int | None]
LinearForm: TypeAlias = dict[Monomial, int]
"""A linear combination of monomials; the empty monomial has the constant."""

_CHOICES = ("max", "min")
_RELATIONS = ("==", ">=", "<=")
_MAX_INEQUALITIES = 400
"""Maximum number of inequalities in one elimination; beyond it a bound may be missed, never wrong."""
_MAX_CHOICES = 4
"""How many choices between two sizes are followed both ways in one expression; beyond it a bound may be missed, too."""


class Constraint(NamedTuple):
    """A user's constraint `left relation right`, in which `relation` is "==" or ">="."""

    text: str
    left: Size | SizeOperation
    relation: str
    right: Size


class SymbolicScope:
    """The variables that may be combined in one expression, with constraints such as "b >= 2" and "d == 2*e".

    >>> scope = SymbolicScope(["b >= 2"])
    >>> (b,) = pl.export.symbolic_shape("b", scope=scope)
    >>> b >= 2, b - 2 >= 0
    (True, True)
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str):
            raise ArgumentValueError(
                "constraints of symbolic dimensions must be a sequence of strings.",
                got=f"got {constraints_str!r}",
                do=f"Use ({constraints_str!r},).",
            )
        self.constraints: list[Constraint] = []
        self._replacements: dict[Factor, Size] = {}
        self._inequalities: list[LinearForm] = []
        """Linear forms that are at least 0."""
        self._bounds: dict[Dimension, Bounds] = {}
        self._pending: list[Dimension] = []
        """Expressions whose bounds are being computed."""
        parsed = sorted(map(_constraint_sides, constraints_str), key=lambda c: c[1] != "==")
        for text, relation, left, right in parsed:
            self._state(text, left, relation, right)
        self._use_remainders()
        for constraint in self.constraints:
            for name in _variables(constraint.left) | _variables(constraint.right):
                low, high = self._bounds_of(self.factor(name))
                if low is not None and high is not None and low > high:
                    raise _contradiction(constraint.text)

    def __repr__(self) -> str:
        return f"SymbolicScope({[c.text for c in self.constraints]})"

    # Constraints --------------------------------------------------------------------------------

    def _state(self, text: str, left_text: str, relation: str, right_text: str) -> None:
        [left], [right] = (parsed_sizes(side, self) for side in (left_text, right_text))
        if relation == "<=":
            left, right, relation = right, left, ">="
        if relation == "==":
            self._equate(text, left, right)
        else:
            difference = left - right
            if isinstance(difference, Dimension):
                self._inequalities.append(dict(difference.terms))
                self._bounds.clear()
            elif difference < 0:
                raise _contradiction(text)
            self.constraints.append(Constraint(text, left, relation, right))

    def _equate(self, text: str, left: Size, right: Size) -> None:
        """Use the equation left == right to replace one factor in all expressions."""
        difference = left - right
        if not isinstance(difference, Dimension):
            if difference != 0:
                raise _contradiction(text)
            return
        for monomial, coefficient in difference.terms:
            if len(monomial) != 1 or monomial[0][1] != 1 or abs(coefficient) != 1:
                continue
            factor = monomial[0][0]
            alone = Dimension(((monomial, 1),), self)
            value = (alone * coefficient - difference) * coefficient
            if not _occurs(factor, value):
                break
        else:
            raise ArgumentValueError(
                f"the constraint {text!r} can't be used: no side of it can be solved for one variable.",
                do="State it as `variable == expression`, for example with a new variable that divides both sides.",
            )
        self.constraints.append(
            Constraint(text, factor if isinstance(factor, SizeOperation) else alone, "==", value)
        )
        if isinstance(factor, str) and isinstance(value, Dimension):
            self._inequalities.append(dict((value - 1).terms))  # a variable is at least 1
        elif isinstance(factor, str) and value < 1:
            raise _contradiction(text)
        self._replacements[factor] = value
        self._replacements = {f: self.restate(v) for f, v in self._replacements.items()}

    def _use_remainders(self) -> None:
        """State the least and the largest values that sizes with known remainders have: an even size of at least 1 is at least 2."""
        for constraint in self.constraints:
            operation, remainder = constraint.left, constraint.right
            if not isinstance(operation, SizeOperation) or operation.name != "mod":
                continue
            x, divisor = operation.operands
            if not isinstance(x, Dimension) or type(remainder) is not int:
                continue
            if type(divisor) is not int or divisor < 1:
                continue
            low, high = self.bounds(x)
            if low is not None:
                self._inequalities.append(dict((x - low - (remainder - low) % divisor).terms))
            if high is not None:
                self._inequalities.append(dict((high - (high - remainder) % divisor - x).terms))
            self._bounds.clear()

    def factor(self, factor: Factor) -> Size:
        """The expression that consists of one factor, or what equality constraints replace it by."""
        value = self._replacements.get(factor)
        return Dimension((((((factor, 1),)), 1),), self) if value is None else value

    def restate(self, size: Size) -> Size:
        """`size` by the equality constraints of this scope, which may be another one than it was made in."""
        if not isinstance(size, Dimension):
            return size
        return evaluate(size, {name: self.factor(name) for name in size.variables()})

    # Bounds -------------------------------------------------------------------------------------

    def bounds(self, dimension: Dimension) -> Bounds:
        """The least and the largest value of an expression that follow from the constraints; None if there is none."""
        remembered = self._bounds.get(dimension)
        if remembered is not None:
            return remembered
        if dimension in self._pending:
            return None, None
        self._pending.append(dimension)
        try:
            bounds = self._bounds_by_cases(dimension, [], _MAX_CHOICES)
        finally:
            self._pending.pop()
        if not self._pending:
            self._bounds[dimension] = bounds
        return bounds

    def _bounds_of(self, size: Size) -> Bounds:
        return self.bounds(size) if isinstance(size, Dimension) else (size, size)

    def _bounds_by_cases(self, size: Size, case: list[LinearForm], n_choices: int) -> Bounds:
        """Bounds of `size` in the `case` that linear forms are at least 0; up to `n_choices` are followed both ways."""
        if not isinstance(size, Dimension):
            return size, size
        whole = _eliminate(dict(size.terms), self._facts(size, case))
        choices = (
            (monomial[0][0], coefficient)
            for monomial, coefficient in size.terms
            if len(monomial) == 1 and monomial[0][1] == 1
        )
        choices = (
            (f, c) for f, c in choices if isinstance(f, SizeOperation) and f.name in _CHOICES
        )
        choice, coefficient = next(choices, (None, 0))
        if choice is None or not n_choices:
            return whole
        rest = size - Dimension(((((choice, 1),), coefficient),), self)
        found: list[Bounds] = []
        for chosen, other in (choice.operands, choice.operands[::-1]):
            excess = chosen - other if choice.name == "max" else other - chosen
            if isinstance(excess, Dimension):
                inner = [*case, dict(excess.terms)]
                found.append(
                    self._bounds_by_cases(rest + chosen * coefficient, inner, n_choices - 1)
                )
            elif excess >= 0:
                found.append(
                    self._bounds_by_cases(rest + chosen * coefficient, case, n_choices - 1)
                )
        found = [(low, high) for low, high in found if low is None or high is None or low <= high]
        lows, highs = zip(*found, strict=True) if found else ((None,), (None,))
        return (
            max((x for x in (whole[0], _least(lows)) if x is not None), default=None),
            min((x for x in (whole[1], _largest(highs)) if x is not None), default=None),
        )

    def _facts(self, dimension: Dimension, case: Sequence[LinearForm] = ()) -> list[LinearForm]:
        """Linear forms that are at least 0, in a `case`, and have to do with the monomials of `dimension`."""
        facts: list[LinearForm] = []
        pending = [m for m, _ in dimension.terms if m]
        seen = set(pending)
        constraints = [*self._inequalities, *case]
        while pending:
            monomial = pending.pop()
            related = [c for c in constraints if monomial in c]
            constraints = [c for c in constraints if monomial not in c]
            more = [*related, *self._facts_of_monomial(monomial)]
            facts += more
            for form in more:
                pending += [m for m in form if m and m not in seen]
                seen.update(form)
        return facts

    def _facts_of_monomial(self, monomial: Monomial) -> Iterator[LinearForm]:
        value = Dimension(((monomial, 1),), self)
        [(factor, exponent), *others] = monomial
        if others or exponent > 1:
            yield from self._facts_of_product(monomial, value)
        elif isinstance(factor, str):
            yield {monomial: 1, (): -1}
        else:
            x, y = factor.operands
            if factor.name == "floordiv" and type(y) is int and y > 0:
                # Not as expressions, whose normal form has no multiples of a quotient.
                form = dict(x.terms)
                yield {**form, monomial: -y}
                yield {m: -c for m, c in form.items()} | {monomial: y, (): y - 1 - form.get((), 0)}
            yield from _forms(self._facts_of_operation(value, factor))

    def _facts_of_product(self, monomial: Monomial, value: Dimension) -> Iterator[LinearForm]:
        low: int | None = 1
        high: int | None = 1
        for factor, exponent in monomial:
            least, largest = self.bounds(Dimension(((((factor, 1),), 1),), self))
            if least is None or least < 0 or low is None:
                return
            low *= least**exponent
            high = None if high is None or largest is None else high * largest**exponent
        yield from _interval(value, (low, high))
        for i, (factor, exponent) in enumerate(monomial):
            least, _ = self.bounds(Dimension(((((factor, 1),), 1),), self))
            rest = (
                monomial[:i]
                + (((factor, exponent - 1),) if exponent > 1 else ())
                + monomial[i + 1 :]
            )
            yield from _forms([value - Dimension(((rest, 1),), self) * (least or 0)])

    def _facts_of_operation(self, value: Dimension, operation: SizeOperation) -> Iterator[Size]:
        """Expressions that are at least 0 by the definition of the operation."""
        x, y = operation.operands
        if operation.name == "max":
            yield from (value - x, value - y)
            if known_at_least(x, 0) and known_at_least(y, 0):
                yield x + y - value
            highs = [self._bounds_of(operand)[1] for operand in operation.operands]
            if None not in highs:
                yield max(highs) - value  # type: ignore[type-var]
        elif operation.name == "min":
            yield from (x - value, y - value)
            lows = [self._bounds_of(operand)[0] for operand in operation.operands]
            if None not in lows:
                yield value - min(lows)  # type: ignore[type-var]
            if known_at_least(x, 0) and known_at_least(y, 0) and 1 in (x, y):
                yield value
        elif known_at_least(y, 1):
            is_natural = known_at_least(x, 0)
            if operation.name == "mod":
                yield from (value, y - 1 - value)
                if is_natural:
                    yield x - value
            elif is_natural:
                yield from (value, x - value)
        elif operation.name == "mod" and known_at_least(-1, y):
            yield from (-value, value - y - 1)


def _least(lows: Sequence[int | None]) -> int | None:
    return None if None in lows else min(lows)  # type: ignore[type-var]


def _largest(highs: Sequence[int | None]) -> int | None:
    return None if None in highs else max(highs)  # type: ignore[type-var]


def _variables(size: Size | SizeOperation) -> set[str]:
    if isinstance(size, SizeOperation):
        return set().union(*map(_variables, size.operands))
    return size.variables() if isinstance(size, Dimension) else set()


def _occurs(factor: Factor, size: Size) -> bool:
    if not isinstance(size, Dimension):
        return False
    if isinstance(factor, str):
        return factor in size.variables()
    return any(
        f == factor
        or (isinstance(f, SizeOperation) and any(_occurs(factor, x) for x in f.operands))
        for monomial, _ in size.terms
        for f, _ in monomial
    )


def _constraint_sides(text: str) -> tuple[str, str, str, str]:
    """(text, relation, left side, right side) of a constraint."""
    for relation in _RELATIONS:
        left, separator, right = text.partition(relation)
        if separator:
            return text, relation, left, right
    raise ArgumentValueError(
        f"the constraint {text!r} of symbolic dimensions has no relation.",
        do=f"Relate two expressions by one of {', '.join(_RELATIONS)}.",
    )


def _contradiction(text: str) -> ArgumentValueError:
    return ArgumentValueError(f"the constraint {text!r} of symbolic dimensions holds for no sizes.")


def _forms(sizes: Any) -> Iterator[LinearForm]:
    for size in sizes:
        if isinstance(size, Dimension):
            yield dict(size.terms)


def _interval(value: Dimension, bounds: Bounds) -> Iterator[LinearForm]:
    low, high = bounds
    yield from _forms([] if low is None else [value - low])
    yield from _forms([] if high is None else [high - value])


_TARGET: Monomial = (("", 1),)
"""The variable that is equal to the expression whose bounds are computed."""


def _eliminate(form: LinearForm, facts: list[LinearForm]) -> Bounds:
    """Bounds of a linear form where all `facts` are at least 0, by Fourier-Motzkin elimination."""
    equal = {**form, _TARGET: -1}
    inequalities = [equal, {m: -c for m, c in equal.items()}, *facts]
    while True:
        remaining = {m for f in inequalities for m in f if m and m != _TARGET}
        if not remaining:
            break
        monomial = min(remaining, key=lambda m: _count(inequalities, m))
        positive = [f for f in inequalities if f.get(monomial, 0) > 0]
        negative = [f for f in inequalities if f.get(monomial, 0) < 0]
        others = [f for f in inequalities if not f.get(monomial, 0)]
        combined = [
            _combine(p, -n[monomial], n, p[monomial], monomial)
            for p, n in itertools.product(positive, negative)
        ]
        inequalities = list(
            {tuple(sorted(f.items(), key=repr)): f for f in (*others, *combined)}.values()
        )
        inequalities = inequalities[:_MAX_INEQUALITIES]
    low = high = None
    for f in inequalities:
        slope, constant = f.get(_TARGET, 0), f.get((), 0)
        if slope > 0:  # slope * target + constant >= 0
            bound = -(constant // slope)
            low = bound if low is None else max(low, bound)
        elif slope < 0:
            bound = constant // -slope
            high = bound if high is None else min(high, bound)
    return low, high


def _count(inequalities: list[LinearForm], monomial: Monomial) -> int:
    signs = [f.get(monomial, 0) for f in inequalities]
    return sum(c > 0 for c in signs) * sum(c < 0 for c in signs)


def _combine(x: LinearForm, n: int, y: LinearForm, m: int, monomial: Monomial) -> LinearForm:
    """`n * x + m * y`, in which `monomial` vanishes."""
    total = {k: n * c for k, c in x.items()}
    for k, c in y.items():
        total[k] = total.get(k, 0) + m * c
    return {k: c for k, c in total.items() if c and k != monomial}
