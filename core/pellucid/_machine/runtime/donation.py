"""Records which calls donate arrays, so that the error about a donated array can name them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Donor(NamedTuple):
    """A compiled function that takes the memory of an argument."""

    function: str
    argument: str
    source: Any


_donors: dict[Any, list[Donor]] = {}
_KEPT = 256
_KEPT_FOR_ONE_TYPE = 16


def note(spec: Any, call: Any, source: Any) -> None:
    """Record which arguments of a call of `spec` are donated, by type.

    The C++ call path doesn't report which call took an array's memory, so the error lists the functions that donate
    arrays of its type.
    """
    paths = spec.debug_info(call).argument_names
    for path, aval, donated in zip(paths, call.avals, spec.donated_leaves(call), strict=True):
        if donated:
            add(aval, Donor(spec.name, path, source))


def add(aval: Any, donor: Donor) -> None:
    """Record that `donor` takes the memory of arrays of type `aval`."""
    donors = _donors.setdefault(aval, [])
    if donor not in donors:
        donors.append(donor)
        del donors[:-_KEPT_FOR_ONE_TYPE]
    while len(_donors) > _KEPT:
        _donors.pop(next(iter(_donors)))


def donors_of(aval: Any) -> list[Donor]:
    """Functions of this process that donate arrays of type `aval`."""
    return _donors.get(aval, [])
