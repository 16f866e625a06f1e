"""Choice of the place where operations compute, under the names of `jax.experimental.compute_on`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

from pellucid._machine.base import Function, is_none, tree_leaves, wrapping
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.primitives.placement import device_put
from pellucid._machine.sharding.memory import MemorySpace
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
    f: Function | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: Mapping[str, Any] | None = None,
) -> Any:
    """`f`, computed by a unit as under `compute_on`, whose results lie in `out_memory_spaces`; without `f`, a decorator.

    `out_memory_spaces`: a `pellucid.memory.Space`, or a tree of them that is a prefix of the result. Raises: as
    `compute_on`; ArgumentTypeError for anything that isn't a space; UnsupportedError for `compiler_options`, which programs have as a whole.

    >>> space = pl.memory.Space.Device
    >>> doubled = compute_on2(lambda x: x * 2, compute_type="device_host", out_memory_spaces=space)
    >>> doubled(1.5)
    Array(3., dtype=float32, weak_type=True)
    """
    if f is None:
        return functools.partial(
            compute_on2, compute_type=compute_type, out_memory_spaces=out_memory_spaces,
            compiler_options=compiler_options,
        )  # fmt: skip
    if compiler_options:
        raise UnsupportedError(
            "compute_on2: a part of a program has no compiler options of its own.",
            got=f"compiler_options={dict(compiler_options)}",
            do="Give them to the program: `jit(f, compiler_options=...)`.",
        )
    compute_on(compute_type)
    for space in tree_leaves(out_memory_spaces, is_leaf=is_none):
        if not isinstance(space, MemorySpace):
            raise ArgumentTypeError(
                "compute_on2 needs the memory spaces of results.",
                got=f"out_memory_spaces={space!r}",
                do="Pass `memory.Space.Device`, or a tree of such.",
            )

    @wrapping(f)
    def compute(*args: Any, **kwargs: Any) -> Any:
        with compute_on(compute_type):
            result = f(*args, **kwargs)
        return device_put(result, out_memory_spaces)

    return jit(compute)


__all__ = ["compute_on", "compute_on2"]
