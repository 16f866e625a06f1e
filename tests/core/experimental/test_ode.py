"""Derivatives of solutions of differential equations that are complex."""

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.experimental.ode import odeint

TIMES = np.array([0, 1], np.float32)


def decayed(rate, duration=1.0):
    return odeint(lambda y, t, p: -p * y, jnp.array(1 + 0j), TIMES * duration, rate)[-1]


def test_complex_solutions_are_differentiated_by_their_parameters():
    by_real = pl.grad(lambda p: jnp.abs(decayed(p)) ** 2)(0.5)
    np.testing.assert_allclose(by_real, -2 * np.exp(-1), 1e-4)
    rate = np.complex64(0.5 + 1j)
    by_complex = pl.grad(lambda p: decayed(p).real)(rate)
    np.testing.assert_allclose(by_complex, -np.exp(-rate), 1e-4)


def test_complex_solutions_are_differentiated_by_time():
    rate = np.complex64(0.5 + 1j)
    by_time = pl.grad(lambda s: decayed(rate, s).real)(1.0)
    np.testing.assert_allclose(by_time, (-rate * np.exp(-rate)).real, 1e-4)
