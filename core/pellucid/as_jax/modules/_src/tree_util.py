"""Trees as `jax._src.tree_util`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid.base.errors import ArgumentValueError
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
