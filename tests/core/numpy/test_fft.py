"""`jnp.fft` gives what NumPy gives, refuses what has no meaning, and is differentiable."""

from __future__ import annotations

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid.numpy import fft

RNG = np.random.default_rng(0)
REAL = ("rfft", "rfft2", "rfftn", "ihfft")
ONE_AXIS = ({}, {"n": 5}, {"n": 9, "axis": 0}, {"axis": 1})
SEVERAL_AXES = ({}, {"axes": (0, 2)}, {"s": (5, 3), "axes": (1, 0)})
TRANSFORMS = [
    (name, arguments)
    for name in fft.__all__
    if not name.endswith(("freq", "shift"))
    for arguments in (SEVERAL_AXES if name[-1] in "2n" else ONE_AXIS)
]


def signal(name, *shape):
    x = RNG.normal(size=shape)
    return x if name in REAL else x + 1j * RNG.normal(size=shape)


def single(x):
    return x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize(("name", "arguments"), TRANSFORMS, ids=str)
def test_transforms(name, arguments, norm) -> None:
    x = signal(name, 3, 4, 6)
    ours = getattr(fft, name)(single(x), norm=norm, **arguments)
    expected = getattr(np.fft, name)(x, norm=norm, **arguments)
    assert ours.dtype == single(expected).dtype
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_more_axes_than_the_compiler_takes_at_once(name) -> None:
    x = signal(name, 2, 3, 2, 3, 4)
    np.testing.assert_allclose(
        getattr(fft, name)(single(x)), getattr(np.fft, name)(x), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("axes", [None, 0, (0, 2)])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name, axes) -> None:
    x = RNG.normal(size=(3, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(getattr(fft, name)(x, axes), getattr(np.fft, name)(x, axes))


@pytest.mark.parametrize("n", [1, 4, 5])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name, n) -> None:
    np.testing.assert_allclose(getattr(fft, name)(n, 0.5), getattr(np.fft, name)(n, 0.5), rtol=1e-6)


def test_derivative_is_the_transform_of_the_tangent() -> None:
    x = RNG.normal(size=8).astype(np.float32)
    t = RNG.normal(size=8).astype(np.float32)
    _, tangent = pl.jvp(fft.rfft, (x,), (t,))
    np.testing.assert_allclose(tangent, np.fft.rfft(t), rtol=1e-4, atol=1e-4)
    gradient = pl.grad(lambda v: abs(fft.rfft(v)[2]) ** 2)(x)
    steps = np.eye(8) * 1e-4
    power = lambda v: abs(np.fft.rfft(v)[2]) ** 2
    numeric = [(power(x + s) - power(x - s)) / 2e-4 for s in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "fragments"),
    [
        (
            lambda: fft.rfft(np.ones(3, np.complex64)),
            ArgumentValueError,
            ["jnp.fft.rfft", "c64[3]", "jnp.fft.fft"],
        ),
        (lambda: fft.fft(np.ones(3), norm="both"), ArgumentValueError, ["'both'", "ortho"]),
        (lambda: fft.fft(np.ones(3), 0), ArgumentValueError, ["at least one element", "(0,)"]),
        (lambda: fft.fft(np.ones(3), 2.5), ArgumentTypeError, ["jnp.fft.fft", "2.5"]),
        (
            lambda: fft.fft(np.ones(3), axis=(0, 1)),
            ArgumentValueError,
            ["a single axis", "jnp.fft.fftn"],
        ),
        (
            lambda: fft.fftn(np.ones((3, 3)), (2,), (0, 1)),
            ArgumentValueError,
            ["1 lengths, 2 axes"],
        ),
        (
            lambda: fft.fft2(np.ones((3, 3)), axes=(0,)),
            ArgumentValueError,
            ["jnp.fft.fft2", "two axes"],
        ),
    ],
)
def test_messages(call, error, fragments) -> None:
    check_message(call, error, *fragments)


def test_derivatives_divide_no_complex_numbers():
    weights = np.exp(1j * np.arange(5)).astype(np.complex64)
    loss = lambda x: (fft.rfft(x) * weights).real.sum()
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    assert "divide" not in pl.jit(pl.grad(loss)).lower(x).as_text()
    step = np.array([1e-2 if i == 3 else 0 for i in range(8)], np.float32)
    expected = (loss(x + step) - loss(x - step)) / 2e-2
    np.testing.assert_allclose(pl.grad(loss)(x)[3], expected, rtol=1e-3)
