"""Memory layouts under the names of `jax.experimental.layout`."""

from pellucid._machine.primitives.layout_constraint import (
    with_layout_constraint as with_layout_constraint,
)
from pellucid._machine.sharding.layout import Format as Format, Layout as Layout
