"""Errors and warnings about dtypes."""

from pellucid.base.errors import PellucidError


class TypePromotionError(PellucidError, ValueError):
    """Operands have no common dtype that may be chosen without asking."""


class UnavailableDtypeError(PellucidError, ValueError):
    """A 64-bit dtype was asked for by name while 64-bit values are switched off."""


class TruncatedDtypeWarning(UserWarning):
    """A 64-bit dtype was asked for by name and became its 32-bit counterpart."""
