"""Take trees apart and rebuild them; ask structures about themselves."""

from collections.abc import Iterable, Sized
from typing import Any

from pellucid.xla import pytree
from pellucid.xla.pytree import IsLeaf, IsLeafWithPath, PyTreeDef
from pellucid.xla.recursion import SPARE_LEVELS, guarded, leave_level

from .diagnosis import raise_failure
from .errors import TreeArgumentError, TreeStructureError
from .paths import KeyPath, shown_path

_flatten = guarded(pytree.flatten)
_flatten_with_path = guarded(pytree.flatten_with_path)


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """Leaves of `tree` in order, and its structure.

    Dicts are taken in the order of their sorted keys. None is a node without leaves.
    `is_leaf(node)` may stop at a node and make it a leaf.

    Raises: UnsortableKeysError, CyclicTreeError.

    >>> tree_flatten({"b": (1, None), "a": 2})
    ([2, 1], PyTreeDef({'a': *, 'b': (*, None)}))
    """
    try:
        return _flatten(tree, is_leaf)
    except Exception as error:
        for _ in SPARE_LEVELS:
            leave_level()
        raise_failure(tree, _with_path(is_leaf), error)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with the structure `treedef` and the given leaves.

    Raises: TreeStructureError if there are too few leaves or too many.

    >>> tree_unflatten(tree_structure({"a": 0, "b": (0, 0)}), [1, 2, 3])
    {'a': 1, 'b': (2, 3)}
    """
    try:
        return treedef.unflatten(leaves)
    except (AttributeError, TypeError):
        require_structures("tree_unflatten", treedef)
        raise
    except ValueError as error:
        if isinstance(leaves, Sized) and len(leaves) != treedef.num_leaves:
            raise _wrong_leaf_count(treedef, len(leaves)) from error
        raise


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Leaves of `tree` in order.

    >>> tree_leaves({"b": (1, None), "a": 2})
    [2, 1]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """Structure of `tree`: what is left of it without its leaves.

    >>> tree_structure({"b": (1, None), "a": 2})
    PyTreeDef({'a': *, 'b': (*, None)})
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_flatten_with_path(
    tree: Any,
    is_leaf: IsLeaf | IsLeafWithPath | None = None,
    is_leaf_takes_path: bool = False,
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """(path, leaf) pairs of `tree` in order, and its structure.

    With `is_leaf_takes_path`, the predicate is called as `is_leaf(path, node)`.

    >>> tree_flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    predicate: Any = is_leaf if is_leaf_takes_path else _with_path(is_leaf)
    try:
        return _flatten_with_path(tree, predicate)
    except Exception as error:
        for _ in SPARE_LEVELS:
            leave_level()
        raise_failure(tree, predicate, error)


def tree_leaves_with_path(
    tree: Any,
    is_leaf: IsLeaf | IsLeafWithPath | None = None,
    is_leaf_takes_path: bool = False,
) -> list[tuple[KeyPath, Any]]:
    """(path, leaf) pairs of `tree` in order.

    >>> tree_leaves_with_path((1, {"a": 2}))[1]
    ((SequenceKey(idx=1), DictKey(key='a')), 2)
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def generate_key_paths(tree: Any) -> list[tuple[KeyPath, Any]]:
    """(path, leaf) pairs of `tree` in order; another name of `tree_leaves_with_path`.

    >>> generate_key_paths([5])
    [((SequenceKey(idx=0),), 5)]
    """
    return tree_flatten_with_path(tree)[0]


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every item of `iterable` is a leaf. None is not.

    >>> all_leaves([1, "text"]), all_leaves([1, (2, 3)]), all_leaves([None])
    (True, False, False)
    """
    if is_leaf is None:
        return pytree.all_leaves(iterable)
    return all(treedef_is_strict_leaf(tree_structure(item, is_leaf)) for item in iterable)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Structure of the tuple whose items have the structures `treedefs`.

    >>> treedef_tuple([tree_structure(1), tree_structure([2])])
    PyTreeDef((*, [*]))
    """
    treedefs = list(treedefs)
    require_structures("treedef_tuple", *treedefs)
    return pytree.treedef_tuple(treedefs)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Structures of the children of the root.

    >>> treedef_children(tree_structure({"a": 1, "b": [2]}))
    [PyTreeDef(*), PyTreeDef([*])]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, None or an empty container.

    >>> treedef_is_leaf(tree_structure(1)), treedef_is_leaf(tree_structure([1]))
    (True, False)
    """
    return treedef.num_nodes == 1


def treedef_is_strict_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is that of a leaf; None and empty containers are not.

    >>> treedef_is_strict_leaf(tree_structure(1)), treedef_is_strict_leaf(tree_structure(None))
    (True, False)
    """
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def build_tree(treedef: PyTreeDef, subtrees: Any) -> Any:
    """The tree with the structure `treedef` and a subtree at each leaf.

    Unlike `tree_unflatten`, this takes the subtrees nested as `treedef` nests its leaves, in
    any iterables.

    >>> build_tree(tree_structure({"a": 0, "b": (0, 0)}), [1, [2, [3, 4]]])
    {'a': 1, 'b': (2, [3, 4])}
    """
    return treedef.from_iterable_tree(subtrees)


def require_structures(caller: str, *treedefs: Any) -> None:
    """Raise TreeArgumentError unless all of `treedefs` are structures of trees."""
    for treedef in treedefs:
        if not isinstance(treedef, PyTreeDef):
            raise TreeArgumentError(
                f"{caller}: needs the structure of a tree.",
                got=type(treedef).__qualname__,
                do="Pass what `tree_structure` gives; the structure comes before the tree or"
                " its leaves.",
            )


def _with_path(is_leaf) -> IsLeafWithPath | None:
    """`is_leaf` as a predicate that is given the path, too."""
    return None if is_leaf is None else lambda _, node: is_leaf(node)


def _wrong_leaf_count(treedef: PyTreeDef, count: int) -> TreeStructureError:
    lines = [f"{count} leaves for a structure of {treedef.num_leaves}: {treedef}"]
    if count < treedef.num_leaves:
        indices = pytree.flatten_with_path(treedef.unflatten(range(treedef.num_leaves)))[0]
        lines.append(f"first without a value: {shown_path('tree', indices[count][0])}")
    return TreeStructureError("tree_unflatten: the number of leaves is wrong.", got=lines)
