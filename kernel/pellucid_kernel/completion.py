"""Array types and placements in completions and tooltips. No array is fetched for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from IPython.core.completer import Completion
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.oinspect import object_info

from pellucid import introspect

_MAX_CHARACTERS = 60


class Hints:
    """Wraps the completer and the inspector of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._completer: Any = shell.Completer
        self._inspector: Any = shell.inspector
        self._completions: Callable[..., Iterator[Completion]] = self._completer.completions
        self._info: Callable[..., Any] = self._inspector.info
        self._completer.completions = self.completions
        self._inspector.info = self.info

    def stop(self) -> None:
        """Restores the shell's own completer and inspector."""
        del self._completer.completions, self._inspector.info

    def completions(self, text: str, offset: int) -> Iterator[Completion]:
        """The shell's completions; those of arrays and trees of arrays are annotated with their type."""
        for completion in self._completions(text, offset):
            described = self.describe(completion.text)
            if described is not None:
                completion.type = described
            yield completion

    def describe(self, name: str) -> str | None:
        """Type of the array in the variable `name`; None for other values."""
        root, *attributes = name.split(".")
        value = self._shell.user_ns.get(root)
        # Only through plain instance attributes: a property may compute or fetch.
        for attribute in attributes:
            value = getattr(value, "__dict__", {}).get(attribute)
        text = introspect.short_text(value)
        return text if text is None or len(text) <= _MAX_CHARACTERS else f"{text[:59]}…"

    def info(self, obj: Any, oname: str = "", info: Any = None, detail_level: int = 0) -> Any:
        """Tooltip of a value. IPython's own would print an array's elements, and fetch them for that."""
        text = introspect.short_text(obj)
        if text is None or not hasattr(obj, "sharding"):
            result = self._info(obj, oname=oname, info=info, detail_level=detail_level)
            return result if text is None else {**result, "string_form": text}
        lines = [text, *device_lines(obj)]
        return object_info(
            name=oname,
            found=True,
            type_name="Array",
            string_form="\n".join(lines),
            docstring="An array on devices; its elements are fetched when it is shown.",
        )


def device_lines(array: Any) -> list[str]:
    """Lines that list the devices of an array, and the shape of the shard on each."""
    if array.is_deleted():
        return []
    ids = sorted(device.id for device in array.sharding.device_set)
    shard = array.sharding.shard_shape(array.shape)
    if len(ids) == 1:
        return [f"on device {ids[0]}"]
    return [f"on devices {', '.join(map(str, ids))}, {list(shard)} on each"]
