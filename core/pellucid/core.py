"""Programs and traces under the names of `jax.core`."""

from pellucid.base.errors import JaxprTypeError
from pellucid.ir.avals import AbstractValue, ShapedArray, abstract_token
from pellucid.ir.checking import check_jaxpr
from pellucid.ir.effects import Effect, Effects, no_effects
from pellucid.ir.jaxpr import Atom, DebugInfo, DropVar, subjaxprs as jaxprs_in_params
from pellucid.tracing.context import ensure_compile_time_eval
from pellucid.tracing.replay import eval_jaxpr
from pellucid.tracing.trace import Trace, get_opaque_trace_state
from pellucid.tracing.tracer import Tracer, concrete_or_error, is_concrete
from pellucid.tracing.values import is_array_like as valid_jaxtype

__all__ = [
    "AbstractValue",
    "Atom",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "JaxprTypeError",
    "ShapedArray",
    "Trace",
    "Tracer",
    "abstract_token",
    "check_jaxpr",
    "concrete_or_error",
    "ensure_compile_time_eval",
    "eval_jaxpr",
    "get_opaque_trace_state",
    "is_concrete",
    "jaxprs_in_params",
    "no_effects",
    "valid_jaxtype",
]
