"""Programs and traces under the names of `jax.core`."""

from typing import Any as Value

from pellucid._machine.base.dims import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    canonical_size as _canonical_size,
    larger as _larger,
    smaller as _smaller,
)
from pellucid._machine.base.dtypes import tangent_dtype as _tangent_dtype
from pellucid._machine.base.errors import JaxprTypeError as JaxprTypeError
from pellucid._machine.base.functional import copy_with_name as _renamed
from pellucid._machine.ir.avals import (
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    abstract_token as abstract_token,
)
from pellucid._machine.ir.checking import check_jaxpr as check_jaxpr
from pellucid._machine.ir.effects import (
    Effect as Effect,
    Effects as Effects,
    no_effects as no_effects,
)
from pellucid._machine.ir.jaxpr import (
    Atom as Atom,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    subjaxprs as _subjaxprs,
)
from pellucid._machine.tracing.current import ensure_compile_time_eval as ensure_compile_time_eval
from pellucid._machine.tracing.operands import (
    is_array_like as _is_array_like,
    type_handlers as _type_handlers,
)
from pellucid._machine.tracing.staging import eval_jaxpr as eval_jaxpr
from pellucid._machine.tracing.trace import (
    find_top_trace as find_top_trace,
    get_opaque_trace_state as get_opaque_trace_state,
)
from pellucid._machine.tracing.tracer import (
    Tracer as Tracer,
    concrete_or_error as concrete_or_error,
    is_concrete as is_concrete,
)
from pellucid.extend.core.construction import (
    CallPrimitive as CallPrimitive,
    call as call,
    gensym as gensym,
    literalable_types as literalable_types,
    new_jaxpr_eqn as new_jaxpr_eqn,
)
from pellucid.extend.core.trace_state import (
    eval_context as eval_context,
    nonempty_axis_env_DO_NOT_USE as nonempty_axis_env_DO_NOT_USE,
    trace_ctx as trace_ctx,
    unsafe_am_i_under_a_jit_DO_NOT_USE as unsafe_am_i_under_a_jit_DO_NOT_USE,
    unsafe_am_i_under_a_vmap_DO_NOT_USE as unsafe_am_i_under_a_vmap_DO_NOT_USE,
    unsafe_get_axis_names_DO_NOT_USE as unsafe_get_axis_names_DO_NOT_USE,
)
from pellucid.interpreters.user_trace import Trace as Trace

jaxprs_in_params = _renamed(_subjaxprs, "jaxprs_in_params", __name__)
primal_dtype_to_tangent_dtype = _renamed(_tangent_dtype, "primal_dtype_to_tangent_dtype", __name__)
valid_jaxtype = _renamed(_is_array_like, "valid_jaxtype", __name__)

pytype_aval_mappings = dict(_type_handlers)
"""For types of values that are taken as arrays: the function that gives a value's type.

Libraries may register types of their own; values of these are refused as operands all the same, until they have a method
`__jax_array__`.
"""

ParamDict = dict[str, Value]
"""Params of an equation by name."""
OutputType = tuple[AbstractValue, ...]
"""The types of the results of an equation."""
no_axis_name = None
"""The `axis_name` of a `vmap` whose axis has no name."""


def max_dim(d1: Value, d2: Value) -> Value:
    """The larger one of two sizes, integers or symbols.

    >>> max_dim(2, 3)
    3
    """
    return _larger(d1, d2)


def min_dim(d1: Value, d2: Value) -> Value:
    """The smaller one of two sizes, integers or symbols.

    >>> min_dim(pl.export.symbolic_shape("b")[0], 1)
    1
    """
    return _smaller(d1, d2)


def is_constant_dim(d: Value) -> bool:
    """Whether the size `d` is an integer, and no symbol.

    >>> is_constant_dim(3), is_constant_dim(pl.export.symbolic_shape("b")[0])
    (True, False)
    """
    try:
        return type(_canonical_size(d)) is int
    except TypeError:
        return False


def is_constant_shape(s: Value) -> bool:
    """Whether all sizes of a shape are integers, and none is a symbol.

    >>> is_constant_shape((2, 3))
    True
    """
    return all(map(is_constant_dim, s))
