"""Rotation of large grids: a run takes one part in eight of the tests marked `rotates` or `slow`.

Which one stands in `part.txt`, so the same tree always runs the same tests. `PELLUCID_TEST_PART` chooses another: a number
from 0 to 7, or `all`.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PARTS = 8
PART = Path(__file__).parent / "part.txt"
VARIABLE = "PELLUCID_TEST_PART"
ALL = "all"
ROTATING = ("rotates", "slow")
"""Markers whose tests rotate. A `rotates(key)` with a key shares the part of all tests with that key."""


Case = tuple[Any, ...]


def rotating(cases: Iterable[Case], kind: Callable[[Case], Hashable]) -> list[Any]:
    """Cases as parameters of a test, of which all but the first of each kind rotate."""
    seen: set[Hashable] = set()
    parameters = []
    for case in cases:
        marks = [pytest.mark.rotates] if kind(case) in seen else []
        seen.add(kind(case))
        parameters.append(pytest.param(*case, marks=marks))
    return parameters


def kind_of_types(dtypes: Iterable[np.dtype]) -> str:
    """Kind of dtypes: "wide" (complex or 64 bits), "narrow" (16 bits or less) or "usual"."""
    dtypes = list(dtypes)
    if any(dtype.kind == "c" or dtype.itemsize == 8 for dtype in dtypes):
        return "wide"
    narrow = any(dtype.itemsize <= 2 and dtype.kind != "b" for dtype in dtypes)
    return "narrow" if narrow else "usual"


@functools.cache
def part_of_run() -> int | None:
    """Part that this run takes, from 0 to 7; None for all parts.

    Raises: ValueError if the environment variable holds neither a number of a part nor `all`.
    """
    chosen = os.environ.get(VARIABLE, "")
    if not chosen:
        return int(PART.read_text(encoding="utf-8"))
    if chosen == ALL:
        return None
    if not chosen.isdigit() or int(chosen) >= PARTS:
        raise ValueError(f"{VARIABLE} is a number below {PARTS} or {ALL!r}, not {chosen!r}.")
    return int(chosen)


def part_of(key: str | int) -> int:
    """Part to which a test belongs; numbers are spread evenly."""
    return (key if isinstance(key, int) else zlib.crc32(key.encode())) % PARTS


def runs_whole(key: str) -> bool:
    """Whether this run takes all cases of the test with this key; other runs take the case that says most.

    A test that rotates by the same key is whole whenever it runs.
    """
    return part_of_run() in (None, part_of(key))


def key_of(item: pytest.Item) -> str | int | None:
    """The key that decides the part of a test; None for a test that every run takes."""
    for name in ROTATING:
        marker = item.get_closest_marker(name)
        if marker is not None:
            return marker.args[0] if marker.args else item.nodeid
    return None


def names_tests(config: pytest.Config) -> bool:
    """Whether the command line names single tests; then all of these run."""
    return bool(config.option.keyword) or any("::" in argument for argument in config.args)


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove from `items` the tests of other parts."""
    part = part_of_run()
    if part is None or names_tests(config):
        return
    keys = [key_of(item) for item in items]
    others = [
        item
        for item, key in zip(items, keys, strict=True)
        if key is not None and part_of(key) != part
    ]
    if others:
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]


def summary() -> str:
    """Line that says which part a run took and how to repeat it."""
    part = part_of_run()
    if part is None:
        return f"Tests of all {PARTS} parts ran."
    return f"Rotating tests: part {part} of 0 to {PARTS - 1}. Repeat with {VARIABLE}={part}; all parts: {VARIABLE}={ALL}."
