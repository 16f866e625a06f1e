"""Convolutions of sparse vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import lax, numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import eval_shape
from pellucid.experimental.sparse.base import JAXSparse
from pellucid.experimental.sparse.coordinates import BCOO, bcoo_fromdense, checked_layout
from pellucid.experimental.sparse.indices import in_bounds, pad_rows, zero_dropped_elements
from pellucid.experimental.sparse.layouts import bcoo_update_layout
from pellucid.experimental.sparse.movement import bcoo_reshape


def _vector(mat: Any, n: int) -> BCOO:
    """A BCOO array of shape [1, 1, n] as a vector of elements."""
    mat = mat if isinstance(mat, BCOO) else bcoo_fromdense(mat, nse=n)
    checked_layout(mat, "bcoo_conv_general_dilated")
    return bcoo_reshape(bcoo_update_layout(mat, n_batch=0, n_dense=0), new_sizes=(n,))


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """The convolution of two arrays [1, 1, n] of which one is or both are BCOO, as `lax.conv_general_dilated` gives it.

    Raises: UnsupportedError for strides, dilations, groups, several channels or dimensions, and other orders of them.

    >>> x = BCOO.fromdense(jnp.array([[[1.0, 0.0, 2.0]]]))
    >>> y = jnp.array([[[1.0, 3.0]]])
    >>> bcoo_conv_general_dilated(x, y, window_strides=(1,), padding="VALID").todense()
    Array([[[1., 6.]]], dtype=float32)
    """
    name = "bcoo_conv_general_dilated"
    got = f"lhs: {lhs!r}, rhs: {rhs!r}"
    lhs, rhs = (x if isinstance(x, JAXSparse) else jnp.asarray(x) for x in (lhs, rhs))
    if lhs.ndim != 3 or lhs.shape[:2] != (1, 1) or rhs.ndim != 3 or rhs.shape[:2] != (1, 1):
        raise UnsupportedError(f"{name} needs arrays of shape (1, 1, n).", got=got)
    for what, values in (
        ("window_strides", window_strides),
        ("lhs_dilation", lhs_dilation or ()),
        ("rhs_dilation", rhs_dilation or ()),
        ("groups", (feature_group_count, batch_group_count)),
    ):
        if any(n != 1 for n in values):
            raise UnsupportedError(
                f"{name}: {what} other than 1 are not implemented.", got=f"{values}"
            )
    if out_sharding is not None:
        raise UnsupportedError(f"{name} takes no out_sharding.", got=f"{out_sharding}")
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    if any(tuple(spec) != (0, 1, 2) for spec in (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec)):  # fmt: skip
        raise UnsupportedError(f"{name}: other orders of dimensions are not implemented.", got=f"{dimension_numbers}")  # fmt: skip
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(lhs.shape[2:], rhs.shape[2:], window_strides, padding)
    [(low, _)] = padding
    result_type = eval_shape(
        lambda x, y: lax.conv_general_dilated(x, y, (1,), padding, preferred_element_type=preferred_element_type),
        *(ShapeDtypeStruct(x.shape, x.dtype) for x in (lhs, rhs)),
    )  # fmt: skip
    n = result_type.shape[2]
    x, y = _vector(lhs, lhs.shape[2]), _vector(rhs, rhs.shape[2])
    dtype = preferred_element_type or jnp.result_type(x.dtype, y.dtype)
    data = (x.data.astype(dtype)[:, None] * y.data.astype(dtype)[None]).reshape(-1)
    places = x.indices[:, None] - y.indices[None] + low
    exists = in_bounds(x.indices, x.shape)[:, None] & in_bounds(y.indices, y.shape)[None]
    keep = exists.reshape(-1) & in_bounds(places.reshape(-1, 1), (n,))
    indices = pad_rows(places.reshape(-1, 1), keep, (n,))
    result = BCOO((zero_dropped_elements(data, keep), indices), shape=(n,))
    return bcoo_reshape(result, new_sizes=result_type.shape)


__all__ = ["bcoo_conv_general_dilated"]

public_functions(__all__, globals())
