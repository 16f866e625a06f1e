"""Trees as `jax._src.tree_util`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pellucid.base import tree
from pellucid.base.errors import ArgumentValueError
from pellucid.base.tree import TreeStructureError
from pellucid.xla import pytree


class _Registry:
    """The classes whose instances are nodes of trees, as far as `in` goes."""

    def __contains__(self, node_type: type) -> bool:
        return pytree.is_registered(node_type)


_registry = _Registry()


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children of a node, and what it keeps beside them.

    Raises: ArgumentValueError for a leaf.

    >>> flatten_one_level({"a": 1, "b": 2})
    ((1, 2), ('a', 'b'))
    """
    node = pytree.flatten_one_level(tree)
    if node is None:
        raise ArgumentValueError(
            "flatten_one_level takes a node of a tree, and got a leaf.",
            got=f"got {type(tree).__name__}",
        )
    return node[0], node[1]


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Callable[[str], TreeStructureError]]:
    """For each place where a tree is no prefix of another, the error of an argument of a given name.

    >>> [error] = prefix_errors((0, [1, 2]), (5, [6, 7, 8]))
    >>> print(error("in_axes"))
    in_axes[1]: got list of 3, expected list of 2
    """
    return [
        lambda name, difference=each: TreeStructureError(difference.text(name))
        for each in tree.prefix_errors(prefix_tree, full_tree, is_leaf)
    ]
