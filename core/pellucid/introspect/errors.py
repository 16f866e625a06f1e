"""Errors for tools, in the same form as core's: what, got, where, do."""

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceError,
    EffectsError,
    ExecutionError,
    NonFiniteError,
    PellucidError,
    UnsupportedError,
)
from pellucid._machine.checks.errors import CheckedCall, CheckError, user_checks

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "CheckError",
    "CheckedCall",
    "EffectsError",
    "DeviceError",
    "ExecutionError",
    "NonFiniteError",
    "PellucidError",
    "UnsupportedError",
    "user_checks",
]
