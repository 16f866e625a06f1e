"""Functions with their own derivatives, under the names of `jax.custom_derivatives`."""

from pellucid._machine.higher_order.custom_gradient import (
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
)
from pellucid._machine.higher_order.custom_jvp import (
    custom_jvp as custom_jvp,
    custom_jvp_call_p as custom_jvp_call_p,
)
from pellucid._machine.higher_order.custom_rules import (
    SymbolicZero as SymbolicZero,
    zero_from_primal as zero_from_primal,
)
from pellucid._machine.higher_order.custom_vjp import (
    CustomVJPPrimal as CustomVJPPrimal,
    custom_vjp as custom_vjp,
    custom_vjp_call_p as custom_vjp_call_p,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from pellucid._machine.higher_order.linear_calls import linear_call as linear_call
from pellucid._machine.higher_order.remat_opt import remat_opt_p as remat_opt_p
