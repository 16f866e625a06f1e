"""State of tracing in the calling thread: the traces in force and the named axes in scope."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.tracing.current import bottom, context, use_trace
from pellucid._machine.tracing.staging import StagingTrace
from pellucid._machine.transforms.vmap import BatchTrace


@contextlib.contextmanager
def eval_context() -> Iterator[None]:
    """A context whose operations run at once, also while a function is traced.

    >>> def f(x):
    ...     with eval_context():
    ...         n = int(pl.numpy.sum(np.arange(3)))
    ...     return x * n
    >>> pl.jit(f)(2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    with use_trace(bottom()):
        yield


class AxisEnv:
    """The named axes in scope: of `vmap` with an `axis_name`, and of the mesh inside `shard_map`."""

    @property
    def axis_sizes(self) -> dict[Any, int]:
        """Sizes of the axes by name, outermost first."""
        return dict(context.axes)

    def axis_names(self) -> tuple[Any, ...]:
        """The names of the axes, outermost first."""
        return tuple(context.axes)

    def axis_exists(self, axis_name: Any) -> bool:
        """Whether an axis of that name is in scope."""
        return axis_name in context.axes

    def axis_size(self, axis_name: Any) -> int:
        """The size of an axis.

        Raises: ArgumentValueError for an axis that isn't in scope.
        """
        if axis_name not in context.axes:
            raise ArgumentValueError(
                f"no axis {axis_name!r} is in scope.", got=f"axes: {self.axis_names()}"
            )
        return context.axes[axis_name]


class TracingContext:
    """The trace that is current in the calling thread, and the named axes in scope."""

    axis_env = AxisEnv()
    """The named axes."""

    @property
    def trace(self) -> Any:
        """The current trace."""
        return context.trace

    def is_top_level(self) -> bool:
        """Whether no function is being transformed and no named axis is in scope."""
        return context.trace.is_eager and not context.axes


trace_ctx = TracingContext()
"""The tracing state of the calling thread."""


def _current_traces() -> Iterator[Any]:
    """The current trace and those below it, innermost first."""
    trace = context.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent", None)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a program is being traced, by jit or by control flow.

    What a function does depending on it is kept with its program, which serves other calls.

    >>> seen = []
    >>> _ = pl.jit(lambda x: seen.append(unsafe_am_i_under_a_jit_DO_NOT_USE()) or x)(1.0)
    >>> seen, unsafe_am_i_under_a_jit_DO_NOT_USE()
    ([True], False)
    """
    return any(isinstance(trace, StagingTrace) for trace in _current_traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether a function is being batched.

    What a function does depending on it is kept with its program, which serves other calls.

    >>> seen = []
    >>> _ = pl.vmap(lambda x: seen.append(unsafe_am_i_under_a_vmap_DO_NOT_USE()) or x)(np.ones(2))
    >>> seen
    [True]
    """
    return any(isinstance(trace, BatchTrace) for trace in _current_traces())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the axes in scope, outermost first.

    >>> seen = []
    >>> _ = pl.vmap(lambda x: seen.append(unsafe_get_axis_names_DO_NOT_USE()) or x, axis_name="i")(np.ones(2))
    >>> seen
    [['i']]
    """
    return [*context.axes]


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether a named axis is in scope.

    >>> nonempty_axis_env_DO_NOT_USE()
    False
    """
    return bool(context.axes)
