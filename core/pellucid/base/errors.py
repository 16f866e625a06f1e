"""The error tree, and the one place where the text of a message is built.

Every error of pellucid says what can't be done, what was given, where, and what to do. Each class also
inherits the builtin it resembles, so that `except TypeError` keeps working.
"""

from __future__ import annotations

from collections.abc import Iterable


def message(
    what: str, *, got: str | Iterable[str] = (), where: str | None = None, do: str | None = None
) -> str:
    """The text of an error: what, got (one line each), where, do; parts that are absent are left out."""
    lines = [what]
    lines += [f"  {line}" for line in ([got] if isinstance(got, str) else got)]
    if where:
        lines.append(f"  in {where}")
    if do:
        lines.append(do)
    return "\n".join(lines)


class PellucidError(Exception):
    """Root of all errors raised by pellucid."""

    def __init__(
        self,
        what: str = "",
        *,
        got: str | Iterable[str] = (),
        where: str | None = None,
        do: str | None = None,
    ) -> None:
        self.what = what
        self.got = (got,) if isinstance(got, str) else tuple(got)
        self.where = where
        self.do = do
        super().__init__(message(what, got=self.got, where=where, do=do))
