"""Functions give NumPy's values and shapes."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
Y = RNG.normal(size=(5, 2)).astype(np.float32)
MASK = X > 0


def same(ours, theirs, tolerance: float = 1e-4) -> None:
    assert np.shape(ours) == np.shape(theirs)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=tolerance, atol=tolerance)


REDUCTIONS = [
    "sum",
    "prod",
    "mean",
    "max",
    "min",
    "var",
    "std",
    "any",
    "all",
    "ptp",
    "count_nonzero",
]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, axis, keepdims) -> None:
    ours = getattr(jnp, name)(X, axis=axis, keepdims=keepdims)
    same(ours, getattr(np, name)(X, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "cumprod"])
def test_positions_and_cumulative_sums(name, axis) -> None:
    same(getattr(jnp, name)(X, axis=axis), getattr(np, name)(X, axis=axis))


def test_reductions_of_chosen_elements() -> None:
    same(jnp.sum(X, axis=1, where=MASK), np.sum(X, axis=1, where=MASK))
    same(jnp.mean(X, where=MASK), np.mean(X, where=MASK))
    same(jnp.max(X, axis=0, where=MASK, initial=-9.0), np.max(X, axis=0, where=MASK, initial=-9.0))
    same(jnp.var(X, ddof=1), np.var(X, ddof=1))


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin", "nanmean"])
def test_reductions_without_nan(name) -> None:
    holes = X.copy()
    holes[0, 0, 0] = np.nan
    same(getattr(jnp, name)(holes, axis=1), getattr(np, name)(holes, axis=1))


def test_reduced_dtypes() -> None:
    assert jnp.sum(np.int8([100, 100])).dtype == np.int32
    assert int(jnp.sum(np.int8([100, 100]))) == 200
    assert jnp.mean(np.int32([1, 2])).dtype == np.float32
    assert jnp.sum(np.float16([1, 2])).dtype == np.float16
    assert jnp.prod(np.array([True, False])).dtype == np.int32


def test_the_extremum_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no elements"):
        jnp.max(np.zeros((0, 3)), axis=0)
    assert jnp.sum(np.zeros((0, 3)), axis=0).shape == (3,)


SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)),
    ((7, 1, 2, 3), (1, 5, 3, 4)), ((0, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matrix_products(left, right) -> None:
    a, b = RNG.normal(size=left).astype(np.float32), RNG.normal(size=right).astype(np.float32)
    same(jnp.asarray(a) @ b, a @ b)
    same(jnp.dot(a, b), np.dot(a, b))
    same(pl.jit(jnp.matmul)(a, b), a @ b)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij->ji", [(2, 3)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]), ("i,j->ij", [(2,), (3,)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ijk->k", [(2, 3, 4)]), ("ab,b", [(2, 3), (3,)]), ("i...->...", [(2, 3, 4)]), ("ij,kj->ik", [(2, 3), (4, 3)]),
        ("abc,cd,bd->a", [(2, 3, 4), (4, 5), (3, 5)]),
    ],
)  # fmt: skip
def test_einsum(subscripts, shapes) -> None:
    operands = [RNG.normal(size=s).astype(np.float32) for s in shapes]
    same(jnp.einsum(subscripts, *operands), np.einsum(subscripts, *operands))


@pytest.mark.parametrize("subscripts", ["ij,jk->", "ij,jk->ik", "ii,jk->k", "ij,jk->jk"])
@pytest.mark.parametrize("kind", ["bool", "int8"])
def test_einsum_sums_in_the_dtype_of_its_result(subscripts: str, kind: str) -> None:
    x, y = np.full((3, 3), 100).astype(kind), np.arange(6, dtype=np.int32).reshape(3, 2)
    np.testing.assert_array_equal(jnp.einsum(subscripts, x, y), np.einsum(subscripts, x, y))


def test_einsum_with_lists_of_axes() -> None:
    a, b = X[0], Y
    same(jnp.einsum(a, [0, 1], b, [1, 2], [0, 2]), np.einsum(a, [0, 1], b, [1, 2], [0, 2]))


def test_other_products() -> None:
    same(jnp.tensordot(X, Y, 1), np.tensordot(X, Y, 1))
    same(jnp.tensordot(X, X, ([0, 1], [0, 1])), np.tensordot(X, X, ([0, 1], [0, 1])))
    same(jnp.outer(X[0], Y), np.outer(X[0], Y))
    same(jnp.inner(X, X), np.inner(X, X))
    same(jnp.kron(Y, Y), np.kron(Y, Y))
    same(jnp.vdot(Y, Y), np.vdot(Y, Y))


UNARY = [
    "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh", "exp", "exp2", "expm1", "cbrt", "square", "sign", "floor",
    "ceil", "trunc", "rint", "negative", "absolute", "fabs", "reciprocal", "isnan", "isfinite", "isinf", "signbit",
    "deg2rad", "rad2deg", "sinc", "logical_not", "positive", "conjugate", "real", "imag", "angle",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name) -> None:
    same(getattr(jnp, name)(X), getattr(np, name)(X))
    same(getattr(jnp, name)(2), getattr(np, name)(2) if name != "reciprocal" else 0.5)


@pytest.mark.parametrize("name", ["log", "log1p", "log2", "log10", "sqrt", "arccosh"])
def test_functions_of_large_numbers(name) -> None:
    same(getattr(jnp, name)(np.abs(X) + 1), getattr(np, name)(np.abs(X) + 1))


BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "arctan2", "hypot", "logaddexp", "logaddexp2", "copysign",
    "heaviside", "remainder", "fmod", "floor_divide", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor",
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name) -> None:
    other = RNG.normal(size=(4, 1)).astype(np.float32)
    same(getattr(jnp, name)(X, other), getattr(np, name)(X, other))


@pytest.mark.parametrize(
    "name",
    [
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "floor_divide",
        "remainder",
        "left_shift",
        "right_shift",
        "power",
    ],
)
def test_functions_of_integers(name) -> None:
    a = np.int32([[7, -7, 12], [5, 1, -3]])
    b = np.int32([3, 2, 1])
    same(getattr(jnp, name)(a, b), getattr(np, name)(a, b))


def test_integer_division_has_numpys_signs() -> None:
    a, b = np.int32([7, -7, 7, -7]), np.int32([3, 3, -3, -3])
    same(jnp.asarray(a) // b, a // b)
    same(jnp.asarray(a) % b, a % b)
    quotient, remainder = divmod(jnp.asarray(a), b)
    same(quotient, a // b)
    same(remainder, a % b)


@pytest.mark.parametrize(
    "call",
    [
        lambda n: n.arange(5), lambda n: n.arange(2, 9, 3), lambda n: n.arange(5, 0, -2), lambda n: n.arange(0.0, 1.0, 0.25),
        lambda n: n.linspace(0, 1, 7), lambda n: n.linspace(0, 1, 7, endpoint=False), lambda n: n.linspace(np.arange(2), np.array([1, 3]), 4),
        lambda n: n.logspace(0, 2, 5), lambda n: n.geomspace(1, 100, 5), lambda n: n.eye(3, 4, 1), lambda n: n.tri(3, 4, -1),
        lambda n: n.full((2, 3), 7), lambda n: n.zeros((2, 0)), lambda n: n.ones(3), lambda n: n.identity(2),
        lambda n: n.stack(n.meshgrid(n.arange(2), n.arange(3))), lambda n: n.indices((2, 3)),
        lambda n: n.concatenate([X, X], 1), lambda n: n.concatenate([X, X], None), lambda n: n.stack([X, X], -1),
        lambda n: n.hstack([X, X]), lambda n: n.vstack([Y, Y]), lambda n: n.dstack([Y, Y]), lambda n: n.column_stack([X[0, 0], X[1, 0]]),
        lambda n: n.reshape(X, (-1, 5)), lambda n: n.reshape(X, (4, 15), order="F"), lambda n: n.transpose(X), lambda n: n.transpose(X, (1, 0, 2)),
        lambda n: n.swapaxes(X, 0, -1), lambda n: n.moveaxis(X, 0, -1), lambda n: n.moveaxis(X, (0, 1), (2, 0)), lambda n: n.rollaxis(X, 2),
        lambda n: n.squeeze(X[:1]), lambda n: n.expand_dims(X, (0, 2)), lambda n: n.broadcast_to(Y, (3, 5, 2)),
        lambda n: n.tile(Y, (2, 1, 3)), lambda n: n.repeat(Y, 3), lambda n: n.repeat(Y, 2, axis=1), lambda n: n.repeat(Y, [1, 0, 2, 1, 1], axis=0),
        lambda n: n.flip(X), lambda n: n.flip(X, 1), lambda n: n.rot90(Y), lambda n: n.rot90(Y, 3), lambda n: n.roll(X, 2), lambda n: n.roll(X, (1, -2), (0, 2)),
        lambda n: n.split(X, [1, 3], 1)[1], lambda n: n.array_split(n.arange(7), 3)[1], lambda n: n.where(X > 0, X, 0), lambda n: n.where(X[0] > 0)[1],
        lambda n: n.diag(Y[:2]), lambda n: n.diag(Y[:, 0]), lambda n: n.diag(Y[:, 0], 2), lambda n: n.diag(Y[:, 0], -1), lambda n: n.diagonal(X, 1, 1, 2),
        lambda n: n.triu(X), lambda n: n.tril(X, -1), lambda n: n.clip(X, -0.5, 0.5), lambda n: n.nan_to_num(np.float32([np.nan, np.inf, 1.0])),
        lambda n: n.sort(X, 1), lambda n: n.argsort(X, axis=0), lambda n: n.average(X, axis=1, weights=n.arange(4.0)), lambda n: n.trace(X), lambda n: n.round(X, 2),
        lambda n: n.atleast_3d(Y), lambda n: n.append(Y, Y), lambda n: n.ravel(X),
    ],
)  # fmt: skip
def test_creation_and_manipulation(call) -> None:
    same(call(jnp), call(np), 1e-5)


def test_a_traced_shift_rolls() -> None:
    same(pl.jit(lambda s: jnp.roll(X, s, 1))(-7), np.roll(X, -7, 1))


def test_arrays_from_nested_sequences() -> None:
    assert jnp.array([[1, 2], [3, 4.5]]).dtype == np.float32
    assert jnp.array([]).dtype == np.float32
    assert jnp.array(1.0).weak_type
    assert not jnp.array([1.0]).weak_type
    same(pl.jit(lambda x: jnp.array([x, 2.0, [x, x][0]]))(3.0), [3.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="ragged"):
        jnp.array([[1, 2], [3]])
    with pytest.raises(TypeError, match="numbers, arrays"):
        jnp.array(["a"])
    with pytest.raises(OverflowError):
        jnp.array(2**40)


def test_operators_and_methods() -> None:
    x = jnp.asarray(X)
    same(1 - x, 1 - X)
    same(2**x, 2**X)
    same(X @ jnp.asarray(Y), X @ Y)
    same(x.sum(0), X.sum(0))
    same(x.T, X.T)
    same(x.mean(), X.mean())
    same(abs(-x), np.abs(X))
    same(x.reshape(4, 15), X.reshape(4, 15))
    same(x.astype(int), X.astype(np.int32))
    assert x.astype(bool).dtype == np.bool_
    assert (x == X).all()
    assert jnp.array_equal(x, X)
    assert not (x != X).any()
    same(~(x > 0), ~MASK)


def test_foreign_operands_are_left_to_their_own_methods() -> None:
    class Foreign:
        def __radd__(self, other):
            return "taken"

    assert jnp.ones(2) + Foreign() == "taken"
    assert pl.jit(lambda x: x * (jnp.ones(2) + Foreign() == "taken"))(3.0) == 3.0
    with pytest.raises(TypeError):
        jnp.ones(2) + "text"


def test_shapes_that_do_not_fit_name_both_operands() -> None:
    with pytest.raises(TypeError, match=r"f32\[3,4,5\]"):
        jnp.add(X, np.ones((2, 2), np.float32))
    with pytest.raises(TypeError, match="dimensions of one size"):
        jnp.matmul(X, Y.T)
    with pytest.raises(TypeError, match="list"):
        jnp.sin([1.0])


def test_a_chain_of_numpy_functions_is_inlined_when_traced() -> None:
    program = pl.make_jaxpr(lambda x: jnp.where(jnp.sin(x) > 0, x, 0).sum())(X)
    assert [e.primitive.name for e in program.eqns] == [
        "sin",
        "gt",
        "broadcast_in_dim",
        "select_n",
        "reduce_sum",
    ]


def test_small_program_runs_eagerly_and_jitted_alike() -> None:
    points = RNG.normal(size=(100, 2)).astype(np.float32)

    def k_means(points, steps=5):
        centres = points[:3]
        for _ in range(steps):
            distances = ((points[:, None] - centres[None]) ** 2).sum(-1)
            owner = jnp.argmin(distances, axis=1)
            one_hot = (owner[:, None] == jnp.arange(3)).astype(jnp.float32)
            centres = one_hot.T @ points / jnp.maximum(one_hot.sum(0)[:, None], 1)
        return centres

    same(k_means(jnp.asarray(points)), pl.jit(k_means)(points))


def test_mandelbrot_runs_eagerly_and_jitted_alike() -> None:
    def mandelbrot(n=20):
        y, x = jnp.meshgrid(jnp.linspace(-1.5, 1.5, n), jnp.linspace(-2, 1, n))
        c = x + 1j * y
        z = jnp.zeros_like(c)
        count = jnp.zeros(c.shape, jnp.int32)
        for _ in range(15):
            inside = jnp.abs(z) < 2
            z = jnp.where(inside, z * z + c, z)
            count = count + inside
        return count

    same(mandelbrot(), pl.jit(mandelbrot)())


def test_low_pass_filter_runs_eagerly_and_jitted_alike() -> None:
    times = np.linspace(0, 1, 256, endpoint=False, dtype=np.float32)
    slow = np.sin(2 * np.pi * 3 * times).astype(np.float32)
    noisy = slow + 0.5 * np.sin(2 * np.pi * 60 * times).astype(np.float32)

    def low_pass(signal, cutoff=10.0):
        spectrum = jnp.fft.rfft(signal)
        frequencies = jnp.fft.rfftfreq(signal.shape[-1], 1 / 256)
        return jnp.fft.irfft(jnp.where(frequencies < cutoff, spectrum, 0), signal.shape[-1])

    filtered = low_pass(jnp.asarray(noisy))
    same(filtered, pl.jit(low_pass)(noisy))
    np.testing.assert_allclose(filtered, slow, atol=1e-4)
