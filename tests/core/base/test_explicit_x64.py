"""`explicit_x64_dtypes="allow"`: while 64 bits are off, dtypes that are asked for by name keep them."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.scipy import linalg, special, stats

OPTION = pl.config.option("explicit_x64_dtypes")
NUMBERS, WIDE = np.linspace(0.3, 2.1, 6).reshape(2, 3), np.array([0.1, 0.7])


@pytest.fixture(autouse=True)
def _allowed():
    with OPTION("allow"):
        yield


def wide(dtype="float64"):
    return jnp.ones(3, dtype)


X, KEY = np.ones(3, np.float32), pl.random.key(0)
BY_NAME = {
    "zeros": lambda d: jnp.zeros(3, d), "array": lambda d: jnp.array([1, 2], d), "asarray": lambda d: jnp.asarray(WIDE, d),
    "astype": lambda d: jnp.asarray(X).astype(d), "sum": lambda d: jnp.sum(X, dtype=d), "eye": lambda d: jnp.eye(2, dtype=d),
    "arange": lambda d: jnp.arange(3, dtype=d), "full": lambda d: jnp.full(2, 1, d), "full_like": lambda d: jnp.full_like(X, 1, d),
    "cumsum": lambda d: jnp.cumsum(X, dtype=d), "convert_element_type": lambda d: lax.convert_element_type(X, d),
    "concatenate": lambda d: jnp.concatenate([X, X], dtype=d), "jit": lambda d: pl.jit(lambda x: x.astype(d))(X),
    "result_type": lambda d: np.zeros(0, jnp.result_type(d)), "vmap": lambda d: pl.vmap(lambda x: x.astype(d))(X),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_NAME)
def test_dtypes_keep_64_bits_where_they_are_asked_for(name) -> None:
    ask = BY_NAME[name]
    for dtype in ("float64", np.float64, np.dtype("float64"), jnp.float64):
        assert ask(dtype).dtype == np.float64
    assert ask("int64").dtype == ask(np.int64).dtype == np.int64
    assert (ask(float).dtype, ask(int).dtype) == (np.float32, np.int32)
    with OPTION("warn"), pytest.warns(UserWarning, match="Explicitly requested dtype float64"):
        assert ask("float64").dtype == np.float32


RESULTS = {
    # What isn't asked for has 32 bits.
    "a NumPy array": (lambda: jnp.asarray(WIDE), "float32"),
    "a NumPy operand": (lambda: jnp.asarray(X) + np.float64(1), "float32"),
    "a NumPy argument": (lambda: pl.jit(lambda x: x)(WIDE), "float32"),
    "arange": (lambda: jnp.arange(3), "int32"),
    "a NumPy fill": (lambda: jnp.full(3, np.float64(1)), "float32"),
    "a described array": (lambda: pl.eval_shape(jnp.sin, pl.ShapeDtypeStruct((3,), "float64")), "float32"),
    "canonicalize_dtype": (lambda: np.zeros(0, pl.dtypes.canonicalize_dtype("float64")), "float32"),
    # Arrays keep what they have.
    "a number": (lambda: wide() + 1, "float64"),
    "a NumPy number": (lambda: wide() * np.float64(2), "float64"),
    "an array of 32 bits": (lambda: wide() + X, "float64"),
    "integers": (lambda: wide("int64") // 2 + jnp.arange(3), "int64"),
    "int64 / int64": (lambda: wide("int64") / wide("int64"), "float64"),
    "int64 and float32": (lambda: wide("int64") * X, "float32"),
    "uint32 and int32": (lambda: wide("uint32") + wide("int32"), "int32"),
    "abs": (lambda: jnp.abs(wide("complex128")), "float64"),
    "fft": (lambda: jnp.fft.fft(wide()), "complex128"),
    "mean": (lambda: jnp.mean(wide()), "float64"),
    "index": (lambda: X[0] + jnp.asarray(X)[jnp.zeros(2, "int64")], "float32"),
    "set": (lambda: wide().at[0].set(2), "float64"),
    "gradient": (lambda: pl.grad(lambda x: (x.astype("float64") ** 2).sum())(X), "float32"),
    "gradient of float64": (lambda: pl.grad(lambda x: jnp.sin(x).sum())(wide()), "float64"),
    "fori_loop": (lambda: lax.fori_loop(0, 3, lambda i, c: c + 1, jnp.float64(0)), "float64"),
    "cond": (lambda: lax.cond(True, lambda x: x * 2, lambda x: x, wide()), "float64"),
    "normal": (lambda: pl.random.normal(KEY, (2,), "float64"), "float64"),
    "randint": (lambda: pl.random.randint(KEY, (2,), 0, 9, "int64"), "int64"),
    "reference": (lambda: pl.new_ref(wide())[...], "float64"),
    "again": (lambda: jnp.asarray(wide()), "float64"),
}  # fmt: skip


@pytest.mark.parametrize("row", RESULTS)
def test_results_have_the_dtypes_of_the_reference(row) -> None:
    result, dtype = RESULTS[row]
    assert result().dtype == dtype


COMPUTED = {
    "quotients": lambda x: x / 3, "nanmax": jnp.nanmax, "nansum": jnp.nansum, "std": jnp.std, "var": lambda x: jnp.var(x, 0),
    "masked": lambda x: jnp.sum(x, where=x > 1), "median": jnp.median, "softmax": pl.nn.softmax, "gelu": pl.nn.gelu,
    "logsumexp": lambda x: pl.nn.logsumexp(x, where=x > 1), "logmeanexp": pl.nn.logmeanexp, "unwrap": lambda x: jnp.unwrap(9 * x),
    "erfinv": lambda x: special.erfinv(x / 3), "digamma": special.digamma, "multigammaln": lambda x: special.multigammaln(x, 1),
    "zeta": lambda x: special.zeta(x + 1, x), "norm": stats.norm.logpdf, "i0": jnp.i0, "sinc": jnp.sinc, "frexp": lambda x: jnp.frexp(x)[0],
    "expm": lambda x: linalg.expm(x[:, :2]), "eigh": lambda x: jnp.linalg.eigh(x @ x.T)[0], "solve": lambda x: linalg.solve(x @ x.T, x),
    "full": lambda x: jnp.full(2, 0.1, x.dtype), "linspace": lambda x: jnp.linspace(0, 0.7, 4, dtype=x.dtype),
    "logspace": lambda x: jnp.logspace(0.1, 0.7, 4, base=2.3, dtype=x.dtype), "geomspace": lambda x: jnp.geomspace(x[0], x[1], 4), "array": lambda x: jnp.array([0.1, 0.2], x.dtype),
    "hessian": lambda x: pl.hessian(lambda v: jnp.sin(v).prod())(x[0]), "scan": lambda x: lax.scan(lambda c, r: (c * r, c), x[0], x)[1],
    "beside NumPy": lambda x: lax.add(x, NUMBERS), "converted": lambda x: lax.convert_element_type(WIDE, x.dtype),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_arrays_of_64_bits_are_computed_with_in_64_bits(name) -> None:
    """No number of the library's own is one of 32 bits."""
    function = COMPUTED[name]
    with pl.enable_x64(True):
        x = jnp.asarray(NUMBERS)
        expected = np.asarray(function(x))
    actual = function(x)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, 1e-13, 1e-14)


def test_programs_are_traced_anew_where_the_option_changes() -> None:
    function = pl.jit(lambda x: x.astype("float64"))
    assert function(X).dtype == np.float64
    with OPTION("warn"), pytest.warns(UserWarning, match="Explicitly requested"):
        assert function(X).dtype == np.float32
    assert function(X).dtype == np.float64


def test_values_of_numpy_beside_arrays_of_64_bits_keep_them_under_every_option() -> None:
    with pl.enable_x64(True):
        x, function = jnp.asarray(NUMBERS), pl.jit(lambda x: lax.mul(x, NUMBERS))
    for option in ("warn", "error", "allow"):
        with OPTION(option):
            np.testing.assert_array_equal(lax.add(x, NUMBERS), NUMBERS * 2)
            np.testing.assert_array_equal(function(x), NUMBERS**2)
