"""What the user sees when XLA's runtime reports an error."""

from __future__ import annotations

from pellucid.base.errors import ExecutionError, OutOfMemoryError
from pellucid.runtime.memory import live_arrays_in_words

_CODES = (
    "INTERNAL",
    "INVALID_ARGUMENT",
    "UNKNOWN",
    "FAILED_PRECONDITION",
    "UNIMPLEMENTED",
    "ABORTED",
)


def runtime_error(name: str, error: Exception) -> Exception:
    """The error for what went wrong while running `name`; `error` itself if it isn't XLA's."""
    text = str(error)
    if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        return OutOfMemoryError(
            f"`{name}` needs more memory than the device has.",
            got=[text.splitlines()[0], *live_arrays_in_words()],
            do="Delete or donate arrays that are no longer needed, or use smaller or sharded ones.",
        )
    if type(error) is ValueError and not text.startswith(_CODES):
        return error
    return ExecutionError(f"`{name}` failed while it ran.", got=text.splitlines()[:40])
