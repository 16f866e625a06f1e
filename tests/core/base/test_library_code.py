"""Library code computes by its own options; users' options reach users' operands and functions."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base import (
    NonFiniteError,
    ShapeError,
    TransferGuardError,
    library_code,
    promotion,
    users_function,
)
from pellucid._machine.base.dtypes import TypePromotionError
from pellucid.experimental.ode import odeint
from pellucid.scipy.linalg import expm_frechet, funm
from pellucid.scipy.optimize import minimize
from pellucid.scipy.signal import detrend
from pellucid.scipy.sparse.linalg import bicgstab, cg, gmres

VECTOR = np.arange(1.0, 4.0, dtype=np.float32)
TABLE = np.ones((2, 3), np.float32)


def test_own_arithmetic_is_reached_by_no_option() -> None:
    with pl.numpy_rank_promotion("raise"), pl.numpy_dtype_promotion("strict"):
        assert jnp.vander(jnp.asarray(VECTOR)).shape == (3, 3)
        assert jnp.multiply.outer(VECTOR, VECTOR).shape == (3, 3)
        assert pl.image.resize(TABLE, (3, 5), "linear").shape == (3, 5)
        assert pl.random.orthogonal(pl.random.key(0), 3, dtype=np.complex64).dtype == np.complex64


@pytest.mark.parametrize("is_first", [False, True])
def test_operands_of_users_are_checked(is_first: bool) -> None:
    """Also those of types for which the library called the function before."""
    column, row = jnp.ones((7, 1)), jnp.arange(5.0)
    with pl.numpy_rank_promotion("raise"):
        if not is_first:
            jnp.vander(jnp.ones(7), 5)
        for _ in range(2):
            with pytest.raises(ShapeError, match="promotes ranks"):
                column**row
            with pytest.raises(ShapeError, match="promotes ranks"):
                pl.jit(jnp.power)(column, row)
        jnp.vander(jnp.ones(7), 5)
    assert (column**row).shape == (7, 5)


@pytest.mark.parametrize("text", [
    "jnp.clip(TABLE, VECTOR, 5)", "jnp.fmax(TABLE, VECTOR)", "jnp.allclose(TABLE, VECTOR)", "jnp.linspace(TABLE, VECTOR)",
    "jnp.vecdot(TABLE, VECTOR)", "jnp.logical_and(TABLE, VECTOR)", "pl.scipy.special.logsumexp(TABLE, b=VECTOR)",
    "pl.scipy.stats.norm.pdf(TABLE, VECTOR)", "jnp.asarray(VECTOR) ** TABLE", "jnp.asarray(TABLE) * VECTOR",
])  # fmt: skip
def test_functions_of_several_operands_check_ranks(text: str) -> None:
    eval(text)
    with pl.numpy_rank_promotion("raise"), pytest.raises(ShapeError, match="promotes ranks"):
        eval(text)


@pytest.mark.parametrize("text", [
    "jnp.where(True, VECTOR, WHOLE)", "jnp.concatenate([VECTOR, WHOLE])", "jnp.digitize(VECTOR, WHOLE)",
    "jnp.interp(VECTOR, WHOLE, VECTOR)", "jnp.logical_or(VECTOR, WHOLE)", "jnp.polyfit(VECTOR, WHOLE, 1)",
])  # fmt: skip
def test_functions_of_several_operands_check_dtypes(text: str) -> None:
    names = {"jnp": jnp, "VECTOR": VECTOR, "WHOLE": np.arange(3, dtype=np.int32)}
    eval(text, names)
    with (
        pl.numpy_dtype_promotion("strict"),
        pytest.raises(TypePromotionError, match="No implicit promotion"),
    ):
        eval(text, names)


def options_seen(call) -> set[tuple[str, str]]:
    """The options under which the function runs that `call` is given."""
    seen = set()

    def note(x, *_):
        seen.add((pl.config.read("numpy_rank_promotion"), pl.config.read("numpy_dtype_promotion")))
        assert promotion() == (
            pl.config.read("numpy_rank_promotion"),
            pl.config.read("numpy_dtype_promotion"),
        )
        return x

    call(note)
    return seen


@pytest.mark.parametrize("call", [
    lambda f: jnp.vectorize(f)(VECTOR), lambda f: jnp.frompyfunc(lambda x, y: f(x), 2, 1)(VECTOR, VECTOR),
    lambda f: jnp.frompyfunc(lambda x, y: f(x), 2, 1).reduce(VECTOR), lambda f: jnp.apply_along_axis(f, 0, TABLE),
    lambda f: jnp.apply_over_axes(lambda x, axis: f(x), TABLE, (0,)), lambda f: jnp.piecewise(VECTOR, [VECTOR > 1], [f, f]),
    lambda f: jnp.fromfunction(f, (3,)), lambda f: odeint(f, VECTOR, np.array([0.0, 0.5], np.float32)),
    lambda f: pl.grad(lambda y: odeint(f, y, np.array([0.0, 0.5], np.float32)).sum())(VECTOR),
    lambda f: cg(f, VECTOR), lambda f: gmres(f, VECTOR), lambda f: bicgstab(f, VECTOR),
    lambda f: pl.grad(lambda b: cg(f, b)[0].sum())(VECTOR), lambda f: funm(np.eye(2, dtype=np.float32), f),
    lambda f: minimize(lambda x: f(x).sum(), VECTOR, method="BFGS"), lambda f: detrend(VECTOR, type="constant") + f(VECTOR),
    lambda f: pl.experimental.sparse.sparsify(f)(jnp.asarray(VECTOR)), lambda f: jnp.add(type("A", (), {"__jax_array__": lambda self: f(jnp.asarray(VECTOR))})(), 1.0),
])  # fmt: skip
def test_functions_of_users_see_users_options(call) -> None:
    with pl.numpy_rank_promotion("raise"), pl.numpy_dtype_promotion("strict"):
        assert options_seen(call) == {("raise", "strict")}
    assert options_seen(call) == {("allow", "standard")}


def test_options_are_back_after_an_error() -> None:
    @library_code
    def failing(function):
        function()

    def fail():
        raise KeyError(pl.config.read("numpy_rank_promotion"))

    with pl.numpy_rank_promotion("raise"):
        with pytest.raises(KeyError, match="raise"):
            failing(fail)
        assert pl.config.read("numpy_rank_promotion") == "raise"
        assert promotion() == ("raise", "standard")
    assert promotion() == ("allow", "standard")


def test_a_function_of_a_user_is_equal_to_itself() -> None:
    assert users_function(abs) == users_function(abs)
    assert hash(users_function(abs)) == hash(users_function(abs))
    assert users_function(abs) != users_function(len)
    assert users_function(users_function(abs)) == users_function(abs)


MODULES = (
    jnp, jnp.linalg, jnp.fft, pl.nn, pl.nn.initializers, pl.random, pl.image, pl.ops, pl.scipy.signal, pl.scipy.linalg,
    pl.scipy.special, pl.scipy.fft, pl.scipy.ndimage, pl.scipy.integrate, pl.scipy.sparse.linalg, pl.scipy.stats,
)  # fmt: skip
OTHERS = {
    "get_printoptions", "printoptions", "set_printoptions", "isdtype", "issubdtype", "promote_types", "result_type",
    "finfo", "iinfo", "broadcast_shapes", "vectorize",
}  # fmt: skip
"""Functions that compute nothing, and those that tell what options say; what `vectorize` gives is library code."""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_function_is_library_code(module) -> None:
    names = getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")])
    functions = {name: getattr(module, name) for name in names}
    missing = {
        name
        for name, function in functions.items()
        if callable(function)
        and not isinstance(function, (type, jnp.ufunc))
        and not hasattr(function, "is_library_code")
    }
    assert missing <= OTHERS


@pytest.mark.parametrize(
    "name", ["divide", "true_divide", "remainder", "mod", "left_shift", "bitwise_left_shift"]
)
def test_operands_are_checked_under_every_name(name: str) -> None:
    with pl.numpy_rank_promotion("raise"), pytest.raises(ShapeError, match="promotes ranks"):
        getattr(jnp, name)(np.ones((2, 3), np.int32), np.ones(3, np.int32))


def test_constants_of_the_library_are_no_transfers() -> None:
    x = jnp.asarray(VECTOR)
    with pl.transfer_guard("disallow"):
        for function in (
            jnp.gradient,
            jnp.unwrap,
            jnp.corrcoef,
            jnp.trapezoid,
            jnp.median,
            jnp.nanstd,
            jnp.polyder,
            jnp.copy,
        ):
            assert jnp.isfinite(function(x)).all()


@pytest.mark.parametrize("text", [
    "jnp.trapezoid(VECTOR)", "jnp.median(VECTOR.astype(float))", "jnp.gradient(X, 0.25)", "jnp.gradient(X, np.float32(0.25))",
    "jnp.corrcoef(TABLE)", "X * 2", "jnp.apply_along_axis(lambda row: row * 2.5, 0, X)", "jnp.sum(VECTOR)",
])  # fmt: skip
def test_operands_and_functions_of_users_are_guarded(text: str) -> None:
    names = {**globals(), "X": jnp.asarray(VECTOR)}
    with pl.transfer_guard("disallow"), pytest.raises(TransferGuardError, match="transfer"):
        eval(text, names)


def test_checks_for_nan_look_at_results_of_the_library_alone() -> None:
    with pl.debug_nans():
        derivative = expm_frechet(jnp.eye(3), jnp.eye(3))[1]
        assert jnp.isfinite(derivative).all()
        assert jnp.linspace(0.0, 1.0, 1) == 0
        with pytest.raises(NonFiniteError, match="corrcoef"):
            jnp.corrcoef(jnp.zeros(3))
        with pytest.raises(NonFiniteError):
            jnp.frompyfunc(lambda x, y: x / (y * 0), 2, 1).reduce(jnp.zeros(3))
