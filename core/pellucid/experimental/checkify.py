"""Checked functions under the names of `jax.experimental.checkify`."""

from pellucid._machine.checks.check import (
    check as check,
    check_error as check_error,
    debug_check as debug_check,
)
from pellucid._machine.checks.checkify import checkify as checkify
from pellucid._machine.checks.errors import (
    CheckError as JaxRuntimeError,
    Error as Error,
    ErrorCategory as ErrorCategory,
    all_checks as all_checks,
    automatic_checks as automatic_checks,
    div_checks as div_checks,
    float_checks as float_checks,
    index_checks as index_checks,
    init_error as init_error,
    nan_checks as nan_checks,
    user_checks as user_checks,
)
