"""Trees: nested Python containers of leaves, taken apart, rebuilt, mapped and compared."""

from pellucid.base.tree.differences import Difference, leaf_paths, leaf_type, structure_differences
from pellucid.base.tree.errors import (
    CyclicTreeError,
    StaticDataError,
    TreeArgumentError,
    TreeError,
    TreeStructureError,
    TreeTransposeError,
    UnsortableKeysError,
)
from pellucid.base.tree.flatten import (
    all_leaves,
    build_tree,
    generate_key_paths,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_structure,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_is_strict_leaf,
    treedef_tuple,
)
from pellucid.base.tree.mapping import (
    tree_all,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_reduce_associative,
    tree_transpose,
)
from pellucid.base.tree.partial import Partial
from pellucid.base.tree.paths import KeyEntry, KeyPath, keystr, shown_path
from pellucid.base.tree.prefixes import (
    broadcast_prefix,
    broadcast_prefix_to,
    flatten_up_to,
    is_none,
    prefix_errors,
    tree_broadcast,
)
from pellucid.base.tree.registry import (
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
from pellucid.base.tree.static_data import require_comparable
from pellucid.xla.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    PyTreeDef,
    SequenceKey,
    default_registry,
)
