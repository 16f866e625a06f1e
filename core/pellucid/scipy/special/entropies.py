"""Logarithms and powers with their limits: entropies, logits, Box and Cox's transformation, softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArrayLike, library_code, public_functions
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.primitives import transcendental
from pellucid._machine.primitives.formulas import Term, exp, is_nan, log, log1p, select
from pellucid._machine.primitives.incomplete import deviance
from pellucid._machine.xla.arrays import Array
from pellucid.numpy import log_sums
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.log_sums import logsumexp
from pellucid.numpy.partials import with_partials
from pellucid.numpy.promotion import promote_arguments_inexact
from pellucid.numpy.reductions import Axis

from .real_functions import real_function


@with_partials(lambda y, p: -log(p) - 1)
def entr_of(p: Term) -> Term:
    """-p log p."""
    value = -p * log(p)
    return select(p == 0, 0.0, select(p < 0, -np.inf, value))


def _log_ratio(p: Term, q: Term) -> Term:
    """log(p / q), accurate where p and q are close."""
    away = (p - q) / q
    return select(abs(away) < 0.5, log1p(away), log(p / q))


def _select_defined(p: Term, q: Term, value: Term, at_zero: Term) -> Term:
    """`value` for positive p and q, `at_zero` for p = 0 ≤ q, elsewhere ∞."""
    value = select((p > 0) & (q > 0), value, select((p == 0) & (q >= 0), at_zero, np.inf))
    return select(is_nan(p) | is_nan(q), np.nan, value)


def _slope(p: Term, q: Term, slope: Term, at_zero: Term | float) -> Term:
    """A derivative of a function made by `_select_defined`: `slope` for positive p, `at_zero` for p = 0, and 0 where the
    function is always ∞.
    """
    value = select((p > 0) & (q >= 0), slope, select((p == 0) & (q >= 0), at_zero, p.filled(0)))
    return select(is_nan(p) | is_nan(q), np.nan, value)


def _steep_at_zero(p: Term, q: Term) -> Term:
    """Derivatives by p at p = 0: -∞, from above; 0 at q = 0, where there is none."""
    return select(q > 0, -np.inf, p.filled(0))


@with_partials(
    lambda y, p, q: _slope(p, q, _log_ratio(p, q), _steep_at_zero(p, q)),
    lambda y, p, q: _slope(p, q, 1 - p / q, 1.0),
)
def kl_div_of(p: Term, q: Term) -> Term:
    """p log(p / q) - p + q."""
    return _select_defined(p, q, deviance(p, q, q - p), q)


@with_partials(
    lambda y, p, q: _slope(p, q, _log_ratio(p, q) + 1, _steep_at_zero(p, q)),
    lambda y, p, q: _slope(p, q, -(p / q), 0.0),
)
def rel_entr_of(p: Term, q: Term) -> Term:
    """p log(p / q)."""
    return _select_defined(p, q, p * _log_ratio(p, q), p.filled(0))


@with_partials(lambda y, x: 1 / (x * (1 - x)))
def logit_of(x: Term) -> Term:
    """log(x / (1 - x)), by log1p where x is close to 1/2."""
    away = 2 * x - 1
    middle = log1p(away) - log1p(-away)
    return select(abs(away) < 0.5, middle, log(x) - log1p(-x))


@with_partials(lambda y, x: y * expit_of(-x))  # pyright: ignore[reportGeneralTypeIssues]
def expit_of(x: Term) -> Term:
    """1 / (1 + exp(-x))."""
    power = exp(-abs(x))
    return select(x < 0, power, 1.0) / (1 + power)


@real_function
def entr(x: Term) -> Term:
    """Entropy `-x log(x)` of one probability: 0 at 0, -∞ below.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.

    >>> entr(jnp.array([0.0, 0.5]))
    Array([0.       , 0.3465736], dtype=float32)
    """
    return entr_of(x)


@real_function
def kl_div(p: Term, q: Term) -> Term:
    """Kullback-Leibler divergence `p log(p / q) - p + q` of one pair; ∞ where it isn't defined.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: Kullback and Leibler, On Information and Sufficiency, 1951.

    >>> kl_div(jnp.array([0.0, 1.0]), 1.0)
    Array([1., 0.], dtype=float32)
    """
    return kl_div_of(p, q)


@real_function
def rel_entr(p: Term, q: Term) -> Term:
    """Relative entropy `p log(p / q)` of one pair: 0 for p = 0, ∞ where it isn't defined.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.

    >>> rel_entr(jnp.array([0.0, 1.0]), 1.0)
    Array([0., 0.], dtype=float32)
    """
    return rel_entr_of(p, q)


def _product_with(logarithm: Any, argument: Any, slope: Any) -> Any:
    """x `logarithm`(y), 0 where x is 0 and y isn't NaN; `slope` is 1 over the logarithm's derivative."""

    @custom_jvp
    def function(x: Any, y: Any) -> Any:
        is_zero = (x == 0) & ~jnp.isnan(y)
        return jnp.where(
            is_zero, jnp.zeros_like(x * y), x * logarithm(jnp.where(is_zero, argument, y))
        )

    def by_second(t: Any, _result: Any, x: Any, y: Any) -> Any:
        size = jnp.asarray(slope(y))
        is_constant = (x == 0) & (size == 0)
        return t * jnp.where(is_constant, 0, x / jnp.where(is_constant, 1, size))

    function.defjvps(
        library_code(lambda t, result, x, y: t * logarithm(y)), library_code(by_second)
    )
    return function


_xlogy = _product_with(jnp.log, 1, lambda y: y)
_xlog1py = _product_with(jnp.log1p, 0, lambda y: 1 + y)


@numpy_function
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """`x log(y)`, 0 where `x` is 0 and `y` isn't NaN; also of complex numbers.

    The result has the shape to which the arguments broadcast, and the floating-point or complex dtype to which they
    promote.
    Raises: DtypeError for PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for lists and strings.

    >>> xlogy(jnp.array([0.0, 2.0]), jnp.array([0.0, 1.0]))
    Array([0., 0.], dtype=float32)
    """
    return _xlogy(*promote_arguments_inexact("scipy.special.xlogy", x, y))


@numpy_function
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """`x log(1 + y)`, 0 where `x` is 0 and `y` isn't NaN; also of complex numbers.

    The result has the shape to which the arguments broadcast, and the floating-point or complex dtype to which they
    promote.
    Raises: DtypeError for PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for lists and strings.

    >>> xlog1py(jnp.array([0.0, 2.0]), jnp.array([-1.0, 0.0]))
    Array([0., 0.], dtype=float32)
    """
    return _xlog1py(*promote_arguments_inexact("scipy.special.xlog1py", x, y))


def _complex_logit(x: Array) -> Array:
    return jnp.log(x / (1 - x))


@real_function(complex=_complex_logit)
def logit(x: Term) -> Term:
    """Logarithm of the odds, `log(x / (1 - x))`, also of complex numbers.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> logit(jnp.array([0.0, 0.5]))
    Array([-inf,   0.], dtype=float32)
    """
    return logit_of(x)


@real_function(complex=transcendental.logistic)
def expit(x: Term) -> Term:
    """Logistic function `1 / (1 + exp(-x))`, also of complex numbers.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> expit(jnp.array([-jnp.inf, 0.0]))
    Array([0. , 0.5], dtype=float32)
    """
    return expit_of(x)


def _power_of(log_x: Array, lmbda: Any) -> Array:
    """(exp(λ log x) - 1) / λ, for λ = 0 its limit log x."""
    is_zero = lmbda == 0
    safe = jnp.where(is_zero, 1, lmbda)
    # The second order keeps the derivative by λ at 0, which is (log x)² / 2.
    limit = log_x + 0.5 * lmbda * jnp.where(is_zero & jnp.isfinite(log_x), log_x * log_x, 0)
    return jnp.where(is_zero, limit, jnp.expm1(safe * log_x) / safe)


@numpy_function
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Box and Cox's transformation `(x**lmbda - 1) / lmbda`, for `lmbda` 0 its limit `log(x)`.

    The result has the shape to which the arguments broadcast, and the floating-point or complex dtype to which they
    promote.
    Raises: DtypeError for PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for lists and strings.
    Source: Box and Cox, An Analysis of Transformations, 1964.

    >>> boxcox(jnp.array([1.0, 4.0]), 0.5)
    Array([0., 2.], dtype=float32)
    """
    x, lmbda = promote_arguments_inexact("scipy.special.boxcox", x, lmbda)
    return _power_of(jnp.log(x), lmbda)


@numpy_function
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Box and Cox's transformation of `1 + x`, accurate for small `x`.

    The result has the shape to which the arguments broadcast, and the floating-point or complex dtype to which they
    promote.
    Raises: DtypeError for PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for lists and strings.
    Source: Box and Cox, An Analysis of Transformations, 1964.

    >>> boxcox1p(jnp.array([0.0, 3.0]), 0.5)
    Array([0., 2.], dtype=float32)
    """
    x, lmbda = promote_arguments_inexact("scipy.special.boxcox1p", x, lmbda)
    return _power_of(jnp.log1p(x), lmbda)


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """`exp(x) / sum(exp(x))`, the sum along `axis`, by default of all elements.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: AxisError for an axis out of bounds, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> softmax(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return log_sums.softmax(x, axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """`log(softmax(x, axis=axis))`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: AxisError for an axis out of bounds, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> log_softmax(jnp.array([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return log_sums.log_softmax(x, axis)


__all__ = [
    "boxcox", "boxcox1p", "entr", "expit", "kl_div", "log_softmax", "logit", "logsumexp", "rel_entr", "softmax", "xlog1py",
    "xlogy",
]  # fmt: skip

public_functions(__all__, globals())
