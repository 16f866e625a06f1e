"""Rematerialization and its policies, under the names of `jax.ad_checkpoint`."""

from pellucid._machine.higher_order.remat_policies import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
)
from pellucid._machine.transforms.residuals import print_saved_residuals as print_saved_residuals
