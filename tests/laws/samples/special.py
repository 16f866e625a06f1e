"""Rows for special functions."""

import numpy as np
import scipy.special

from tests.laws.sample import FLOATS, Sample, array, python, rows, values

NARROW = (*FLOATS, "float16")
EDGES = [-1.0, 0.0, 1e-30, 0.5, 2.0, 50.0, np.inf, np.nan]
A, X = np.meshgrid(np.float32(EDGES), np.float32(EDGES), indexing="ij")
SOME = np.linspace(0.1, 4, 5)
PARAMETERS = (0.5, 4.0)


def gamma_grad_a(a, x, step=1e-5):
    """Derivative of P(a, x) by a, as a central difference."""
    return (scipy.special.gammainc(a + step, x) - scipy.special.gammainc(a - step, x)) / (2 * step)


def sample_grad(a, x):
    """Derivative of a gamma sample by its parameter."""
    return -gamma_grad_a(a, x) / (np.exp(-x) * x ** (a - 1) / scipy.special.gamma(a))


samples = [
    *rows("lax.lgamma(x)", NARROW, scipy.special.gammaln, ranges=((0.5, 4.0),)),
    Sample("lax.lgamma(x)", (values([-2.5, -0.5, 0.0, 1.0, np.inf, np.nan]),), smooth=False),
    *rows("lax.digamma(x)", NARROW, scipy.special.digamma, ranges=((0.5, 4.0),)),
    *rows("lax.polygamma(x, y)", FLOATS, lambda m, x: scipy.special.polygamma(np.round(m).astype(int), x),
          ranges=((2.0, 2.0), (0.5, 4.0)), wrt=(1,)),
    Sample("lax.polygamma(x, y)", (python(1.0), array((3,), low=0.5)), wrt=(1,)),
    *rows("lax.zeta(x, y)", FLOATS, scipy.special.zeta, ranges=((1.5, 4.0), (0.5, 4.0)), wrt=()),
    Sample("lax.zeta(x, y)", (array((3,), low=1.5), array((3,), low=0.5)), wrt=(1,), agrees="no"),
    *rows("lax.erf(x)", NARROW, scipy.special.erf),
    *rows("lax.erfc(x)", NARROW, scipy.special.erfc),
    *rows("lax.erf_inv(x)", NARROW, scipy.special.erfinv, ranges=((-0.9, 0.9),)),
    *[Sample(f"lax.{name}(x)", (values([-np.inf, -1.0, 0.0, 1.0, 2.0, np.inf, np.nan]),), smooth=False)
      for name in ("erf", "erfc", "erf_inv", "bessel_i0e", "bessel_i1e")],
    *rows("lax.bessel_i0e(x)", NARROW, scipy.special.i0e, ranges=((-20.0, 20.0),), agrees="close"),
    *rows("lax.bessel_i1e(x)", NARROW, scipy.special.i1e, ranges=((-20.0, 20.0),), tolerance=1e-2),
    *rows("lax.igamma(x, y)", NARROW, scipy.special.gammainc, ranges=(PARAMETERS, PARAMETERS),
          agrees="close", wrt=(1,), shapes=((2, 3),)),
    *rows("lax.igammac(x, y)", NARROW, scipy.special.gammaincc, ranges=(PARAMETERS, PARAMETERS),
          agrees="close", wrt=(1,), shapes=((2, 3),)),
    *[Sample(f"lax.{name}(x, y)", (array((2, 3), low=0.5), array((2, 3), low=0.5)), agrees="close", smooth=False)
      for name in ("igamma", "igammac")],  # by `a` too, but the derivative by `a` has no derivative
    Sample("lax.igamma(x, y)", (values(A), values(X)), wrt=(), agrees="no"),
    Sample("lax.igamma(x, y)", (values(A[2:6, 1:]), values(X[2:6, 1:])), scipy.special.gammainc, wrt=(), agrees="close"),
    Sample("lax.igammac(x, y)", (values(A[3:6, 1:]), values(X[3:6, 1:])), scipy.special.gammaincc, wrt=(), agrees="close"),
    Sample("lax.igamma(x, y)", (values([1e2, 1e3, 1e4, 1e5, 1e6]), values([1e2, 1.1e3, 9.9e3, 1e5, 1.001e6])),
           scipy.special.gammainc, wrt=(), agrees="no"),
    Sample("lax.igamma(x, y)", (python(2.0), array((3,), low=0.5)), agrees="close", wrt=(1,)),
    *rows("lax.igamma_grad_a(x, y)", FLOATS, gamma_grad_a, ranges=(PARAMETERS, PARAMETERS), agrees="close", wrt=(), shapes=((2, 3),),
          tolerance=1e-2),
    Sample("lax.igamma_grad_a(x, y)", (values(A[2:6, 1:6]), values(X[2:6, 1:6])), wrt=(), agrees="close"),
    *rows("lax.random_gamma_grad(x, y)", FLOATS, sample_grad, ranges=(PARAMETERS, PARAMETERS), agrees="close", wrt=(), shapes=((2, 3),),
          same_text=False, tolerance=1e-2),
    *rows("lax.betainc(x, y, z)", NARROW, scipy.special.betainc, ranges=(PARAMETERS, PARAMETERS, (0.1, 0.9)),
          agrees="close", wrt=(2,)),
    Sample("lax.betainc(x, y, z)", tuple(map(values, np.meshgrid(
        np.float32([-1, 0, 0.5, 3, np.inf, np.nan]), np.float32([-1, 0, 0.5, 3, np.inf]),
        np.float32([-0.5, 0, 0.3, 1, 1.5, np.nan])))), wrt=(), agrees="close"),
    Sample("lax.betainc(x, y, z)", (values([1e3, 1e4, 1e5, 0.01]), values([1e3, 1e4, 10, 0.01]),
           values([0.5, 0.501, 0.9999, 0.5])), scipy.special.betainc, wrt=(), agrees="no", tolerance=1e-3),
]  # fmt: skip
