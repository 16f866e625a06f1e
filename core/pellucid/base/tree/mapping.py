"""Map, transpose and reduce trees."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.base.typing import Function
from pellucid.xla.pytree import IsLeaf, IsLeafWithPath, PyTreeDef

from .errors import TreeArgumentError, TreeTransposeError
from .flatten import (
    require_structures,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_structure,
)
from .prefixes import flatten_up_to

_MISSING: Any = object()


def tree_map(f: Function, tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree of `f(leaf, *subtrees)` for each leaf of `tree`.

    Each tree of `rest` must continue the structure of `tree`: `subtrees` are its parts that
    stand where `leaf` stands.

    Raises: TreeStructureError that names the places where a tree of `rest` doesn't fit.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in leaves])
    columns = _columns("tree_map", treedef, rest)
    return treedef.unflatten([f(*row) for row in zip(leaves, *columns, strict=True)])


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
    """The outer structure within each leaf of the inner one, from the inner within the outer.

    Without `inner_treedef`, the first subtree at a leaf of the outer structure gives it.

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
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """The leaves of `tree` combined from the left: `function(function(a, b), c)`.

    `initializer` stands before the first leaf; without it a tree without leaves raises
    TypeError.

    >>> tree_reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]})
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _MISSING:
        _require_leaves("tree_reduce", "initializer", leaves)
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """The leaves of `tree` combined in pairs, in a tree of logarithmic depth.

    `operation` must be associative: the halves of the leaves are combined first. `identity`
    is the result for a tree without leaves, which raises TypeError without it.

    >>> tree_reduce_associative(lambda a, b: f"({a}{b})", list("abcd"))
    '((ab)(cd))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves and identity is not _MISSING:
        return identity
    _require_leaves("tree_reduce_associative", "identity", leaves)
    return _reduced_in_halves(operation, leaves)


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves of `tree` are true; so they are if there are none.

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


def _first_inner_structure(outer_treedef: PyTreeDef, tree) -> PyTreeDef:
    subtrees = flatten_up_to(outer_treedef, tree, caller="tree_transpose")
    if not subtrees:
        raise TreeTransposeError(
            "tree_transpose: the inner structure can't be found.",
            got=f"an outer structure without leaves: {outer_treedef}",
            do="Give inner_treedef.",
        )
    return tree_structure(subtrees[0])


def _reduced_in_halves(operation: Callable[[Any, Any], Any], leaves: Sequence[Any]):
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    return operation(
        _reduced_in_halves(operation, leaves[:middle]),
        _reduced_in_halves(operation, leaves[middle:]),
    )


def _require_leaves(caller: str, argument: str, leaves: Sequence[Any]) -> None:
    if not leaves:
        raise TreeArgumentError(
            f"{caller}: the tree has no leaves.",
            do=f"Give `{argument}`, the result for this case.",
        )
