"""Memory layouts under the names of `jax.experimental.layout`."""

from pellucid.primitives.placement import with_layout_constraint as with_layout_constraint
from pellucid.sharding.layout import Format as Format, Layout as Layout
