"""The errors that tools raise as core does: what, got, where, do."""

from pellucid.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceError,
    EffectsError,
    ExecutionError,
    NonFiniteError,
    PellucidError,
    UnsupportedError,
)

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "EffectsError",
    "DeviceError",
    "ExecutionError",
    "NonFiniteError",
    "PellucidError",
    "UnsupportedError",
]
