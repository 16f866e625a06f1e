"""Programs with kernels as MLIR text, and where sizes are symbols."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from pellucid._machine.base import Function, UnsupportedError
from pellucid._machine.higher_order.jitted import jit


def lower_as_mlir(
    f: Function,
    *args: Any,
    dynamic_shapes: bool = False,
    device: Any = None,
    static_argnames: Sequence[str] = (),
    platforms: Sequence[str] | None = None,
    **kwargs: Any,
) -> str:
    """The StableHLO text of `f` for arguments of these types.

    Raises: UnsupportedError for `dynamic_shapes` and `device`.

    >>> "stablehlo.sine" in lower_as_mlir(jnp.sin, np.float32(1))
    True
    """
    if dynamic_shapes or device is not None:
        raise UnsupportedError(
            "lower_as_mlir takes no dynamic_shapes, and no device.",
            do="Export the function for symbolic shapes; name `platforms`.",
        )
    traced = jit(f, static_argnames=static_argnames).trace(*args, **kwargs)
    options = {} if platforms is None else {"lowering_platforms": tuple(platforms)}
    return traced.lower(**options).as_text()


@contextlib.contextmanager
def pallas_export_experimental(dynamic_shapes: bool) -> Iterator[None]:
    """A context in which kernels are exported for symbolic shapes, if `dynamic_shapes`; they always are.

    >>> with pallas_export_experimental(True):
    ...     pass
    """
    yield
