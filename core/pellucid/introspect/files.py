"""Checksums at the end of the files that tools write, the same as core's."""

from pellucid._machine.base.digests import SEAL_BYTES, DamagedError, check_seal, seal

__all__ = ["SEAL_BYTES", "DamagedError", "check_seal", "seal"]
