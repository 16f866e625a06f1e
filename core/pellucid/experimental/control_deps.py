"""Orders of operations that the compiler must keep, under the names of `jax.experimental.control_deps`.

They are calls of XLA's target `control_dep`: a pass of XLA turns them into control dependencies of its schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pellucid.ffi.call import ffi_call


def control_dep(src: Any, dst: Any) -> Any:
    """State that the operation that computes `src` runs before that of `dst`.

    >>> def f(x, y):
    ...     control_dep(x + 1, y + 1)
    >>> [eqn.primitive.name for eqn in pl.make_jaxpr(f)(1.0, 2.0).eqns]
    ['add', 'add', 'ffi_call']
    """
    return ffi_call("control_dep", (), has_side_effect=True)(src, dst)


def schedule(ops: Sequence[Any]) -> None:
    """State that the operations that compute `ops` come in this order.

    >>> len(pl.make_jaxpr(lambda x, y, z: schedule([x, y, z]))(1.0, 2.0, 3.0).eqns)
    2
    """
    for src, dst in pairwise(ops):
        control_dep(src, dst)


__all__ = ["control_dep", "schedule"]
