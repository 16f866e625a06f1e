"""Dtypes whose tangents have another dtype: `primal_tangent_dtype`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.base.errors import DtypeError
from pellucid._machine.ir.avals import ShapedArray
from pellucid.extend.dtypes import ExtendedDType
from pellucid.lax import convert_element_type, full


class primal_tangent(dtypes.extended):
    """Scalar type above those of all dtypes of `primal_tangent_dtype`; a category for `issubdtype`."""


class _Rules:
    """Rules of dtypes that are stored as their `primal_dtype`."""

    @staticmethod
    def physical_element_aval(dtype: PrimalTangentDType) -> ShapedArray:
        return ShapedArray((), dtype.primal_dtype)

    @staticmethod
    def convert_from(dtype: PrimalTangentDType, other: Any) -> bool:
        return other == dtype.primal_dtype

    @staticmethod
    def convert_to(other: Any, dtype: PrimalTangentDType) -> bool:
        return other == dtype.primal_dtype

    @staticmethod
    def tangent_dtype(dtype: PrimalTangentDType) -> Any:
        return dtype.stored_tangent_dtype

    @staticmethod
    def full(shape: tuple[int, ...], fill_value: Any, dtype: PrimalTangentDType) -> Any:
        return convert_element_type(full(shape, fill_value, dtype.primal_dtype), dtype)  # pyright: ignore[reportArgumentType]  # it counts as an extended dtype


@dataclass(frozen=True, repr=False)
class PrimalTangentDType(ExtendedDType):
    """A dtype that is stored as `primal_dtype`, and whose tangents have `stored_tangent_dtype`."""

    primal_dtype: Any
    stored_tangent_dtype: Any
    name: str
    type = primal_tangent
    _rules = _Rules


@functools.cache
def _dtype(primal: Any, tangent: Any, name: str | None) -> PrimalTangentDType:
    shown = f"{dtypes.short_name(primal)}/{dtypes.short_name(tangent)}"
    return PrimalTangentDType(primal, tangent, name or f"PrimalTangentDType{{{shown}}}")


def primal_tangent_dtype(
    primal_dtype: Any, tangent_dtype: Any, name: str | None = None
) -> PrimalTangentDType:
    """A dtype whose values are stored as `primal_dtype`, and whose tangents have the dtype `tangent_dtype`.

    Only values of `primal_dtype` are converted to it, and its values only to `primal_dtype`: functions with derivatives
    of their own, which say what a tangent means, take and give such arrays. `name` is shown for it.

    Raises: DtypeError for a `tangent_dtype` that is neither floating nor complex.

    >>> dtype = primal_tangent_dtype("int8", "float32", name="code")
    >>> codes = pl.lax.convert_element_type(np.arange(3, dtype=np.int8), dtype)
    >>> pl.typeof(codes), pl.typeof(codes).to_tangent_aval()
    (ShapedArray(code[3]), ShapedArray(float32[3]))
    """
    tangent = np.dtype(tangent_dtype)
    if not dtypes.is_inexact(tangent):
        raise DtypeError(
            "primal_tangent_dtype needs a dtype of tangents that is floating or complex.",
            got=f"tangent_dtype: {tangent}",
        )
    return _dtype(np.dtype(primal_dtype), tangent, name)
