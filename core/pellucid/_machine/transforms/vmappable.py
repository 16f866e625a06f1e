"""Containers for which the user defines how `vmap` unpacks and repacks them, instead of as pytrees."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import Function, tree_map


class Vmappable(NamedTuple):
    """The functions of one class of containers."""

    to_elt: Function
    """(element_of, index, container, spec) -> one element of the batch.

    `element_of(array, axis)` is one element of an array, `index()` the index in the batch.
    """
    from_elt: Function
    """(stacked, axis_size, element, spec) -> container; `stacked(axis_size, element, axis)` is a batched array."""


class Whole:
    """A container as a single leaf, even if its class is a pytree."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


registered: dict[type, Vmappable] = {}
"""Functions by container class."""
spec_types: set[type] = set()
"""Classes of specs that `in_axes` and `out_axes` may have for such containers."""
iotas: dict[type, Function] = {}
"""For each class of axis sizes, a function from a size to the indices 0, 1, …"""


def is_registered(x: Any) -> bool:
    """Whether `x` is a container of a registered class."""
    return type(x) in registered


def with_leaves(tree: Any) -> Any:
    """`tree` with each registered container as one leaf, a `Whole`."""

    def leaf(x: Any) -> Any:
        return Whole(x) if is_registered(x) else x

    return tree_map(leaf, tree, is_leaf=is_registered)
