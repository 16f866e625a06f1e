"""Distributions defined by formulas of their standard forms; location, scale, support and NaN are handled here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.primitives import special
from pellucid._machine.primitives.formulas import (
    Term,
    exp,
    expm1,
    floor,
    is_nan,
    log,
    log1p,
    select,
)
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.partials import evaluate_formula
from pellucid.scipy.special.gamma_functions import betaln_of
from pellucid.scipy.special.real_functions import promoted_reals

from .distribution_examples import EXAMPLES

Formula = Callable[..., Term]

_TITLES = {
    "pdf": "Probability density at `{0}` of {1}.",
    "logpdf": "Logarithm of the probability density at `{0}` of {1}.",
    "pmf": "Probability of `{0}` under {1}.",
    "logpmf": "Logarithm of the probability of `{0}` under {1}.",
    "cdf": "Probability of at most `{0}` under {1}.",
    "logcdf": "Logarithm of the probability of at most `{0}` under {1}.",
    "sf": "Probability of more than `{0}` under {1}.",
    "logsf": "Logarithm of the probability of more than `{0}` under {1}.",
    "ppf": "The number below which lies the probability `{0}` of {1}.",
    "isf": "The number above which lies the probability `{0}` of {1}.",
    "entropy": "Entropy, in nats, of {1}.",
}
_OUTSIDE = {
    "pdf": (0, 0), "logpdf": (-np.inf, -np.inf), "pmf": (0, 0), "logpmf": (-np.inf, -np.inf), "cdf": (0, 1),
    "logcdf": (-np.inf, 0), "sf": (1, 0), "logsf": (0, -np.inf),
}  # fmt: skip
"""Maps function to its values below and above the support."""


class Distribution:
    """A distribution by `formulas` of terms, each of a number and the shape parameters.

    `title` names it in docstrings. `support` is the pair of its ends, or gives it for parameters; `inside` is a number
    within, or gives one. `valid` says where parameters are allowed; elsewhere all functions are NaN, as SciPy's. Without
    a formula, `pdf` and `pmf` are exponentials, `logcdf` and `logsf` logarithms, and `sf` is 1 - `cdf`.
    """

    def __init__(
        self,
        module: str,
        title: str,
        parameters: str = "",
        *,
        support: Any = (-np.inf, np.inf),
        inside: Any = 0.5,
        valid: Formula | None = None,
        optional: str = "loc scale",
        **formulas: Formula,
    ) -> None:
        self.module, self.title, self.parameters = module, title, parameters.split()
        self.support, self.inside, self.valid = support, inside, valid
        self.optional = optional.split()
        self.formulas = formulas

    def functions(self, names: str, **arguments: str) -> list[Any]:
        """Public functions in the order of `names`; `arguments` maps a name to its first argument where that isn't
        the usual one.
        """
        return [self._function(name, arguments.get(name)) for name in names.split()]

    def _function(self, kind: str, argument: str | None) -> Any:
        is_discrete = "logpmf" in self.formulas
        argument = argument or ("q" if kind in ("ppf", "isf") else "k" if is_discrete else "x")
        optional = (
            self.optional if not (kind in ("cdf", "ppf") and "loc" not in self.optional) else []
        )
        parameter = inspect.Parameter
        signature = inspect.Signature([
            *(parameter(n, parameter.POSITIONAL_OR_KEYWORD, annotation="ArrayLike") for n in (argument, *self.parameters)),
            *(parameter(n, parameter.POSITIONAL_OR_KEYWORD, default=int(n == "scale"), annotation="ArrayLike") for n in optional),
        ], return_annotation="Array")  # fmt: skip

        name = f"{self.module.rpartition('.')[2]}.{kind}"
        example_arguments, example_result = EXAMPLES[name]

        def function(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            operands = promoted_reals(name, *bound.args)
            return evaluate_formula(lambda *terms: self._value(kind, *terms), operands)

        function.__name__ = function.__qualname__ = kind
        function.__module__ = self.module
        function.__signature__ = signature  # type: ignore[attr-defined]
        notes = "NaN where parameters are none of the distribution's."
        if kind in ("ppf", "isf"):
            notes = "NaN for probabilities outside of [0, 1] and where parameters are none of the distribution's."
        elif kind in _OUTSIDE:
            notes = f"{self._support_text(kind, argument, optional)} {notes}"
        function.__doc__ = (
            f"{_TITLES[kind].format(argument, self.title)}\n\n"
            "The result has the shape to which the arguments broadcast, and the floating-point dtype to which they\n"
            f"promote; integers count as floats.\n{notes}\n"
            "Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit,\n"
            "ArgumentTypeError for lists and strings.\n\n"
            f'>>> print(f"{{pl.scipy.stats.{name}({example_arguments}):.4f}}")\n{example_result}\n'
        )
        return numpy_function(function)

    def _support_text(self, kind: str, argument: str, optional: list[str]) -> str:
        """A sentence on the support; `optional` are the parameters that move and stretch it."""
        if kind.removeprefix("log") not in ("pdf", "pmf"):
            return "Numbers outside of the support are allowed."
        ends: Any = self.support(*self.parameters) if callable(self.support) else self.support
        if ends == (-np.inf, np.inf):
            return "Support: all numbers."
        low, high = (f"{end:.5g}" if isinstance(end, float) else end for end in ends)
        z = f"`{argument}`" + " - `loc`" * ("loc" in optional)
        z = f"({z}) / `scale`" if "scale" in optional else z
        numbers = "whole numbers " * kind.endswith("pmf")
        outside = "-inf" if kind.startswith("log") else 0
        return f"Support: {numbers}{z} from {low} to {high}, beyond which the result is {outside}."

    def _value(self, kind: str, x: Term, *others: Term) -> Term:
        count = len(self.parameters)
        shapes = others[:count]
        rest = dict(zip(self.optional, others[count:], strict=False))
        loc, scale = rest.get("loc"), rest.get("scale")
        is_valid = x.filled(0) == 0
        for term in others:
            is_valid = is_valid & ~is_nan(term)
        if self.valid is not None:
            is_valid = is_valid & self.valid(*shapes)
        if scale is not None:
            is_valid = is_valid & (scale > 0)
        if kind in ("ppf", "isf"):
            is_probability = (x >= 0) & (x <= 1)
            value = self.formulas[kind](select(is_probability, x, 0.5), *shapes)
            value = value if scale is None else value * scale
            value = value if loc is None else value + loc
            return select(is_valid & is_probability, value, np.nan)
        z = x if loc is None else x - loc
        z = z if scale is None else z / scale
        is_valid = is_valid & ~is_nan(z)
        support: Any = self.support(*shapes) if callable(self.support) else self.support
        low, high = support
        below, above = (z < low) | (z == -np.inf), (z > high) | (z == np.inf)
        if kind in ("pmf", "logpmf"):
            below = below | (z != floor(z))
        elif "logpmf" in self.formulas:
            z = floor(z)
        inside: Any = self.inside(*shapes) if callable(self.inside) else self.inside
        value = self._formula(kind)(select(below | above, inside, z), *shapes)
        if scale is not None and kind in ("pdf", "logpdf"):
            value = value / scale if kind == "pdf" else value - log(scale)
        at_low, at_high = _OUTSIDE[kind]
        value = select(below, at_low, select(above, at_high, value))
        return select(is_valid, value, np.nan)

    def _formula(self, kind: str) -> Formula:
        formula = self.formulas.get(kind)
        if formula is not None:
            return formula
        if kind in ("pdf", "pmf"):
            logarithm = self.formulas["log" + kind]
            return lambda *terms: exp(logarithm(*terms))
        if kind in ("cdf", "sf") and "log" + kind in self.formulas:
            logarithm = self.formulas["log" + kind]
            return lambda *terms: exp(logarithm(*terms))
        if kind == "sf":
            return lambda *terms: 1 - self._formula("cdf")(*terms)
        function = self._formula(kind.removeprefix("log"))
        return lambda *terms: log(function(*terms))


# Formulas that several distributions share ------------------------------------------------------------


def xlogy(x: Term, y: Term) -> Term:
    """x log y, 0 for x = 0."""
    return x * log(select(x == 0, 1.0, y))


def xlog1py(x: Term, y: Term) -> Term:
    """x log(1 + y), 0 for x = 0."""
    return x * log1p(select(x == 0, 0.0, y))


def log1mexp(x: Term) -> Term:
    """log(1 - exp(-x)) for x ≥ 0 (Mächler, Accurately Computing log(1 - exp(-|a|)), 2012)."""
    return select(x < 0.7, log(-expm1(-x)), log1p(-exp(-x)))


def is_probability(p: Term, *_: Term) -> Term:
    """Mask: where p is between 0 and 1."""
    return (p >= 0) & (p <= 1)


def all_positive(*terms: Term) -> Term:
    """Mask: where all terms are above 0."""
    result = terms[0] > 0
    for term in terms[1:]:
        result = result & (term > 0)
    return result


def gamma_below(x: Term, a: Term) -> Term:
    """Probability of at most x under the gamma distribution of shape a."""
    return Term(special.igamma(a.value, x.value))


def gamma_above(x: Term, a: Term) -> Term:
    """Probability of more than x under the gamma distribution of shape a."""
    return Term(special.igammac(a.value, x.value))


def beta_below(a: Term, b: Term, x: Term) -> Term:
    """Probability of at most x under the beta distribution."""
    return Term(special.betainc(a.value, b.value, x.value))


def log_choices(n: Term, k: Term) -> Term:
    """The logarithm of the number of ways to choose k of n things."""
    return -log(n + 1) - betaln_of(k + 1, n - k + 1)
