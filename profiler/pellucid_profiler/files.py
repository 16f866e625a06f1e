"""Atomic writes of files, and checksums (seals) of recordings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.files import SEAL_BYTES, DamagedError, check_seal, seal

_FIELD_OF_SEAL = bytes((0xFA, 0x7F, SEAL_BYTES))
"""Header of field 2047 of a protobuf message, which readers of XSpace skip as unknown."""


def local_folder(path: os.PathLike[str] | str) -> Path:
    """The folder `path`, which need not exist. Raises: ArgumentValueError for an address such as gs://bucket/run.

    >>> local_folder("traces").name
    'traces'
    """
    if "://" in os.fspath(path):
        raise ArgumentValueError(
            "recordings are written to a folder, not to an address.",
            got=repr(os.fspath(path)),
            do="Name a folder and copy its files, or one in which the bucket is mounted.",
        )
    return Path(path)


@contextlib.contextmanager
def whole_file(path: os.PathLike[str] | str) -> Generator[Path]:
    """Context manager for an atomic write: gives a temporary path, which replaces `path` at the end of the block.

    If the block fails, for example because the disk is full, an existing file at `path` stays unchanged.

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
    """Writes `content` to a file atomically.

    >>> import tempfile
    >>> write_file(tempfile.mkdtemp() + "/a", b"text")
    """
    with whole_file(path) as part:
        part.write_bytes(content)


def seal_file(path: os.PathLike[str] | str) -> None:
    """Overwrites the last `SEAL_BYTES` bytes of a file, reserved for it, with the seal of the bytes before."""
    content = Path(path).read_bytes()[:-SEAL_BYTES]
    with open(path, "r+b") as file:
        file.seek(len(content))
        file.write(seal(content))


def sealed_recording(recording: bytes) -> bytes:
    """A serialized XSpace with its seal appended as an unknown field, which readers skip."""
    content = recording + _FIELD_OF_SEAL
    return content + seal(content)


def read_recording(path: Path) -> bytes:
    """The bytes of a recording's file, after checking its seal if it has one; files of other tools have none.

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
