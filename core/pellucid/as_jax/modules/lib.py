"""The version of jaxlib, as `jax.lib`."""

from pellucid._machine.xla.compile import jaxlib_version as __version__

__all__ = ["__version__"]
