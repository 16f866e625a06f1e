"""Modules and functions under the names of `jax.experimental`."""

from pellucid.callbacks.io import io_callback
from pellucid.experimental.hijax import cur_qdd
from pellucid.runtime.extended import ExtendedArray as EArray

__all__ = ["EArray", "cur_qdd", "io_callback"]
