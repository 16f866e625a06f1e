"""The version that pellucid answers for, as `jax.version`."""

from pellucid.as_jax.versions import answered, numbers

__version__ = answered()
__version_info__ = numbers(__version__)
