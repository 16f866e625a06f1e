"""Errors and warnings about dtypes."""

from pellucid.base.errors import PellucidError


class TypePromotionError(PellucidError, ValueError):
    """Operands have no common dtype that may be chosen without asking."""


class TruncatedDtypeWarning(UserWarning):
    """A 64-bit dtype was asked for by name and became its 32-bit counterpart."""
