"""The version of the reference whose names and semantics pellucid has, as `jax.version`."""

from pellucid.version import reference_version as __version__

__version_info__ = tuple(map(int, __version__.split(".")))  # noqa: RUF048  (the reference's releases)
