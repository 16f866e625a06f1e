"""Special functions: incomplete gamma and beta functions, Bessel functions."""

from __future__ import annotations

import numpy as np

from pellucid._machine.base import ArrayLike, dtypes
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla import Array

from . import formulas
from .arithmetic import abs as absolute, add, integer_pow, mul, neg, sign, sub
from .families import constant_like, full_as, real_transcendental
from .formulas import Formula
from .incomplete import (
    beta_density,
    gamma_density,
    lower_igamma,
    lower_igamma_grad_a,
    lower_igammac,
    lower_random_gamma_grad,
    lower_regularized_incomplete_beta,
)
from .logical import gt, select
from .transcendental import no_derivative

# Incomplete gamma functions -----------------------------------------------------------------------


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized lower incomplete gamma function P(a, x), element by element.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: DLMF, section 8.2; `incomplete` describes the method.

    >>> print(f"{float(igamma(np.float32(1), np.float32(2))):.4f}")
    0.8647
    """
    return bind1(igamma_p, a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), element by element.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: DLMF, section 8.2.

    >>> print(f"{float(igammac(np.float32(1), np.float32(2))):.4f}")
    0.1353
    """
    return bind1(igammac_p, a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of `igamma(a, x)` by `a`, element by element.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: Moore, Algorithm AS 187, Applied Statistics 31, 1982.

    >>> print(f"{float(igamma_grad_a(np.float32(1), np.float32(2))):.4f}")
    -0.2208
    """
    return bind1(igamma_grad_a_p, a, x)


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Derivative by `a` of a sample `x` of the gamma distribution with shape `a`, element by element.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, 2018.

    >>> print(f"{float(random_gamma_grad(np.float32(1), np.float32(2))):.4f}")
    1.6317
    """
    return bind1(random_gamma_grad_p, a, x)


def _terms(y, *operands):
    """The operands as terms of the shape of the result `y`."""
    shape = type_of(y).shape
    full = [v if type_of(v).shape == shape else mul(v, full_as(y, 1)) for v in operands]
    return [*map(formulas.Term, full)]


def _density(y, a, x):
    return gamma_density(*_terms(y, a, x)).value


igamma_p = real_transcendental(
    "igamma",
    lower_igamma,
    lambda t, y, a, x: mul(t, igamma_grad_a(a, x)),
    lambda t, y, a, x: mul(t, _density(y, a, x)),
)
igammac_p = real_transcendental(
    "igammac",
    lower_igammac,
    lambda t, y, a, x: neg(mul(t, igamma_grad_a(a, x))),
    lambda t, y, a, x: neg(mul(t, _density(y, a, x))),
)
igamma_grad_a_p = real_transcendental("igamma_grad_a", lower_igamma_grad_a)
random_gamma_grad_p = real_transcendental("random_gamma_grad", lower_random_gamma_grad)


# Incomplete beta function -------------------------------------------------------------------------


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularized incomplete beta function I(a, b, x), element by element; there is no derivative by `a` or `b`.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: DLMF, section 8.17; `incomplete` describes the method.

    >>> print(f"{float(betainc(np.float32(1), np.float32(1), np.float32(0.25))):.4f}")
    0.2500
    """
    return bind1(regularized_incomplete_beta_p, a, b, x)


def _beta_density(t, y, a, b, x):
    return mul(t, beta_density(*_terms(y, a, b, x)).value)


regularized_incomplete_beta_p = real_transcendental(
    "regularized_incomplete_beta",
    lower_regularized_incomplete_beta,
    no_derivative("betainc", "a"),
    no_derivative("betainc", "b"),
    _beta_density,
)


# Bessel functions ---------------------------------------------------------------------------------


def bessel_i0e(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind of order 0, times exp(-|x|), element by element.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF, section 10.25.

    >>> print(f"{float(bessel_i0e(np.float32(0))):.4f}")
    1.0000
    """
    return bind1(bessel_i0e_p, x)


def bessel_i1e(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind of order 1, times exp(-|x|), element by element.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF, section 10.25.

    >>> bessel_i1e(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(bessel_i1e_p, x)


# Coefficients of the expansions of e⁻ˣ I₀(x) in Chebyshev polynomials of x/4 - 1 for 0 ≤ x ≤ 8, and of
# e⁻ˣ √x I₀(x) in those of 16/x - 1 for x ≥ 8; computed with 50 digits by the sums over Chebyshev nodes of
# Clenshaw, Chebyshev Series for Mathematical Functions, 1962. The first counts half.
_I0E_NEAR = (
    0.676795274409476085, -0.304682672343198399, 0.171620901522208775, -0.0949010970480476444,
    0.0493052842396707085, -0.0237374148058994688, 0.0105464603945949983, -0.00432430999505057594,
    0.0016394756169413358, -0.000576375574538582366, 0.000188502885095841656, -0.000057541950100821037,
    0.0000164484480707288971, -4.41673835845875056e-6, 1.11738753912010372e-6, -2.67079385394061173e-7,
    6.04699502254191895e-8, -1.30002500998624804e-8, 2.65982372468238665e-9, -5.18979560163526291e-10,
    9.67580903537323691e-11, -1.72682629144155571e-11, 2.95505266312963983e-12, -4.85644678311192946e-13,
    7.67618549860493562e-14, -1.16853328779934517e-14, 1.71539128555513303e-15, -2.43127984654795469e-16,
    3.3307945188222381e-17, -4.41534164647933938e-18,
)  # fmt: skip
_I0E_FAR = (
    0.804490411014108832, 0.00336911647825569409, 0.0000688975834691682398, 2.89137052083475648e-6,
    2.04891858946906374e-7, 2.26666899049817806e-8, 3.39623202570838635e-9, 4.94060238822496959e-10,
    1.18891471078464383e-11, -3.14991652796324136e-11, -1.32158118404477131e-11, -1.79417853150680612e-12,
    7.18012445138366623e-13, 3.8527783827421427e-13, 1.54008621752140983e-14, -4.15056934728722209e-14,
    -9.55484669882830765e-15, 3.81168066935262242e-15, 1.77256013305652638e-15, -3.42548561967721913e-16,
    -2.82762398051658348e-16, 3.46122286769746109e-17, 4.46562142029676e-17, -4.83050448594418207e-18,
    -7.23318048787475395e-18,
)  # fmt: skip


def _bessel_i0e(x: formulas.Term) -> formulas.Term:
    is_single = type_of(x.value).dtype == np.float32
    near, far = (_I0E_NEAR[:18], _I0E_FAR[:7]) if is_single else (_I0E_NEAR, _I0E_FAR)
    x = abs(x)
    inside = formulas.chebyshev(0.5 * x - 2, near)
    outside = formulas.chebyshev(32 / x - 2, far) / formulas.sqrt(x)
    return formulas.select(x <= 8, inside, outside)


def _i1e_slope(t, y, x):
    # I₁'(x) = I₀(x) - I₁(x)/x, whose limit at 0 is 1/2.
    small = constant_like(x, dtypes.finfo(type_of(x).dtype).eps)
    away = gt(absolute(x), small)
    safe = select(away, x, full_as(x, dtypes.finfo(type_of(x).dtype).eps))
    slope = sub(bessel_i0e(safe), mul(y, add(sign(safe), integer_pow(safe, -1))))
    return mul(t, select(away, slope, full_as(x, 0.5)))


bessel_i0e_p = real_transcendental(
    "bessel_i0e", Formula(_bessel_i0e), lambda t, y, x: mul(t, sub(bessel_i1e(x), mul(sign(x), y)))
)
bessel_i1e_p = real_transcendental("bessel_i1e", "chlo.bessel_i1e", _i1e_slope)
