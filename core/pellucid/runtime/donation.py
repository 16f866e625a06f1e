"""Which calls donate arrays: so that the error about a donated array can name them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Donor(NamedTuple):
    """A compiled function that takes the memory of one argument."""

    function: str
    argument: str
    source: Any


_donors: dict[Any, list[Donor]] = {}
_KEPT = 256


def note(spec: Any, call: Any, source: Any) -> None:
    """Remember which arguments of a call of `spec` are donated, by type.

    The C++ call path can't tell which call took an array's memory, so the error lists the functions that
    donate arrays of its type.
    """
    paths = spec.debug_info(call).argument_names
    for path, aval, donated in zip(paths, call.avals, spec.donated(call), strict=True):
        if donated:
            donors = _donors.setdefault(aval, [])
            donor = Donor(spec.name, path, source)
            if donor not in donors:
                donors.append(donor)
    while len(_donors) > _KEPT:
        _donors.pop(next(iter(_donors)))


def donors_of(aval: Any) -> list[Donor]:
    """Functions of this process that donate arrays of type `aval`."""
    return _donors.get(aval, [])
