"""Pytrees: flattening, rebuilding, mapping and comparing nested Python containers of leaves."""

# Imported for other folders.
# pyright: reportUnusedImport=false

from pellucid._machine.xla.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    PyTreeDef,
    SequenceKey,
    default_registry,
)

from .differences import TreeDifference, leaf_type, structure_differences
from .errors import (
    CyclicTreeError,
    TreeArgumentError,
    TreeError,
    TreeStructureError,
    TreeTransposeError,
    UnsortableKeysError,
)
from .flatten import (
    all_leaves,
    broadcast_prefix,
    broadcast_prefix_to,
    build_tree,
    flatten_up_to,
    generate_key_paths,
    is_none,
    prefix_errors,
    tree_all,
    tree_broadcast,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_reduce_associative,
    tree_structure,
    tree_transpose,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_is_strict_leaf,
    treedef_tuple,
)
from .paths import (
    KeyEntry,
    KeyPath,
    keystr,
    leaf_paths,
    shown_path,
)
from .registry import (
    Partial,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
)
