"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: os.PathLike[str] | str) -> Iterator[Path]:
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
