"""Symbolic dimensions: integer expressions in dimension variables, in a normal form.

An expression is a sum of terms, an integer times a monomial; a monomial is a product of powers of factors; a factor is a
variable or an operation (`floordiv`, `mod`, `max`, `min`) that the normal form can't resolve. Two expressions of the same
normal form are equal; others are taken to be different unless a constraint of their scope rewrites one to the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pellucid._machine.base import ArgumentValueError, Size, Symbol, known_at_least
from pellucid._machine.primitives.creation import dim_as_value
from pellucid._machine.tracing import is_array_like

from .equations import shape_equations


class SizeOperation(NamedTuple):
    """An operation of two sizes that stays in an expression."""

    name: str
    operands: tuple[Size, Size]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})"

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The result by the values of variables."""
        x, y = (evaluate(operand, values) for operand in self.operands)
        return OPERATIONS[self.name](x, y)


Factor: TypeAlias = str | SizeOperation
Monomial: TypeAlias = tuple[tuple[Factor, int], ...]
"""(factor, exponent), sorted by `_factor_key`."""


def _maximum(x: Any, y: Any) -> Any:
    if type(x) is int:
        return max(x, y) if type(y) is int else y.maximum(x)
    return x.maximum(y)


def _minimum(x: Any, y: Any) -> Any:
    if type(x) is int:
        return min(x, y) if type(y) is int else y.minimum(x)
    return x.minimum(y)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": _maximum, "min": _minimum,
}  # fmt: skip
"""Operations of expressions, and of the texts that `symbolic_shape` reads, by name."""


def evaluate(size: Size, values: Mapping[str, Any]) -> Any:
    """`size` by the values of its variables.

    >>> (b,) = pl.export.symbolic_shape("b")
    >>> evaluate(2 * b + 1, {"b": 3})
    7
    """
    return size.evaluate(values) if isinstance(size, Symbol) else size


# Normal form ------------------------------------------------------------------------------------------


def _operator(name: str, by_size: Callable[[Size, Size, Any], Any]) -> tuple[Any, Any]:
    """The methods of an operator and of its reversed form.

    `by_size` takes two sizes and their scope; operands that are no sizes, such as arrays, meet the value instead.
    """
    by_value = divmod if name == "divmod" else getattr(operator, name)

    def method(self: Dimension, other: Any) -> Any:
        if isinstance(other, _SIZES):
            return by_size(self, _as_size(other, self), self.scope)
        return by_value(self.as_value(), other) if is_array_like(other) else NotImplemented

    def reversed_method(self: Dimension, other: Any) -> Any:
        if isinstance(other, _SIZES):
            return by_size(_as_size(other, self), self, self.scope)
        return by_value(other, self.as_value()) if is_array_like(other) else NotImplemented

    return method, reversed_method


_SIZES = (int, np.integer, Symbol)


def _as_size(other: Any, dimension: Dimension) -> Size:
    if isinstance(other, Dimension):
        if other.scope is not dimension.scope:
            raise ArgumentValueError(
                "symbolic dimensions of different scopes can't be combined.",
                got=f"{dimension} and {other}",
                do="Make both by one call of `symbolic_shape`, or with the same `scope=`.",
            )
        return other
    return int(other)


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, Dimension):
        return size.terms
    return (((), size),) if size else ()


def _factor_key(factor: Factor) -> tuple[Any, ...]:
    if isinstance(factor, str):
        return (1, 0, factor)
    keys = tuple(map(_size_key, factor.operands))
    return (1 + sum(key[0] for key in keys), 1, factor.name, keys)


def _monomial_key(monomial: Monomial) -> tuple[Any, ...]:
    keys = [(_factor_key(factor), exponent) for factor, exponent in monomial]
    return (sum(key[0] * exponent for key, exponent in keys), keys)


def _size_key(size: Size) -> tuple[Any, ...]:
    """The place of a size in the order of texts: more factors come first, then later letters."""
    keys = [(_monomial_key(monomial), coefficient) for monomial, coefficient in _terms(size)]
    return (max((key[0] for key, _ in keys), default=0), keys)


def _sum(terms: Iterable[tuple[Monomial, int]], scope: Any) -> Size:
    """The sum of terms in normal form; an integer if no variable remains."""
    total: dict[Monomial, int] = {}
    pending = list(terms)
    while pending:
        monomial, coefficient = pending.pop()
        total[monomial] = total.get(monomial, 0) + coefficient
        pending += _without_multiples(monomial, total, scope)
    nonzero = [(m, c) for m, c in total.items() if c]
    if not any(m for m, _ in nonzero):
        return nonzero[0][1] if nonzero else 0
    nonzero.sort(key=lambda term: _monomial_key(term[0]), reverse=True)
    return Dimension(tuple(nonzero), scope)


def _without_multiples(
    monomial: Monomial, total: dict[Monomial, int], scope: Any
) -> list[tuple[Monomial, int]]:
    """Terms instead of `d * floordiv(e, d)` in `total`, which is `e - mod(e, d)`, for an integer d."""
    for factor, exponent in monomial:
        if isinstance(factor, str) or factor.name != "floordiv" or exponent != 1:
            continue
        e, d = factor.operands
        coefficient = total[monomial]
        if type(d) is int and abs(coefficient) >= d:
            multiples = abs(coefficient) // d * (1 if coefficient > 0 else -1)
            total[monomial] -= multiples * d
            rest = _sum([(tuple(f for f in monomial if f[0] != factor), multiples)], scope)
            return list(_terms(rest * (e - scope.factor(SizeOperation("mod", (e, d))))))
    return []


def _add(x: Size, y: Size, scope: Any) -> Size:
    return _sum((*_terms(x), *_terms(y)), scope)


def _subtract(x: Size, y: Size, scope: Any) -> Size:
    return _sum((*_terms(x), *((m, -c) for m, c in _terms(y))), scope)


def _multiply(x: Size, y: Size, scope: Any) -> Size:
    return _sum(
        [(_monomial_product(m, n), c * d) for m, c in _terms(x) for n, d in _terms(y)], scope
    )


def _monomial_product(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    exponents = dict(m)
    for factor, exponent in n:
        exponents[factor] = exponents.get(factor, 0) + exponent
    return tuple(sorted(exponents.items(), key=lambda item: _factor_key(item[0])))


def _quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """`m / n`; None if that is no monomial."""
    exponents = dict(m)
    for factor, exponent in n:
        exponents[factor] = exponents.get(factor, 0) - exponent
    if any(exponent < 0 for exponent in exponents.values()):
        return None
    return tuple([(factor, exponent) for factor, exponent in exponents.items() if exponent])


def _divmod(x: Size, y: Size, scope: Any) -> tuple[Size, Size]:
    """(x // y, x % y): as many multiples of `y` as the normal form shows are taken out of `x` first."""
    if y == 0:
        raise ZeroDivisionError(f"{x} // 0")
    if type(y) is int and y < 0:
        quotient, rest = _divmod(-x, -y, scope)
        return quotient, -rest
    quotient, rest = _divide(x, y, scope)
    if type(rest) is int and type(y) is int:
        return quotient + rest // y, rest % y
    if known_at_least(rest, 0) and known_at_least(y - 1, rest):
        return quotient, rest
    if known_at_least(-1, rest) and known_at_least(rest + y, 0):
        return quotient - 1, rest + y
    division = (rest, y)
    floor = scope.factor(SizeOperation("floordiv", division))
    modulus = scope.factor(SizeOperation("mod", division))
    return quotient + floor, modulus


def _divide(x: Size, y: Size, scope: Any) -> tuple[Size, Size]:
    """(q, r) with x = q * y + r, where no term of r is a multiple of the first term of y."""
    quotient: Size = 0
    if type(y) is int:
        whole = _whole_quotient(x, y, scope)
        if whole is not None:
            return whole, 0
        while not all(0 <= coefficient < y for _, coefficient in _terms(x)):
            # Sums resolve multiples of quotients, which gives new coefficients.
            quotient = quotient + _sum([(m, c // y) for m, c in _terms(x)], scope)
            x = _sum([(m, c % y) for m, c in _terms(x)], scope)
        return quotient, x
    lead, divisor = _terms(y)[0]
    rest = x
    passed: set[Monomial] = set()
    while True:
        for monomial, coefficient in _terms(rest):
            factor = _quotient(monomial, lead)
            count = coefficient // divisor
            if factor is not None and count and monomial not in passed:
                break
        else:
            return quotient, rest
        passed.add(monomial)
        multiple = _sum([(factor, count)], scope)
        quotient, rest = quotient + multiple, rest - multiple * y


def _whole_quotient(x: Size, y: int, scope: Any) -> Size | None:
    """x / y for x = e - mod(e, y) and multiples of y, which is floordiv(e, y) and more; None for others."""
    for monomial, coefficient in _terms(x):
        factor = monomial[0][0] if len(monomial) == 1 and monomial[0][1] == 1 else ""
        if isinstance(factor, str) or factor.name != "mod":
            continue
        if factor.operands[1] != y or (coefficient + 1) % y:
            continue
        e, rest = factor.operands[0], x - _sum([(monomial, coefficient)], scope)
        multiples = (coefficient + 1) // y
        more = rest - e
        if all(c % y == 0 for _, c in _terms(more)):
            floor = scope.factor(SizeOperation("floordiv", (e, y)))
            more = _sum([(m, c // y) for m, c in _terms(more)], scope)
            return floor + more + _sum([(monomial, multiples)], scope)
    return None


def _floordiv(x: Size, y: Size, scope: Any) -> Size:
    return _divmod(x, y, scope)[0]


def _mod(x: Size, y: Size, scope: Any) -> Size:
    return _divmod(x, y, scope)[1]


# Expressions ------------------------------------------------------------------------------------------


class Dimension(Symbol):
    """A symbolic dimension: an expression in dimension variables of one `SymbolicScope`.

    Integers result where an expression is constant. Comparisons are decided by the bounds that follow from the
    constraints of the scope, or raise InconclusiveDimensionOperation.
    """

    __slots__ = ("_hash", "scope", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], scope: Any) -> None:
        self.terms = terms
        self.scope = scope
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Dimension)
            and self._hash == other._hash
            and self.terms == other.terms
            and self.scope is other.scope
        )

    def __reduce__(self) -> Any:
        return type(self), (self.terms, self.scope)

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            factors = [f"{f}^{n}" if n != 1 else f"{f}" for f, n in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "- " if coefficient < 0 else "+ " if text else ""
            text += f"{' ' if text else ''}{sign}{'*'.join(factors)}"
        return text

    __repr__ = __str__

    # Facts ------------------------------------------------------------------------------------

    def bounds(self) -> tuple[int | None, int | None]:
        return self.scope.bounds(self)

    def variables(self) -> set[str]:
        """Names of the variables that the expression has."""
        names: set[str] = set()
        for monomial, _ in self.terms:
            for factor, _ in monomial:
                if isinstance(factor, str):
                    names.add(factor)
                else:
                    names.update(
                        *(x.variables() for x in factor.operands if isinstance(x, Dimension))
                    )
        return names

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        total: Any = None
        for monomial, coefficient in self.terms:
            term: Any = None
            for factor, exponent in monomial:
                value = values[factor] if isinstance(factor, str) else factor.evaluate(values)
                for _ in range(exponent):
                    term = value if term is None else term * value
            term = coefficient if term is None else term if coefficient == 1 else term * coefficient
            total = term if total is None else total + term
        return total

    def equations(self, shapes: Sequence[Sequence[Size]], names: Sequence[str]) -> Any:
        return shape_equations(shapes, names, self.scope)

    def as_value(self) -> Any:
        return dim_as_value(self)

    # Arithmetic -------------------------------------------------------------------------------

    __add__, __radd__ = _operator("add", _add)
    __sub__, __rsub__ = _operator("sub", _subtract)
    __mul__, __rmul__ = _operator("mul", _multiply)
    __floordiv__, __rfloordiv__ = _operator("floordiv", _floordiv)
    __mod__, __rmod__ = _operator("mod", _mod)
    __divmod__, __rdivmod__ = _operator("divmod", _divmod)

    def __neg__(self) -> Size:
        return _sum([(m, -c) for m, c in self.terms], self.scope)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Size:
        return self.maximum(-self)

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, int):
            return self.as_value() ** exponent
        if exponent < 0:
            raise ArgumentValueError(
                "a symbolic dimension has no negative powers.", got=f"{self}**{exponent}"
            )
        power: Size = 1
        for _ in range(exponent):
            power = self * power
        return power

    def __rpow__(self, base: Any) -> Any:
        return base ** self.as_value()

    def __truediv__(self, other: Any) -> Any:
        return self.as_value() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.as_value()

    def maximum(self, other: Size) -> Size:
        return self._choose("max", other, 1)

    def minimum(self, other: Size) -> Size:
        return self._choose("min", other, -1)

    def _choose(self, name: str, other: Size, sign: int) -> Size:
        difference = (self - other) * sign
        if known_at_least(difference, 0):
            return self
        if known_at_least(0, difference):
            return other
        operands = sorted((self, other), key=_size_key, reverse=True)
        return self.scope.factor(SizeOperation(name, (operands[0], operands[1])))
