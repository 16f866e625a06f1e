"""Blocks of arrays as kernels for GPUs see them: in shared memory, laid out as their spec states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import ArgumentValueError
from pellucid.kernels import specs

from .memory import refuse_clusters
from .transforms import check_transforms


@dataclass(init=False, eq=False)
class BlockSpec(specs.BlockSpec):
    """A block that is copied to or from shared memory, where it lies as `transforms` state.

    In a pipeline, the memory of a block is taken for another one `delay_release` steps after the one that uses it.

    >>> BlockSpec((8, 64), lambda i: (i, 0), delay_release=1).delay_release
    1
    """

    transforms: Sequence[Any] = ()
    delay_release: int = 0
    collective_axes: tuple[Hashable, ...] = ()

    def __init__(
        self,
        block_shape: Sequence[Any] | None = None,
        index_map: Callable[..., Any] | None = None,
        pipeline_mode: specs.Buffered | None = None,
        transforms: Sequence[Any] = (),
        delay_release: int = 0,
        collective_axes: tuple[Hashable, ...] = (),
        *,
        memory_space: Any = None,
    ) -> None:
        super().__init__(block_shape, index_map, pipeline_mode, memory_space=memory_space)
        if collective_axes not in ((), None):
            refuse_clusters("BlockSpec: `collective_axes`")
        if isinstance(delay_release, bool) or not isinstance(delay_release, int) or delay_release < 0:  # fmt: skip
            raise ArgumentValueError(
                "BlockSpec: `delay_release` is a number of steps.", got=f"got {delay_release!r:.40}"
            )
        self.transforms = check_transforms("BlockSpec", transforms)
        self.delay_release, self.collective_axes = delay_release, ()

    def _fields(self) -> tuple[Any, ...]:
        return *super()._fields(), self.transforms, self.delay_release
