"""Rows of an array as blocks of kernels: one row for a program, of a size that Triton has."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid.kernels.inside import next_power_of_2
from pellucid.kernels.specs import BlockSpec


def as_rows(x: Any) -> Any:
    """`x` as a matrix whose rows are its last axis."""
    return x.reshape((x.size // max(x.shape[-1], 1), x.shape[-1]))


def row(size: int) -> BlockSpec:
    """The block of one row, of the next power of two: elements behind `size` are undefined, and dropped when written."""
    return BlockSpec((None, next_power_of_2(size)), lambda i: (i, 0))


def element() -> BlockSpec:
    """The block of one number for each row, in a column."""
    return BlockSpec((None, 1), lambda i: (i, 0))


def vector(size: int) -> BlockSpec:
    """The block that is the same for all rows."""
    return BlockSpec((next_power_of_2(size),), lambda i: (0,))


def inside(x: Any, size: int, other: Any) -> Any:
    """A row, or a block of rows, with `other` in place of what is undefined behind `size`."""
    width = x.shape[-1]
    if width == size:
        return x
    positions = jnp.arange(width, dtype=np.int32)
    return jnp.where(jnp.broadcast_to(positions < size, x.shape), x, other)
