"""Primitives of derivatives as `jax._src.ad_util`."""

from pellucid.primitives.conversion import stop_gradient_p

__all__ = ["stop_gradient_p"]
