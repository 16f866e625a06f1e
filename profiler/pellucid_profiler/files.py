"""Files that are whole or not there, and carry a digest."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.files import SEAL_BYTES, DamagedError, check_seal, seal

_FIELD_OF_SEAL = bytes((0xFA, 0x7F, SEAL_BYTES))
"""Head of the field 2047 of a protobuf message, which readers of recordings pass by."""


@contextlib.contextmanager
def whole_file(path: os.PathLike[str] | str) -> Generator[Path]:
    """A path to write into, which becomes `path` at the end of the block.

    Where the block fails, as on a full disk, a file that was at `path` stays as it was.

    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/a"
    >>> with whole_file(name) as part:
    ...     _ = part.write_text("text")
    >>> Path(name).read_text()
    'text'
    """
    part = Path(f"{os.fspath(path)}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_file(path: os.PathLike[str] | str, content: bytes) -> None:
    """Write `content` into a file, whole or not at all.

    >>> import tempfile
    >>> write_file(tempfile.mkdtemp() + "/a", b"text")
    """
    with whole_file(path) as part:
        part.write_bytes(content)


def seal_file(path: os.PathLike[str] | str) -> None:
    """Write the seal of what is before it over the last bytes of a file, which were kept free for it."""
    content = Path(path).read_bytes()[:-SEAL_BYTES]
    with open(path, "r+b") as file:
        file.seek(len(content))
        file.write(seal(content))


def sealed_recording(recording: bytes) -> bytes:
    """A serialized XSpace with a seal, in a field that readers pass by."""
    content = recording + _FIELD_OF_SEAL
    return content + seal(content)


def read_recording(path: Path) -> bytes:
    """The content of a file with a recording, which may be of another program and have no seal.

    Raises: ArgumentValueError for a damaged file.
    """
    content = path.read_bytes()
    try:
        check_seal(content, is_required=False)
    except DamagedError as error:
        raise ArgumentValueError(
            "this recording is damaged.", got=f"{path}: {error}", do="Record again."
        ) from None
    return content
