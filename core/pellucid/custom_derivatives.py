"""Functions with their own derivatives, under the names of `jax.custom_derivatives`."""

from pellucid._machine.higher_order.custom_derivatives import (
    CustomVJPPrimal as CustomVJPPrimal,
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    custom_jvp as custom_jvp,
    custom_jvp_call_p as custom_jvp_call_p,
    custom_vjp as custom_vjp,
    custom_vjp_call_p as custom_vjp_call_p,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
    remat_opt_p as remat_opt_p,
)
from pellucid._machine.higher_order.custom_rules import (
    SymbolicZero as SymbolicZero,
    zero_from_primal as zero_from_primal,
)
from pellucid._machine.higher_order.linear_calls import linear_call as linear_call
