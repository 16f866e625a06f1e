"""Checksums at the end of files, which reveal damage before the content is parsed."""

from __future__ import annotations

import hashlib

_TAG = b"pellucid"
SEAL_BYTES = len(_TAG) + hashlib.sha256().digest_size
"""Length of a seal in bytes."""


class DamagedError(ValueError):
    """Content that doesn't match its checksum."""


def seal(content: bytes | bytearray | memoryview) -> bytes:
    """The checksum to append to `content` in its file.

    >>> check_seal(b"content" + seal(b"content"))
    """
    return _TAG + hashlib.sha256(content).digest()


def check_seal(data: bytes | bytearray | memoryview, *, is_required: bool = True) -> None:
    """Raise DamagedError unless `data` end with the correct checksum, or with none if not `is_required`."""
    content, end = data[:-SEAL_BYTES], bytes(data[-SEAL_BYTES:])
    expected = seal(content)
    # In a damaged file, usually either the tag or the digest is still correct.
    is_damaged = end.startswith(_TAG) or end[len(_TAG) :] == expected[len(_TAG) :]
    if end != expected and (is_required or is_damaged):
        raise DamagedError(f"{len(data)} bytes that don't end with their digest")
