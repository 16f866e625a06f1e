"""Operands and arguments that are no arrays: containers, buffers, strings, copies of traced arrays."""

import copy
from array import ArrayType

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    AxisError,
    DtypeError,
    ShapeError,
    UnsupportedError,
)

X = jnp.arange(4.0)
MATRIX = jnp.eye(2)
OPERATORS = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "+": lambda x, y: x + y,
    "reversed +": lambda x, y: y + x,
    "@": lambda x, y: x @ y,
    "**": lambda x, y: x**y,
}


class Reflecting:
    """An object that defines operators itself."""

    def __eq__(self, other):
        return "equal"

    def __radd__(self, other):
        return "sum"

    __hash__ = None


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("container", [[0, 1], (0, 1), {1}, {"a": 1}], ids=str)
def test_operators_refuse_containers(operator, container):
    call = OPERATORS[operator]
    for run in (lambda: call(X, container), lambda: pl.eval_shape(lambda x: call(x, container), X)):
        with pytest.raises(ArgumentTypeError, match="operators of arrays need arrays or numbers"):
            run()


class Passing(Reflecting):
    """An object that also passes all attributes on to an array."""

    def __getattr__(self, name):
        return Passing() if hasattr(X, name) else object.__getattribute__(self, name)


@pytest.mark.parametrize("other", [Reflecting(), Passing()], ids=["reflecting", "passing"])
def test_other_objects_may_define_operators(other):
    for call in (lambda f: f(X), lambda f: pl.jit(f)(X)):
        assert call(lambda x: OPERATORS["=="](x, other) == "equal")
        assert call(lambda x: x + other == "sum")
    assert (X == "text") is False


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, jnp.copy])
def test_copies_under_transformations_outlive_a_donated_operand(copied):
    for function in (
        copied,
        pl.vmap(copied),
        pl.jit(copied),
        lambda x: pl.jvp(copied, (x,), (x,))[0],
    ):
        x = X + 0
        result = function(x)
        pl.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert x.is_deleted()
        assert result.tolist() == [0, 1, 2, 3]


def test_traced_arrays_move():
    device = pl.devices()[1]
    assert pl.jit(lambda x: x.to_device(device) + 1)(X).devices() == {device}


def test_buffers_are_arrays():
    for buffer in (ArrayType("i", [1, 2]), bytearray(b"\1\2"), memoryview(b"\1\2")):
        assert jnp.asarray(buffer).tolist() == [1, 2]


def test_shapes_of_strings():
    text = np.array(["a", "b"])
    assert (jnp.shape(text), jnp.ndim(text), jnp.size(text)) == ((2,), 1, 2)
    assert jnp.ndim(np.str_("a")) == 0


def test_casts_of_scalar_types():
    assert not jnp.can_cast(np.float64, np.float32)
    assert jnp.can_cast(jnp.float32, np.float64)


def test_repetitions_of_total_length_zero():
    assert jnp.repeat(X, jnp.ones(4, int), total_repeat_length=0).shape == (0,)
    assert jnp.repeat(jnp.ones((2, 3)), 1, axis=1, total_repeat_length=0).shape == (2, 0)


@pytest.mark.parametrize("order", ["C", "F"])
def test_reshape_takes_copy(order):
    results = [jnp.reshape(X, (2, 2), order, copy=c).tolist() for c in (None, True, False)]
    assert results == [np.arange(4).reshape((2, 2), order=order).tolist()] * 3


def test_dtypes_that_fit_nothing_are_type_and_value_errors():
    for error in (TypeError, ValueError):
        with pytest.raises(error):
            jnp.promote_types("object", jnp.int8)


@pytest.mark.parametrize("function", [
    lambda x: jnp.asarray(x).astype(pl.float0), lambda x: jnp.array(x, pl.float0), pl.device_put,
    pl.jit(lambda x: x.astype(pl.float0)),
])  # fmt: skip
def test_float0_stays_float0(function):
    result = function(np.zeros(3, pl.float0))
    assert (result.dtype, result.shape) == (pl.float0, (3,))
    assert function is pl.device_put or function(X).dtype == pl.float0


def test_float0_has_no_arithmetic():
    z = np.zeros(3, pl.float0)
    for function in (
        jnp.sum, jnp.prod, jnp.mean, jnp.max, jnp.negative, jnp.sort, jnp.cumsum, pl.jit(jnp.sum), lambda z: jnp.add(z, z),
        lambda _: jnp.sum(X, dtype=pl.float0), lambda _: jnp.arange(3, dtype=pl.float0),
    ):  # fmt: skip
        with pytest.raises(DtypeError):
            function(z)
    assert jnp.astype(z, np.float32).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "repeats", [2, np.array([1, 2, 3, 0, 1, 2, 3, 4])], ids=["number", "array"]
)
@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eagerly", "jit"])
def test_repeat_lays_its_result_out_as_stated(repeats, transform):
    mesh = pl.make_mesh((2, 4), ("x", "y"))
    values = np.arange(8, dtype=np.float32)
    with pl.set_mesh(mesh):
        x = pl.device_put(values, pl.P("x"))
        for spec in (pl.P("y"), pl.P(None)):
            result = transform(lambda x, s=spec: jnp.repeat(x, repeats, out_sharding=s))(x)
            assert result.sharding.spec == spec
            np.testing.assert_array_equal(result, np.repeat(values, repeats))


@pytest.mark.parametrize(("name", "call"), {
    "sin": lambda x: jnp.sin(x), "add": lambda x: jnp.add(1, x), "prod": lambda x: jnp.prod(x), "where": lambda x: jnp.where(x, 1, 2),
    "logical_and": lambda x: jnp.logical_and(x, 1), "dot": lambda x: jnp.dot(x, 1), "sort": lambda x: jnp.sort(x),
}.items())  # fmt: skip
@pytest.mark.parametrize("operand", ["text", [1, 2], None], ids=str)
def test_values_that_are_no_arrays_are_refused_by_the_function_s_name(name, call, operand):
    for run in (call, pl.jit(lambda y: call(operand) + y)):
        with pytest.raises(ArgumentTypeError, match=rf"^jnp\.{name} (needs|takes) "):
            run(operand if run is call else 1.0)


@pytest.mark.parametrize("call", [
    jnp.sin, jnp.square, jnp.logical_not, jnp.rint, jnp.round, jnp.trunc, jnp.signbit, jnp.imag, jnp.iscomplex, jnp.sum,
    jnp.prod, jnp.all, jnp.max, jnp.ptp, jnp.count_nonzero, jnp.mean, jnp.std, jnp.median, jnp.cumsum, jnp.nansum, jnp.nanmax,
    jnp.linalg.norm, jnp.nonzero, jnp.sort_complex, lambda x: jnp.ldexp(x, 1), lambda x: jnp.add(x, 1), lambda x: jnp.maximum(1, x), lambda x: x + 1, lambda x: x**2,
    lambda x: jnp.clip(x, 0), lambda x: jnp.arctan2(x, x), lambda x: jnp.fmod(x, x), lambda x: jnp.dot(x, 1),
    lambda x: jnp.einsum("i,i", x, x), lambda x: jnp.where(True, x, 1),
])  # fmt: skip
@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eagerly", "jit"])
def test_keys_are_no_numbers(call, transform):
    keys = pl.random.split(pl.random.key(0))
    with pytest.raises(
        DtypeError, match=r"(?s)needs numbers or bools.*key<fry>\[2\].*random\.key_data"
    ):
        transform(call)(keys)


def test_keys_are_compared_and_selected():
    keys = pl.random.split(pl.random.key(0))
    assert jnp.equal(keys, keys).all()
    assert jnp.isclose(keys, keys).all()
    assert (
        jnp.where(True, keys, keys[::-1]).dtype == jnp.concatenate([keys, keys]).dtype == keys.dtype
    )


@pytest.mark.parametrize("call", [
    lambda x: jnp.round(x, 1, out=x), lambda x: jnp.isposinf(x, out=x), lambda x: jnp.isneginf(x, x),
    lambda x: jnp.stack([x], out=x), lambda x: jnp.sum(x, out=x), lambda x: jnp.add(x, x, out=x),
])  # fmt: skip
def test_results_are_not_written_into_arguments(call):
    with pytest.raises(UnsupportedError, match="can't write into `out`"):
        call(X)


@pytest.mark.parametrize("call", [
    lambda bad: jnp.sum(X, bad), lambda bad: jnp.mean(X, (0, bad)), lambda bad: jnp.median(X, bad), jnp.hanning, jnp.bartlett,
    lambda bad: jnp.transpose(X, bad), lambda bad: jnp.tensordot(X, X, bad), lambda bad: jnp.size(X, bad),
    lambda bad: jnp.kaiser(bad, 2.0), lambda bad: jnp.linalg.norm(X, axis=bad),
])  # fmt: skip
@pytest.mark.parametrize("bad", [1.5, 1j])
def test_axes_and_lengths_are_ints(call, bad):
    with pytest.raises(ArgumentTypeError, match=r"(must be an int|must be ints|to be an int)"):
        call(bad)


@pytest.mark.parametrize("call", [
    lambda bad: jnp.split(X, bad), lambda bad: jnp.split(X, [bad]), lambda bad: jnp.diag(X, bad), lambda bad: jnp.rot90(MATRIX, bad),
    lambda bad: jnp.nonzero(X, size=bad), lambda bad: jnp.unique(X, size=bad), lambda bad: jnp.union1d(X, X, size=bad),
    lambda bad: jnp.linspace(0, 1, bad), lambda bad: jnp.partition(X, bad), lambda bad: jnp.polyder(X, bad),
    lambda bad: jnp.tril_indices(3, bad), lambda bad: jnp.triu_indices(bad), lambda bad: jnp.unravel_index(3, bad),
    lambda bad: jnp.vecdot(X, X, axis=bad), lambda bad: jnp.linalg.tensorinv(MATRIX, bad), lambda bad: jnp.vander(X, bad),
    lambda bad: jnp.linalg.matrix_power(MATRIX, bad), lambda bad: jnp.fft.fft(X, bad), lambda bad: jnp.diff(X, bad),
    lambda bad: jnp.repeat(X, 2, total_repeat_length=bad), lambda bad: jnp.diagonal(MATRIX, bad),
    lambda bad: pl.ops.segment_max(X, jnp.arange(4), bad), lambda bad: jnp.bincount(jnp.arange(3), length=bad),
])  # fmt: skip
@pytest.mark.parametrize("bad", [1.5, "one"])
def test_sizes_and_orders_are_ints(call, bad):
    with pytest.raises(
        ArgumentTypeError, match=r"needs `\w+` to be an int that is known when tracing"
    ):
        call(bad)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: jnp.repeat(X, 1.5), ArgumentTypeError, "whole numbers"),
    (lambda: jnp.repeat(X, np.ones(4)), ArgumentTypeError, "whole numbers"),
    (lambda: jnp.repeat(X, [1, 2]), ShapeError, "can't be broadcast"),
    (lambda: jnp.roll(MATRIX, (1, 2, 3), (0, 1)), ShapeError, "can't be broadcast"),
    (lambda: jnp.rot90(MATRIX, axes=(0,)), ArgumentTypeError, "two ints"),
    (lambda: jnp.polyadd(1, 2), ShapeError, "vectors of coefficients"),
    (lambda: jnp.polydiv(X, 2), ShapeError, "vectors of coefficients"),
    (lambda: jnp.polyder(MATRIX), ShapeError, "vectors of coefficients"),
    (lambda: jnp.polyint(1), ShapeError, "vectors of coefficients"),
    (lambda: jnp.polyval(1, 2), ShapeError, "vector of coefficients"),
    (lambda: jnp.choose(jnp.arange(2), [], mode="clip"), ArgumentValueError, "at least one array"),
    (lambda: jnp.choose(jnp.arange(2), 5, mode="clip"), ArgumentTypeError, "sequence of arrays"),
    (lambda: jnp.delete(X, 1.5), DtypeError, "integer dtype"),
    (lambda: jnp.delete(X, X[:0]), DtypeError, "integer dtype"),
    (lambda: jnp.linalg.tensorsolve(MATRIX, X[:2], axes=(5,)), AxisError, "out of bounds"),
    (lambda: jnp.unwrap(X, period="one"), ArgumentTypeError, "needs arrays or numbers"),
    (lambda: jnp.zeros(2, pl.random.key(0)), DtypeError, "zeros: needs a dtype"),
    (lambda: jnp.zeros(2, X), DtypeError, "zeros: needs a dtype"),
    (lambda: jnp.cov(MATRIX, dtype=bool), DtypeError, "a floating or complex dtype"),
    (lambda: jnp.corrcoef(MATRIX, dtype=int), DtypeError, "a floating or complex dtype"),
    (lambda: jnp.take(X, 1.5), DtypeError, "integer dtype"),
    (lambda: jnp.sort(X, kind="quicksort"), ArgumentTypeError, "Use `stable`"),
    (lambda: jnp.var(MATRIX, mean=X[:2]), ShapeError, "the axes of its array"),
    (lambda: jnp.nanstd(MATRIX, mean=X[:2]), ShapeError, "the axes of its array"),
    (lambda: jnp.fft.fft(X, axis=(0,)), ArgumentValueError, "needs a single axis"),
    (lambda: jnp.fft.fft2(MATRIX, axes=1.0), ArgumentTypeError, "two axes"),
    (lambda: jnp.round(X, 2.5), ArgumentTypeError, "`decimals` to be an int"),
    (lambda: jnp.expand_dims(X, 1.5), ArgumentTypeError, "an int, or several ints"),
    (lambda: jnp.iscomplexobj({}), ArgumentTypeError, "an array or a number"),
    (lambda: jnp.select(1, 2), ArgumentTypeError, "`condlist` to be a sequence"),
    (lambda: jnp.select([True], 2), ArgumentTypeError, "`choicelist` to be a sequence"),
    (lambda: jnp.histogram(X, range=1), ShapeError, "a pair of numbers"),
    (lambda: jnp.histogram2d(X, X, range=1), ArgumentTypeError, "a sequence of pairs"),
    (lambda: jnp.histogram2d(X, X, range=[1, 2]), ShapeError, "a pair of numbers"),
    (lambda: jnp.trim_zeros(X, trim="z"), ArgumentValueError, '"f", "b" or "fb"'),
    (lambda: jnp.trim_zeros(X, trim=None), ArgumentValueError, '"f", "b" or "fb"'),
    (lambda: jnp.corrcoef(jnp.ones((1, 2, 3))), ArgumentValueError, r"^jnp\.corrcoef needs"),
    (lambda: jnp.corrcoef(X, X[:2]), ArgumentValueError, r"^jnp\.corrcoef needs"),
    (lambda: pl.nn.gelu(None), ArgumentTypeError, r"^nn\.gelu needs"),
    (lambda: pl.nn.relu("a"), ArgumentTypeError, r"^nn\.relu needs"),
    (lambda: pl.nn.softmax("a"), ArgumentTypeError, r"^nn\.softmax needs"),
    (lambda: pl.nn.hard_tanh([1.0]), ArgumentTypeError, r"^nn\.hard_tanh needs"),
    (lambda: pl.scipy.linalg.lu(X), ShapeError, r"^scipy\.linalg\.lu needs"),
    (lambda: pl.scipy.linalg.toeplitz([1.0]), ArgumentTypeError, r"^scipy\.linalg\.toeplitz needs"),
    (lambda: pl.scipy.linalg.dft(1.5), ArgumentTypeError, "`n` to be an int"),
    (lambda: pl.scipy.stats.multinomial.pmf(X, 3, X), DtypeError, "whole numbers"),
    (lambda: pl.random.normal(pl.random.key(0), shape=None), ShapeError, "a shape of integers"),
    (lambda: pl.scipy.special.gammaln(None), ArgumentTypeError, r"^scipy\.special\.gammaln needs"),
])  # fmt: skip
def test_arguments_that_fit_nothing(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_answers_about_other_shapes_are_arrays():
    assert isinstance(jnp.array_equiv(X, jnp.ones((3, 2))), pl.Array)


def test_sizes_along_axes_that_arrays_lack():
    with pytest.raises(AxisError, match="out of bounds for an array with 1 dimension"):
        jnp.size(X, 1)


def test_reshape_keeps_numpy_arrays():
    x = np.arange(6.0)
    for reshaped in (jnp.reshape(x, (2, -1)), jnp.reshape(x, (2, 3), "C", copy=False)):
        assert type(reshaped) is np.ndarray
        assert reshaped.dtype == np.float64
        np.testing.assert_array_equal(reshaped, x.reshape(2, 3))
    np.testing.assert_array_equal(jnp.reshape(x, (2, 3), "F"), x.reshape(2, 3, order="F"))
    assert type(jnp.reshape(np.float32(1), 1)) is np.ndarray
    sizes = pl.jit(lambda: jnp.zeros(jnp.reshape(np.array([[2], [3]]), -1)))()
    assert sizes.shape == (2, 3)
    for function in (jnp.ravel, jnp.atleast_2d):
        assert isinstance(function(x), pl.Array)
    with pytest.raises(ValueError, match="size"):
        jnp.reshape(x, (4, 2))


def test_quantiles_of_floats_of_8_bits_have_their_dtype() -> None:
    x = jnp.array([0.25, 0.5, 1.0], "float8_e4m3fn")
    for result in (jnp.quantile(x, 0.5), jnp.nanquantile(x, 0.5), jnp.median(x)):
        assert result.dtype == x.dtype
        assert float(result) == 0.5


def test_grids_of_numpy_arrays_are_arrays() -> None:
    [grid] = jnp.ix_(np.arange(3))
    assert isinstance(grid, pl.Array)
    assert grid.dtype == np.int32


def test_many_keys_are_sorted_one_after_the_other():
    """By a program whose size doesn't grow with the keys: one sort of 100 operands takes seconds to compile."""
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 3, (20, 6, 16)).astype(np.float32)
    keys[rng.random(keys.shape) < 0.2] = np.nan
    for axis in (0, 1):
        np.testing.assert_array_equal(jnp.lexsort(keys, axis), np.lexsort(keys, axis))
    mixed = [*keys[:10], *keys[:2].astype(bool)]
    np.testing.assert_array_equal(jnp.lexsort(mixed), np.lexsort(mixed))
    batched = pl.vmap(jnp.lexsort, in_axes=1)(keys)
    np.testing.assert_array_equal(batched, jnp.lexsort(keys))
    mesh = pl.make_mesh((2,), ("d",), axis_types=(pl.sharding.AxisType.Auto,))
    over = pl.P(None, "d")
    cut = pl.shard_map(jnp.lexsort, mesh=mesh, in_specs=over, out_specs=pl.P("d"))
    np.testing.assert_array_equal(cut(keys), jnp.lexsort(keys))
    program = str(pl.make_jaxpr(jnp.lexsort)(np.ones((50, 3))))
    assert program.count("sort[") == program.count("num_keys=1") == 2
    rows = rng.integers(0, 2, (40, 12)).astype(np.float32)
    np.testing.assert_array_equal(jnp.unique(rows, axis=0), np.unique(rows, axis=0))
    alternating = [
        key.astype(dtype) for key in rng.integers(0, 2, (6, 16)) for dtype in (np.int32, np.float32)
    ]
    np.testing.assert_array_equal(jnp.lexsort(alternating), np.lexsort(alternating))
    np.testing.assert_array_equal(jnp.lexsort(keys[:3]), np.lexsort(keys[:3]))

    def size(n_columns: int) -> int:
        unique = lambda x: jnp.unique(x, axis=0, size=5, return_inverse=True)
        return str(pl.make_jaxpr(unique)(np.ones((50, n_columns)))).count("\n")

    assert size(500) == size(20)


@pytest.mark.parametrize(
    "call",
    [
        jnp.array_equal, jnp.array_equiv, pl.scipy.special.expn, pl.scipy.linalg.solve_triangular,
        pl.scipy.linalg.qr_multiply, pl.scipy.linalg.expm_frechet, pl.scipy.linalg.rsf2csf,
    ],
)  # fmt: skip
def test_two_sequences_are_arrays_where_they_are_in_the_reference(call):
    x, y = [[2.0, 1.0], [1.0, 3.0]], ((4.0, 5.0), (5.0, 6.0))
    expected = pl.tree.leaves(call(np.array(x, np.float32), np.array(y, np.float32)))
    for actual in (call(x, y), call([jnp.asarray(row) for row in x], y)):
        for result, wanted in zip(pl.tree.leaves(actual), expected, strict=True):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    "call",
    [
        jnp.fft.ihfft, pl.scipy.special.ndtr, pl.scipy.special.log_ndtr, pl.scipy.special.spence,
        pl.scipy.linalg.cholesky, pl.scipy.linalg.cho_factor, pl.scipy.linalg.lu, pl.scipy.linalg.lu_factor,
        pl.scipy.linalg.qr, pl.scipy.linalg.svd, pl.scipy.linalg.eigh, pl.scipy.linalg.polar,
    ],
)  # fmt: skip
def test_a_sequence_is_an_array_where_it_is_in_the_reference(call):
    x = [[2.0, 1.0], [1.0, 3.0]]
    expected = pl.tree.leaves(call(np.array(x, np.float32)))
    for result, wanted in zip(pl.tree.leaves(call(x)), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
