"""Taylor mode under the name of `jax.experimental.jet`."""

from pellucid.transforms.jet import jet as jet
