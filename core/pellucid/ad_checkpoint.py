"""What the backward pass keeps, under the names of `jax.ad_checkpoint`."""

from pellucid.higher_order.remat_policies import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_name,
    checkpoint_policies,
)
from pellucid.transforms.residuals import print_saved_residuals

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
]
