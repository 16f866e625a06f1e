"""Checks as `jax._src.checkify`."""

from typing import TypeVar

from pellucid.checks.checkify import checkify
from pellucid.checks.errors import Error, JaxException, user_checks

Out = TypeVar("Out")

__all__ = ["Error", "JaxException", "Out", "checkify", "user_checks"]
