"""Source maps, as ECMA-426 defines them: for places of a generated text, the places that they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base.errors import ArgumentValueError

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}

Segment = tuple[int, ...]
"""(column), (column, source, line, column there) or these and a name: 0-based, of one generated line.

The first is the column itself; the others are differences from those of the segment before, also of earlier lines.
"""


class MappingsGenerator:
    """Collects the segments of each line, given by absolute numbers.

    >>> generator = MappingsGenerator()
    >>> generator.new_group()
    >>> generator.new_segment(0, 0, 1, 2)
    >>> generator.new_segment(4, 0, 2, 3)
    >>> generator.mappings()
    [[(0, 0, 1, 2), (4, 0, 1, 1)]]
    """

    def __init__(self) -> None:
        self._groups: list[list[Segment]] = []
        self._last = [0, 0, 0, 0]

    def new_group(self) -> None:
        """Begin the next line."""
        self._groups.append([])

    def new_segment(self, *seg: int) -> None:
        """Map column `seg[0]` of the line to source `seg[1]`, line `seg[2]`, column `seg[3]` and name `seg[4]`.

        Raises: ArgumentValueError for another number of numbers than 1, 4 or 5, and before the first line.
        """
        if len(seg) not in (1, 4, 5) or not self._groups:
            raise ArgumentValueError(
                "new_segment needs 1, 4 or 5 numbers, after new_group.", got=f"got {seg}"
            )
        column, *rest = seg
        self._groups[-1].append(
            (column, *(new - old for new, old in zip(rest, self._last, strict=False)))
        )
        self._last[: len(rest)] = rest

    def mappings(self) -> list[list[Segment]]:
        """The segments of each line."""
        return self._groups


@dataclass(frozen=True)
class SourceMap:
    """A source map; `mappings` has the segments of each line of the generated text.

    >>> text = SourceMap(3, ["a.py"], [""], [], [[(0, 0, 1, 2)]]).to_json()
    >>> text
    '{"version": 3, "sources": ["a.py"], "sourcesContent": [""], "names": [], "mappings": "AACE"}'
    >>> SourceMap.from_json(text).mappings
    [[(0, 0, 1, 2)]]
    """

    version: int
    sources: Sequence[str]
    sources_content: Sequence[str]
    names: Sequence[str]
    mappings: Sequence[Sequence[Segment]]

    def to_json(self) -> str:
        """The map as the text of its file."""
        lines = [",".join(_encode_line(group)) for group in self.mappings]
        return json.dumps(
            {
                "version": self.version,
                "sources": list(self.sources),
                "sourcesContent": list(self.sources_content),
                "names": list(self.names),
                "mappings": ";".join(lines),
            }
        )

    @classmethod
    def from_json(cls, json_data: str) -> SourceMap:
        """The map whose file has the text `json_data`. Raises: ArgumentValueError for letters that encode no number."""
        data = json.loads(json_data)
        mappings = [_decode_line(line) for line in data["mappings"].split(";")]
        content = data.get("sourcesContent", [])
        return cls(data["version"], data["sources"], content, data.get("names", []), mappings)


def _encode_line(group: Iterable[Segment]) -> list[str]:
    """Segments of a line as text, in which columns are differences as well."""
    texts, last = [], 0
    for column, *rest in group:
        texts.append("".join(map(_number_text, (column - last, *rest))))
        last = column
    return texts


def _number_text(number: int) -> str:
    """A number in digits of five bits, the lowest first, after the bit of its sign."""
    rest = (abs(number) << 1) | (number < 0)
    text = ""
    while True:
        rest, digit = rest >> 5, rest & 31
        text += _DIGITS[digit | (32 if rest else 0)]
        if not rest:
            return text


def _decode_line(line: str) -> list[Segment]:
    segments, last = [], 0
    for text in filter(None, line.split(",")):
        column, *rest = _numbers(text)
        last += column
        segments.append((last, *rest))
    return segments


def _numbers(text: str) -> list[int]:
    numbers, value, shift = [], 0, 0
    for letter in text:
        digit = _VALUES.get(letter)
        if digit is None:
            raise ArgumentValueError(
                "mappings have a letter that encodes no number.", got=repr(text)
            )
        value |= (digit & 31) << shift
        shift += 5
        if digit < 32:
            numbers.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return numbers


def source_map_of(places: Iterable[tuple[int, Any] | None]) -> SourceMap:
    """The map of a text of which each line has (its first column, its place) or None.

    A place has a `file`, a 1-based `line` and a 0-based `column`.
    """
    sources: dict[str, int] = {}
    generator = MappingsGenerator()
    for entry in places:
        generator.new_group()
        if entry is not None:
            column, place = entry
            source = sources.setdefault(place.file, len(sources))
            generator.new_segment(column, source, max(place.line - 1, 0), max(place.column, 0))
    return SourceMap(3, [*sources], [""] * len(sources), [], generator.mappings())
