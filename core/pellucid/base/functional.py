"""Iteration that checks lengths."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builtins import zip as strict_zip
else:
    strict_zip = functools.partial(zip, strict=True)
    """`zip` of iterables of one length: raises ValueError where one ends before the others."""
