"""Errors about trees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid._machine.base.errors import PellucidError

from .differences import TreeDifference


class TreeError(PellucidError, ValueError):
    """A tree of Python containers can't be used as asked."""


class TreeArgumentError(PellucidError, TypeError):
    """A function of trees was given something that is no structure, no class or no field."""


class TreeStructureError(TreeError):
    """Two trees, or a tree and its leaves, don't fit.

    `differences` holds one record for each place where they differ.
    """

    def __init__(
        self, what: str, *, differences: Iterable[TreeDifference] = (), **more: Any
    ) -> None:
        super().__init__(what, **more)
        self.differences = tuple(differences)


class TreeTransposeError(TreeStructureError, TypeError):
    """The tree to transpose isn't the inner structure within the outer one."""


class UnsortableKeysError(TreeError, TypeError):
    """The keys of a dict can't be put in order, so its leaves have none either."""


class CyclicTreeError(TreeError, RecursionError):
    """A tree contains itself, or is nested too deep to be taken apart."""
