"""Edges: values that NumPy, SciPy or mathematics give where inputs are empty, narrow, out of range, huge or singular."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import pellucid as pl
import pellucid.numpy as jnp

I8, U8 = np.int8, np.uint8

# Indices out of range, in narrow dtypes, of axes without elements --------------------------------

INDICES = {
    "jnp.delete(long, np.array([-1, 3], I8), assume_unique_indices=True)[-1]": 298,
    "pl.jit(lambda i: jnp.delete(long, i, assume_unique_indices=True))(np.array([-1, 3], I8))[-1]": 298,
    "jnp.roll(long, jnp.array(-127, I8))[0]": 127,
    "jnp.roll(long, jnp.array(200, U8))[0]": 100,
    "jnp.unravel_index(jnp.array([127], I8), (30, 300))": ([0], [127]),
    "jnp.unravel_index(jnp.array([127, -1], I8), (30, 3))": ([29, 29], [2, 2]),
    "jnp.put(long, jnp.array([-1], I8), 5, mode='wrap', inplace=False)[-1]": 5,
    "jnp.put(long, jnp.array([-1], I8), 5, mode='clip', inplace=False)[0]": 5,
    "jnp.put(four, np.array([-1, -9, 9]), np.array([5, 6, 7]), inplace=False)": [6, 1, 2, 7],
    "jnp.take(long, np.array([-1, 127], I8), mode='wrap')": [299, 127],
    "jnp.zeros((0,)).at[jnp.array([0, 1])].add(1.0)": np.zeros(0),
    "jnp.zeros((0, 3)).at[jnp.array([0]), 1].set(1.0)": np.zeros((0, 3)),
    "jnp.ones((3, 4))[np.zeros((3, 0), bool)]": np.zeros(0),
    "jnp.ones((3, 4))[np.zeros((0,), bool)]": np.zeros((0, 4)),
    "jnp.ones((3, 4)).at[np.zeros((0, 0), bool)].set(9.0)": np.ones((3, 4)),
}  # fmt: skip

NAMES = {"pl": pl, "jnp": jnp, "np": np, "I8": I8, "U8": U8}


@pytest.mark.parametrize("row", INDICES)
def test_indices(row) -> None:
    names = NAMES | {"long": jnp.arange(300), "four": jnp.arange(4)}
    for actual, expected in zip(
        pl.tree.leaves(eval(row, names)), pl.tree.leaves(INDICES[row], is_leaf=_is_value)
    ):
        np.testing.assert_array_equal(actual, expected)


def _is_value(x: object) -> bool:
    return isinstance(x, list)


@pytest.mark.parametrize(
    "row",
    ["jnp.delete(jnp.arange(4), np.array([-1, 9]))", "jnp.zeros(0).at[0].set(1.0)", "jnp.ones((3, 4))[np.zeros((2, 0), bool)]"],
)  # fmt: skip
def test_indices_that_are_refused(row) -> None:
    with pytest.raises(IndexError):
        eval(row, NAMES)


# Large means with small deviations ---------------------------------------------------------------


@pytest.mark.parametrize("n", [8, 33, 300, 1000, 5000])
def test_large_means_with_small_deviations(n) -> None:
    rng = np.random.default_rng(n)
    means, scales = 10 ** rng.uniform(2, 4, (40, 1)), 10 ** rng.uniform(-3, 0, (40, 1))
    x = (means + scales * rng.normal(size=(40, n))).astype(np.float32)
    exact = x.astype(np.float64)
    mean, variance = exact.mean(1, keepdims=True), exact.var(1, keepdims=True)
    expected = (exact - mean) / np.sqrt(variance + 1e-5)
    for algorithm in ("fast", "stable"):
        np.testing.assert_allclose(pl.nn.standardize(x, algorithm=algorithm), expected, 0, 2e-6)
    rounded = np.square(np.spacing(x.max(1))) * 4  # NumPy's own error: the rounding of the mean
    for function in (jnp.var, jnp.nanvar, lambda x, axis: jnp.square(jnp.std(x, axis))):
        error = abs(np.asarray(function(x, 1), np.float64) - variance[:, 0])
        assert (error <= 1e-5 * variance[:, 0] + rounded).all()


def test_standardize_of_no_elements_is_nan_and_so_are_its_derivatives() -> None:
    x, none = np.array([1.0, 2.0, 4.0], np.float32), np.zeros(3, bool)
    standardized = lambda x: pl.nn.standardize(x, where=none)
    assert np.isnan(standardized(x)).all()
    assert np.isnan(pl.jvp(standardized, (x,), (x,))[1]).all()
    assert np.isnan(pl.vjp(standardized, x)[1](pl.numpy.ones(3))[0]).all()


def test_standardize_is_finite_and_keeps_conventions() -> None:
    expected = np.array([[1, 0, -1]]) * 1.5**0.5
    np.testing.assert_allclose(
        pl.nn.standardize(np.array([[900, 600, 300]], np.float16)), expected, 1e-3
    )  # whose squares overflow
    x = np.array([[1 + 2j, 3 - 1j, -2 + 0.5j]], np.complex64)
    expected = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    np.testing.assert_allclose(pl.nn.standardize(x), expected, 1e-5)
    x = np.array([[1.0, 2.0, 3.0]], np.float32)
    np.testing.assert_allclose(
        pl.nn.standardize(x, mean=1.0), (x - 1) / np.sqrt(11 / 3 + 1e-5), 1e-5
    )
    np.testing.assert_allclose(
        pl.nn.standardize(x, mean=1.0, algorithm="stable"), (x - 1) / np.sqrt(5 / 3 + 1e-5), 1e-5
    )
    assert np.isfinite(pl.nn.standardize(x, mean=5.0)).all()


@pytest.mark.parametrize(
    "more", [{}, {"mean": 1.0}, {"mean": 1.0, "algorithm": "stable"}, {"where": True}]
)
def test_standardize_of_squares_out_of_range_is_nan(more) -> None:
    """Not 0, which a finite number over an infinite deviation would be."""
    x = np.array([[1e30, 2e30, 4e30], [1, 2, 4]], np.float32)
    found = pl.nn.standardize(x, **more)
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], pl.nn.standardize(x[1], **more), 1e-6)


# Masked arrays -----------------------------------------------------------------------------------

DOORS = [
    "jnp.asarray(m)", "jnp.array(m)", "jnp.array([m, m], np.float32)", "jnp.asarray(m, dtype=int)", "jnp.mean(m)", "x + m", "m * x",
    "jnp.asarray(np.ma.masked_array([1.0, 2.0]))", "jnp.sin(np.ma.masked)", "jnp.add(m, 1)", "lax.add(m, m)", "jnp.linalg.norm(m)",
    "pl.device_put(m)", "pl.device_put([m], pl.devices()[0])", "pl.jit(lambda x: x)(m)", "pl.jit(lambda x: x).lower(x).compile()(m)",
    "pl.jit(lambda: m + x)()", "pl.grad(jnp.sum)(m)", "pl.vmap(jnp.sin)(m)", "pl.vjp(jnp.sin, x)[1](m)", "pl.jvp(jnp.sin, (x,), (m,))",
    "lax.scan(lambda c, y: (c, y), 0.0, m)", "lax.cond(True, lambda: m, lambda: x)", "pl.eval_shape(jnp.sin, m)", "pl.new_ref(m)",
    "x[m > 1]", "x[np.ma.masked_array(1, mask=True)]", "x.at[0:3].set(m)", "x.at[m.astype(int)].set(1.0)", "pl.dlpack.from_dlpack(m)",
    "jnp.repeat(x, m.astype(int))", "jnp.delete(x, m.astype(int))", "jnp.concatenate([x, m])", "ops.segment_sum(m, np.arange(3))",
    "pl.make_array_from_process_local_data(x.sharding, m)", "pl.make_array_from_callback((3,), x.sharding, lambda i: m)",
]  # fmt: skip
"""Calls with a masked array, whose mask no array can keep."""


@pytest.mark.parametrize("row", DOORS)
def test_masked_arrays_are_refused(row) -> None:
    names = NAMES | {
        "m": np.ma.masked_array(np.array([1, 2, 1e9], np.float32), mask=[0, 0, 1]),
        "x": jnp.ones(3),
        "lax": pl.lax,
        "ops": pl.ops,
    }
    for _ in range(2):  # calls are dispatched otherwise the second time
        with pytest.raises(ValueError, match="masked arrays are not supported"):
            eval(row, names)


@pytest.mark.parametrize("mask", [np.ma.nomask, [0, 0]])
def test_masked_arrays_with_nothing_masked_can_be_copied(mask) -> None:
    """As netCDF files give them: no mask is lost."""
    m = np.ma.masked_array(np.array([1, 2], np.int16), mask)
    for found in (jnp.array(m), jnp.array(m, np.int16), jnp.array([m, m])[1], jnp.array([m[0], 2])):
        np.testing.assert_array_equal(found, [1, 2])
    assert jnp.array(m).dtype == np.int16


@pytest.mark.parametrize("name", ["pure_callback", "experimental.io_callback"])
def test_masked_results_of_callbacks_are_refused(name) -> None:
    call = eval(f"pl.{name}", NAMES)
    masked = np.ma.masked_array(np.ones(3, np.float32), mask=[0, 0, 1])
    stated = pl.ShapeDtypeStruct((3,), np.float32)
    for function in (
        lambda: call(lambda: masked, stated),
        pl.jit(lambda: call(lambda: masked, stated)),
    ):
        with pytest.raises(ValueError, match="masked arrays are not supported"):
            pl.block_until_ready(function())


# Elements that are left out have no part in values and derivatives --------------------------------

REDUCTIONS = [
    "special.logsumexp(x, where=w)", "nn.logsumexp(x, where=w)", "nn.logmeanexp(x, where=w)", "special.logsumexp(x, b=w * 1.0)",
    "special.logsumexp(x, where=w, return_sign=True)[0]", "nn.softmax(x, where=w)[1]", "nn.log_softmax(x, where=w)[1]",
    "nn.standardize(x, where=w)[1]", "jnp.mean(x, where=w)", "jnp.sum(x, where=w)", "jnp.prod(x, where=w)", "jnp.var(x, where=w)",
    "jnp.std(x, where=w)", "jnp.nanvar(x, where=w)", "jnp.nanstd(x, where=w)", "jnp.nanmean(x, where=w)", "jnp.nansum(x, where=w)",
    "jnp.max(x, where=w, initial=-9)", "jnp.nanvar(jnp.where(w, x, jnp.nan))", "jnp.nanstd(jnp.where(w, x, jnp.nan))",
    "jnp.nanmedian(jnp.where(w, x, jnp.nan))", "jnp.nancumprod(jnp.where(w, x, jnp.nan))[-1]", "jnp.multiply.reduce(x, where=w)",
    "jnp.average(jnp.where(w, x, 0), weights=w * 1.0)",
]  # fmt: skip


@pytest.mark.parametrize("row", REDUCTIONS)
def test_elements_left_out_have_no_part(row) -> None:
    names = NAMES | {"nn": pl.nn, "special": pl.scipy.special}
    code = compile(row, row, "eval")

    def f(x, w):
        return eval(code, names | {"x": x, "w": w})

    def derivatives(x, w):
        return f(x, w), pl.grad(f)(x, w), pl.hessian(f)(x, w)

    derivatives = pl.jit(derivatives)
    others = np.array([1.0, 2.0, -1.0], np.float32)
    value, gradient, hessian = derivatives(others, np.ones(3, bool))
    for left_out in (1e30, np.inf, np.nan):
        x = np.insert(others, 2, np.float32(left_out))
        expected = np.insert(gradient, 2, 0), np.insert(np.insert(hessian, 2, 0, 0), 2, 0, 1)
        actual = derivatives(x, np.array([True, True, False, True]))
        np.testing.assert_allclose(actual[0], value, 1e-6)
        for a, b in zip(actual[1:], expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def test_sums_of_no_exponentials() -> None:
    x = jnp.array([1.0, 2.0])
    logsumexp = pl.scipy.special.logsumexp
    for f in (lambda x: logsumexp(x, where=x < 0), lambda x: logsumexp(x, b=jnp.zeros(2))):
        assert f(x) == -np.inf
        np.testing.assert_array_equal(pl.grad(f)(x), [0, 0])
    weights = pl.grad(lambda b: logsumexp(x, b=b))(jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(weights, [np.exp(-1), 1], 1e-6)  # that of a weight of 0, too
    assert logsumexp(jnp.array([1.0, jnp.inf]), b=jnp.array([1.0, 0.0])) == 1
    # A weight added where there was none raises the result from -inf.
    assert np.isposinf(pl.grad(lambda b: logsumexp(x, b=b))(jnp.zeros(2))).all()
    assert np.isposinf(pl.jvp(lambda b: logsumexp(x, b=b), (jnp.zeros(2),), (jnp.ones(2),))[1])


# Conventions --------------------------------------------------------------------------------------

IMAGE = np.arange(16.0).reshape(4, 4) ** 1.3

CUBIC = [
    ((8, 8), True, [-0.6151, -0.3933, 0.0760]), ((8, 8), False, [-0.7333, -0.4865, -0.0973]), ((3, 2), True, [1.7238, 4.5897]),
    ((3, 2), False, [1.1412, 4.4531]), ((4, 9), False, [-0.1087, 0.1181, 0.4650]), ((1, 1), True, [14.7150]),
]  # fmt: skip
"""(shape, antialias, the first elements that PyTorch's bicubic interpolation gives)."""


@pytest.mark.parametrize(("shape", "antialias", "expected"), CUBIC)
def test_cubic_interpolation_of_pytorch(shape, antialias, expected) -> None:
    for name in ("cubic-pytorch", "bicubic-pytorch"):
        actual = pl.image.resize(IMAGE, shape, name, antialias=antialias)
        np.testing.assert_allclose(actual[0, : len(expected)], expected, 0, 1e-4)


def test_cubic_interpolation_of_pytorch_repeats_borders() -> None:
    for offset in (30.0, -30.0):
        actual = pl.image.scale_and_translate(
            jnp.arange(4.0), (4,), (0,), jnp.ones(1), jnp.array([offset]), "cubic-pytorch", False
        )
        np.testing.assert_allclose(actual, np.full(4, 0 if offset > 0 else 3), 0, 1e-5)


# As NumPy: no elements, bools and 8-bit integers ---------------------------------------------------

AS_NUMPY = [
    *(f"M.{f}({x}, dtype=bool)" for f in ("cumsum", "cumprod", "nancumsum", "sum", "prod") for x in ("f", "z", "h")),
    *(f"M.{u}.{m}({x}, dtype=bool)" for u in ("add", "multiply", "logical_or", "logical_and") for m in ("reduce", "accumulate")
      for x in ("f", "i")),
    "M.cumulative_sum(f, dtype=bool)", "M.logical_or.reduce(f, initial=True)", "M.logical_and.reduce(i, where=i > 0)",
    "M.cov(f[:0])", "M.cov(e)", "M.cov(e, e)", "M.cov(e.T)", "M.corrcoef(e)", "M.insert(f[:0], 0, 5.0)", "M.insert(e, 0, 5.0, axis=1)",
    "M.linalg.norm(f[:0], np.inf)", "M.linalg.norm(e, np.inf, axis=1)", "M.median(e, axis=0)", "M.nanmedian(e, axis=0)",
    "M.percentile(e, 50, axis=0)", "M.quantile(e, np.array([0.1, 0.5]), axis=0)", "M.union1d(f[:0], f[:0])",
    "M.intersect1d(f[:0], f[:0])", "M.setxor1d(f[:0], f[:0])", "M.setdiff1d(f[:0], f)", "M.poly(f[:0])", "M.bincount(i > 0)",
    "M.bincount(i > 0, minlength=3)", "M.mean(e, axis=0)", "M.sum(e)", "M.prod(e)", "M.trapezoid(f[:0])", "M.polyadd(f[:0], f)",
    "M.linalg.matrix_rank(e)", "M.linalg.slogdet(np.zeros((0, 0)))", "M.unique(e.T, axis=0)",
]  # fmt: skip


@pytest.mark.parametrize("row", AS_NUMPY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy(row) -> None:
    operands = {
        "f": np.array([0, 0.1, 0.2, -1.5, 300.7], np.float32),
        "z": np.array([1 + 1j, 0.5, 0], np.complex64),
        "h": np.array([0.5, 0.25, 0], np.float16),
        "i": np.array([100, 0, -3], np.int8),
        "e": np.zeros((3, 0), np.float32),
        "np": np,
    }
    actual, expected = (
        pl.tree.leaves(eval(row, operands | {"M": library})) for library in (jnp, np)
    )
    for a, b in zip(actual, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype.kind == np.asarray(b).dtype.kind
        np.testing.assert_allclose(a, b, 1e-5)


# Spherical harmonics and eigenvectors ---------------------------------------------------------------


def test_spherical_harmonics_count_polar_angles_by_their_cosines() -> None:
    n, m = map(np.array, zip(*[(n, m) for n in range(5) for m in range(-n, n + 1)]))
    for theta in (-0.5, 0.0, 0.3, 3.5, 7.0):
        ours = pl.scipy.special.sph_harm_y(n, m, theta, 0.3)
        np.testing.assert_allclose(ours, scipy.special.sph_harm_y(n, m, theta, 0.3), 1e-4, 1e-5)


def test_complex_tridiagonal_matrices_are_given_by_their_superdiagonal() -> None:
    rng = np.random.default_rng(0)
    d, e = rng.normal(size=5), rng.normal(size=4) + 1j * rng.normal(size=4)
    w, v = map(np.asarray, pl.scipy.linalg.eigh_tridiagonal(d, e))
    matrix = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    np.testing.assert_allclose(matrix @ v, v * w, 0, 1e-5)


# Sizes and dtypes that are refused, or are none ---------------------------------------------------

REFUSED = {
    "jnp.zeros(2, 3)": (TypeError, r"zeros\(\(2, 3\)\)"), "jnp.full_like(np.int8(1), 1j)": (TypeError, "complex"),
    "jnp.full((2,), 1j, np.float32)": (TypeError, "complex"), "jnp.broadcast_shapes((-1,))": (TypeError, "integers from 0"),
    "jnp.broadcast_shapes('hello')": (TypeError, "integers from 0"), "jnp.fft.fftfreq([0, 1])": (ValueError, "one int"),
    "jnp.fft.rfftfreq(4, d=[0, 1])": (ValueError, "one number"),
    "pl.jit(lambda n: pl.nn.one_hot(3, n))(3)": (pl.errors.ConcretizationTypeError, "num_classes"),
    "pl.random.categorical(pl.random.key(0), jnp.zeros((2, 3)), shape=(3,))": (ValueError, "broadcast"),
}  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_refused(row) -> None:
    error, text = REFUSED[row]
    with pytest.raises(error, match=text):
        eval(row, NAMES)


def test_static_indices_are_checked_on_request() -> None:
    x, matrix = jnp.arange(3), jnp.ones((3, 4))
    programs = [
        lambda: x[5],
        lambda: x[-4],
        lambda: matrix[:, 4],
        lambda: x.at[5].get(),
        lambda: x[True, 5],
    ]
    programs += [pl.jit(f) for f in programs]
    for f in programs:
        f()
        pl.config.update("jax_check_static_indices", True)
        try:
            with pytest.raises(IndexError, match="out of bounds for axis"):
                f()
            assert x[-3] == 0
            assert x.at[5].get(mode="clip") == 2
        finally:
            pl.config.update("jax_check_static_indices", False)


def test_shapes_that_broadcast_and_shapes_without_elements() -> None:
    key = pl.random.key(0)
    drawn = pl.random.categorical(key, jnp.zeros((1, 3)), shape=(4,))
    expected = pl.random.categorical(key, jnp.zeros((4, 3)))
    np.testing.assert_array_equal(drawn, expected)
    for shape in ((3, 0), (0, 3), (2, 0, 3)):
        assert pl.nn.initializers.orthogonal()(key, shape).shape == shape
    assert pl.jit(lambda x: jnp.iscomplexobj([x, 1j]))(1.0)
    assert not pl.jit(lambda x: jnp.iscomplexobj([x, 1]))(1.0)
    assert pl.experimental.jet.fact(4) == 24


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_counts_of_fewer_distinct_elements_than_there_are(size) -> None:
    x = np.array([5, 1, 5, 2, 7, 5, 7, 7, 9])
    _, counts = np.unique(x, return_counts=True)
    want = [*counts[:size], *[0] * (size - len(counts))]
    for function in (jnp.unique, pl.jit(jnp.unique, static_argnames=("return_counts", "size"))):
        assert function(x, return_counts=True, size=size)[1].tolist() == want


@pytest.mark.parametrize(("name", "by_q_at_zero"), [("rel_entr", 0), ("kl_div", 1)])
def test_relative_entropies_have_derivatives_where_they_are_constant(name, by_q_at_zero) -> None:
    slopes = pl.vmap(pl.grad(getattr(pl.scipy.special, name), (0, 1)))
    outside = np.array([[-2, -3], [1, -1], [-1, 1], [0, -1]], np.float32).T
    assert [s.tolist() for s in slopes(*outside)] == [[0] * 4] * 2
    by_p, by_q = slopes(np.zeros(2, np.float32), np.array([0, 1], np.float32))
    assert (by_p.tolist(), by_q.tolist()) == ([0, -np.inf], [by_q_at_zero] * 2)
