"""Costs of instructions in recorded profiles, under the name of `jax.experimental.profiler`."""

from __future__ import annotations

from pathlib import Path

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.xla.profiling import profiled_instructions


def get_profiled_instructions_proto(tensorboard_dir: str) -> bytes:
    """The costs of instructions in the profile below a folder, as a serialized ProfiledInstructionsProto.

    The folder is a run's, `<log_dir>/plugins/profile/<run>/`. Programs of CPUs have no such costs: the result is empty.

    Raises: ArgumentValueError for a folder without a profile.

    >>> get_profiled_instructions_proto("nowhere")
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: the folder has no profile.
      nowhere
    """
    if not any(Path(tensorboard_dir).glob("*.xplane.pb")):
        raise ArgumentValueError("the folder has no profile.", got=tensorboard_dir)
    return profiled_instructions(tensorboard_dir)


__all__ = ["get_profiled_instructions_proto"]
