"""The version that pellucid answers for, as `jax.version`."""

from pellucid.as_jax.versions import numbers, reported_version

__version__ = reported_version()
__version_info__ = numbers(__version__)
