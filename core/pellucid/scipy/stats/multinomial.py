"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArrayLike, DtypeError
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of
from pellucid.scipy.special import gammaln, xlogy
from pellucid.scipy.special.real_functions import promoted_reals


@numpy_function
def logpmf(x: Any, n: Any, p: Any) -> Array:
    """Logarithm of the probability of counts `x` [..., k] of `n` draws with probabilities `p` [..., k].

    -inf unless the counts are at least 0 and their sum is `n`; NaN for negative probabilities.

    The result has the broadcast shape [...], and a floating-point dtype.
    Raises: DtypeError for `x` and `n` of another than an integer dtype and complex `p`, ShapeError for shapes that do not fit, ArgumentTypeError for lists and
    strings.

    >>> print(f"{logpmf(np.array([1, 2]), 3, np.array([0.5, 0.5])):.4f}")
    -0.9808
    """
    kinds = [
        aval_of("scipy.stats.multinomial.logpmf", a, i).dtype.kind for i, a in enumerate((x, n))
    ]
    if not {*kinds} <= {*"biu"}:
        raise DtypeError(
            "scipy.stats.multinomial needs whole numbers.",
            got=f"x: {type_of(x).text()}, n: {type_of(n).text()}",
            do="Convert with `.astype(int)`.",
        )
    [p] = promoted_reals("multinomial.logpmf", p)
    x, p = jnp.broadcast_arrays(jnp.asarray(x, type_of(p).dtype), p)
    value = gammaln(jnp.asarray(n, x.dtype) + 1) + jnp.sum(xlogy(x, p) - gammaln(x + 1), -1)
    fits = (jnp.sum(x, -1) == n) & jnp.all(x >= 0, -1)
    return jnp.where(jnp.any(p < 0, -1), np.nan, jnp.where(fits, value, -np.inf))


@numpy_function
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Probability of counts `x` [..., k] of `n` draws with probabilities `p` [..., k]; see `logpmf`.

    The result has the broadcast shape [...], and a floating-point dtype.
    Raises: as `logpmf`.

    >>> print(f"{pmf(np.array([1, 2]), 3, np.array([0.5, 0.5])):.4f}")
    0.3750
    """
    return jnp.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]
