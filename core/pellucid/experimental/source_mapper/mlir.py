"""Maps of MLIR's text, by the locations that its lines name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from .jaxpr import canonicalize_filename
from .source_map import SourceMap, source_map_of

LOC_REGEX = re.compile(r"loc\(#(loc\d*)\)\s*\{?$")
"""The location at the end of a line."""
SRC_REGEX = re.compile(r'^#(loc\d*) = loc\("(.*)":(\d+):(\d+)(?: to [\d:]+)?\)$')
"""A definition of a location: a place in a file."""
SCOPED_REGEX = re.compile(r'^#(loc\d*) = loc\(".*"\(#(loc\d*)\)\)$')
"""A definition of a location: a name for another."""
CALLSITE_REGEX = re.compile(r"^#(loc\d*) = loc\(callsite\(#(loc\d*) at #(loc\d*)\)\)$")
"""A definition of a location: one within a function, and that of its call."""
_FUSED_REGEX = re.compile(r"^#(loc\d*) = loc\(fused(?:<.*>)?\[#(loc\d*)")


class Location(NamedTuple):
    """A place in a file: a 1-based line and a 0-based column."""

    file: str
    line: int
    col: int

    @property
    def column(self) -> int:
        """The column."""
        return self.col


class Redirect(NamedTuple):
    """Another location, by its name."""

    tgt_id: str


def parse_mlir_locations(mlir_dump: str) -> Mapping[str, Location | Redirect]:
    r"""The locations that a text of MLIR defines, by their names.

    >>> parse_mlir_locations('#loc1 = loc("a.py":3:4)\n#loc2 = loc("sin"(#loc1))')
    {'loc1': Location(file='a.py', line=3, col=4), 'loc2': Redirect(tgt_id='loc1')}
    """
    locations: dict[str, Location | Redirect] = {}
    for line in mlir_dump.split("\n"):
        if not line.startswith("#loc"):
            continue
        if match := SRC_REGEX.match(line):
            locations[match[1]] = Location(
                canonicalize_filename(match[2]), int(match[3]), int(match[4])
            )
        elif (
            match := SCOPED_REGEX.match(line)
            or CALLSITE_REGEX.match(line)
            or _FUSED_REGEX.match(line)
        ):
            locations[match[1]] = Redirect(match[2])
    return locations


def create_mlir_sourcemap(mlir_dump: str) -> SourceMap:
    r"""The map of a text of MLIR with locations.

    >>> create_mlir_sourcemap('foo loc(#loc1)\n#loc1 = loc("a.py":3:4)').mappings
    [[(0, 0, 2, 4)], []]
    """
    locations = parse_mlir_locations(mlir_dump)
    places: list[tuple[int, Location] | None] = []
    for line in mlir_dump.split("\n"):
        match = None if line.startswith("#loc") else LOC_REGEX.search(line)
        place = locations.get(match[1]) if match else None
        while isinstance(place, Redirect):
            place = locations.get(place.tgt_id)
        places.append(None if place is None else (len(line) - len(line.lstrip()), place))
    return source_map_of(places)
