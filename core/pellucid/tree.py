"""Functions of trees under the short names of `jax.tree`."""

from pellucid.base.tree import static
from pellucid.base.tree import tree_all as all
from pellucid.base.tree import tree_broadcast as broadcast
from pellucid.base.tree import tree_flatten as flatten
from pellucid.base.tree import tree_flatten_with_path as flatten_with_path
from pellucid.base.tree import tree_leaves as leaves
from pellucid.base.tree import tree_leaves_with_path as leaves_with_path
from pellucid.base.tree import tree_map as map
from pellucid.base.tree import tree_map_with_path as map_with_path
from pellucid.base.tree import tree_reduce as reduce
from pellucid.base.tree import tree_reduce_associative as reduce_associative
from pellucid.base.tree import tree_structure as structure
from pellucid.base.tree import tree_transpose as transpose
from pellucid.base.tree import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
