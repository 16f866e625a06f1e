"""Values as the Debug Adapter Protocol lists them: a line of text each, and their parts when somebody opens them."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MAX_PARTS = 50
"""Elements of a container, or of an array's first dimension, that are listed: front ends ask for all at once."""
MAX_READ = 100_000
"""Elements of an array up to which its range is shown beside its type."""
MAX_TEXT = 160
"""Characters of a value's text."""

Parts = Iterable[tuple[str, Any]]
_numbers = itertools.count(1)


class References:
    """Numbers of what has parts, from one time when its texts are shown to the next; no number is used twice."""

    def __init__(self, *, reads: bool) -> None:
        self._parts: dict[int, Callable[[], Parts]] = {}
        self._reads = reads
        """Whether elements of arrays may be read for the line of text, for which the computation is waited for."""

    def number(self, parts: Callable[[], Parts]) -> int:
        """A number for parts, which are computed when they are listed."""
        number = next(_numbers)
        self._parts[number] = parts
        return number

    def __contains__(self, number: int) -> bool:
        return number in self._parts

    def variables(self, number: int) -> list[dict[str, Any]]:
        """The parts with a number; none for one that is out of date."""
        parts = self._parts.get(number)
        return [] if parts is None else [self.variable(*each) for each in parts()]

    def variable(self, name: str, value: Any) -> dict[str, Any]:
        """A variable of the protocol. Front ends show its type, which therefore says all in one line."""
        has_parts = is_array(value) or (isinstance(value, (Mapping, list, tuple)) and len(value))
        number = self.number(lambda: parts_of(name, value)) if has_parts else 0
        return {
            "name": name, "value": value_text(value), "type": self.summary(value), "evaluateName": name,
            "variablesReference": number,
        }  # fmt: skip

    def summary(self, value: Any) -> str:
        """One line: an array's type, placement and, of small ones, range."""
        return summary(value, reads=self._reads)


def summary(value: Any, *, reads: bool = True) -> str:
    """Type, placement and range of arrays; the type of other values, with their number of elements."""
    if not _has_core():
        return _type_text(value)
    short_text = importlib.import_module("pellucid.introspect").short_text
    if not is_array(value):
        return short_text(value) or _type_text(value)
    text = short_text(value) or f"ndarray {value.dtype}{[*value.shape]}"
    if not (reads and _is_readable(value) and 0 < value.size <= MAX_READ):
        return text
    if value.size == 1:
        return f"{text} {value}"
    range_text = importlib.import_module("pellucid_kernel.debug.finders").range_text
    return f"{text} {range_text(value).partition(' ')[2]}".rstrip()


def value_text(value: Any) -> str:
    """A short text; of an array only where it has one element."""
    if is_array(value):
        return (
            str(value) if value.size == 1 and _is_readable(value) else summary(value, reads=False)
        )
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return _type_text(value)
    text = repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def parts_of(name: str, value: Any) -> Parts:
    """Elements of a container; of an array its properties and the first along its first dimension. Names are expressions."""
    if isinstance(value, Mapping):
        for key, each in itertools.islice(value.items(), MAX_PARTS):
            yield f"{name}[{key!r}]", each
        return
    if not is_array(value):
        fields = getattr(value, "_fields", None)
        for i, each in enumerate(value[:MAX_PARTS]):
            yield (f"{name}.{fields[i]}" if fields else f"{name}[{i}]"), each
        return
    yield f"{name}.shape", tuple(value.shape)
    yield f"{name}.dtype", str(value.dtype)
    if not _is_readable(value):
        return
    if value.size and getattr(value.dtype, "kind", "") in "iuf":
        for statistic in ("min", "max", "mean"):
            yield f"{name}.{statistic}()", getattr(value, statistic)()
    shards = getattr(value, "addressable_shards", ())
    if len(shards) > 1:
        for i, shard in enumerate(shards):
            yield f"{name}.addressable_shards[{i}].data", shard.data
    for i in range(min(value.shape[0], MAX_PARTS) if value.ndim else 0):
        yield f"{name}[{i}]", value[i]


def _has_core() -> bool:
    return "pellucid.wiring" in sys.modules


def is_array(value: Any) -> bool:
    """Whether a value is an array of the library's or NumPy's."""
    kind = type(value)
    return _is_numpys(value) or (
        kind.__module__.startswith("jaxlib") and kind.__name__ == "ArrayImpl"
    )


def _is_readable(array: Any) -> bool:
    return _is_numpys(array) or (array.is_fully_addressable and not array.is_deleted())


def _type_text(value: Any) -> str:
    name = type(value).__name__
    return f"{name} of {len(value)}" if isinstance(value, (Mapping, list, tuple, set)) else name


def _is_numpys(value: Any) -> bool:
    """Whether a value is NumPy's array; NumPy isn't loaded to find that out, as kernels start without it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
