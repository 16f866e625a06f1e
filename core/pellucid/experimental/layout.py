"""Memory layouts under the names of `jax.experimental.layout`."""

from pellucid.primitives.layout_constraint import with_layout_constraint
from pellucid.sharding.layout import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]
