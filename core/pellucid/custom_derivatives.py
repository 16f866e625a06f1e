"""Functions with their own derivatives, under the names of `jax.custom_derivatives`."""

from pellucid.higher_order.custom_jvp import (
    SymbolicZero,
    custom_jvp,
    custom_jvp_call_p,
    zero_from_primal,
)
from pellucid.higher_order.custom_vjp import (
    CustomVJPPrimal,
    closure_convert,
    custom_gradient,
    custom_vjp,
    custom_vjp_call_p,
    custom_vjp_primal_tree_values,
)
from pellucid.higher_order.linear_call import linear_call
from pellucid.higher_order.remat_opt import remat_opt_p

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "remat_opt_p",
    "zero_from_primal",
]
