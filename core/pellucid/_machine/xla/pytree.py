"""Pytrees: flattening and unflattening nested Python containers, in C++.

`default_registry` is pellucid's own. Types registered here don't appear in the process-wide registry of jaxlib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from jaxlib import _jax

T = TypeVar("T")

IsLeaf: TypeAlias = Callable[[Any], bool]
IsLeafWithPath: TypeAlias = Callable[[tuple[Any, ...], Any], bool]

if TYPE_CHECKING:

    class PyTreeDef:
        """The structure of a tree; hashable, compared by content."""

        num_leaves: int
        num_nodes: int

        @staticmethod
        def from_node_data_and_children(
            registry: PyTreeRegistry,
            node_data: tuple[type, Any] | None,
            children: Iterable[PyTreeDef],
        ) -> PyTreeDef: ...
        @staticmethod
        def deserialize_using_proto(registry: PyTreeRegistry, data: bytes) -> PyTreeDef: ...
        def serialize_using_proto(self) -> bytes: ...
        def node_data(self) -> tuple[type, Any] | None: ...
        def children(self) -> list[PyTreeDef]: ...
        def compose(self, inner: PyTreeDef, /) -> PyTreeDef: ...
        def unflatten(self, leaves: Iterable[Any], /) -> Any: ...
        def flatten_up_to(self, tree: Any) -> list[Any]: ...
        def from_iterable_tree(self, tree: Any, /) -> Any: ...
        def walk(
            self,
            of_node: Callable[[Any, Any], Any],
            of_leaf: Callable[[Any], Any] | None,
            leaves: Iterable[Any],
            /,
        ) -> Any: ...

    class DictKey:
        """Path entry of an item of a mapping."""

        __match_args__ = ("key",)
        key: Any

        def __init__(self, key: Any) -> None: ...

    class SequenceKey:
        """Path entry of an item of a sequence."""

        __match_args__ = ("idx",)
        idx: int

        def __init__(self, idx: int) -> None: ...

    class GetAttrKey:
        """Path entry of an attribute."""

        __match_args__ = ("name",)
        name: str

        def __init__(self, name: str) -> None: ...

    class FlattenedIndexKey:
        """Path entry of a child without a name, by its index."""

        __match_args__ = ("key",)
        key: int

        def __init__(self, key: int) -> None: ...

    class PyTreeRegistry:
        """Registry of the classes that are nodes of trees, with their flattening functions."""

        __name__: str

        def flatten(
            self, tree: Any, leaf_predicate: IsLeaf | None = None
        ) -> tuple[list[Any], PyTreeDef]: ...
        def flatten_with_path(
            self, tree: Any, leaf_predicate: IsLeafWithPath | None = None
        ) -> tuple[list[tuple[tuple[Any, ...], Any]], PyTreeDef]: ...
        def flatten_one_level(self, tree: Any) -> tuple[Iterable[Any], Any] | None: ...
        def flatten_one_level_with_keys(
            self, tree: Any
        ) -> tuple[Iterable[tuple[Any, Any]], Any] | None: ...
        def is_node(self, type: type) -> bool: ...
        def register_node(
            self,
            type: type[T],
            to_iterable: Callable[[T], tuple[Iterable[Any], Any]],
            from_iterable: Callable[[Any, Any], T],
            to_iterable_with_keys: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]]
            | None = None,
        ) -> None: ...
        def register_dataclass_node(
            self, type: type, data_fields: Sequence[str], meta_fields: Sequence[str], /
        ) -> None: ...

else:
    PyTreeDef = _jax.pytree.PyTreeDef
    PyTreeRegistry = _jax.pytree.PyTreeRegistry
    DictKey = _jax.pytree.DictKey
    SequenceKey = _jax.pytree.SequenceKey
    GetAttrKey = _jax.pytree.GetAttrKey
    FlattenedIndexKey = _jax.pytree.FlattenedIndexKey

default_registry = PyTreeRegistry()
# A registry is pickled by reference, as a global of this module; a treedef is pickled with a reference to its registry.
default_registry.__module__ = __name__
default_registry.__name__ = "default_registry"

# The bare C++ functions, for paths where 25 ns matter more than a detailed error message.
flatten = default_registry.flatten
flatten_with_path = default_registry.flatten_with_path
flatten_one_level = default_registry.flatten_one_level
is_registered = default_registry.is_node
register_node = default_registry.register_node
register_dataclass_node = default_registry.register_dataclass_node


class TangentForm(NamedTuple):
    """Conversion between a tangent of an opaque value and the tangents of its leaves.

    The first argument of both functions is the node's static data.
    """

    joined: Callable[[Any, list[Any]], Any]
    split: Callable[[Any, Any], list[Any]]


opaque_types: dict[type, TangentForm] = {}
"""Node classes that public tree functions treat as leaves, with the form of their tangents."""
library_types: dict[type, Callable[[Any], Any]] = {}
"""For library classes of values that consist of arrays, the function that returns their type; see `experimental.hijax`."""


class LibraryValues(Exception):
    """Raised for arguments that consist of mutable arrays: `experimental.hijax` converts the call."""


def stopping(is_leaf: Callable[..., bool] | None) -> Callable[..., bool]:
    """`is_leaf(node)` or `is_leaf(path, node)` that is also true for instances of opaque types."""
    return lambda *node: type(node[-1]) in opaque_types or (is_leaf is not None and is_leaf(*node))


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any] | None:
    """(key, child) pairs and static data of the root of `tree`; None for a leaf."""
    flattened = default_registry.flatten_one_level_with_keys(tree)
    if flattened is None or not hasattr(tree, "_fields"):
        return flattened
    # Some jaxlib releases give every item of a named tuple the name of the first one.
    pairs, _ = flatten_with_path(tree, lambda path, _: len(path) == 1)
    return [(path[0], child) for path, child in pairs], flattened[1]


def all_leaves(values: Iterable[Any]) -> bool:
    """Whether all `values` are leaves. None is not a leaf."""
    return _jax.pytree.all_leaves(default_registry, values)


def treedef_tuple(treedefs: Sequence[PyTreeDef]) -> PyTreeDef:
    """Structure of a tuple with items of structures `treedefs`."""
    return _jax.pytree.treedef_tuple(default_registry, treedefs)


def treedef_of_node(node_type: type, static_data: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
    """Structure of a node of `node_type` with `static_data` and children of structures `children`."""
    return PyTreeDef.from_node_data_and_children(
        default_registry, (node_type, static_data), children
    )


treedef_of_leaf = flatten(0)[1]
"""Structure of a leaf."""


def unflatten_bare(tree: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The leaves nested as in `tree`, with a tuple for every node, so that no user class is instantiated."""
    if tree.node_data() is None and tree.num_leaves == 1:
        [leaf] = leaves
        return leaf
    rest = iter(leaves)
    return tuple([unflatten_bare(x, islice(rest, x.num_leaves)) for x in tree.children()])


# Trees of tangents ------------------------------------------------------------------------------------------


def _open_opaque_values(tree: PyTreeDef) -> tuple[PyTreeDef, list[tuple[Any, int]]]:
    """(`tree` with a leaf for each opaque value, (node data or None, number of leaves) for each of these leaves)."""
    node = tree.node_data()
    if node is None:
        return tree, [(None, 1)]
    node_type, static_data = node
    if node_type in opaque_types:
        return treedef_of_leaf, [(node, tree.num_leaves)]
    opened = [_open_opaque_values(child) for child in tree.children()]
    structure = treedef_of_node(node_type, static_data, [structure for structure, _ in opened])
    return structure, [place for _, places in opened for place in places]


def _unflatten(
    tree: PyTreeDef, leaves: Iterable[Any], value: Callable[[Any, list[Any]], Any]
) -> Any:
    """`tree.unflatten(leaves)`, with `value(node data, its leaves)` for each opaque value."""
    if not opaque_types:
        return tree.unflatten(leaves)
    structure, places = _open_opaque_values(tree)
    rest = iter(leaves)
    return structure.unflatten(
        [next(rest) if node is None else value(node, [*islice(rest, n)]) for node, n in places]
    )


def unflatten_tangents(tree: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tangent or cotangent of a value of structure `tree`, from those of the value's leaves."""
    return _unflatten(tree, leaves, lambda node, xs: opaque_types[node[0]].joined(node[1], xs))


def flatten_tangents(
    tree: PyTreeDef, tangents: Any, is_leaf: IsLeaf | None = None
) -> tuple[list[Any], PyTreeDef]:
    """(tangents of the leaves of a value of structure `tree`, `tree`), from the result of `unflatten_tangents`.

    For other values, their leaves and structure. A None that `is_leaf` accepts stands for all leaves of an opaque
    value.
    """
    if not opaque_types:
        return flatten(tangents, is_leaf)
    leaves, structure = flatten(tangents, stopping(is_leaf))
    expected, places = _open_opaque_values(tree)
    if structure != expected:
        return leaves, structure
    split: list[Any] = []
    for x, (node, n) in zip(leaves, places, strict=True):
        if node is None or x is None:
            split += [x] * n
        else:
            split += opaque_types[node[0]].split(node[1], x)
    return split, tree


class _Apart(list[Any]):
    """List of the leaves of an opaque value, in its place."""


register_node(_Apart, lambda xs: (xs, None), lambda _, xs: _Apart(xs))


def unflatten_apart(tree: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """`tree.unflatten(leaves)` for leaves from which opaque values can't be made; lists of leaves replace these."""
    return _unflatten(tree, leaves, lambda _, xs: _Apart(xs))


def leaves_outside(tree: PyTreeDef) -> Sequence[int]:
    """Indices of the leaves of `tree` that don't belong to an opaque value."""
    if not opaque_types:
        return range(tree.num_leaves)
    positions = unflatten_apart(tree, range(tree.num_leaves))
    return [x for x in flatten(positions, lambda x: type(x) is _Apart)[0] if type(x) is not _Apart]


def unflatten_pairs(
    tree: PyTreeDef, leaves: Iterable[Any], marks: Iterable[bool], pair: Callable[[Any, bool], Any]
) -> Any:
    """The tree of `pair(x, mark)`; for an opaque value, `x` is the value, and `mark` tells whether any of its leaves is
    marked.
    """

    def of_opaque(node: Any, pairs: list[Any]) -> Any:
        structure = treedef_of_node(node[0], node[1], [treedef_of_leaf] * len(pairs))
        return pair(structure.unflatten([x for x, _ in pairs]), any(mark for _, mark in pairs))

    structure, places = _open_opaque_values(tree)
    pairs = zip(leaves, marks, strict=True)
    return structure.unflatten(
        [
            pair(*next(pairs)) if node is None else of_opaque(node, [*islice(pairs, n)])
            for node, n in places
        ]
    )
