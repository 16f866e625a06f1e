"""Types and primitives of values that consist of arrays, under the names of `jax.experimental.hijax`.

Programs contain arrays only: a value of such a type enters a program as its arrays, and is rebuilt from arrays when it
leaves. Its type and its primitives define its derivative.
"""

from pellucid._machine.ir.avals import AbstractRef, AbstractValue, ShapedArray
from pellucid._machine.ir.rules import Zero
from pellucid._machine.refs.access import RefView as TransformedRef
from pellucid.interpreters.ad import instantiate_zeros, is_undefined_primal

from .primitives import HiPrimitive, VJPHiPrimitive, cur_qdd
from .types import (
    AvalMutableQDD,
    AvalQDD,
    HiPspec,
    HiType,
    MutableHiType,
    aval_method,
    aval_property,
    control_flow_allowed_effects,
    register_hitype,
)

__all__ = [
    "AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiPspec", "HiType", "MutableHiType",
    "VJPHiPrimitive", "Zero", "aval_method", "aval_property",
    "control_flow_allowed_effects", "instantiate_zeros", "is_undefined_primal", "register_hitype",
]  # fmt: skip
