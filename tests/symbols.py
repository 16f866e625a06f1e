"""A minimal symbolic size: a polynomial with integer coefficients in variables that are at least 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid import lax
from pellucid.base.dims import Symbol


class Polynomial(Symbol):
    """`terms` has the coefficient of each product of atoms, a sorted tuple; atoms are names and quotients."""

    __slots__ = ("terms",)

    def __init__(self, terms: dict[tuple[Any, ...], int]) -> None:
        self.terms = terms

    def __repr__(self) -> str:
        return "+".join(
            "*".join([*([str(c)] if c != 1 or not m else []), *map(str, m)])
            for m, c in self.terms.items()
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, (int, Polynomial)):
            return NotImplemented
        return simplified([*self.terms.items(), *terms_of(other)])

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (int, Polynomial)):
            return NotImplemented
        products = [
            (tuple(sorted((*m, *n), key=str)), c * d)
            for m, c in self.terms.items() for n, d in terms_of(other)
        ]  # fmt: skip
        return simplified(products)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __floordiv__(self, other: Any) -> Any:
        if self == other:
            return 1
        if isinstance(other, int) and all(c % other == 0 for c in self.terms.values()):
            return Polynomial({m: c // other for m, c in self.terms.items()})
        if isinstance(other, Polynomial) and len(other.terms) == 1:
            [(divisor, factor)] = other.terms.items()
            quotients = [
                (without(m, divisor), c // factor) for m, c in self.terms.items() if c % factor == 0
            ]
            if len(quotients) == len(self.terms) and all(m is not None for m, _ in quotients):
                return simplified(quotients)
        return Polynomial({(f"({self})//({other})",): 1})

    def __mod__(self, other: Any) -> Any:
        divided = self // other
        rest = self - divided * other
        return rest if isinstance(rest, int) else Polynomial({(f"({self})%({other})",): 1})

    def __rfloordiv__(self, other: Any) -> Any:
        return 0 if other == 0 else Polynomial({(f"{other}//({self})",): 1})

    def __rmod__(self, other: Any) -> Any:
        return 0 if other == 0 else Polynomial({(f"{other}%({self})",): 1})

    def as_value(self) -> Any:
        return lax.reduce_max(lax.iota(np.int32, self), (0,)) + 1

    def bounds(self) -> tuple[int | None, int | None]:
        constant = self.terms.get((), 0)
        others = [c for m, c in self.terms.items() if m]
        low = None if min(others) < 0 else constant + sum(others)
        high = None if max(others) > 0 else constant + sum(others)
        return low, high


def without(product: tuple[Any, ...], divisor: tuple[Any, ...]) -> Any:
    """`product` divided by `divisor`; None if that is no product."""
    rest = list(product)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def terms_of(size: int | Polynomial) -> list[tuple[tuple[Any, ...], int]]:
    return list(size.terms.items()) if isinstance(size, Polynomial) else [((), size)]


def simplified(terms: list[tuple[tuple[Any, ...], int]]) -> Any:
    """The sum of `terms`: an integer where no variable is left."""
    total: dict[tuple[Any, ...], int] = {}
    for product, coefficient in terms:
        total[product] = total.get(product, 0) + coefficient
    total = {m: c for m, c in total.items() if c}
    return Polynomial(total) if set(total) - {()} else total.get((), 0)


def variable(name: str) -> Polynomial:
    return Polynomial({(name,): 1})


assert math.prod([variable("b"), 2]) == variable("b") * 2
