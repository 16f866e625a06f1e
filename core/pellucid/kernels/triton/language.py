"""What kernels for GPUs name that has a meaning on every device: masked access, additions to references, hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pellucid.numpy as jnp
from pellucid.kernels.inside import load as masked_load, store as masked_store


@dataclass(frozen=True)
class CompilerParams:
    """Options of the compiler of kernels for GPUs: warps of 32 threads of one program, and stages of its loops.

    >>> CompilerParams(num_warps=4)
    CompilerParams(num_warps=4, num_stages=None)
    """

    num_warps: int | None = None
    num_stages: int | None = None


def load(
    ref: Any,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Any:
    """The elements of `ref`, or of a part `ref.at[index]`, where `mask` is True, and `other` elsewhere; the rest are hints.

    >>> from pellucid._machine.refs.access import new_ref
    >>> load(new_ref(np.arange(2)), mask=np.array([True, False]), other=7)
    Array([0, 7], dtype=int32)
    """
    return masked_load(ref, mask=mask, other=other)


def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write `val` to `ref`, or a part `ref.at[index]`, where `mask` holds; the rest is a hint.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> store(ref, np.float32(1), mask=np.array([True, False]))
    >>> ref
    Ref([1., 0.], dtype=float32)
    """
    masked_store(ref, val, mask=mask)


def debug_barrier() -> None:
    """Wait for the threads of this program, of which there is one."""


def approx_tanh(x: Any) -> Any:
    """tanh(x), in full precision.

    >>> approx_tanh(np.float32(0))
    Array(0., dtype=float32)
    """
    return jnp.tanh(x)


def max_contiguous(x: Any, values: Sequence[int] | int) -> Any:
    """`x`, whose neighbours are stated to be consecutive; a hint.

    >>> max_contiguous(8, 4)
    8
    """
    return x
