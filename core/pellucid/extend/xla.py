"""Transformations of compiled programs by Python functions, under the names of `jax.extend.xla`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from pellucid._machine.base.errors import ArgumentTypeError, UnsupportedError
from pellucid._machine.runtime.platforms import clients_by_platform, known_platforms, names_of
from pellucid._machine.xla import hlo_transformations
from pellucid._machine.xla.hlo_transformations import Transformation


class PipelineStage(enum.Enum):
    """When a transformation runs, while XLA compiles.

    >>> PipelineStage(0)
    <PipelineStage.PRE_SCHEDULER: 0>
    """

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


def _check_stage(
    caller: str, stage: PipelineStage, platforms: Sequence[str] | str | None
) -> frozenset[str]:
    """The platforms, by the names that clients have."""
    if not hlo_transformations.is_supported:
        raise UnsupportedError(f"{caller} needs jaxlib 0.10.2 or later.")
    if not isinstance(stage, PipelineStage):
        raise ArgumentTypeError(
            f"{caller}: `stage` must be a PipelineStage.", got=f"got {type(stage).__name__}"
        )
    if platforms is None:
        return known_platforms()
    stated = (platforms,) if isinstance(platforms, str) else platforms
    return frozenset([name for platform in stated for name in names_of(platform)])


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None],
    *,
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> None:
    """Transform each module that XLA compiles for `platforms` (None for all) by `callback`.

    It gets a serialized HloModuleProto, and returns another one, or None for no change. Transformations of one stage run
    in the order in which they were registered. All programs are compiled anew; nothing is read from or written to the
    cache on disk. An error that `callback` raises is a CompilationError of the program.

    Raises: ArgumentTypeError, PlatformError for a stage or platform that there isn't; UnsupportedError where jaxlib, or the
    plugin of a running platform, has no transformations.

    >>> sizes = []
    >>> register_hlo_module_transformation(lambda module: sizes.append(len(module)), name="sizes")
    >>> pl.jit(lambda x: x + 1)(np.float32(1))
    Array(2., dtype=float32)
    >>> len(sizes), clear_hlo_module_transformation("sizes")
    (1, True)
    """
    on_platforms = _check_stage("register_hlo_module_transformation", stage, platforms)
    if not callable(callback):
        raise ArgumentTypeError(
            "register_hlo_module_transformation needs a function.",
            got=f"got {type(callback).__name__}",
        )
    try:
        hlo_transformations.register(
            Transformation(name, stage.value, callback, on_platforms), clients_by_platform()
        )
    except RuntimeError as error:
        raise UnsupportedError(
            "a running platform has no transformations of modules.",
            got=str(error),
            do="Choose others: `platforms='cpu'`.",
        ) from error


def clear_hlo_module_transformation(
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> bool:
    """Remove the transformations called `name` at `stage` from `platforms` (None for all); whether there were any.

    Raises: as `register_hlo_module_transformation`.

    >>> clear_hlo_module_transformation("none of that name")
    False
    """
    on_platforms = _check_stage("clear_hlo_module_transformation", stage, platforms)
    return hlo_transformations.clear(name, stage.value, on_platforms, clients_by_platform())


__all__ = [
    "PipelineStage",
    "clear_hlo_module_transformation",
    "register_hlo_module_transformation",
]
