"""Modules and functions under the names of `jax.experimental`."""

from pellucid.callbacks.io import io_callback
from pellucid.runtime.extended import ExtendedArray as EArray

__all__ = ["EArray", "io_callback"]
