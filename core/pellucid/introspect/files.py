"""Seals of the files that tools write, as core's have them."""

from pellucid._machine.base.digests import SEAL_BYTES, DamagedError, check_seal, seal

__all__ = ["SEAL_BYTES", "DamagedError", "check_seal", "seal"]
