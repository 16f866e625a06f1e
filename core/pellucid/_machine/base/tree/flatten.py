"""Flattening, rebuilding, mapping and reducing trees; prefix trees, in which each leaf applies to a whole subtree."""

import functools
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any

from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Binary, Function
from pellucid._machine.xla import (
    SPARE_LEVELS,
    IsLeaf,
    IsLeafWithPath,
    PyTreeDef,
    guard,
    leave_level,
    opaque_types,
    pytree,
    stopping,
)

from .diagnosis import raise_failure
from .differences import TreeDifference, same_node, structure_differences
from .errors import TreeArgumentError, TreeStructureError, TreeTransposeError
from .paths import KeyPath, shown_path

_flatten = guard(pytree.flatten)
_flatten_with_path = guard(pytree.flatten_with_path)


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """Leaves of `tree` in order, and its structure.

    Dicts are flattened in the order of their sorted keys. None is a node without leaves. `is_leaf(node)` may declare a
    node to be a leaf.

    Raises: UnsortableKeysError, CyclicTreeError.

    >>> tree_flatten({"b": (1, None), "a": 2})
    ([2, 1], PyTreeDef({'a': *, 'b': (*, None)}))
    """
    if opaque_types:
        is_leaf = stopping(is_leaf)
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
    """Structure of `tree`, without its leaves.

    >>> tree_structure({"b": (1, None), "a": 2})
    PyTreeDef({'a': *, 'b': (*, None)})
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf | IsLeafWithPath | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """(path, leaf) pairs of `tree` in order, and its structure.

    With `is_leaf_takes_path`, the predicate is called as `is_leaf(path, node)`.

    >>> tree_flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    predicate: Any = is_leaf if is_leaf_takes_path else _with_path(is_leaf)
    if opaque_types:
        predicate = stopping(predicate)
    try:
        return _flatten_with_path(tree, predicate)
    except Exception as error:
        for _ in SPARE_LEVELS:
            leave_level()
        raise_failure(tree, predicate, error)


def tree_leaves_with_path(
    tree: Any, is_leaf: IsLeaf | IsLeafWithPath | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """(path, leaf) pairs of `tree` in order.

    >>> tree_leaves_with_path((1, {"a": 2}))[1]
    ((SequenceKey(idx=1), DictKey(key='a')), 2)
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


generate_key_paths = tree_leaves_with_path
"""The older name of `tree_leaves_with_path`."""


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

    Unlike `tree_unflatten`, the subtrees are nested as `treedef` nests its leaves, in any iterables.

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


def _with_path(is_leaf: Callable[..., bool] | None) -> IsLeafWithPath | None:
    """`is_leaf` as a predicate that also receives the path."""
    return None if is_leaf is None else lambda _, node: is_leaf(node)


def _wrong_leaf_count(treedef: PyTreeDef, count: int) -> TreeStructureError:
    lines = [f"{count} leaves for a structure of {treedef.num_leaves}: {treedef}"]
    if count < treedef.num_leaves:
        indices = pytree.flatten_with_path(treedef.unflatten(range(treedef.num_leaves)))[0]
        lines.append(f"first without a value: {shown_path('tree', indices[count][0])}")
    return TreeStructureError("tree_unflatten got the wrong number of leaves.", got=lines)


# Prefixes -----------------------------------------------------------------------------------------


SHOWN_DIFFERENCES = 3
"""Number of differences that an error message lists."""


def is_none(node: Any) -> bool:
    """Whether `node` is None: a predicate for trees in which None is a leaf."""
    return node is None


def flatten_up_to(
    treedef: PyTreeDef, tree: Any, *, caller: str = "flatten_up_to", name: str = "tree"
) -> list[Any]:
    """Subtrees of `tree` at the leaves of the structure `treedef`.

    `caller` and `name` are the names of the function and the tree in error messages.

    Raises: TreeStructureError, which names the places where `tree` doesn't match `treedef`.

    >>> flatten_up_to(tree_structure((0, [0])), ({"a": 1}, [(2, 3)]))
    [{'a': 1}, (2, 3)]
    """
    try:
        return treedef.flatten_up_to(tree)
    except (TypeError, ValueError):
        if differences := _prefix_differences(treedef, tree):
            raise _misfit(caller, name, differences) from None
        raise


def prefix_errors(prefix: Any, full: Any, is_leaf: IsLeaf | None = None) -> list[TreeDifference]:
    """Places where the tree `full` doesn't match the prefix tree `prefix`; empty if it does.

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
    """For each leaf of the tree `full`, the leaf of `prefix` that applies to it.

    `is_leaf` is applied only to `prefix`. `caller` and `name` are the names of the function and of the tree `full` in
    error messages.

    Raises: TreeStructureError, which names the places where `full` doesn't match `prefix`.

    >>> broadcast_prefix((0, None), ({"a": 1, "b": 2}, [3]), is_leaf=is_none)
    [0, 0, None]
    """
    leaves, treedef = tree_flatten(prefix, is_leaf)
    subtrees = flatten_up_to(treedef, full, caller=caller, name=name)
    counts = [tree_structure(subtree).num_leaves for subtree in subtrees]
    return [leaf for leaf, count in strict_zip(leaves, counts) for _ in range(count)]


def broadcast_prefix_to(
    prefix: Any,
    treedef: PyTreeDef,
    is_leaf: IsLeaf | None = None,
    *,
    caller: str = "broadcast_prefix_to",
    name: str = "tree",
) -> list[Any]:
    """`broadcast_prefix` to a tree with the structure `treedef`.

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
    """For each leaf of `prefix`, the number of leaves of `full` that it applies to; None if they don't match."""
    if prefix.node_data() is None:
        return [full.num_leaves]
    if not same_node(prefix, full):
        return None
    counts: list[int] = []
    for child, full_child in strict_zip(prefix.children(), full.children()):
        child_counts = _leaf_counts(child, full_child)
        if child_counts is None:
            return None
        counts += child_counts
    return counts


def _prefix_differences(prefix: PyTreeDef, full: Any) -> list[TreeDifference]:
    leaves, structure = tree_flatten(full)
    return structure_differences(prefix, structure, leaves=leaves, is_prefix=True)


def _misfit(caller: str, name: str, differences: list[TreeDifference]) -> TreeStructureError:
    shown = [difference.text(name) for difference in differences[:SHOWN_DIFFERENCES]]
    if more := len(differences) - len(shown):
        shown.append(f"and {more} more")
    do = None
    if any(difference.expected == "None" for difference in differences):
        do = "None is a node without leaves; `is_leaf=lambda x: x is None` makes it a leaf."
    what = f"{caller}: the structures don't match."
    return TreeStructureError(what, got=shown, do=do, differences=differences)


# Maps ---------------------------------------------------------------------------------------------


_MISSING: Any = object()


def tree_map(f: Function, tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree of `f(leaf, *subtrees)` for each leaf of `tree`.

    Each tree of `rest` must have `tree` as a prefix: `subtrees` are its parts at the position of `leaf`.

    Raises: TreeStructureError, which names the places where a tree of `rest` doesn't match.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in leaves])
    columns = _columns("tree_map", treedef, rest)
    return treedef.unflatten([f(*row) for row in strict_zip(leaves, *columns)])


def tree_map_with_path(
    f: Function,
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf | IsLeafWithPath | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """The tree of `f(path, leaf, *subtrees)` for each leaf of `tree`; see `tree_map`.

    >>> tree_map_with_path(lambda path, x: keystr(path) + f"={x}", {"a": (1, 2)})
    {'a': ("['a'][0]=1", "['a'][1]=2")}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = _columns("tree_map_with_path", treedef, rest)
    return treedef.unflatten([f(*pair, *row) for pair, *row in zip(pairs, *columns, strict=True)])


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """A tree with the inner structure outside and the outer structure inside, from one nested the other way round.

    The default of `inner_treedef` is the structure of the first subtree at a leaf of the outer structure.

    Raises: TreeTransposeError if the number of leaves isn't the product of the two structures'.

    >>> tree_transpose(tree_structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    require_structures("tree_transpose", outer_treedef)
    inner = inner_treedef
    if inner is None:
        inner = _first_inner_structure(outer_treedef, pytree_to_transpose)
    require_structures("tree_transpose", inner)
    leaves, treedef = tree_flatten(pytree_to_transpose)
    rows, columns = outer_treedef.num_leaves, inner.num_leaves
    if len(leaves) != rows * columns:
        raise TreeTransposeError(
            "tree_transpose: the tree isn't the inner structure within the outer one.",
            got=[
                f"tree: {len(leaves)} leaves, {treedef}",
                f"expected: {rows} x {columns} leaves, {outer_treedef.compose(inner)}",
            ],
        )
    return inner.unflatten(
        [outer_treedef.unflatten(leaves[column::columns]) for column in range(columns)]
    )


def tree_reduce(
    function: Binary, tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """The leaves of `tree` combined from the left: `function(function(a, b), c)`.

    `initializer` comes before the first leaf; without it, a tree without leaves raises TypeError.

    >>> tree_reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]})
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is not _MISSING:
        return functools.reduce(function, leaves, initializer)
    _require_leaves("tree_reduce", "initializer", leaves)
    return functools.reduce(function, leaves)


def tree_reduce_associative(
    operation: Binary, tree: Any, *, identity: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """The leaves of `tree` combined in pairs, in a tree of logarithmic depth.

    `operation` must be associative: the halves of the leaves are combined first. `identity` is the result for a tree
    without leaves, which otherwise raises TypeError.

    >>> tree_reduce_associative(lambda a, b: f"({a}{b})", list("abcd"))
    '((ab)(cd))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves and identity is not _MISSING:
        return identity
    _require_leaves("tree_reduce_associative", "identity", leaves)
    return _reduce_in_halves(operation, leaves)


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves of `tree` are true; True if there are none.

    >>> tree_all({"a": True, "b": [1, None]}), tree_all([0])
    (True, False)
    """
    return all(tree_leaves(tree, is_leaf))


def _columns(caller: str, treedef: PyTreeDef, rest: Sequence[Any]) -> list[list[Any]]:
    """For each tree of `rest`, its subtrees at the leaves of `treedef`."""
    return [
        flatten_up_to(treedef, tree, caller=caller, name=f"rest[{index}]")
        for index, tree in enumerate(rest)
    ]


def _first_inner_structure(outer_treedef: PyTreeDef, tree: Any) -> PyTreeDef:
    subtrees = flatten_up_to(outer_treedef, tree, caller="tree_transpose")
    if not subtrees:
        raise TreeTransposeError(
            "tree_transpose: the inner structure can't be found.",
            got=f"an outer structure without leaves: {outer_treedef}",
            do="Give inner_treedef.",
        )
    return tree_structure(subtrees[0])


def _reduce_in_halves(operation: Binary, leaves: Sequence[Any]):
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    return operation(
        _reduce_in_halves(operation, leaves[:middle]),
        _reduce_in_halves(operation, leaves[middle:]),
    )


def _require_leaves(caller: str, argument: str, leaves: Sequence[Any]) -> None:
    if not leaves:
        raise TreeArgumentError(
            f"{caller}: the tree has no leaves.", do=f"Give `{argument}`, the result for this case."
        )
