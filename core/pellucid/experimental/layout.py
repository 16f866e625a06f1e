"""Memory layouts under the names of `jax.experimental.layout`."""

from pellucid.sharding.layout import Format, Layout

__all__ = ["Format", "Layout"]
