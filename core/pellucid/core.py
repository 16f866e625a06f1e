"""Programs and traces under the names of `jax.core`."""

from pellucid.base.dims import InconclusiveSizeError as InconclusiveDimensionOperation
from pellucid.base.errors import JaxprTypeError as JaxprTypeError
from pellucid.ir.avals import (
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    abstract_token as abstract_token,
)
from pellucid.ir.checking import check_jaxpr as check_jaxpr
from pellucid.ir.jaxpr import (
    Atom as Atom,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    subjaxprs as jaxprs_in_params,
)
from pellucid.ir.rules import Effect as Effect, Effects as Effects, no_effects as no_effects
from pellucid.tracing.context import ensure_compile_time_eval as ensure_compile_time_eval
from pellucid.tracing.staging import eval_jaxpr as eval_jaxpr
from pellucid.tracing.trace import (
    Trace as Trace,
    Tracer as Tracer,
    concrete_or_error as concrete_or_error,
    get_opaque_trace_state as get_opaque_trace_state,
    is_array_like as valid_jaxtype,
    is_concrete as is_concrete,
    type_handlers as _type_handlers,
)

pytype_aval_mappings = dict(_type_handlers)
"""For types of values that are taken as arrays: the function that gives a value's type.

Libraries may register types of their own; values of these are refused as operands all the same, until they have a method
`__jax_array__`.
"""
