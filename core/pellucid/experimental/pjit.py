"""The older form of `jit` under the names of `jax.experimental.pjit`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid._machine.base import is_none, tree_map
from pellucid._machine.higher_order.jit_shardings import WHOLE_OVER_ENTERED_MESH
from pellucid._machine.higher_order.jitted import jit

UNSPECIFIED = object()
"""Sentinel for shardings that the caller doesn't specify."""


def pjit(
    fun: Callable[..., Any],
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, Any] | None = None,
) -> Any:
    """`pellucid.jit` that takes shardings by position, too, and for which None is `P()` within `with mesh:`.

    >>> from pellucid import NamedSharding, P, make_mesh
    >>> whole = NamedSharding(make_mesh((1,), ("x",)), P())
    >>> pjit(lambda x: 2 * x, whole, whole)(np.arange(2))
    Array([0, 2], dtype=int32)
    """
    return jit(
        fun, in_shardings=_jit_shardings(in_shardings), out_shardings=_jit_shardings(out_shardings), static_argnums=static_argnums,
        static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
        keep_unused=keep_unused, device=device, backend=backend, inline=inline, compiler_options=compiler_options,
    )  # fmt: skip


def _jit_shardings(shardings: Any) -> Any:
    if shardings is UNSPECIFIED:
        return None
    if isinstance(shardings, list):
        shardings = tuple(shardings)
    return tree_map(
        lambda x: WHOLE_OVER_ENTERED_MESH if x is None else x, shardings, is_leaf=is_none
    )


__all__ = ["pjit"]
