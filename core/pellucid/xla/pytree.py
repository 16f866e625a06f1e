"""Pytrees: nested Python containers taken apart and rebuilt in C++.

`default_registry` is pellucid's own. The process-wide registry of jaxlib is left alone, so
that types registered here are seen here only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from jaxlib import _jax

PyTreeDef: TypeAlias = _jax.pytree.PyTreeDef
PyTreeRegistry: TypeAlias = _jax.pytree.PyTreeRegistry

DictKey: TypeAlias = _jax.pytree.DictKey
SequenceKey: TypeAlias = _jax.pytree.SequenceKey
GetAttrKey: TypeAlias = _jax.pytree.GetAttrKey
FlattenedIndexKey: TypeAlias = _jax.pytree.FlattenedIndexKey

IsLeaf: TypeAlias = Callable[[Any], bool]
IsLeafWithPath: TypeAlias = Callable[[tuple[Any, ...], Any], bool]

default_registry = PyTreeRegistry()
# A registry pickles by reference, as a global of the module it names; a treedef pickles with
# a reference to its registry.
default_registry.__module__ = __name__
default_registry.__name__ = "default_registry"

# The bare C++ calls, for paths where an explained error is worth less than 25 ns.
flatten: Callable[..., tuple[list[Any], PyTreeDef]] = default_registry.flatten
flatten_with_path: Callable[..., tuple[list[tuple[tuple[Any, ...], Any]], PyTreeDef]] = (
    default_registry.flatten_with_path
)
flatten_one_level: Callable[[Any], tuple[Iterable[Any], Any] | None] = (
    default_registry.flatten_one_level
)
is_registered: Callable[[type], bool] = default_registry.is_node
register_node = default_registry.register_node
register_dataclass_node = default_registry.register_dataclass_node
opaque_types: set[type] = set()
"""Node classes whose instances public functions of trees take for leaves."""
library_types: dict[type, Callable[[Any], Any]] = {}
"""For each class of values of libraries that consist of arrays, how to get their type; see `experimental.hijax`."""


class LibraryValues(Exception):
    """Raised for arguments that consist of arrays and change in place: `experimental.hijax` makes another call of it."""


def stopping(is_leaf: Callable[..., bool] | None) -> Callable[..., bool]:
    """`is_leaf(node)` or `is_leaf(path, node)`, which is true also of instances of opaque types."""
    return lambda *node: type(node[-1]) in opaque_types or (is_leaf is not None and is_leaf(*node))


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any] | None:
    """(key, child) pairs and static data of the root of `tree`; None for a leaf."""
    flattened = default_registry.flatten_one_level_with_keys(tree)
    if flattened is None or not hasattr(tree, "_fields"):
        return flattened
    # Some releases of jaxlib give every item of a named tuple the name of the first one.
    pairs, _ = flatten_with_path(tree, lambda path, _: len(path) == 1)
    return [(path[0], child) for path, child in pairs], flattened[1]


def all_leaves(values: Iterable[Any]) -> bool:
    """Whether every one of `values` is a leaf. None is not."""
    return _jax.pytree.all_leaves(default_registry, values)


def treedef_tuple(treedefs: Sequence[PyTreeDef]) -> PyTreeDef:
    """Structure of the tuple whose items have the structures `treedefs`."""
    return _jax.pytree.treedef_tuple(default_registry, treedefs)


def treedef_of_node(node_type: type, static_data: Any, children: Sequence[PyTreeDef]) -> PyTreeDef:
    """Structure of a node of `node_type` with `static_data`, whose children have the structures `children`."""
    return PyTreeDef.from_node_data_and_children(
        default_registry, (node_type, static_data), children
    )
