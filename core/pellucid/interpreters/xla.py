"""Evaluation of primitives under the names of `jax.interpreters.xla`."""

from __future__ import annotations

from typing import Any

from pellucid.compilation.eager import compiled_primitive
from pellucid.ir.primitive import Primitive, params_of


def apply_primitive(prim: Primitive[Any], *args: Any, **params: Any) -> Any:
    """The result of `prim`, or a list of them, by a program of its lowering, compiled once for each type of operands.

    It is an implementation for `def_impl`: `p.def_impl(functools.partial(apply_primitive, p))`.

    >>> apply_primitive(pl.lax.neg_p, np.float32(1))
    Array(-1., dtype=float32)
    """
    results = compiled_primitive(prim, params_of(prim, params))(*args)
    return list(results) if prim.multiple_results else results[0]


__all__ = ["apply_primitive"]
