"""Checks of format strings against their arguments, before they are formatted."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ArgumentValueError, MissingFieldError


def check_fields(caller: str, text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise ArgumentValueError or MissingFieldError unless the format string `text` uses exactly the arguments.

    >>> check_fields("print", "{} {y}", [1], {"y": 2})
    """
    checker = _Checker(caller)
    try:
        checker.vformat(text, args, kwargs)
    except (IndexError, KeyError) as error:
        raise MissingFieldError(
            f"{caller}: the format string has a field for which there is no argument.",
            got=[
                f"format: {text!r:.60}",
                f"missing: {error}",
                f"{len(args)} positional arguments, keywords {', '.join(kwargs) or 'none'}",
            ],
            do="Pass a value for each field, and write literal braces twice.",
        ) from None


class _Checker(string.Formatter):
    """A formatter that only records which arguments a format string uses."""

    def __init__(self, caller: str) -> None:
        self.caller = caller

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Any) -> None:
        unused = [i for i in range(len(args)) if i not in used_args]
        if unused:
            raise ArgumentValueError(
                f"Unused positional arguments to `{self.caller}`: the format string doesn't show them.",
                got=[f"argument {i}: {args[i]!r:.60}" for i in unused[:4]],
                do="Write a field `{}` for each of them.",
            )
        unknown = [name for name in kwargs if name not in used_args]
        if unknown:
            raise ArgumentValueError(
                f"Unused keyword arguments to `{self.caller}`: the format string doesn't show them.",
                got=", ".join(unknown),
                do='Write a field `{name}` for each of them, in a plain string: an f-string (`f"{x}"`) is formatted '
                "before the program runs.",
            )

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value
