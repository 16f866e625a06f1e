"""Modules and functions under the names of `jax.experimental`."""

from pellucid.callbacks.io import io_callback

__all__ = ["io_callback"]
