"""`pellucid.scipy.special` gives what SciPy gives, in every dtype, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import (
    ArgumentValueError,
    DtypeError,
    MissingRule,
    UnsupportedError,
)
from pellucid.scipy import special

ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan]
LINE = np.array([*ENDS, *np.linspace(-7.4, 7.9, 23), *np.geomspace(1e-12, 80, 13)])
HALF = np.array([0.0, np.inf, np.nan, *np.geomspace(1e-8, 90, 25)])
POSITIVE = np.geomspace(0.05, 30, 8)
UNIT = np.array(
    [0.0, 1.0, -0.5, 1.5, np.nan, *np.geomspace(1e-9, 0.5, 9), *(1 - np.geomspace(1e-5, 0.4, 7))]
)
COMPLEX = (np.linspace(-6, 6, 6)[:, None] + 1j * np.linspace(-4.9, 5, 6)).ravel()


def grid(*axes):
    return [x.ravel() for x in np.meshgrid(*axes)]


ON_LINE = (
    "dawsn", "erf", "erfc", "erfcx", "entr", "expi", "expit", "fresnel", "gamma", "gammasgn", "digamma", "i0e",
    "i1e", "log_ndtr", "ndtr", "sici",
)  # fmt: skip
OF_TWO = (
    "beta", "betaln", "gammainc", "gammaincc", "kl_div", "rel_entr", "xlogy", "xlog1py", "boxcox", "boxcox1p", "poch",
)  # fmt: skip
ARGUMENTS = {
    **{name: [LINE] for name in ON_LINE},
    **{name: [LINE[np.isfinite(LINE)]] for name in ("i0", "i1")},  # SciPy gives NaN at infinity
    "gammaln": [LINE[~np.isneginf(LINE)]],
    **{name: [UNIT] for name in ("erfinv", "ndtri", "logit")},
    **{name: [HALF] for name in ("exp1", "loggamma", "factorial")}, "spence": [HALF[~np.isinf(HALF)]],
    "expn": grid(np.arange(-1.0, 6), np.array([-1.0, 0.0, 0.1, 0.9, 1.0, 1.1, 5.0, 40.0, np.inf])),
    "zeta": grid(np.array([0.5, 1.0, 1.3, 4.0, 25.0]), np.array([-2.0, 0.0, 0.02, 1.0, 7.5, 900.0])),
    **{name: grid(POSITIVE, POSITIVE) for name in OF_TWO},
    "comb": grid(np.array([-1.0, 0, 1, 4, 5.5, 20]), np.array([-1.0, 0, 1, 2.5, 4, 6])),
    "betainc": grid(np.array([0.3, 2.0, 30.0]), np.array([0.7, 5.0]), np.array([0.0, 0.1, 0.6, 1.0])),
    "owens_t": grid(np.array([-3.0, 0.0, 0.4, 8.0, 1e10, 1e18]), np.array([-np.inf, -2.0, -0.3, 0.0, 1.0, 5.0])),
    "hyp1f1": grid(np.array([0.5, -2.0, 3.0]), np.array([0.7, 5.5]), np.array([-100.0, -3.0, 0.0, 0.5, 20.0])),
    "hyp2f1": grid(
        np.array([0.5, 3.0]), np.array([0.3, -3.0]), np.array([0.75, 5.6]), np.array([-50.0, -0.9, 0.0, 0.3, 0.95])
    ),
}  # fmt: skip
SLOW = ("beta", "betaln", "comb", "poch", "owens_t", "hyp1f1", "hyp2f1", "zeta")
TOLERANCES = {"float32": 4e-6, "float64": 4e-14}
LOOSE = {
    "poch": 20,
    "betaln": 10,
    "beta": 10,
    "comb": 10,
    "hyp2f1": 200,
    "hyp1f1": 20,
    "gammaln": 20,
    "gamma": 4,
    "betainc": 20,
    "gammaincc": 4,
}
"""Multiples of the tolerance that a function needs: it has zeros, or its arguments are ill-conditioned."""


def assert_agree(name, dtype, got, want) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            assert_agree(name, dtype, a, b)
        return
    assert got.dtype == dtype
    limits = np.finfo(dtype)
    with np.errstate(over="ignore"):
        want = want.astype(dtype).astype(np.float64)
    tolerance = TOLERANCES[dtype] * LOOSE.get(name, 1)
    np.testing.assert_allclose(
        np.asarray(got, np.float64), want, tolerance, max(tolerance / 100, 8 * limits.tiny)
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "dtype"),
    rotating(
        [("dawsn", "float32"), *((n, d) for n in ARGUMENTS for d in TOLERANCES)],
        lambda case: (
            (case[0], case[1] == "float64") if case[0] not in SLOW and case[1] != "float64" else 0
        ),
    ),
)
def test_values_are_those_of_scipy(name, dtype) -> None:
    operands = [x.astype(dtype) for x in ARGUMENTS[name]]
    wide = [x.astype(np.float64) for x in operands]
    if name == "expn":
        wide[0] = wide[0].astype(int)
    want = getattr(scipy.special, name)(*wide)
    with pl.enable_x64(dtype == "float64"):
        assert_agree(name, dtype, getattr(special, name)(*operands), want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*ON_LINE, "gammaln", "spence", "ndtri", "i0", "i1", "erfinv"])
def test_values_far_out_and_beside_zero_are_those_of_scipy(name) -> None:
    sizes = np.array([1e-30, 1e-10, 1e3, 1e6, 1e8, 1e10, 1e15, 1e20, 1e30, 3.3e38])
    x = np.concatenate([sizes, -sizes]).astype(np.float32)
    got, want = getattr(special, name)(x), getattr(scipy.special, name)(x.astype(np.float64))
    if name == "spence":
        want = np.where(x < 0, np.nan, want)
    assert_agree(name, "float32", got, want)


# Roots of the parameters from the middle of the distribution.
STEPS_AWAY = np.array([-3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 4.0])


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-5), ("float64", 3e-11)])
def test_incomplete_gamma_functions_of_large_parameters(dtype, tolerance) -> None:
    a = np.array([9e4, 1.1e5, 9e5, 1.1e6, 1e8, 1e10, 1e15, 1e30])[:, None].astype(dtype)
    x = (a + STEPS_AWAY * np.sqrt(a)).astype(dtype)
    wide = [np.broadcast_to(v, x.shape).astype(np.float64) for v in (a, x)]
    with pl.enable_x64(dtype == "float64"):
        for name in ("gammainc", "gammaincc"):
            got, want = getattr(special, name)(a, x), getattr(scipy.special, name)(*wide)
            np.testing.assert_allclose(got, want, tolerance)
        by_parameter = pl.vmap(pl.vmap(pl.grad(special.gammainc)))(np.broadcast_to(a, x.shape), x)
        # A sample moves with the parameter about as fast.
        slopes = pl.lax.random_gamma_grad(np.broadcast_to(a, x.shape), x)
        density = np.exp(-((wide[1] - wide[0]) ** 2) / (2 * wide[0])) / np.sqrt(2 * np.pi * wide[0])
        near = np.abs(wide[1] - wide[0]) < 1.1 * np.sqrt(wide[0])
        np.testing.assert_allclose(-np.asarray(by_parameter)[near], density[near], 5e-3)
        np.testing.assert_allclose(slopes, 1 + (wide[1] / wide[0] - 1) / 2, 1e-3)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float64", 1e-11)])
def test_the_incomplete_beta_function_of_large_parameters(dtype, tolerance) -> None:
    parameters = [(9e4, 2e5), (1.1e5, 2e5), (1e8, 3e8), (1e10, 1e10), (2e12, 1e9), (1e20, 1e20)]
    a, b = (np.array(p)[:, None].astype(dtype) for p in zip(*parameters, strict=True))
    middle = a / (a + b)
    x = middle + STEPS_AWAY * np.sqrt(middle * (1 - middle) / (a + b)) * (a < 1e9)
    x = np.where(a == 1e9, middle, x).astype(dtype)
    if dtype == "float32":  # x itself is rounded
        tolerance = tolerance + 3e-7 * np.sqrt(np.max(a[:3]))
    want = scipy.special.betainc(*(np.broadcast_to(v, x.shape).astype(float) for v in (a, b, x)))
    with pl.enable_x64(dtype == "float64"):
        np.testing.assert_allclose(special.betainc(a, b, x), want, tolerance)


def test_incomplete_beta_of_parameters_of_all_sizes() -> None:
    """About the mean, where one of the parameters is large, small, or subnormal."""
    rng = np.random.default_rng(0)
    a, b = 10 ** rng.uniform(-8, 8, 500), 10 ** rng.uniform(-8, 12, 500)
    x = np.minimum(a / (a + b) * 10 ** rng.uniform(-2, 2, 500), 1)
    operands = [np.float32(v) for v in (a, b, x)]
    want = scipy.special.betainc(*(v.astype(float) for v in operands))
    # Small results are 1 minus one near 1.
    given = np.asarray(special.betainc(*operands))
    np.testing.assert_allclose(given, want, 1e-4, 3e-6)
    assert given.min() >= 0
    assert given.max() <= 1
    extremes = np.float32([
        (1, 1e30, 0.3), (1e30, 1, 0.3), (1e-10, 1e30, 0.1), (1e-30, 1e30, 1e-30), (1e-40, 2, 0.3), (2, 1e-40, 0.3),
    ])  # fmt: skip
    np.testing.assert_array_equal(special.betainc(*extremes.T), [1, 0, 1, 1, 1, 0])


def test_derivatives_of_incomplete_functions_are_densities() -> None:
    """Also of large parameters, whose gammas cancel, and where a density is finite at the edge of its domain."""
    rows = np.array(
        [(100, 100), (1e5, 1e5), (1e8, 1e8), (1e-3, 1), (1, 0), (2, 0), (3, 2)], np.float32
    )
    slopes = pl.vmap(pl.grad(special.gammainc, 1))(*rows.T)
    a, x = rows.T.astype(float)
    np.testing.assert_allclose(slopes, scipy.stats.gamma.pdf(x, a), 2e-6)
    slopes = pl.vmap(pl.grad(special.gammaincc, 1))(*rows.T)
    np.testing.assert_allclose(slopes, -scipy.stats.gamma.pdf(x, a), 2e-6)
    curved = pl.vmap(pl.grad(pl.grad(special.gammainc, 1), 1))(*rows[:3].T)
    a, x = a[:3], x[:3]
    np.testing.assert_allclose(curved, scipy.stats.gamma.pdf(x, a) * ((a - 1) / x - 1), 1e-4)
    rows = np.array(
        [(1e4, 2e4, 1 / 3), (1e6, 1e6, 0.5), (1, 2, 0), (1, 1, 0), (2, 1, 1), (3, 2, 0), (0.5, 0.7, 0.3)], np.float32,
    )  # fmt: skip
    slopes = pl.vmap(pl.grad(special.betainc, 2))(*rows.T)
    a, b, x = rows.T.astype(float)
    np.testing.assert_allclose(slopes, scipy.stats.beta.pdf(x, a, b), 2e-6)


@pytest.mark.parametrize("name", ["wofz", "erfcx", "loggamma", "gamma"])
def test_complex_values_are_those_of_scipy(name) -> None:
    z = COMPLEX.astype(np.complex64)
    got, want = getattr(special, name)(z), getattr(scipy.special, name)(z.astype(np.complex128))
    assert got.dtype == np.complex64
    size = np.abs(want)
    fits = size < 1e30
    assert np.max(np.abs(np.asarray(got) - want)[fits] / size[fits]) < 2e-5


@pytest.mark.parametrize("name", rotating([(n,) for n in ARGUMENTS], lambda case: case[0] in SLOW))
def test_derivatives_are_those_of_differences(name) -> None:
    points = {
        "expn": (2.0, 1.3),
        "betainc": (2.3, 1.4, 0.3),
        "hyp2f1": (0.5, 0.3, 0.7, 0.9),
        "hyp1f1": (0.5, 0.7, -3.0),
    }
    count = len(ARGUMENTS[name])
    point = points.get(name, (0.3,) if count == 1 else (2.3, 1.4))
    function = lambda *xs: sum(
        jnp.ravel(jnp.stack(x)) if isinstance(x := getattr(special, name)(*xs), tuple) else [x]
    )
    with pl.enable_x64(True):
        for i in range(count):
            if (name, i) in (("expn", 0), ("betainc", 0), ("betainc", 1)):
                with pytest.raises(MissingRule):
                    pl.grad(function, i)(*point)
                continue
            up, down = ([x + (j == i) * d for j, x in enumerate(point)] for d in (1e-5, -1e-5))
            difference = (float(function(*up)) - float(function(*down))) / 2e-5
            np.testing.assert_allclose(pl.grad(function, i)(*point), difference, 1e-6, 1e-8)


def test_results_have_the_promoted_dtype_and_jit_and_vmap_change_nothing() -> None:
    assert special.gamma(np.arange(1, 4)).dtype == np.float32
    assert special.erfcx(2.0).aval.weak_type
    assert not special.erfcx(np.float32(2)).aval.weak_type
    assert special.dawsn(jnp.ones(2, "bfloat16")).dtype == jnp.bfloat16
    x = np.linspace(0.1, 9, 12, dtype=np.float32)
    for function in (special.expi, special.digamma, special.ndtri, lambda v: special.expn(2, v)):
        eager = function(x)
        np.testing.assert_allclose(pl.jit(function)(x), eager, 1e-5)
        np.testing.assert_allclose(pl.vmap(function)(x), eager, 1e-5)
    with pytest.raises(DtypeError, match="needs real numbers"):
        special.dawsn(1j)
    with pytest.raises(ArgumentValueError, match="whole orders"):
        special.polygamma(0.5, 1.0)
    with pytest.raises(UnsupportedError, match="exact"):
        special.factorial(3, exact=True)


def test_beta_functions_at_poles_of_the_gamma_function_are_those_of_scipy() -> None:
    numbers = np.array([-40, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, -2.5, -0.5, 2.5])
    a, b = np.meshgrid(numbers, numbers)
    for name in ("beta", "betaln"):
        got = getattr(special, name)(a.astype(np.float32), b.astype(np.float32))
        expected = getattr(scipy.special, name)(a, b)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-37, err_msg=name)
    assert np.isnan(special.beta(-4.0, np.nan))


def test_the_exponential_integral_has_no_derivative_where_it_has_no_value() -> None:
    for f in (special.exp1, lambda x: special.expn(1, x)):
        assert np.isnan(f(-2.0))
        assert np.isnan(pl.grad(f)(-2.0))


def test_beta_functions_of_negative_and_large_arguments() -> None:
    """Expected by mpmath with 60 digits; gammas of such arguments overflow, or their logarithms cancel."""
    rows = [
        (-0.5, 10000000000.0, 12.7784376), (-0.0009765625, 1e+30, 6.99949483), (-300.25, 100000000.0, 4115.96793),
        (-10000.5, 10000000000.0, 148157.629), (-10000.5, 0.375, -3.5513813), (-40.25, -7.625, 19.7418266),
        (-100.5, 200.25, 136.372333),
    ]  # fmt: skip
    for a, b, expected in rows:
        for x, y in ((a, b), (b, a)):
            got = special.betaln(np.float32(x), np.float32(y))
            np.testing.assert_allclose(got, expected, rtol=2e-5, err_msg=f"{x} {y}")
    rows = [
        (-40.25, 1.5, 0.00350329056), (-300.25, 300.0, 0.000725593709), (-40.25, -7.625, -374771342.0),
        (-100.5, 0.375, 0.160823482), (-9.5, -0.5, 0.0), (-100.5, 1.5, 0.0),
    ]  # fmt: skip
    for a, b, expected in rows:
        got = special.beta(np.float32([a, b]), np.float32([b, a]))
        np.testing.assert_allclose(got, [expected] * 2, rtol=1e-3, err_msg=f"{a} {b}")
    rows = [
        (100000000.0, 0.25, 99.9999999), (100000000.0, -0.5, 0.0001), (10000000000.0, 1.5, 1.0e+15),
        (10000000000.0, -3.0, 1.0e-30), (-100.25, -2.5, 9.51748935e-6), (-10.0, 0.5, 0.0),
    ]  # fmt: skip
    for z, m, expected in rows:
        got = special.poch(np.float32(z), np.float32(m))
        np.testing.assert_allclose(got, expected, rtol=1e-3, err_msg=f"{z} {m}")


def test_large_exponents_lose_no_digits() -> None:
    """exp(x²) has the digits of x² that its rounding would lose, also where the compiler joins products of exp."""
    x = np.linspace(-9, -7, 50, dtype=np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(special.erfcx(x), scipy.special.erfcx(wide), 5e-7)
    with np.errstate(under="ignore"):
        np.testing.assert_allclose(special.log_ndtr(-x), scipy.special.log_ndtr(-wide), 1e-6)


def test_functions_of_whole_orders() -> None:
    z = np.array([-3.0, 0.0, 1e-3, 2.4048255, 5.0, 29.0, 31.0, 500.0], np.float32)
    want = scipy.special.jv(np.arange(4)[:, None], z.astype(float))
    np.testing.assert_allclose(special.bessel_jn(z, v=3), want, 2e-5, 2e-7)
    slope = pl.grad(lambda z: special.bessel_jn(z, v=2)[2])(np.float32(1.3))
    np.testing.assert_allclose(slope, scipy.special.jvp(2, 1.3), 1e-6)
    x = np.array([0.3, 2.5, 11.0, -0.4], np.float32)
    for n in (0, 1, 4):
        np.testing.assert_allclose(
            special.polygamma(n, x), scipy.special.polygamma(n, x.astype(float)), 2e-5
        )
    np.testing.assert_allclose(
        special.zeta(np.array([-3.5, 0.5, 3], np.float32)), scipy.special.zeta([-3.5, 0.5, 3]), 2e-5
    )
    np.testing.assert_allclose(
        special.multigammaln(x[:2] + 3, 3), scipy.special.multigammaln(x[:2] + 3, 3), 1e-5
    )
    np.testing.assert_allclose(special.bernoulli(9), scipy.special.bernoulli(9), 1e-6, 1e-12)
    assert np.isinf(special.bernoulli(300)[300])
    np.testing.assert_allclose(
        special.factorial(np.arange(11)), scipy.special.factorial(np.arange(11)), 0
    )
    np.testing.assert_allclose(special.comb(5, 2, repetition=True), 15)


def test_spherical_harmonics_and_legendre_functions() -> None:
    n, m = np.arange(5)[:, None, None], np.arange(-5, 6)[:, None]
    theta, phi = np.linspace(0.1, 3, 4), np.linspace(-3, 3, 4)
    want = scipy.special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(special.sph_harm_y(n, m, theta, phi), want, 2e-5, 1e-6)
    np.testing.assert_allclose(
        pl.jit(special.sph_harm_y, static_argnames="n_max")(n, m, theta, phi, n_max=4),
        want,
        2e-5,
        1e-6,
    )
    z = np.array([0.3, -0.7, 1.0], np.float32)
    values, slopes = special.lpmn(2, 3, z)
    want = [scipy.special.assoc_legendre_p_all(3, 2, x, diff_n=1) for x in z[:2]]
    np.testing.assert_allclose(
        values[..., :2], np.stack([w[0].T[:3] for w in want], -1), 1e-5, 1e-6
    )
    np.testing.assert_allclose(
        slopes[..., :2], np.stack([w[1].T[:3] for w in want], -1), 1e-5, 1e-6
    )
    np.testing.assert_allclose(
        slopes[..., 2], [[0, 1, 3, 6], [0, np.inf, np.inf, np.inf], [0, 0, -6, -30]]
    )
    np.testing.assert_allclose(
        special.lpmn_values(1, 1, z, True)[0],
        scipy.special.sph_harm_y(np.arange(2)[:, None], 0, np.arccos(z), 0).real,
        1e-5,
    )


def test_softmax_is_of_all_elements() -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for axis in (None, 1):
        np.testing.assert_allclose(
            special.softmax(x, axis=axis), scipy.special.softmax(x, axis=axis), 1e-6
        )
        np.testing.assert_allclose(
            special.log_softmax(x, axis=axis), scipy.special.log_softmax(x, axis=axis), 1e-5
        )
