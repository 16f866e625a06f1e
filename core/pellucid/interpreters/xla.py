"""Evaluation of primitives under the names of `jax.interpreters.xla`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.base.typing import Function
from pellucid._machine.compilation.eager import primitive_callable
from pellucid._machine.ir.primitive import Primitive, params_of
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.xla.client import Client as Backend


def apply_primitive(prim: Primitive[Any], *args: Any, **params: Any) -> Any:
    """The result of `prim`, or a list of them, by a program of its lowering, compiled once for each type of operands.

    It is an implementation for `def_impl`: `p.def_impl(functools.partial(apply_primitive, p))`.

    >>> apply_primitive(pl.lax.neg_p, np.float32(1))
    Array(-1., dtype=float32)
    """
    results = primitive_callable(prim, params_of(prim, params))(*args)
    return list(results) if prim.multiple_results else results[0]


canonicalize_dtype_handlers: dict[type, Function] = {
    kind: lambda x, canonicalize_scalar_dtypes=True: np.asarray(x, type_of(x).dtype)
    for kind in (np.ndarray, np.generic, bool, int, float, complex)
}
"""For types of values that are taken as arrays: the function that gives the array.

Libraries may register types of their own; values of these are refused as operands all the same, until they have a method
`__jax_array__`.
"""

__all__ = ["Backend", "apply_primitive", "canonicalize_dtype_handlers"]
