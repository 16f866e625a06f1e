"""Where operations compute, under the names of `jax.experimental.compute_on`."""

from __future__ import annotations

import contextlib
from typing import Any, NoReturn

from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid._machine.tracing.current import xla_metadata

_NAMES = {"device": None, "device_host": "host", "tpu_sparsecore": "sparseoffload"}
"""XLA's names by the reference's; None leaves an operation to its device."""


def compute_on(compute_type: str) -> contextlib.AbstractContextManager[None]:
    """A context whose operations XLA lets the host of their device compute, or another unit of it.

    `compute_type` is "device_host", "device" or "tpu_sparsecore". Platforms without such a unit, as
    CPUs are, compute where they always do.

    Raises: ArgumentValueError for another one; UnsupportedError for a stream of a GPU.

    >>> def f(x):
    ...     with compute_on("device_host"):
    ...         return x * 2
    >>> '_xla_compute_type = "host"' in pl.jit(f).lower(1.0).as_text()
    True
    """
    if isinstance(compute_type, str) and compute_type.startswith("gpu_stream:"):
        raise UnsupportedError(
            "compute_on: XLA takes streams for calls of functions only, and programs here inline them.",
            got=repr(compute_type),
        )
    if compute_type in _NAMES:
        return xla_metadata({"_xla_compute_type": _NAMES[compute_type]})
    raise ArgumentValueError(
        "compute_on doesn't know this unit.",
        got=repr(compute_type),
        do=f"Choose one of {', '.join(map(repr, _NAMES))}.",
    )


def compute_on2(
    f: Any = None, *, compute_type: Any, out_memory_spaces: Any, compiler_options: Any = None
) -> NoReturn:
    """The reference's next form, which states memories of results, too.

    Raises: UnsupportedError.

    >>> compute_on2(abs, compute_type="device_host", out_memory_spaces=None)
    Traceback (most recent call last):
        ...
    pellucid.errors.UnsupportedError: compute_on2 isn't supported.
      Use the context `compute_on`, and `device_put` results to the memory they shall lie in.
    """
    raise UnsupportedError(
        "compute_on2 isn't supported.",
        do="Use the context `compute_on`, and `device_put` results to the memory they shall lie in.",
    )


__all__ = ["compute_on", "compute_on2"]
