"""Programs under the names of `jax.extend.core`."""

from pellucid._machine.base.dims import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
)
from pellucid._machine.base.dtypes import tangent_dtype as _tangent_dtype
from pellucid._machine.base.errors import JaxprTypeError
from pellucid._machine.base.functional import copy_with_name
from pellucid._machine.ir.avals import AbstractToken
from pellucid._machine.ir.checking import check_jaxpr
from pellucid._machine.ir.effects import Effect, Effects, no_effects
from pellucid._machine.ir.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    JaxprEqn,
    Literal,
    Var,
    subjaxprs as _subjaxprs,
)
from pellucid._machine.runtime.tokens import Token
from pellucid._machine.tracing.current import (
    take_current_trace as take_current_trace,
    use_trace as set_current_trace,
)
from pellucid._machine.tracing.operands import is_array_like as _is_array_like
from pellucid._machine.tracing.staging import jaxpr_as_fun
from pellucid._machine.tracing.trace import find_top_trace, get_opaque_trace_state
from pellucid._machine.tracing.tracer import concrete_or_error
from pellucid.extend.core import primitives as primitives
from pellucid.extend.core.construction import (
    CallPrimitive,
    Jaxpr,
    array_types,
    gensym,
    new_jaxpr_eqn,
    subjaxprs,
)
from pellucid.extend.core.mapped_types import mapped_aval, unmapped_aval
from pellucid.extend.core.trace_state import (
    nonempty_axis_env_DO_NOT_USE,
    unsafe_am_i_under_a_jit_DO_NOT_USE,
    unsafe_am_i_under_a_vmap_DO_NOT_USE,
    unsafe_get_axis_names_DO_NOT_USE,
)
from pellucid.interpreters.user_primitive import Primitive
from pellucid.interpreters.user_trace import TraceTag

jaxprs_in_params = copy_with_name(_subjaxprs, "jaxprs_in_params", __name__)
primal_dtype_to_tangent_dtype = copy_with_name(
    _tangent_dtype, "primal_dtype_to_tangent_dtype", __name__
)
valid_jaxtype = copy_with_name(_is_array_like, "valid_jaxtype", __name__)

__all__ = [
    "AbstractToken",
    "CallPrimitive",
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "InconclusiveDimensionOperation",
    "Jaxpr",
    "JaxprEqn",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "Token",
    "TraceTag",
    "Var",
    "array_types",
    "check_jaxpr",
    "concrete_or_error",
    "find_top_trace",
    "gensym",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE",
    "valid_jaxtype",
]
