"""Sums, products and extremes of segments under the names of `jax.ops`."""

from pellucid.numpy.segments import (
    segment_max as segment_max,
    segment_min as segment_min,
    segment_prod as segment_prod,
    segment_sum as segment_sum,
)
