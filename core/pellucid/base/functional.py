"""Iteration that checks lengths, and sequences of integers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from builtins import zip as strict_zip
else:
    strict_zip = functools.partial(zip, strict=True)
    """`zip` of iterables of one length: raises ValueError where one ends before the others."""


def ints(values: Iterable[Any]) -> tuple[int, ...]:
    """`values`, axes or other indices, as a tuple of Python ints; raises TypeError for others.

    >>> ints([np.int32(1), 0])
    (1, 0)
    """
    return tuple(map(operator.index, values))
