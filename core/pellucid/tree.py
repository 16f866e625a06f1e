"""Functions of trees under the short names of `jax.tree`."""

from pellucid._machine.base import copy_with_name as _renamed, tree as _tree
from pellucid._machine.base.tree import static as static

all = _renamed(_tree.tree_all, "all", __name__)
broadcast = _renamed(_tree.tree_broadcast, "broadcast", __name__)
flatten = _renamed(_tree.tree_flatten, "flatten", __name__)
flatten_with_path = _renamed(_tree.tree_flatten_with_path, "flatten_with_path", __name__)
leaves = _renamed(_tree.tree_leaves, "leaves", __name__)
leaves_with_path = _renamed(_tree.tree_leaves_with_path, "leaves_with_path", __name__)
map = _renamed(_tree.tree_map, "map", __name__)
map_with_path = _renamed(_tree.tree_map_with_path, "map_with_path", __name__)
reduce = _renamed(_tree.tree_reduce, "reduce", __name__)
reduce_associative = _renamed(_tree.tree_reduce_associative, "reduce_associative", __name__)
structure = _renamed(_tree.tree_structure, "structure", __name__)
transpose = _renamed(_tree.tree_transpose, "transpose", __name__)
unflatten = _renamed(_tree.tree_unflatten, "unflatten", __name__)
