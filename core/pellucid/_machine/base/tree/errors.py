"""Errors about trees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid._machine.base.errors import PellucidError

from .differences import TreeDifference


class TreeError(PellucidError, ValueError):
    """A tree of Python containers that can't be used in the requested way."""


class TreeArgumentError(PellucidError, TypeError):
    """A function of trees was called with something that isn't a structure, class or field."""


class TreeStructureError(TreeError):
    """Two trees, or a tree and its leaves, don't match.

    `differences` contains a record for each mismatch.
    """

    def __init__(
        self, what: str, *, differences: Iterable[TreeDifference] = (), **more: Any
    ) -> None:
        super().__init__(what, **more)
        self.differences = tuple(differences)


class TreeTransposeError(TreeStructureError, TypeError):
    """The tree to transpose isn't the inner structure within the outer one."""


class UnsortableKeysError(TreeError, TypeError):
    """The keys of a dict can't be sorted, so the order of its leaves is undefined."""


class CyclicTreeError(TreeError, RecursionError):
    """A tree contains itself, or is nested too deeply to be flattened."""
