"""Compiled programs round as eager operations do: differences from a maximum, and all products if the option says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compilation import usual_options

import pellucid as pl
from pellucid import lax, nn, numpy as jnp
from pellucid._machine.compilation import pipeline
from pellucid._machine.lowering import faults
from pellucid.sharding import NamedSharding, PartitionSpec as P


def _shares(e):
    return e / e.sum(-1, keepdims=True)


def _shifted_softmax(x):
    return _shares(jnp.exp(x - x.max(-1, keepdims=True)))


def _stopped(x):
    return _shares(jnp.exp(x - lax.stop_gradient(x.max(-1, keepdims=True))))


def _of_least(x):
    return _shares(jnp.exp(x.min(-1, keepdims=True) - x))


def _by_argmax(x):
    chosen = jnp.take_along_axis(x, jnp.argmax(x, -1, keepdims=True), -1)
    return _shares(jnp.exp(x - chosen))


def _by_nested(x):
    return pl.jit(lambda x: jnp.exp(x - x.max()) / jnp.exp(x - x.max()).sum())(x)


SHIFTED: dict[str, Callable[[Any], Any]] = {
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "logsumexp": lambda x: nn.logsumexp(x, axis=-1),
    "own": _shifted_softmax,
    "stopped": _stopped,
    "of the least": _of_least,
    "masked": lambda x: nn.softmax(x, where=np.arange(48) % 3 > 0),
    "along the first": lambda x: nn.softmax(x.T, axis=0),
    "mapped": pl.vmap(lambda x: jnp.exp(x - x.max())),
    "sorted": lambda x: jnp.exp(x - jnp.sort(x, -1)[:, -1:]).sum(-1),
    "greatest": lambda x: jnp.exp(x - lax.top_k(x, 1)[0]).sum(-1),
    "by argmax": _by_argmax,
    "cumulative": lambda x: jnp.exp(x - lax.cummax(x, axis=1)),
    "nested": _by_nested,
    "gradient": pl.grad(lambda x: (nn.log_softmax(x)[:, 0] / 1e6).sum()),
}
SCALES = [26.8, 1e10, 3.3e11]


def _not_finite_in_jit(function: Callable[[Any], Any], scale: float, dtype: Any) -> int:
    x = np.random.default_rng(0).standard_normal((6, 48)).astype(dtype)

    def scaled(x):
        return function(x * dtype(scale))

    with pl.enable_x64(dtype is np.float64):
        eager, compiled = np.asarray(scaled(jnp.asarray(x))), np.asarray(pl.jit(scaled)(x))
    assert eager.shape == compiled.shape
    return int((np.isfinite(eager) & ~np.isfinite(compiled)).sum())


@pytest.mark.parametrize("name", SHIFTED)
def test_a_shift_by_the_greatest_is_zero_where_it_is(name: str) -> None:
    for scale in SCALES:
        assert not _not_finite_in_jit(SHIFTED[name], scale, np.float32)


def test_a_shift_in_double_precision_is_zero_where_it_is() -> None:
    for scale in (1e3, 1e19, 3.3e20):
        assert not _not_finite_in_jit(nn.softmax, scale, np.float64)


@pytest.mark.skipif(pl.default_backend() != "cpu", reason="a fault of XLA for CPUs")
def test_a_shift_is_wrong_without_the_workaround() -> None:
    with faults.without_workaround("contracted-shift"):
        assert any(_not_finite_in_jit(_shifted_softmax, scale, np.float32) for scale in SCALES)


def test_a_shift_keeps_what_is_not_finite_and_the_sign_of_zero() -> None:
    inf, nan = np.inf, np.nan
    rows = np.array(
        [[inf, 1, 2], [-inf, -inf, -inf], [nan, 1, 2], [-0.0, 0.0, -1.0], [-inf, 0, 1]], np.float32
    )

    def shifted(x):
        return x - x.max(-1, keepdims=True)

    with np.errstate(invalid="ignore"):
        expected = rows - rows.max(-1, keepdims=True)
    found = np.asarray(pl.jit(shifted)(rows))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[3]), np.signbit(expected[3]))


def test_a_shift_is_zero_on_several_devices() -> None:
    mesh = pl.make_mesh((4,), ("a",), devices=pl.devices()[:4])
    x = (np.random.default_rng(0).standard_normal((8, 48))).astype(np.float32)
    for spec in (P("a"), P(None, "a")):
        placed = pl.device_put(x, NamedSharding(mesh, spec))
        compiled = pl.jit(lambda x: nn.softmax(x * np.float32(3.3e11)))(placed)
        assert np.isfinite(compiled).all()


@pytest.mark.parametrize(
    ("function", "is_shift"),
    [
        (lambda x: x - x.max(), True),
        (lambda x: x.max() - x, True),
        (lambda x: x[:, None] - x.max(), True),
        (lambda x: x - jnp.maximum(x, 1), True),
        (lambda x: x - x.sum(), False),
        (lambda x: x - (2 * x).max(), False),
        (lambda x: x[1:] - x[:-1], False),
    ],
)  # fmt: skip
def test_only_differences_from_an_extreme_of_the_same_elements_are_shifts(
    function: Any, is_shift: bool
) -> None:
    platform = pl.default_backend()
    text = pl.jit(function).lower(np.ones(5, np.float32)).as_text()
    assert ("bitcast_convert" in text) == (is_shift and platform == "cpu")


# The option `exact_arithmetic` ------------------------------------------------------------------------


ROUNDED: dict[str, Callable[..., Any]] = {
    "product and sum": lambda x, y: x * y + y,
    "square and difference": lambda x, y: x**2 - y * y,
    "cube": lambda x, y: x**3 + y**-3,
    "by a constant": lambda x, y: x / 7 - y * 0.3,
    "by a root": lambda x, y: x / jnp.sqrt(y),
    "by an exponential": lambda x, y: x / jnp.exp(y),
    "quotients": lambda x, y: x / y / 3 + x / (y / x),
    "constants": lambda x, y: (x + 0.3) + 0.7 + (y * 0.3) * 0.7,
    "exponentials": lambda x, y: jnp.exp(x) * jnp.exp(y) + jnp.log(jnp.exp(x)),
    "sum of a repeated value": lambda x, y: jnp.broadcast_to(x[:1], (7,)).sum() * y,
    "two products": lambda x, y: 1.7 * x + 0.3 * x,
    "nested": lambda x, y: pl.jit(lambda x, y: x * y)(x, y) - y * 0.3,
    "scan": lambda x, y: lax.scan(lambda c, a: (c * 0.3 + a, c * a - a), x[0], y)[1],
    "mapped": pl.vmap(lambda x, y: x * y - x / 3),
    "gradient": pl.grad(lambda x, y: (jnp.tanh(x * y) * x / 3).sum()),
    "softmax": lambda x, y: nn.softmax(x * 1.7) + nn.logsumexp(y * 0.3),
}


def _differing(found: Any, expected: Any) -> int:
    found, expected = np.asarray(found), np.asarray(expected)
    return int(np.sum(~((found == expected) | (np.isnan(found) & np.isnan(expected)))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, jnp.bfloat16])
@pytest.mark.parametrize("name", ROUNDED)
def test_exact_programs_round_as_eager_operations(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "compile_options", usual_options)
    rng = np.random.default_rng(0)
    function = ROUNDED[name]
    with pl.enable_x64(dtype is np.float64), pl.exact_arithmetic():
        x, y = (jnp.asarray(abs(rng.standard_normal(96)) + 0.1, dtype) for _ in range(2))
        assert not _differing(pl.jit(lambda x, y: function(x, y))(x, y), function(x, y))


def test_products_are_contracted_without_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "compile_options", usual_options)
    x = np.linspace(0.1, 3, 96, dtype=np.float32)
    product = lambda x: x / 7 - x * 0.3
    assert _differing(pl.jit(product)(x), product(jnp.asarray(x)))


def test_exact_programs_of_several_devices_round_as_eager_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "compile_options", usual_options)
    mesh = pl.make_mesh((4,), ("a",), devices=pl.devices()[:4])
    x = np.linspace(0.1, 3, 96, dtype=np.float32).reshape(8, 12)
    placed = pl.device_put(x, NamedSharding(mesh, P("a")))
    mapped = pl.shard_map(lambda x: x / 7 - x * 0.3, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
    for function in (lambda x: x / 7 - x * 0.3, mapped):
        with pl.exact_arithmetic():
            found = pl.jit(lambda x, f=function: f(x))(placed)
            assert not _differing(found, jnp.asarray(x) / 7 - jnp.asarray(x) * 0.3)


def test_exact_arithmetic_is_decided_where_a_program_is_traced() -> None:
    jitted = pl.jit(lambda x: x * x - 1)
    x = np.ones(3, np.float32)
    with pl.exact_arithmetic():
        traced = jitted.trace(x)
    assert "compare" in traced.lower().as_text()
    assert "compare" not in jitted.lower(x).as_text()
    assert "compare" not in jitted.trace(x.astype(np.int32)).lower().as_text()


def test_exact_programs_keep_infinities_and_nan() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38], np.float32)
    with pl.exact_arithmetic(), np.errstate(all="ignore"):
        for function in (lambda x: x * x, lambda x: x * 0, lambda x: x / x, lambda x: x - x * 2):
            np.testing.assert_array_equal(pl.jit(function)(x), function(x))
