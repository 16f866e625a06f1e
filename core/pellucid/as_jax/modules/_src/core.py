"""Types and traces as `jax._src.core`."""

from pellucid.core import AbstractValue, ShapedArray, Tracer
from pellucid.ir import physical as physical_aval
from pellucid.tracing.current import context


def trace_state_clean() -> bool:
    """Whether no transformation is running.

    >>> trace_state_clean()
    True
    """
    return context.trace.is_eager


__all__ = ["AbstractValue", "ShapedArray", "Tracer", "physical_aval", "trace_state_clean"]
