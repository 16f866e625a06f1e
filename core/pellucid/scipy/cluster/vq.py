"""`pellucid.scipy.cluster.vq`: vector quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import ArrayLike, ShapeError, public_functions
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """(index of the nearest code [m], distance to it [m]) for each observation `obs` [m, n], codes being [k, n].

    Vectors [m] and [k] are observations of one number. `check_finite` has no effect.
    Raises: ShapeError for shapes that don't fit, and for no codes.

    >>> from pellucid.scipy.cluster.vq import vq
    >>> vq(jnp.array([[1.0, 2.0], [9.0, 9.0]]), jnp.array([[0.0, 2.0], [9.0, 7.0]]))
    (Array([0, 1], dtype=int32), Array([1., 2.], dtype=float32))
    """
    avals = [aval_of("scipy.cluster.vq.vq", x, i) for i, x in enumerate((obs, code_book))]
    first, second = avals
    if first.ndim not in (1, 2) or first.shape[1:] != second.shape[1:] or not second.shape[:1] > (0,):  # fmt: skip
        raise ShapeError(
            "scipy.cluster.vq.vq needs observations [m, n] and codes [k, n], or vectors [m] and [k].",
            got=[f"obs: {first.text()}", f"code_book: {second.text()}"],
        )
    codes, distances = _nearest(obs, code_book)
    return codes, distances


@numpy_function
def _nearest(obs: Any, code_book: Any) -> tuple[Array, Array]:
    obs, code_book = promote_dtypes_inexact("scipy.cluster.vq.vq", obs, code_book)
    if type_of(obs).ndim == 1:
        obs, code_book = obs[:, None], code_book[:, None]
    distances = jnp.linalg.norm(obs[:, None] - code_book, axis=-1)
    return jnp.argmin(distances, axis=1).astype(np.int32), jnp.min(distances, axis=1)


__all__ = ["vq"]

public_functions(__all__, globals())
