"""Trees that stand for larger ones: each leaf of a prefix speaks for a whole subtree."""

from typing import Any

from pellucid.base.functional import strict_zip
from pellucid.xla.pytree import IsLeaf, PyTreeDef

from .differences import Difference, same_node, structure_differences
from .errors import TreeStructureError
from .flatten import tree_flatten, tree_structure, tree_unflatten

SHOWN_DIFFERENCES = 3
"""How many differences an error message lists."""


def is_none(node: Any) -> bool:
    """Whether `node` is None: the predicate for trees in which None says something."""
    return node is None


def flatten_up_to(
    treedef: PyTreeDef, tree: Any, *, caller: str = "flatten_up_to", name: str = "tree"
) -> list[Any]:
    """Subtrees of `tree` at the leaves of the structure `treedef`.

    `caller` and `name` are what error messages call the function and the tree.

    Raises: TreeStructureError that names the places where `tree` doesn't continue `treedef`.

    >>> flatten_up_to(tree_structure((0, [0])), ({"a": 1}, [(2, 3)]))
    [{'a': 1}, (2, 3)]
    """
    try:
        return treedef.flatten_up_to(tree)
    except (TypeError, ValueError):
        if differences := _prefix_differences(treedef, tree):
            raise _misfit(caller, name, differences) from None
        raise


def prefix_errors(prefix: Any, full: Any, is_leaf: IsLeaf | None = None) -> list[Difference]:
    """Places where the tree `full` doesn't continue the tree `prefix`; empty if it does.

    `is_leaf` is applied to `prefix` only.

    >>> [difference] = prefix_errors((0, [1, 2]), (5, [6, 7, 8]))
    >>> difference.text("args")
    'args[1]: got list of 3, expected list of 2'
    """
    return _prefix_differences(tree_structure(prefix, is_leaf), full)


def broadcast_prefix(
    prefix: Any,
    full: Any,
    is_leaf: IsLeaf | None = None,
    *,
    caller: str = "broadcast_prefix",
    name: str = "full",
) -> list[Any]:
    """For each leaf of the tree `full`, the leaf of the tree `prefix` that speaks for it.

    `is_leaf` is applied to `prefix` only. `caller` and `name` are what error messages call the
    function and the tree `full`.

    Raises: TreeStructureError that names the places where `full` doesn't continue `prefix`.

    >>> broadcast_prefix((0, None), ({"a": 1, "b": 2}, [3]), is_leaf=is_none)
    [0, 0, None]
    """
    leaves, treedef = tree_flatten(prefix, is_leaf)
    subtrees = flatten_up_to(treedef, full, caller=caller, name=name)
    result = []
    for leaf, subtree in strict_zip(leaves, subtrees):
        result += [leaf] * tree_structure(subtree).num_leaves
    return result


def broadcast_prefix_to(
    prefix: Any,
    treedef: PyTreeDef,
    is_leaf: IsLeaf | None = None,
    *,
    caller: str = "broadcast_prefix_to",
    name: str = "tree",
) -> list[Any]:
    """`broadcast_prefix` for a tree of which only the structure `treedef` is known.

    >>> broadcast_prefix_to((0, 1), tree_structure(({"a": 1, "b": 2}, [3])))
    [0, 0, 1]
    """
    leaves, prefix_treedef = tree_flatten(prefix, is_leaf)
    counts = _leaf_counts(prefix_treedef, treedef)
    if counts is None:
        differences = structure_differences(prefix_treedef, treedef, is_prefix=True)
        raise _misfit(caller, name, differences)
    return [leaf for leaf, count in strict_zip(leaves, counts) for _ in range(count)]


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree with the structure of `full_tree` and the leaves of `prefix_tree`, repeated.

    >>> tree_broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": 0})
    {'a': [1, 1], 'b': 2}
    """
    leaves = broadcast_prefix(
        prefix_tree, full_tree, is_leaf, caller="tree_broadcast", name="full_tree"
    )
    return tree_unflatten(tree_structure(full_tree), leaves)


def _leaf_counts(prefix: PyTreeDef, full: PyTreeDef) -> list[int] | None:
    """For each leaf of `prefix`, how many leaves of `full` it speaks for; None for a misfit."""
    if prefix.node_data() is None:
        return [full.num_leaves]
    if not same_node(prefix, full):
        return None
    counts = []
    for child, full_child in strict_zip(prefix.children(), full.children()):
        child_counts = _leaf_counts(child, full_child)
        if child_counts is None:
            return None
        counts += child_counts
    return counts


def _prefix_differences(prefix: PyTreeDef, full) -> list[Difference]:
    leaves, structure = tree_flatten(full)
    return structure_differences(prefix, structure, leaves=leaves, is_prefix=True)


def _misfit(caller: str, name: str, differences: list[Difference]) -> TreeStructureError:
    shown = [difference.text(name) for difference in differences[:SHOWN_DIFFERENCES]]
    if more := len(differences) - len(shown):
        shown.append(f"and {more} more")
    do = None
    if any(difference.expected == "None" for difference in differences):
        do = "None is a node without leaves; `is_leaf=lambda x: x is None` makes it a leaf."
    what = f"{caller}: the structures don't match."
    return TreeStructureError(what, got=shown, do=do, differences=differences)
