"""Numbers as integers of 8 bits with a factor for each row: its largest magnitude, which becomes 127.5."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import dtypes

_BFLOAT16 = dtypes.canonicalize("bfloat16")
MAX_INT8 = 127.5
"""What the largest magnitude of a row becomes, before it is rounded."""


class QuantizedTensor(NamedTuple):
    """Integers of 8 bits, and the largest magnitude of each row, whose last axis has one element."""

    weight: Any
    scales: Any


def to_int8(x: Any, h: Any) -> Any:
    """`x * 127.5 / h`, rounded to the nearest integer and clipped to -128 and 127.

    >>> to_int8(jnp.array([-2.0, 0.5, 2.0]), 2.0)
    Array([-128,   32,  127], dtype=int8)
    """
    return jnp.clip(jnp.rint(jnp.asarray(x) * (MAX_INT8 / h)), -128, 127).astype(np.int8)


def from_int8(x: Any, h: Any, dtype: Any = _BFLOAT16) -> Any:
    """`x * h / 127.5`.

    >>> from_int8(jnp.array([51], np.int8), 5.0, np.float32).round(3)
    Array([2.], dtype=float32)
    """
    return jnp.asarray(x).astype(dtype) * jnp.asarray(jnp.asarray(h) / MAX_INT8).astype(dtype)


def get_quantization_scales(x: Any) -> Any:
    """The largest magnitude along the last axis, which stays with one element.

    >>> get_quantization_scales(jnp.array([[1.0, -3.0]]))
    Array([[3.]], dtype=float32)
    """
    return jnp.abs(jnp.asarray(x)).max(axis=-1, keepdims=True)


def quantize_to_int8(x: Any) -> QuantizedTensor:
    """`x` as integers with a factor for each row; rows of zeros stay zeros.

    >>> quantize_to_int8(jnp.array([[2.0, -2.0]])).weight
    Array([[ 127, -128]], dtype=int8)
    """
    scales = get_quantization_scales(x)
    return QuantizedTensor(to_int8(x, jnp.where(scales == 0, 1, scales)), scales)


def unquantize_from_int8(x: QuantizedTensor, dtype: Any = np.float32) -> Any:
    """The numbers that integers with factors stand for.

    >>> unquantize_from_int8(QuantizedTensor(jnp.array([[51]], np.int8), jnp.array([[5.0]]))).round(3)
    Array([[2.]], dtype=float32)
    """
    return from_int8(x.weight, x.scales, dtypes.check_user_dtype(dtype, "unquantize_from_int8"))


__all__ = [
    "MAX_INT8", "QuantizedTensor", "from_int8", "get_quantization_scales", "quantize_to_int8", "to_int8", "unquantize_from_int8",
]  # fmt: skip
