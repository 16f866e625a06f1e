"""Checked functions under the names of `jax.experimental.checkify`."""

from pellucid.checks.check import check, check_error, debug_check
from pellucid.checks.checkify import checkify
from pellucid.checks.errors import (
    CheckError as JaxRuntimeError,
    Error,
    ErrorCategory,
    all_checks,
    automatic_checks,
    div_checks,
    float_checks,
    index_checks,
    init_error,
    nan_checks,
    user_checks,
)

__all__ = [
    "Error",
    "ErrorCategory",
    "JaxRuntimeError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]
