"""The older name of `jit` under the names of `jax.experimental.pjit`."""

from collections.abc import Callable
from typing import Any

from pellucid.higher_order.jitted import jit


def pjit(
    fun: Callable[..., Any], in_shardings: Any = None, out_shardings: Any = None, **options: Any
) -> Any:
    """`jit`, which takes both placements by position too.

    >>> pjit(lambda x: x + x, None, None)(np.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    return jit(fun, in_shardings=in_shardings, out_shardings=out_shardings, **options)


__all__ = ["pjit"]
