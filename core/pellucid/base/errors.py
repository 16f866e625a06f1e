"""The root of all errors and the builder of their texts."""

from collections.abc import Iterable


class PellucidError(Exception):
    """Root of every error that pellucid raises on purpose."""


def message(
    what: str,
    *,
    got: str | Iterable[str] = (),
    where: str | None = None,
    do: str | None = None,
) -> str:
    """Text of an error: what can't be done, what was given, where, and what to change.

    >>> print(message("tree_map: the trees differ.", got=["x[0]: got int"], do="Make them equal."))
    tree_map: the trees differ.
      x[0]: got int
      Make them equal.
    """
    lines = [got] if isinstance(got, str) else list(got)
    if where is not None:
        lines.append(f"in {where}")
    if do is not None:
        lines.append(do)
    return "\n".join([what, *(f"  {line}" for line in lines)])
