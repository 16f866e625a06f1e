"""Primitives under the names of `jax.extend.core.primitives`: those of `lax` and `lax.linalg`, and some that have no function there."""

from pellucid._machine.higher_order.calls import (
    call_p as call_p,
    closed_call_p as closed_call_p,
    jit_p as jit_p,
)
from pellucid._machine.higher_order.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from pellucid._machine.higher_order.custom_vjp import (
    custom_lin_p as custom_lin_p,
    custom_vjp_call_p as custom_vjp_call_p,
)
from pellucid._machine.higher_order.remat import remat_p as remat_p
from pellucid._machine.higher_order.remat_policies import name_p as name_p
from pellucid._machine.primitives.families import add_any_p as add_jaxvals_p
from pellucid._machine.primitives.sharding_constraint import (
    sharding_constraint_p as sharding_constraint_p,
)
from pellucid._machine.refs.primitives import get_p as get_p, swap_p as swap_p
from pellucid.lax import *
from pellucid.lax.linalg import *
from pellucid.random.gamma import random_gamma_p as random_gamma_p
from pellucid.random.key_primitives import (
    random_bits_p as random_bits_p,
    random_fold_in_p as random_fold_in_p,
    random_seed_p as random_seed_p,
    random_split_p as random_split_p,
)
from pellucid.random.threefry import threefry2x32_p as threefry2x32_p

_DENIED = """
cholesky_update_p dce_sink_p lu_pivots_to_permutation_p mulhi_p optimization_barrier_p ormqr_p scatter_sub_p split_p
stack_p stage_p symmetric_product_p tile_p unstack_p
"""

for _name in [n for n in globals() if n[0] != "_" and (n[-2:] != "_p" or n in _DENIED.split())]:
    del globals()[_name]

__all__ = [name for name in globals() if name[0] != "_"]  # pyright: ignore[reportUnsupportedDunderAll]
