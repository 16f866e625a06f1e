"""Poisson's distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArrayLike
from pellucid._machine.primitives.formulas import Term, log, maximum, select
from pellucid._machine.primitives.incomplete import log_gamma_power as log_power
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.scipy.special.real_functions import promoted_reals

from .distributions import Distribution, gamma_above


def _logpmf(k: Term, mu: Term) -> Term:
    """log(μᵏ e⁻ᵘ / k!), without the cancellation of its parts where both are large."""
    order, mean = maximum(k, k.constant(1)), select(mu == 0, 1.0, mu)
    value = select(k == 0, -mu, log_power(order, mean) - log(order))
    return select((mu == 0) & (k > 0), -np.inf, value)


_DISTRIBUTION = Distribution(
    __name__, "Poisson's distribution with mean `mu`", "mu", optional="loc", support=(0, np.inf), inside=0.0,
    valid=lambda mu: mu >= 0, logpmf=_logpmf,
    cdf=lambda k, mu: select(mu == 0, 1.0, gamma_above(select(mu == 0, 1.0, mu), k + 1)),
)  # fmt: skip

cdf, logpmf, pmf = _DISTRIBUTION.functions("cdf logpmf pmf")

_MAX_SUMMED = 100
"""Largest mean whose entropy is summed over the numbers up to 256, which leave out less than 10⁻³⁰."""


@numpy_function
def entropy(mu: Any, loc: ArrayLike = 0) -> Array:
    """Entropy, in nats, of Poisson's distribution with mean `mu`; `loc` has no effect. NaN for negative `mu`.

    It is summed for means up to 100, beyond an expansion in 1/μ (Evans and Boersma, SIAM Review 30, 1988).

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.

    >>> print(f"{float(entropy(1.0)):.4f}")
    1.3048
    """
    mu, loc = promoted_reals("poisson.entropy", mu, loc)
    mu = jnp.asarray(mu)
    small = jnp.clip(mu, 0, _MAX_SUMMED)[..., None]
    logs = logpmf(np.arange(256), small)
    summed = -jnp.sum(
        jnp.where(logs == -np.inf, 0.0, jnp.exp(logs) * jnp.where(logs == -np.inf, 0.0, logs)), -1
    )
    large = jnp.maximum(mu, _MAX_SUMMED)
    far = (
        0.5 * jnp.log(2 * math.pi * math.e * large)
        - (1 / 12 + (1 / 24 + 19 / 360 / large) / large) / large
    )
    return jnp.where(mu < 0, np.nan, jnp.where(mu > _MAX_SUMMED, far, summed)) + 0 * loc


__all__ = ["cdf", "entropy", "logpmf", "pmf"]
