"""Version of pellucid, and of the reference whose names and semantics it has."""

__version__ = "0.2.0"
__version_info__ = (0, 2, 0)
reference_version = "0.10.2"
reference_bound = "0.13"
"""The first release whose jaxlib pellucid doesn't run on."""
