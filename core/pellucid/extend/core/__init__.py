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
from pellucid.tracing.replay import jaxpr_as_fun
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
    "Var",
    "check_jaxpr",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "no_effects",
    "valid_jaxtype",
]
