"""The options that raise at NaN and infinity, off while a tool runs what it looks at."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import pellucid as pl


@contextlib.contextmanager
def without_traps() -> Generator[None]:
    """Let operations give NaN and infinity meanwhile; a block, or a decorator."""
    with pl.debug_nans(False), pl.debug_infs(False):
        yield
