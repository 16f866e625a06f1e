"""FlatBuffers, reading and writing without a schema compiler: tables, vectors, strings and scalars.

To write, a table is a dictionary from field numbers to values, and the type of a value says how it is written: a
dictionary is a table, a list a vector of references, `str` a string, `bytes` a vector of bytes, a NumPy array a vector
of scalars, a NumPy scalar a field of that dtype. None leaves a field out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

_ROOT_SIZE = 4
_OFFSET = np.dtype("<u4")


def encode(root: Mapping[int, Any]) -> bytes:
    """The bytes of a FlatBuffer whose root is the table `root`.

    >>> table = decode(encode({0: np.uint16(3), 2: "name", 3: [{0: np.int8(1)}, {}]}))
    >>> table.number(0, np.uint16), table.text(2), [t.number(0, np.int8) for t in table.tables(3)]
    (3, 'name', [1, 0])
    """
    writer = _Writer()
    writer.refer(0, writer.table(root))
    return bytes(writer.buffer)


class _Writer:
    """Writes forwards: a table or vector comes first, with placeholders for its references, then the objects it refers
    to.
    """

    def __init__(self) -> None:
        self.buffer = bytearray(_ROOT_SIZE)

    def refer(self, hole: int, target: int) -> None:
        """Fill the reference at `hole`: the distance to `target`."""
        struct.pack_into("<I", self.buffer, hole, target - hole)

    def align(self, size: int, ahead: int = 0) -> None:
        """Pad until `ahead` bytes further is a multiple of `size`."""
        self.buffer += bytes(-(len(self.buffer) + ahead) % size)

    def value(self, value: Any) -> int:
        """Writes the value that a reference leads to, and returns its position."""
        if isinstance(value, Mapping):
            return self.table(value)
        if isinstance(value, list):
            return self.references(value)
        if isinstance(value, str):
            return self.vector(value.encode() + b"\0", len(value.encode()), 1)
        if isinstance(value, bytes):
            return self.vector(value, len(value), 1)
        return self.vector(value.tobytes(), len(value), value.dtype.itemsize)

    def vector(self, data: bytes, length: int, alignment: int) -> int:
        self.align(max(alignment, _OFFSET.itemsize), _OFFSET.itemsize)
        position = len(self.buffer)
        self.buffer += struct.pack("<I", length) + data
        return position

    def references(self, values: list[Any]) -> int:
        position = self.vector(bytes(_OFFSET.itemsize * len(values)), len(values), _OFFSET.itemsize)
        for i, value in enumerate(values):
            self.refer(position + _OFFSET.itemsize * (i + 1), self.value(value))
        return position

    def table(self, fields: Mapping[int, Any]) -> int:
        """The table after its vtable: both sizes in bytes, then the offset of each field within the table."""
        fields = {slot: value for slot, value in fields.items() if value is not None}
        layout: dict[int, int] = {}
        size = _OFFSET.itemsize  # the distance to the vtable
        for slot in sorted(fields, key=lambda slot: (-_width(fields[slot]), slot)):
            layout[slot] = size
            size += _width(fields[slot])
        offsets = [layout.get(slot, 0) for slot in range(max(fields, default=-1) + 1)]
        vtable = struct.pack(f"<{2 + len(offsets)}H", 4 + 2 * len(offsets), size, *offsets)
        self.align(_OFFSET.itemsize, len(vtable))
        self.buffer += vtable
        position = len(self.buffer)
        self.buffer += struct.pack("<i", len(vtable)) + bytes(size - _OFFSET.itemsize)
        for slot, value in fields.items():
            place = position + layout[slot]
            if isinstance(value, np.generic):
                self.buffer[place : place + value.itemsize] = value.tobytes()
            else:
                self.refer(place, self.value(value))
        return position


def _width(value: Any) -> int:
    return value.itemsize if isinstance(value, np.generic) else _OFFSET.itemsize


def decode(data: bytes | bytearray | memoryview) -> Table:
    """The root table of a FlatBuffer.

    Raises: struct.error, here and in the methods of `Table`, where a reference leads out of the data.
    """
    view = memoryview(data).cast("B")
    return Table(view, struct.unpack_from("<I", view, 0)[0])


class Table:
    """One table of a FlatBuffer; fields that were left out have their default."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self._position = position
        self._vtable = position - struct.unpack_from("<i", data, position)[0]

    def _u16(self, position: int) -> int:
        return struct.unpack_from("<H", self._data, position)[0]

    def _u32(self, position: int) -> int:
        return struct.unpack_from("<I", self._data, position)[0]

    def _place(self, slot: int) -> int | None:
        """The position of a field; None if it was omitted."""
        entry = 4 + 2 * slot
        offset = self._u16(self._vtable + entry) if entry < self._u16(self._vtable) else 0
        return self._position + offset if offset else None

    def _target(self, slot: int) -> int | None:
        place = self._place(slot)
        return None if place is None else place + self._u32(place)

    def number(self, slot: int, dtype: Any) -> Any:
        """A scalar field as a Python number; 0 by default."""
        place = self._place(slot)
        return dtype(0).item() if place is None else self._scalars(place, 1, dtype)[0].item()

    def array(self, slot: int, dtype: Any) -> np.ndarray:
        """A vector of scalars; empty by default."""
        target = self._target(slot)
        if target is None:
            return np.zeros(0, dtype)
        return self._scalars(target + 4, self._u32(target), dtype)

    def _scalars(self, position: int, length: int, dtype: Any) -> np.ndarray:
        dtype = np.dtype(dtype).newbyteorder("<")
        data = self._data[position : position + length * dtype.itemsize]
        if len(data) < length * dtype.itemsize:
            raise struct.error("a vector ends behind the end of the data")
        return np.frombuffer(data, dtype)

    def table(self, slot: int) -> Table | None:
        """A table; None by default."""
        target = self._target(slot)
        return None if target is None else Table(self._data, target)

    def text(self, slot: int) -> str | None:
        """A string; None by default."""
        target = self._target(slot)
        return None if target is None else self._text(target)

    def _text(self, target: int) -> str:
        return self._scalars(target + 4, self._u32(target), np.uint8).tobytes().decode()

    def _targets(self, slot: int) -> list[int]:
        target = self._target(slot)
        if target is None:
            return []
        places = range(target + 4, target + 4 + 4 * self._u32(target), 4)
        return [place + self._u32(place) for place in places]

    def tables(self, slot: int) -> list[Table]:
        """A vector of tables; empty by default."""
        return [Table(self._data, target) for target in self._targets(slot)]

    def texts(self, slot: int) -> list[str]:
        """A vector of strings; empty by default."""
        return [self._text(target) for target in self._targets(slot)]
