"""Programs under the names of `jax.extend.core`."""

from pellucid.base.errors import JaxprTypeError
from pellucid.ir.avals import AbstractToken
from pellucid.ir.checking import check_jaxpr
from pellucid.ir.effects import Effect, Effects, no_effects
from pellucid.ir.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    subjaxprs as jaxprs_in_params,
)
from pellucid.ir.primitive import Primitive
from pellucid.runtime.tokens import Token
from pellucid.tracing.replay import jaxpr_as_fun
from pellucid.tracing.trace import get_opaque_trace_state
from pellucid.tracing.tracer import concrete_or_error
from pellucid.tracing.values import is_array_like as valid_jaxtype

__all__ = [
    "AbstractToken",
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "Jaxpr",
    "JaxprEqn",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "Token",
    "Var",
    "check_jaxpr",
    "concrete_or_error",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "no_effects",
    "valid_jaxtype",
]
