"""Symbolic dimensions as values of a program."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid.base import Size, dtypes
from pellucid.ir import Primitive, Traits, shaped_array
from pellucid.tracing import bind1


class DimAsValueParams(NamedTuple):
    dim: Size


class DimAsValue(Primitive[DimAsValueParams]):
    """The value of a symbolic dimension, computed from the shapes of the program's arguments."""

    name = "dim_as_value"
    traits = Traits(kind="creation", flops=0.0, cheap=True)

    def abstract_eval(self, avals, params):
        dtype = dtypes.canonicalize_dtype(np.int64)
        return [shaped_array((), dtype, weak_type=True)]

    def factors(self, avals, results, params):
        return [], [[]]

    def lower(self, ctx, operands, params):
        return [ctx.convert(ctx.size(params.dim), ctx.avals_out[0])]


dim_as_value_p = DimAsValue()


def dim_as_value(dim: Size) -> Any:
    """The value of a symbolic dimension, an integer scalar of the program that is being traced.

    >>> (b,) = pl.export.symbolic_shape("b")
    >>> pl.make_jaxpr(lambda: dim_as_value(2 * b))().jaxpr
    { lambda ; . let a:i32[] = dim_as_value[dim=2*b]  in (a,) }
    """
    return bind1(dim_as_value_p, params=DimAsValueParams(dim))
