"""Gradients without NaN of what isn't selected: the option `masked_gradients`.

`tests/laws/test_masked_gradients.py` compares random programs with forward mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

X = np.float32([0, 1, 4])
OFF = np.array([False, True, True])
POINTS = np.float32([[0, 0], [3, 4], [0, 0]])
ROWS = np.array([[False], [True], [False]])
PADDED = np.float32([[1, 2], [np.inf, np.nan], [3, 4]])
BLOCKS = np.float32([[[0, 0], [0, 0]], [[2, 1], [1, 3]]])


@pl.custom_jvp
def own_log(x: Any) -> Any:
    return jnp.log(x)


own_log.defjvp(lambda x, t: (jnp.log(x[0]), t[0] / x[0]))


@pl.custom_vjp
def log_with_backward(x: Any) -> Any:
    return jnp.log(x)


log_with_backward.defvjp(lambda x: (jnp.log(x), x), lambda x, ct: (ct / x,))


def layers(w: Any, x: Any) -> Any:
    return jnp.maximum(x @ w, 0) @ w


def step_where_positive(carry: Any, x: Any) -> Any:
    return carry + jnp.where(x > 0, jnp.log(x), 0) * carry, carry


def horner_of_log(x: Any) -> Any:
    value, start = jnp.log(x), jnp.zeros_like(x)
    return pl.lax.scan(lambda c, a: (c * value + a, None), start, np.float32([1, 2, 3]))[0]


def maxima_of_windows(x: Any, size: int, step: int = 1) -> Any:
    return pl.lax.reduce_window(x, -np.inf, pl.lax.max, (size,), (step,), "VALID")


def masked_softmax(x: Any) -> Any:
    logits = jnp.where(x > 0, jnp.log(x), -jnp.inf)
    return jnp.exp(logits - jnp.max(logits)) / jnp.sum(jnp.exp(logits - jnp.max(logits)))


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "norm of rows": (lambda x: jnp.where(ROWS[:, 0], jnp.linalg.norm(x, axis=1), 0), POINTS),
    "arctan2": (lambda x: jnp.where(X > 0, jnp.arctan2(x * 0, x), 0) * x, X),
    "power": (lambda x: jnp.where(x > 0, x**0.3, 0), X),
    "power of arrays": (lambda x: jnp.where(x > 0, x**x, 0), X),
    "sinc": (lambda x: jnp.where(x != 0, jnp.sin(x) / x, 1), X),
    "sqrt": (lambda x: jnp.where(x > 0, jnp.sqrt(x), 0), X),
    "log": (lambda x: jnp.where(x > 0, jnp.log(x), 0), X),
    "reciprocal": (lambda x: jnp.where(x > 0, 1 / x, 0), X),
    "cbrt": (lambda x: jnp.where(x > 0, jnp.cbrt(x), 0), X),
    "arcsin": (lambda x: jnp.where(x < 1, jnp.arcsin(x), 0), X),
    "overflow": (lambda x: jnp.where(x < 2, jnp.exp(x), jnp.sin(x)), X * 1e3),
    "overflow with a gate": (lambda x: jnp.where(x > 2, x, jnp.log1p(jnp.exp(x))), X * 1e3),
    "NaN in the other case": (lambda x: jnp.where(OFF, x * np.float32([np.nan, 1, 2]), x), X),
    "nested": (lambda x: jnp.where(x > 0, jnp.where(x > 1, jnp.log(jnp.log(x)), x), 0), X),
    "outer": (lambda x: jnp.where(x > 1, jnp.log(jnp.log(x)) * jnp.sqrt(x - 1), x * x), X),
    "select": (lambda x: jnp.select([x > 1, x > 0], [jnp.log(jnp.log(x)), 1 / x], x), X),
    "piecewise": (lambda x: jnp.piecewise(x, [x > 0], [jnp.log, 0.0]), X),
    "scan, input": (lambda x: pl.lax.scan(step_where_positive, 1.0, x)[0], X),
    "scan, carry": (lambda x: pl.lax.scan(lambda c, e: (jnp.where(c > 0, jnp.sqrt(c), e), c), x[0], x)[1], X),
    "scan, last carry unused": (lambda x: pl.lax.scan(lambda c, e: (jnp.log(e - 4), c), x[1], x[:1])[1], X),
    "scan, constant": (lambda x: jnp.where(x > 0, horner_of_log(x), 0), X),
    "fori_loop": (lambda x: pl.lax.fori_loop(0, 3, lambda i, c: jnp.where(c > 0.5, jnp.log(c), c * 2), x), X),
    "cond of a batch": (lambda x: pl.vmap(lambda e: pl.lax.cond(e > 0, jnp.log, jnp.sin, e))(x), X),
    "cond": (lambda x: pl.lax.cond(x[1] > 0, lambda x: jnp.sqrt(x)[1:].sum(), lambda x: x.sum(), x), X),
    "switch": (lambda x: pl.lax.switch(1, [jnp.log, lambda x: jnp.where(x > 0, jnp.log(x), x)], x), X),
    "jit": (lambda x: jnp.where(x > 0, pl.jit(jnp.log)(x), 0), X),
    "jit around": (pl.jit(lambda x: jnp.where(x > 0, jnp.log(x), 0)), X),
    "slice": (lambda x: jnp.sqrt(x)[1:], X),
    "slice with steps": (lambda x: jnp.sqrt(x)[2::-1][:2], X),
    "dynamic slice": (lambda x: pl.lax.dynamic_slice(jnp.sqrt(x), (np.int32(1),), (2,)), X),
    "gather": (lambda x: jnp.sqrt(x)[np.array([2, 1, 2])], X),
    "set": (lambda x: jnp.sqrt(x).at[0].set(3.0), X),
    "dynamic update": (lambda x: pl.lax.dynamic_update_slice(jnp.sqrt(x), np.ones(1, np.float32), (np.int32(0),)), X),
    "segment_sum": (lambda x: pl.ops.segment_sum(jnp.sqrt(x), np.array([2, 0, 1]), 2), X),
    "concatenate": (lambda x: jnp.concatenate([jnp.sqrt(x), x])[1:], X),
    "pad": (lambda x: jnp.pad(jnp.sqrt(x), 1)[2:], X),
    "negative pad": (lambda x: pl.lax.pad(jnp.sqrt(x), np.float32(0), [(-1, 0, 0)]), X),
    "sum where": (lambda x: jnp.sum(jnp.log(x), where=x > 0), X),
    "max where": (lambda x: jnp.max(jnp.log(x), where=x > 0, initial=-1), X),
    "var where": (lambda x: jnp.var(jnp.log(x), where=x > 0), X),
    "prod where": (lambda x: jnp.prod(jnp.log(x + 1) / x, where=x > 0), X),
    "logsumexp where": (lambda x: pl.nn.logsumexp(x, where=OFF), np.float32([np.inf, 1, 1000])),
    "masked softmax of log": (masked_softmax, X),
    "softmax where": (lambda x: pl.nn.softmax(jnp.log(x), where=x > 0), X),
    "padded rows": (lambda w: jnp.where(~ROWS, PADDED @ w, 0), np.ones((2, 3), np.float32)),
    "padded rows of layers": (lambda w: jnp.where(~ROWS, layers(w, PADDED), 0), np.ones((2, 2), np.float32)),
    "columns": (lambda x: jnp.where(OFF, X @ (jnp.ones((3, 1)) / x), 0), X),
    "einsum": (lambda x: jnp.where(ROWS, jnp.einsum("ij,kj->ik", 1 / x, PADDED[::2]), 0), POINTS),
    "cumsum": (lambda x: jnp.where(OFF, jnp.cumsum(jnp.log(x)[::-1])[::-1], 0), X),
    "convolve": (lambda x: jnp.convolve(jnp.log(x), np.ones(2, np.float32))[2:], X),
    "maxima of windows": (lambda x: maxima_of_windows(jnp.sqrt(x), 2), X),
    "pooling": (lambda x: pl.lax.reduce_window(jnp.sqrt(x), 0.0, pl.lax.add, (2,), (1,), "VALID")[1:], X),
    "solve": (lambda a: jnp.where(np.array([[False], [True]]), jnp.linalg.solve(a, np.ones((2, 2, 1), np.float32))[..., 0], 0), BLOCKS),
    "triangular solve": (lambda a: jnp.where(np.array([[[False]], [[True]]]), pl.lax.linalg.triangular_solve(a, a, left_side=True), 0), BLOCKS),
    "function of matrices": (lambda a: jnp.where(np.array([[[False]], [[True]]]), jnp.linalg.hermitian_function(jnp.log, a), 0), BLOCKS),
    "sort": (lambda x: jnp.sort(jnp.sqrt(x))[1:], X),
    "reshape and transpose": (lambda x: jnp.log(x).T[:, ::-1].reshape(6)[:4], np.float32([[1, 2, 0], [3, 4, 0]])),
    "checkpoint": (lambda x: jnp.where(x > 0, pl.checkpoint(lambda x: jnp.sin(jnp.log(x)))(x), 0), X),
    "custom_jvp": (lambda x: jnp.where(x > 0, own_log(x), 0), X),
    "a program's zeros": (lambda x: jnp.sum(jnp.stack([jnp.log(x), jnp.zeros(3)]), 0)[1:], X),
    "complex": (lambda x: jnp.where(x > 0, jnp.abs(jnp.log(x + 0j)), 0), np.float32([0, 2, 4])),
}  # fmt: skip
"""Functions of which no selected element is singular, and the point."""


def total(function: Callable[..., Any], *weights: float) -> Callable[..., Any]:
    """The sum of what `function` gives, element by element times different numbers."""

    def summed(*arguments: Any) -> Any:
        values = function(*arguments)
        return jnp.sum(
            values * (np.arange(values.size, dtype=np.float32).reshape(values.shape) + 1)
        )

    return summed


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_selected_makes_no_nan(name: str) -> None:
    function, x = CASES[name]
    expected = np.asarray(pl.jacfwd(total(function))(x))
    assert np.all(np.isfinite(expected))
    with pl.masked_gradients():
        np.testing.assert_allclose(pl.grad(total(function))(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["nested", "scan, input", "cond of a batch", "padded rows of layers", "set", "checkpoint"],
)
def test_compiled_gradients_are_the_same(name: str) -> None:
    function, x = CASES[name]
    with pl.masked_gradients():
        at_once = pl.grad(total(function))(x)
        np.testing.assert_allclose(pl.jit(pl.grad(total(function)))(x), at_once, rtol=1e-5)
        both = pl.vmap(pl.grad(total(function)))(np.stack([x, x]))
    np.testing.assert_allclose(both, [at_once] * 2, rtol=1e-5)


def test_masks_go_through_a_backward_function_of_the_user() -> None:
    with pl.masked_gradients():
        gradient = pl.grad(lambda x: jnp.sum(jnp.where(x > 0, log_with_backward(x), 0)))(X)
    assert gradient.tolist() == [0, 1, 0.25]


@pytest.mark.parametrize(
    ("backward", "expected"),
    [
        (lambda x, ct: (jnp.exp(ct) / x,), [np.inf, np.e, np.e / 4]),
        (lambda x, ct: (jnp.where(ct == 0, 7.0, ct / x),), [7, 1, 0.25]),
        (lambda x, ct: (jnp.cos(ct) * x + 1,), [1, 1 + np.cos(1), 1 + 4 * np.cos(1)]),
        (lambda x, ct: (x / ct,), [np.nan, 1, 4]),
    ],
)
def test_what_is_not_linear_ends_the_mask(backward: Any, expected: list[float]) -> None:
    @pl.custom_vjp
    def identity(x: Any) -> Any:
        return x

    identity.defvjp(lambda x: (x, x), backward)
    with pl.masked_gradients():
        gradient = pl.grad(lambda x: jnp.sum(jnp.where(x > 0, identity(x), 0)))(X)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


@pl.custom_vjp
def log_and_root(x: Any) -> Any:
    return jnp.log(x), jnp.sqrt(x)


log_and_root.defvjp(
    lambda x: (log_and_root(x), x), lambda x, cts: (cts[0] / x + cts[1] * 0.5 / jnp.sqrt(x),)
)


@pytest.mark.parametrize("within", ["function", "jit", "scan", "checkpoint", "cond"])
def test_results_that_nobody_uses_keep_the_mask_of_the_others(within: str) -> None:
    """A backward function gets zeros for them, and makes sums of products with them."""
    f = log_and_root
    calls = {
        "function": f,
        "jit": pl.jit(f),
        "scan": lambda x: pl.lax.scan(lambda c, x: (c, f(x)), 0.0, x)[1],
        "checkpoint": pl.checkpoint(f),
        "cond": lambda x: pl.lax.cond(x[1] > 0, f, lambda x: (x, x), x),
    }
    x = np.float32([0, 0.5, 2, 4])
    function = lambda x: jnp.sum(jnp.where(x > 1, calls[within](1 / x)[0], 0))
    with pl.masked_gradients():
        np.testing.assert_array_equal(pl.grad(function)(x), [0, 0, -0.5, -0.25])
        np.testing.assert_array_equal(pl.jit(pl.grad(function))(x), [0, 0, -0.5, -0.25])


def test_backward_functions_may_look_at_values() -> None:
    @pl.custom_vjp
    def doubled(x: Any) -> Any:
        return 2 * x

    doubled.defvjp(
        lambda x: (2 * x, None), lambda _, ct: (2 * ct if float(ct) > 0 else -np.asarray(ct),)
    )
    with pl.masked_gradients():
        assert pl.grad(doubled)(1.0) == 2


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: jnp.linalg.norm(x), np.zeros(2, np.float32)),
        (lambda x: jnp.sqrt(x[0]) ** 2 + x[1], np.zeros(2, np.float32)),
        (lambda x: jnp.where(x >= 0, jnp.log(x) * x, 0).sum(), np.zeros(2, np.float32)),
        (lambda x: jnp.where(x == 0, x * np.float32(np.inf), 0).sum(), np.zeros(2, np.float32)),
        (lambda x: jnp.exp(jnp.log(x)).sum(), np.zeros(2, np.float32)),
    ],
)
def test_what_is_selected_stays_what_it_is(function: Any, x: Any) -> None:
    expected = pl.grad(function)(x)
    with pl.masked_gradients():
        np.testing.assert_array_equal(pl.grad(function)(x), expected)


def test_a_zero_that_arithmetic_made_is_no_structural_one() -> None:
    with pl.masked_gradients():
        second = pl.grad(pl.grad(lambda x: x * x * jnp.log(x)))(1.0)
        kept = pl.grad(lambda x: jnp.sum(x * np.float32([0, 1]) / np.float32([0, 1])))(
            np.ones(2, np.float32)
        )
    assert second == 3
    assert np.isnan(kept[0])


@pytest.mark.parametrize(
    "name",
    [
        "sqrt",
        "nested",
        "scan, input",
        "scan, constant",
        "maxima of windows",
        "padded rows",
        "cond of a batch",
        "custom_jvp",
        "power",
        "slice",
    ],
)
def test_second_derivatives(name: str) -> None:
    function, x = CASES[name]
    function = total(function)
    x = X if x.shape == (3,) else x
    expected = pl.jacfwd(pl.jacfwd(function))(x)
    assert np.all(np.isfinite(expected))
    with pl.masked_gradients():
        for second in (
            pl.jacrev(pl.grad(function)),
            pl.hessian(function),
            pl.jacrev(pl.jacfwd(function)),
        ):
            np.testing.assert_allclose(second(x), expected, rtol=1e-4, atol=1e-5)


def test_every_way_to_reverse_mode() -> None:
    f = CASES["log"][0]
    expected = np.diag([0, 1, 0.25])
    with pl.masked_gradients():
        np.testing.assert_allclose(pl.jacrev(f)(X), expected)
        _, backward = pl.vjp(f, X)
        np.testing.assert_allclose(backward(np.ones(3, np.float32))[0], [0, 1, 0.25])
        _, linear = pl.linearize(f, X)
        transposed = pl.linear_transpose(linear, X)
        np.testing.assert_allclose(transposed(np.ones(3, np.float32))[0], [0, 1, 0.25])
        value, gradient = pl.value_and_grad(lambda x: f(x).sum())(X)
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient, [0, 1, 0.25])


def test_unit_vectors_are_masks_of_jacrev() -> None:
    with pl.masked_gradients():
        np.testing.assert_array_equal(
            pl.jacrev(jnp.sqrt)(np.float32([0, 1])), [[np.inf, 0], [0, 0.5]]
        )


def test_the_option_belongs_to_the_traced_program() -> None:
    gradient = pl.jit(pl.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0)))
    assert np.isnan(gradient(0.0))
    with pl.masked_gradients():
        assert gradient(0.0) == 0
    assert np.isnan(gradient(0.0))


def test_a_mask_is_made_only_where_something_needs_it() -> None:
    with pl.masked_gradients():
        program = pl.make_jaxpr(pl.grad(lambda x: jnp.sum(jnp.where(x > 0, 2 * x, 0))))(X)
        plain = [eqn.primitive.name for eqn in program.eqns]
        program = pl.make_jaxpr(pl.grad(lambda x: jnp.sum(jnp.where(x > 0, jnp.log(x), 0))))(X)
    assert plain.count("select_n") == 2
    # One in the function, and one behind the division, which is its transpose as well.
    assert [eqn.primitive.name for eqn in program.eqns].count("select_n") == 2


def _counted(function: Any, *arguments: Any) -> dict[str, int]:
    """How often each primitive occurs in the masked gradient of a function of its first argument."""
    with pl.masked_gradients():
        program = pl.make_jaxpr(pl.grad(function))(*arguments)
    names = [eqn.primitive.name for eqn in program.eqns]
    return {name: names.count(name) for name in names}


def test_masks_that_the_program_fixes_vanish_where_all_is_live() -> None:
    """A class is sliced out, and each row has a live one; positions are compared, and each has a live one."""

    def function(w: Any, x: Any) -> Any:
        y = jnp.sin(x @ w)
        at = jnp.arange(4)
        scores = jnp.where(at[:, None] >= at, (y @ y.T)[:4, :4], -1e9)
        return jnp.sum(pl.nn.softmax(scores) @ jnp.exp(y[:4])) + jnp.sum(pl.nn.log_softmax(y)[:, 0])

    found = _counted(function, np.ones((3, 5), np.float32), np.ones((4, 3), np.float32))
    assert not {"reduce_or", "or"} & found.keys()


def test_predicates_have_the_values_that_programs_compute() -> None:
    """XLA's remainder of a division by 0 is the dividend, NumPy's is 0."""

    def function(x: Any) -> Any:
        at = pl.lax.iota(np.int32, 4) + 1
        return jnp.sum(jnp.where(pl.lax.rem(at, jnp.zeros_like(at)) == at, jnp.sqrt(x), 0))

    x = np.float32([1, 4, 9, 16])
    with pl.masked_gradients():
        gradient = pl.jit(pl.grad(function))(x)
    np.testing.assert_array_equal(gradient, pl.jit(pl.grad(function))(x))


def test_rows_that_are_left_out_stay_rows() -> None:
    """Of padded rows there is one boolean for each, through activations, reshapes and sums of branches."""

    def function(weights: Any, x: Any, valid: Any) -> Any:
        for w in weights:
            x = x + pl.nn.relu((x @ w).reshape(4, 2, 3).transpose(1, 0, 2)).transpose(
                1, 0, 2
            ).reshape(4, 6)
        return jnp.sum(jnp.where(valid[:, None], jnp.log(x), 0))

    weights, x = [np.ones((6, 6), np.float32)] * 3, np.ones((4, 6), np.float32)
    found = _counted(function, weights, x, np.array([True, False, True, True]))
    # A `select` behind a reshape may be of rows and of elements that `relu` leaves out.
    assert not {"reduce_or", "or"} & found.keys()
    x[1] = np.nan
    with pl.masked_gradients():
        gradient = pl.jit(pl.grad(function))(weights, x, np.array([True, False, True, True]))
    assert all(np.isfinite(g).all() for g in gradient)


def test_rows_that_have_a_live_element_are_counted_once() -> None:
    """Each stage of a step adds what its rows give to elements that the mask keeps; these rows imply nothing new."""

    def step(y: Any, w: Any, kept: Any) -> Any:
        a = jnp.tanh(y @ w)
        b = jnp.tanh((y + a) @ w)
        return jnp.sum(jnp.where(kept, y + a + b + jnp.tanh((y + b) @ w), y))

    draw = np.random.default_rng(0)
    y, w, kept = draw.normal(size=(4, 3)), draw.normal(size=(3, 3)), draw.integers(0, 2, (4, 3))
    kept[1] = 0
    y, w, kept = y.astype(np.float32), w.astype(np.float32), kept.astype(bool)
    found = _counted(step, y, w, kept)
    # The rows, and the columns of the last product, whose elements the mask keeps.
    assert found["reduce_or"] == 2
    y[1] = np.nan
    expected = pl.jacfwd(step, 1)(y, w, kept)
    assert np.isfinite(expected).all()
    with pl.masked_gradients():
        np.testing.assert_allclose(pl.jit(pl.grad(step, 1))(y, w, kept), expected, rtol=1e-4)


def test_rows_that_the_program_fixes_are_constants() -> None:
    def function(w: Any, x: Any) -> Any:
        valid = (jnp.arange(x.shape[0]) % 4 != 3)[:, None]
        return jnp.sum(jnp.where(valid, jnp.log(jnp.tanh(x @ w)), 0))

    x = np.ones((8, 3), np.float32)
    found = _counted(function, np.ones((3, 2), np.float32), x)
    assert not {"reduce_or", "or"} & found.keys()
    x[3] = np.nan
    with pl.masked_gradients():
        assert np.isfinite(pl.jit(pl.grad(function))(np.ones((3, 2), np.float32), x)).all()


def test_rows_stay_apart_in_sums_along_the_others() -> None:
    """Rows of a normalization don't mix before its gradient is summed over them: one `select` is behind all of it."""

    def function(x: Any, valid: Any) -> Any:
        centered = x - x.mean(1, keepdims=True)
        y = centered / jnp.sqrt((centered**2).mean(1, keepdims=True))
        return jnp.sum(jnp.where(valid, y * np.float32([1, 2, 4]), 0))

    x, valid = np.float32([[1, 2, 5], [7, 7, 7], [0, 4, 1]]), np.array([[True], [False], [True]])
    assert _counted(function, x, valid)["select_n"] <= 4
    expected = pl.jacfwd(function)(x, valid)
    assert np.isfinite(expected).all()
    with pl.masked_gradients():
        for gradient in (pl.grad(function), pl.jit(pl.grad(function))):
            np.testing.assert_allclose(gradient(x, valid), expected, rtol=1e-4, atol=1e-5)


def test_what_two_masks_leave_out_together_is_dead() -> None:
    """Each of two masks that the program fixes keeps a half; what is still to be set to 0 by a third is 0 as well."""

    def function(x: Any, rows: Any) -> Any:
        at = jnp.arange(4)
        y = jnp.sum(jnp.where(at < 2, jnp.where(at >= 2, 1 / x, 0), 0) * rows, 1)
        return jnp.sum(jnp.where(rows[:, 0] > 0, y, 0)) + jnp.sum(x)

    x, rows = np.float32([[0, 1, 2, 3]] * 2), np.float32([[np.inf], [0]])
    with pl.masked_gradients():
        for gradient in (pl.grad(function), pl.jit(pl.grad(function))):
            np.testing.assert_array_equal(gradient(x, rows), np.ones((2, 4)))


def test_lines_that_relu_leaves_out_count_as_live() -> None:
    """Networks of `relu` have the operations that they have without masks; it keeps the NaN of rows."""
    weights, x = np.ones((3, 3), np.float32), np.ones((2, 3), np.float32)
    network = lambda w, x: jnp.sum(pl.nn.relu(pl.nn.relu(x @ w) @ w))
    assert "reduce_or" not in _counted(network, weights, x)
    x[1] = np.nan
    left_out = lambda w, x: jnp.sum(jnp.where(jnp.isfinite(y := pl.nn.relu(x @ w)), y, 0))
    with pl.masked_gradients():
        np.testing.assert_array_equal(pl.jit(pl.grad(left_out))(weights, x), np.ones((3, 3)))


def test_lines_of_which_one_mask_leaves_out_what_another_one_keeps() -> None:
    """The second row of `x` is needed by the first column alone, and that is left out."""
    x, off = np.float32([[1, 1], [np.inf, 1]]), np.array([False, True])
    needed = np.array([[True, True], [True, False]])
    function = lambda w, x, off, needed: jnp.sum(jnp.where(off & needed, x @ w, 0))
    with pl.masked_gradients():
        gradient = pl.jit(pl.grad(function))(np.ones((2, 2), np.float32), x, off, needed)
    np.testing.assert_array_equal(gradient, [[0, 1], [0, 1]])


def test_comparisons_of_products_leave_lines_out() -> None:
    x = np.float32([[1, 1], [np.nan, 1]])
    function = lambda w, x: jnp.sum(jnp.where(x @ w > 0, x @ w, 0))
    with pl.masked_gradients():
        for gradient in (pl.grad(function), pl.jit(pl.grad(function))):
            np.testing.assert_array_equal(gradient(np.ones((2, 2), np.float32), x), np.ones((2, 2)))


def test_rows_go_through_products_of_several_shapes() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(4, 3, 5)).astype(np.float32)
    x[1] = np.nan
    valid = np.array([True, False, True, True])[:, None, None]
    weights = tuple(draw.normal(size=s).astype(np.float32) for s in ((5, 6), (6, 7), (7, 6)))

    def function(weights: Any) -> Any:
        a, b, c = weights
        y = jnp.tanh(x @ a)
        y = y + jnp.tanh(y @ b) @ c
        scores = jnp.einsum("bqd,bkd->bqk", y, y)
        y = y + jnp.einsum("bqk,bkd->bqd", pl.nn.softmax(scores), y)
        return jnp.sum(jnp.where(valid, jnp.sin(y), 0))

    expected = pl.jacfwd(function)(weights)
    with pl.masked_gradients():
        for found, right in zip(pl.jit(pl.grad(function))(weights), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)


def _image(*places: Any) -> Any:
    """Images of three features, in which elements at `places` are infinite."""
    x = np.random.default_rng(0).normal(size=(3, 3, 4, 4)).astype(np.float32)
    for place in places:
        x[place] = np.inf
    return x


KERNEL = np.random.default_rng(1).normal(size=(6, 3, 2, 2)).astype(np.float32)
INFINITE_FEATURE = np.where(np.arange(6)[:, None, None, None] == 2, np.inf, KERNEL)
CONVOLUTIONS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "an image": (_image(1), KERNEL, {}),
    "places": (_image(np.s_[:, :, 2:, 3], np.s_[0, 1, 0, 0]), KERNEL, {}),
    "places, in steps": (_image(np.s_[:, :, 3]), KERNEL, {"window_strides": (2, 2)}),
    "places, of a dilated kernel": (_image(np.s_[:, :, 3, 3]), KERNEL, {"rhs_dilation": (1, 2)}),
    "a feature": (_image(), INFINITE_FEATURE, {}),
    "an image, groups of features": (_image(1), KERNEL[:, :1], {"feature_group_count": 3}),
    "a feature, groups of features": (_image(np.s_[:, 1]), KERNEL[:, :1], {"feature_group_count": 3}),
    "a feature of groups": (_image(), INFINITE_FEATURE[:, :1], {"feature_group_count": 3}),
    "an image, groups of images": (_image(1), KERNEL, {"batch_group_count": 3}),
}  # fmt: skip
"""(image, kernel, options) whose convolution isn't finite somewhere."""


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    """By image and kernel, of what of a convolution is finite."""
    image, kernel, options = CONVOLUTIONS[name]
    options = {"window_strides": (1, 1), "padding": "SAME", **options}

    def function(image: Any, kernel: Any) -> Any:
        y = pl.lax.conv_general_dilated(image, kernel, **options)
        return jnp.sum(jnp.real(jnp.where(jnp.isfinite(y), y, 0)))

    expected = pl.jit(pl.jacfwd(function, (0, 1)))(image, kernel)
    plain = pl.jit(pl.grad(function, (0, 1)))(image, kernel)
    assert not all(np.all(np.isfinite(x)) for x in plain)
    with pl.masked_gradients():
        found = pl.jit(pl.grad(function, (0, 1)))(image, kernel)
    for a, b in zip(found, expected, strict=True):
        assert np.all(np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"feature_group_count": 3}, {"batch_group_count": 3}])
def test_places_that_live_windows_do_not_meet_are_dead(options: Any) -> None:
    """Reciprocals of 0 are left out, with all windows that they are in."""
    image = np.where(np.isfinite(CONVOLUTIONS["places"][0]), CONVOLUTIONS["places"][0], 0)
    image[:, :, :, 2:] = 0
    kernel = KERNEL[:, :1] if "feature_group_count" in options else KERNEL

    def function(image: Any, kernel: Any) -> Any:
        y = pl.lax.conv_general_dilated(1 / image, kernel, (1, 1), "SAME", **options)
        return jnp.sum(jnp.where(jnp.isfinite(y), y, 0))

    assert not np.all(np.isfinite(pl.grad(function)(image, kernel)))
    with pl.masked_gradients():
        found = pl.jit(pl.grad(function, (0, 1)))(image, kernel)
    for a, b in zip(found, pl.jit(pl.jacfwd(function, (0, 1)))(image, kernel), strict=True):
        assert np.all(np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_convolutions_of_complex_numbers() -> None:
    image, kernel, _ = CONVOLUTIONS["places"]
    image = np.where(np.isfinite(image), image, np.inf + 0j)

    def function(kernel: Any) -> Any:
        y = pl.lax.conv_general_dilated(image, kernel, (1, 1), "SAME")
        return jnp.sum(jnp.real(jnp.where(jnp.isfinite(y), y, 0)))

    with pl.masked_gradients():
        found = pl.jit(pl.grad(function))(kernel.astype(np.complex64))
    of_real = pl.jacfwd(lambda k: function(k.astype(np.complex64)))(kernel)
    np.testing.assert_allclose(found.real, of_real, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("check_vma", [True, False])
def test_masks_in_shard_map(check_vma: bool) -> None:
    mesh = pl.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    x = np.float32([0, 1, 4, 9])

    def per_device(x: Any, w: Any) -> Any:
        roots = pl.lax.psum(jnp.where(x > 0, jnp.sqrt(x), 0), "i")
        return jnp.where(x > 0, jnp.log(x) * roots * w, 0)

    sharded = pl.shard_map(
        per_device, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"), check_vma=check_vma
    )
    whole = lambda x, w: jnp.where(
        x > 0, jnp.log(x) * jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0)) * w, 0
    )
    expected = pl.jacfwd(lambda x, w: whole(x, 1 / w).sum(), (0, 1))(x, 2.0)
    with pl.masked_gradients():
        for gradient in (pl.grad, lambda f, n: pl.jit(pl.grad(f, n))):
            found = gradient(lambda x, w: sharded(x, 1 / w).sum(), (0, 1))(x, 2.0)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5)


def test_masks_are_laid_out_as_their_values() -> None:
    mesh = pl.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,))
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    function = lambda x, w: jnp.sum(jnp.where(x > 3, jnp.log(x) @ w, 0))
    w = np.ones((4, 4), np.float32)
    expected = pl.jacfwd(function, (0, 1))(x, w)
    with pl.set_mesh(mesh), pl.masked_gradients():
        laid_out = pl.device_put(x, NamedSharding(mesh, P("i", None)))
        by_x, by_w = pl.jit(pl.grad(function, (0, 1)))(laid_out, w)
        assert pl.typeof(by_x).sharding.spec == P("i", None)
    np.testing.assert_allclose(by_x, expected[0], rtol=1e-5)
    assert not np.any(np.isfinite(expected[1][0])) or np.all(np.isfinite(by_w))


def test_references() -> None:
    def function(x: Any) -> Any:
        total = pl.new_ref(jnp.zeros(3))

        def step(i: Any, _: Any) -> None:
            total[...] += jnp.where(x > 0, jnp.log(x), 0) * i

        pl.lax.fori_loop(0, 3, step, None)
        return jnp.sum(total[...])

    with pl.masked_gradients():
        np.testing.assert_allclose(pl.grad(function)(X), [0, 3, 0.75])


@pl.custom_jvp
def halved(x: Any) -> Any:
    return x / 2


halved.defjvps(lambda t, y, x: 0.5 * t)
doubled = pl.custom_batching.custom_vmap(lambda x: x + x)
doubled.def_vmap(lambda size, is_batch, x: (2 * x, is_batch[0]))


@pytest.mark.parametrize("call", [halved, pl.jit(halved), doubled, pl.checkpoint(doubled)])
def test_functions_with_rules_of_their_own_keep_masks_of_cotangents(call: Any) -> None:
    """A backward function calls them."""
    f = pl.custom_vjp(jnp.log)
    f.defvjp(lambda x: (jnp.log(x), x), lambda x, ct: (call(ct / x),))
    factor = call(1.0)
    function = lambda x: jnp.sum(jnp.where(x > 1, f(1 / x), 0))
    x = np.float32([0, 0.5, 2, 4])
    with pl.masked_gradients():
        for gradient in (pl.grad(function), pl.jit(pl.grad(function))):
            np.testing.assert_array_equal(gradient(x), factor * np.float32([0, 0, -0.5, -0.25]))


def test_linear_calls_are_dead_where_their_cotangent_is() -> None:
    quotient = functools.partial(
        pl.custom_derivatives.linear_call, lambda r, x: x / r, lambda r, ct: ct / r
    )
    with pl.masked_gradients():
        function = lambda x: jnp.sum(jnp.where(x > 0, quotient(X, jnp.log(x)), 0))
        np.testing.assert_allclose(pl.grad(function)(X), [0, 1, 1 / 16])


def test_linear_calls_are_dead_where_all_of_their_cotangent_is() -> None:
    scaled = functools.partial(
        pl.custom_derivatives.linear_call, lambda r, x: x / r, lambda r, ct: ct / r
    )
    with pl.masked_gradients():
        dead = pl.grad(lambda x: jnp.where(False, scaled(0.0, x), x))(1.0)
        alive = pl.grad(lambda x: jnp.where(True, scaled(2.0, x), x))(1.0)
    assert (dead, alive) == (1, 0.5)


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w: x @ w,
        lambda x, w: w @ x,
        lambda x, w: x @ w[0],
        lambda x, w: jnp.einsum("i,ij->", x, w),
    ],
    ids=["vector and matrix", "matrix and vector", "inner", "double sum"],
)
def test_a_condition_for_all_of_a_product_leaves_out_its_factors(product) -> None:
    """As a loop over padded steps has it, whose rows are vectors."""
    steps = jnp.array([[1.0, 2.0, 3.0], [jnp.nan, jnp.inf, 1.0]])
    chosen, w = jnp.array([True, False]), jnp.eye(3)

    def total(w):
        def step(carry, each):
            x, is_chosen = each
            return carry + jnp.where(is_chosen, product(x, w), 0).sum(), None

        return pl.lax.scan(step, 0.0, (steps, chosen))[0]

    expected = pl.jacfwd(total)(w)
    assert jnp.isfinite(expected).all()
    with pl.masked_gradients():
        np.testing.assert_allclose(pl.grad(total)(w), expected, rtol=1e-5)
        np.testing.assert_allclose(pl.jit(pl.grad(total))(w), expected, rtol=1e-5)
