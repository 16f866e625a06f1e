"""Values in terms of the Debug Adapter Protocol: one line of text, and elements that are listed on demand."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MAX_PARTS = 50
"""Maximum number of listed elements of a container, or along an array's first dimension: front ends request all at
once.
"""
MAX_READ = 100_000
"""Maximum size of an array whose range is computed and shown."""
MAX_TEXT = 160
"""Maximum length of a value's text."""

Parts = Iterable[tuple[str, Any]]
_numbers = itertools.count(1)


class References:
    """Numbers by which front ends request the elements of a value. They are reset between stops and never reused."""

    def __init__(self, *, reads: bool) -> None:
        self._parts: dict[int, tuple[Callable[[], Parts], bool]] = {}
        self._reads = reads
        """Whether texts may depend on elements of arrays, which waits for their computation."""

    def number(self, parts: Callable[[], Parts], *, waits: bool = False) -> int:
        """A number for a list of elements, which is computed when requested; `waits`: their texts may wait for them."""
        number = next(_numbers)
        self._parts[number] = parts, waits
        return number

    def __contains__(self, number: int) -> bool:
        return number in self._parts

    def variables(self, number: int) -> list[dict[str, Any]]:
        """The elements of the value with this number; empty if the number is out of date."""
        parts, waits = self._parts.get(number, (tuple, False))
        return [self.variable(name, value, waits=waits) for name, value in parts()]

    def variable(self, name: str, value: Any, *, waits: bool = False) -> dict[str, Any]:
        """A variable of the protocol. Front ends show only its type, so the type contains the whole description.

        An array that isn't computed is pending, unless these texts read arrays or `waits`.
        """
        has_parts = is_array(value) or (isinstance(value, (Mapping, list, tuple)) and len(value))
        # Elements and statistics of what is computed are soon there.
        is_there = is_array(value) and is_ready(value)
        number = self.number(lambda: parts_of(name, value), waits=is_there) if has_parts else 0
        text = value_text(value, waits=self._reads or waits)
        return {
            "name": name, "value": text, "type": self.summary(value), "evaluateName": name,
            "variablesReference": number,
        }  # fmt: skip

    def summary(self, value: Any) -> str:
        """One-line description: type and placement of an array, and its range if it is small."""
        return summary(value, reads=self._reads)


_SPEAKING = ("SemaphoreValue", "BarrierValue")
"""Types whose values say what they are: those of the simulator, which is loaded only with kernels."""


def summary(value: Any, *, reads: bool = True) -> str:
    """Type, placement and range of an array; type and length of other values."""
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


def value_text(value: Any, *, waits: bool) -> str:
    """Short text of a value; of an array the element if it has one, and if that is there or the text `waits` for it."""
    if is_array(value):
        text = summary(value, reads=False)
        if not _is_readable(value):
            return text
        if not (waits or is_ready(value)):
            return f"{text}, pending"
        return str(value) if value.size == 1 else text
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return _type_text(value)
    return _shortened(repr(value))


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def parts_of(name: str, value: Any) -> Parts:
    """Elements of a container, or properties and first elements of an array. Their names are expressions."""
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
    """Whether a value is an array of pellucid or NumPy."""
    kind = type(value)
    return _is_numpys(value) or (
        kind.__module__.startswith("jaxlib") and kind.__name__ == "ArrayImpl"
    )


def is_ready(array: Any) -> bool:
    """Whether an array is computed; a deleted one counts as such."""
    return _is_numpys(array) or array.is_deleted() or array.is_ready()


def _is_readable(array: Any) -> bool:
    return _is_numpys(array) or (array.is_fully_addressable and not array.is_deleted())


def _type_text(value: Any) -> str:
    name = type(value).__name__
    if name in _SPEAKING:
        return _shortened(repr(value))
    return f"{name} of {len(value)}" if isinstance(value, (Mapping, list, tuple, set)) else name


def _is_numpys(value: Any) -> bool:
    """Whether a value is a NumPy array, checked without importing NumPy, because kernels start without it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
