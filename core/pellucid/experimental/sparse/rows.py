"""Compressed rows: where each row of a matrix begins among its stored elements."""

from __future__ import annotations

from typing import Any

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions


def row_starts(row: Any, n_rows: int) -> Any:
    """Start of each row [n_rows + 1] among elements whose row numbers `row` [nse] are sorted; the last one is their
    end.
    """
    ends = jnp.searchsorted(row, jnp.arange(n_rows + 1, dtype=row.dtype))
    return ends.astype(row.dtype)


def row_numbers(indptr: Any, nse: int) -> Any:
    """The rows [nse] of elements, where rows begin at `indptr`; the number of rows for those after the last."""
    elements = jnp.arange(nse, dtype=indptr.dtype)
    return jnp.searchsorted(indptr[1:], elements, side="right").astype(indptr.dtype)


__all__ = ["row_numbers", "row_starts"]

public_functions(__all__, globals())
