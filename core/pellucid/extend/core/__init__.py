"""Programs under the names of `jax.extend.core`."""

from pellucid.base.errors import JaxprTypeError
from pellucid.extend.core.mapped_types import mapped_aval, unmapped_aval
from pellucid.interpreters.user_primitive import Primitive
from pellucid.ir.avals import AbstractToken
from pellucid.ir.checking import check_jaxpr
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
from pellucid.ir.rules import Effect, Effects, no_effects
from pellucid.runtime.tokens import Token
from pellucid.tracing.context import (
    take_current_trace as take_current_trace,
    use_trace as set_current_trace,
)
from pellucid.tracing.staging import jaxpr_as_fun
from pellucid.tracing.trace import (
    concrete_or_error,
    find_top_trace,
    get_opaque_trace_state,
    is_array_like as valid_jaxtype,
)

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
    "find_top_trace",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "no_effects",
    "set_current_trace",
    "take_current_trace",
    "unmapped_aval",
    "valid_jaxtype",
]
