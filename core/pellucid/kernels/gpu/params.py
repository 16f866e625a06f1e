"""What a user chooses about the compilation of a kernel for Hopper GPUs."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError
from pellucid.kernels import specs
from pellucid.kernels.specs import is_parallel

_SEMANTICS = ("parallel", "sequential")


class LoweringSemantics(enum.Enum):
    """For whom operations are lowered: lanes, or whole warpgroups."""

    Lane = 1
    Warpgroup = 2


class TraceScope(enum.Enum):
    """Who records a profile: each warp or each warpgroup."""

    WARP = "warp"
    WARPGROUP = "warpgroup"


class CompilerParams(specs.CompilerParams):
    """Parameters for the compiler of Hopper GPUs, which also say that the kernel is for them.

    `dimension_semantics` says for each axis of the grid whether its programs are blocks of their own, "parallel", or run one after another in one
    block, "sequential"; `max_concurrent_steps` how many of these are in flight, `delay_release` how many of them keep their operands. The others are handed on.

    >>> CompilerParams(approx_math=True).max_concurrent_steps
    1
    """

    approx_math: bool = False
    dimension_semantics: Sequence[Any] | None = None
    max_concurrent_steps: int = 1
    unsafe_no_auto_barriers: bool = False
    reduction_scratch_bytes: int = 2048
    profile_space: int = 0
    profile_dir: str = ""
    profile_trace_scope: TraceScope = TraceScope.WARPGROUP
    lowering_semantics: LoweringSemantics = LoweringSemantics.Lane

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        known = CompilerParams.__annotations__
        unknown = [name for name in kwargs if name not in known]
        if unknown:
            raise ArgumentTypeError(
                "CompilerParams of GPUs have no such parameter.",
                got=f"{unknown[0]}={kwargs[unknown[0]]!r:.40}",
                do=f"They are {', '.join(known)}.",
            )
        super().__init__(*args, **kwargs)
        for semantics in self.dimension_semantics or ():
            if str(getattr(semantics, "value", semantics)) not in _SEMANTICS:
                raise ArgumentValueError(
                    'CompilerParams: `dimension_semantics` are "parallel" or "sequential", for each axis of the grid.',
                    got=f"got {semantics!r:.40}",
                )

    def replace(self, **changes: Any) -> CompilerParams:
        """These with some changed."""
        return CompilerParams(**{**vars(self), **changes})


def axes_within_block(params: Any, n_axes: int) -> frozenset[int] | None:
    """Axes of the grid whose programs run one after another in one block; None for kernels that aren't for these GPUs."""
    if not isinstance(params, CompilerParams):
        return None
    semantics = params.dimension_semantics or ()
    return frozenset([a for a, s in enumerate(semantics) if a < n_axes and not is_parallel(s)])
