"""`pellucid.scipy.stats` gives what SciPy gives."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.stats
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import (
    ArgumentValueError,
    DtypeError,
    ShapeError,
    UnsupportedError,
)
from pellucid.scipy import stats

SHAPES = {
    **{name: [()] for name in ("norm", "uniform", "expon", "cauchy", "gumbel_r", "gumbel_l", "laplace", "logistic")},
    "gamma": [(0.5,), (1.0,), (60.0,), (-1.0,)], "chi2": [(1.0,), (5.0,)], "beta": [(0.5, 2.0), (1.0, 1.0)], "t": [(0.7,), (30.0,)],
    "pareto": [(3.0,), (0.0,)], "truncnorm": [(-1.0, 2.0), (3.0, 5.0), (-9.0, -8.5), (2.0, 1.0)], "gennorm": [(0.5,), (3.0,)],
    "vonmises": [(0.3,), (50.0,), (-1.0,)], "wrapcauchy": [(0.5,), (1.5,)],
    "bernoulli": [(0.3,), (1.5,)], "binom": [(5, 0.3), (4, 0.0)], "nbinom": [(2, 0.3)], "betabinom": [(5, 0.3, 2.0)],
    "geom": [(0.3,)], "poisson": [(0.4,), (30.0,), (0.0,)],
}  # fmt: skip
"""By distribution, shape parameters; some are none of the distribution's, which gives NaN."""
X = np.array(
    [-np.inf, -9.0, -8.7, -1.5, -0.2, 0.0, 0.3, 0.75, 1.0, 1.7, 4.0, 9.0, 40.0, np.inf, np.nan]
)
K = np.resize([-1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 6.0, 40.0, np.nan], X.size)
Q = np.resize([-0.1, 0.0, 1e-6, 0.1, 0.5, 0.8, 1.0, 1.1, np.nan], X.size)
QUANTILES = ("ppf", "isf")


def functions(module) -> dict[str, object]:
    return {name: getattr(module, name) for name in module.__all__}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name", rotating([(n,) for n in sorted(SHAPES)], lambda case: case[0] in ("gamma", "norm"))
)
def test_functions_are_those_of_scipy(name) -> None:
    """All functions of a distribution, one primitive after the other: operands of one shape share what is compiled."""
    theirs, ours = getattr(scipy.stats, name), getattr(stats, name)
    for kind, function in functions(ours).items():
        if kind == "entropy":
            continue
        parameters = inspect.signature(function).parameters
        place = (0.5, 2.0)[: ("loc" in parameters) + ("scale" in parameters)]
        x = Q if kind in QUANTILES else K if "logpmf" in functions(ours) else X
        if kind not in QUANTILES:
            x = x * (place[1] if len(place) > 1 else 1) + (place[0] if place else 0)
        rows = np.resize(np.array(SHAPES[name], np.float64), (4, len(SHAPES[name][0]))).T[
            :, :, None
        ]
        want = getattr(theirs, kind)(x, *rows, *place)
        operands = [np.broadcast_to(np.float64(v), (4, x.size)) for v in (x, *rows, *place)]
        with pl.enable_x64(True):
            got = np.asarray(function.python(*operands))
        want = np.broadcast_to(want, got.shape)
        comparable = ~(np.isnan(want) & np.isinf(operands[0]))  # where SciPy computes ∞ - ∞
        if name == "bernoulli" and kind == "ppf":
            comparable &= operands[0] != 0  # SciPy's is -1
        np.testing.assert_allclose(got[comparable], want[comparable], 1e-9, 1e-14, err_msg=kind)


def test_derivatives_are_those_of_differences() -> None:
    rows = [("norm", "logcdf", (-30.0, 1.0, 2.0)), ("gamma", "logpdf", (0.7, 2.0, 0.1, 2.0)), ("t", "logpdf", (0.3, 2.5)),
            ("poisson", "logpmf", (3.0, 2.5)), ("beta", "logpdf", (0.3, 2.0, 0.5)), ("truncnorm", "logcdf", (0.3, -1.0, 2.0))]  # fmt: skip
    with pl.enable_x64(True):
        for name, kind, point in rows:
            function = getattr(getattr(stats, name), kind)
            for i in range(kind == "logpmf", len(point)):
                up, down = ([x + (j == i) * d for j, x in enumerate(point)] for d in (1e-5, -1e-5))
                difference = (float(function(*up)) - float(function(*down))) / 2e-5
                np.testing.assert_allclose(pl.grad(function, i)(*point), difference, 1e-6, 1e-8)
        slopes = pl.vmap(pl.grad(stats.expon.logpdf))(jnp.array([-1.0, 0.0, 2.0]))
        np.testing.assert_allclose(slopes, [0, -1, -1])


def test_distributions_of_vectors() -> None:
    x, p, alpha = np.array([[1, 2], [0, 3]]), np.array([0.3, 0.7]), np.array([2.0, 0.5])
    np.testing.assert_allclose(
        stats.multinomial.logpmf(x, 3, p), scipy.stats.multinomial.logpmf(x, 3, p), 1e-5
    )
    assert stats.multinomial.pmf(x[0], 4, p) == 0
    for point in (np.array([0.3, 0.7]), np.array([0.3]), np.array([[0.3, 0.1], [0.7, 0.9]])):
        np.testing.assert_allclose(
            stats.dirichlet.pdf(point, alpha), scipy.stats.dirichlet.pdf(point, alpha), 1e-5
        )
    assert stats.dirichlet.logpdf(np.array([0.3, 0.8]), alpha) == -np.inf
    with pytest.raises(ShapeError, match="k or k - 1 rows"):
        stats.dirichlet.logpdf(np.ones(4), alpha)
    points, cov = np.array([[0.3, 0.1], [1.0, 1.0], [2.0, 2.0]]), np.array([[2.0, 0.5], [0.5, 1.0]])
    want = scipy.stats.multivariate_normal([0.1, 0.2], cov)
    np.testing.assert_allclose(
        stats.multivariate_normal.logpdf(points, np.array([0.1, 0.2]), cov),
        want.logpdf(points),
        1e-5,
    )
    np.testing.assert_allclose(
        stats.multivariate_normal.pdf(0.3, 0.0, 2.0), scipy.stats.norm.pdf(0.3, 0, 2**0.5), 1e-5
    )
    with pytest.raises(UnsupportedError):
        stats.multivariate_normal.logpdf(0.3, 0.0, 1.0, allow_singular=True)


def test_statistics_of_samples() -> None:
    np.testing.assert_allclose(
        stats.poisson.entropy(np.array([0.0, 3.0, 500.0])),
        scipy.stats.poisson.entropy([0.0, 3.0, 500.0]),
        1e-5,
    )
    x = np.array([[3.0, 1, 2, 2, 3], [1, 1, 4, np.nan, 0]])
    for axis, keepdims in ((0, False), (1, True), (None, False)):
        want = scipy.stats.mode(x, axis=axis, keepdims=keepdims)
        got = stats.mode(x, axis=axis, keepdims=keepdims)
        for a, b in (
            zip(got, scipy.stats.mode(x[:1], axis=axis, keepdims=keepdims), strict=True)
            if axis is None
            else ()
        ):
            assert np.shape(a) == np.shape(b)
        if axis == 1:
            np.testing.assert_array_equal(np.asarray(got.mode)[0], want.mode[0])
            np.testing.assert_array_equal(np.asarray(got.count)[0], want.count[0])
        np.testing.assert_allclose(
            stats.sem(x, axis, keepdims=keepdims), scipy.stats.sem(x, axis, keepdims=keepdims), 1e-6
        )
    for method in ("average", "min", "max", "dense", "ordinal"):
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(
                stats.rankdata(x[:, :3], method, axis=axis),
                scipy.stats.rankdata(x[:, :3], method, axis=axis),
            )
    assert np.isnan(stats.rankdata(x, axis=1)[1]).all()
    np.testing.assert_allclose(
        stats.sem(x[1], nan_policy="omit"), scipy.stats.sem(x[1], nan_policy="omit"), 1e-6
    )
    with pytest.raises(ArgumentValueError, match="method must be one of"):
        stats.rankdata(x, "least")
    with pytest.raises(UnsupportedError, match="nan_policy"):
        stats.mode(x, nan_policy="omit")


def test_densities_of_kernels() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 2):
        x, y, w = rng.normal(size=(d, 7)), rng.normal(size=(d, 5)), rng.uniform(size=7)
        for method in ("scott", "silverman", 0.4):
            ours, theirs = stats.gaussian_kde(x, method, w), scipy.stats.gaussian_kde(x, method, w)
            np.testing.assert_allclose(ours(y), theirs(y), 1e-4)
            np.testing.assert_allclose(ours.logpdf(y), theirs.logpdf(y), 1e-4, 1e-5)
            np.testing.assert_allclose(ours.covariance, theirs.covariance, 1e-5)
        np.testing.assert_allclose(
            ours.integrate_gaussian(np.ones(d), np.eye(d)),
            theirs.integrate_gaussian(np.ones(d), np.eye(d)),
            1e-4,
        )
        other = stats.gaussian_kde(y), scipy.stats.gaussian_kde(y)
        np.testing.assert_allclose(
            ours.integrate_kde(other[0]), theirs.integrate_kde(other[1]), 1e-4
        )
        assert ours.resample(pl.random.key(1), (3,)).shape == (d, 3)
    one = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(
        stats.gaussian_kde(one).integrate_box_1d(0, 2),
        scipy.stats.gaussian_kde(one).integrate_box_1d(0, 2),
        1e-5,
    )
    assert float(pl.jit(lambda k: k.pdf(2.0)[0])(stats.gaussian_kde(one))) > 0
    with pytest.raises(ArgumentValueError, match="two samples"):
        stats.gaussian_kde(np.ones(1))


def test_functions_have_signatures_and_definitions() -> None:
    located = "loc: 'ArrayLike' = 0, scale: 'ArrayLike' = 1) -> 'Array'"
    assert (
        str(inspect.signature(stats.gamma.logpdf)) == f"(x: 'ArrayLike', a: 'ArrayLike', {located}"
    )
    assert str(inspect.signature(stats.gumbel_r.ppf)) == f"(p: 'ArrayLike', {located}"
    assert (
        str(inspect.signature(stats.bernoulli.cdf)) == "(k: 'ArrayLike', p: 'ArrayLike') -> 'Array'"
    )
    assert stats.norm.sf.__doc__.startswith(
        "Probability of more than `x` under the normal distribution"
    )
    assert stats.norm.logpdf(1).aval.weak_type
    assert stats.norm.pdf(jnp.ones(2, "bfloat16")).dtype == jnp.bfloat16


def test_errors_name_the_distribution() -> None:
    with pytest.raises(DtypeError, match=r"scipy\.stats\.norm\.pdf needs real numbers"):
        stats.norm.pdf(1j)
