"""Seals of files: a digest at the end, by which damage is known before anything reads the content."""

from __future__ import annotations

import hashlib

_TAG = b"pellucid"
SEAL_BYTES = len(_TAG) + hashlib.sha256().digest_size
"""Length of a seal in bytes."""


class DamagedError(ValueError):
    """Content that isn't what was sealed."""


def seal(content: bytes | bytearray | memoryview) -> bytes:
    """The bytes that follow `content` in its file.

    >>> check_seal(b"content" + seal(b"content"))
    """
    return _TAG + hashlib.sha256(content).digest()


def check_seal(data: bytes | bytearray | memoryview, *, is_required: bool = True) -> None:
    """Raise DamagedError unless `data` end with the seal of what is before it, or with none where none `is_required`."""
    content, end = data[:-SEAL_BYTES], bytes(data[-SEAL_BYTES:])
    expected = seal(content)
    # Of a damaged file either the tag or the digest is as it was.
    is_damaged = end.startswith(_TAG) or end[len(_TAG) :] == expected[len(_TAG) :]
    if end != expected and (is_required or is_damaged):
        raise DamagedError(f"{len(data)} bytes that don't end with their digest")
