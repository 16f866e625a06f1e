"""Programs on trees, whose results are texts and Python values."""

import dataclasses
import functools
from collections import OrderedDict, defaultdict, namedtuple

Point = namedtuple("Point", "x y")  # noqa: PYI024  (the reference's fields are untyped, too)


def containers(jax):
    """Containers of every kind, odd ones among them, by name."""
    tree_util = jax.tree_util

    @tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, *items):
            self.items = items

        def tree_flatten(self):
            return self.items, "static"

        @classmethod
        def tree_unflatten(cls, static_data, items):
            return cls(*items)

    @tree_util.register_pytree_with_keys_class
    class Named:
        def __init__(self, first, second):
            self.first, self.second = first, second

        def tree_flatten_with_keys(self):
            keyed = (tree_util.GetAttrKey("first"), self.first), ("plain key", self.second)
            return keyed, None

        @classmethod
        def tree_unflatten(cls, static_data, items):
            return cls(*items)

    @functools.partial(tree_util.register_dataclass)
    @dataclasses.dataclass
    class Layer:
        weight: object
        bias: object
        activation: str = jax.tree.static(default="relu")

    @tree_util.register_static
    class Word(str):
        __slots__ = ()

    class Subclass(dict):
        pass

    return {
        "scalar": 1,
        "none": None,
        "empty": [(), [], {}, OrderedDict(), None],
        "nested": {"b": [1, (2, 3)], "a": {"z": None, "y": 4}},
        "integer keys": {3: "c", 1: "a", 2: "b"},
        "tuple keys": {(2, 1): "b", (1, 5): "a"},
        "mixed numbers": {1: 2, 1.5: 3, False: 4},
        "ordered": OrderedDict([("z", 1), ("a", (2, 3))]),
        "default": defaultdict(list, {"b": [1], "a": [2, 3]}),
        "named tuple": Point(1, [2, Point(3, None)]),
        "set": {5},
        "subclass of a node": [Subclass(a=1), "text"],
        "pair": Pair(1, Pair(2, [3])),
        "named": Named([1, 2], {"k": 3}),
        "dataclass": Layer([1, 2], None),
        "static": (Word("x"), 1),
        "partial": tree_util.Partial(pow, 2, mod=[5, 7]),
    }


def flattened(jax):
    """Leaves, structure and paths of every container."""
    return {
        name: (
            repr(jax.tree.leaves(tree)),
            str(jax.tree.structure(tree)),
            [
                (repr(path), jax.tree_util.keystr(path))
                for path, _ in jax.tree.leaves_with_path(tree)
            ],
            jax.tree.structure(tree).num_leaves,
            jax.tree.structure(tree).num_nodes,
            str(jax.tree_util.treedef_children(jax.tree.structure(tree))),
            jax.tree_util.treedef_is_leaf(jax.tree.structure(tree)),
            jax.tree_util.is_tree_node(type(tree)),
        )
        for name, tree in containers(jax).items()
    }


def path_texts(jax):
    """`keystr` of keys of every class, in every style."""
    tree_util = jax.tree_util
    path = (
        *(tree_util.DictKey("a"), tree_util.DictKey((1, "x")), tree_util.DictKey(2.5)),
        *(tree_util.SequenceKey(1), tree_util.GetAttrKey("b"), tree_util.FlattenedIndexKey(3)),
        *("plain", 4),
    )
    return [
        tree_util.keystr(path[:count], simple=simple, separator=separator)
        for count in (0, 1, len(path))
        for simple in (False, True)
        for separator in ("", "/", ".")
    ]


def mapped(jax):
    """Results of mapping, broadcasting, transposing and reducing."""
    tree = jax.tree
    nested = {"b": [1, (2, 3)], "a": None}

    def is_none(node):
        return node is None

    def is_tuple(node):
        return isinstance(node, tuple)

    def at_depth_two(path, node):
        return len(path) == 2

    def joined(a, b):
        return f"({a}{b})"

    return repr([
        tree.map(lambda x, y: (x, y), nested, nested),
        tree.map(lambda x, y: (x, y), [1, 2], [(3, 4), None]),
        tree.map(str, nested, is_leaf=is_none),
        tree.map(str, nested, is_leaf=is_tuple),
        tree.map_with_path(lambda path, x: (path, x), nested),
        tree.map_with_path(lambda path, x: x, nested, is_leaf=at_depth_two, is_leaf_takes_path=True),
        tree.flatten_with_path(nested, is_leaf=is_tuple),
        tree.broadcast((1, {"k": 2}), ([0, [0]], {"k": {"l": 0}})),
        tree.transpose(tree.structure([0, 0]), tree.structure({"a": 0}), [{"a": 1}, {"a": 2}]),
        tree.transpose(tree.structure([0, 0]), None, [(1, 2), (3, 4)]),
        tree.transpose(tree.structure([0, 0]), tree.structure((0, 0)), [(1, 2), [3, 4]]),
        tree.reduce(joined, nested),
        tree.reduce(joined, nested, "start"),
        tree.reduce(joined, [], None),
        [tree.reduce_associative(joined, list(range(n)), identity="e") for n in range(9)],
        [tree.all(leaves) for leaves in ([], [1, [True]], [0], None)],
        jax.tree_util.all_leaves([1, "x"]),
        jax.tree_util.all_leaves([1, [2]]),
        jax.tree_util.all_leaves([None]),
        jax.tree_util.all_leaves([(1, 2)], is_leaf=is_tuple),
        jax.tree_util.treedef_tuple([tree.structure(1), tree.structure([2])]),
        jax.tree_util.flatten_one_level({"b": 1, "a": [2]}),
        list(jax.tree_util.flatten_one_level_with_keys([1])[0]),
    ])  # fmt: skip


def partials(jax):
    """How `Partial` treats what is partial already."""
    partial = jax.tree_util.Partial
    inner = functools.partial(pow, 2)
    return [
        jax.tree.leaves(partial(inner, 3)),
        jax.tree.leaves(partial(partial(pow, 2), 3)),
        partial(inner, 3)(),
        partial(partial(pow, 2), 3)(5),
        jax.tree.structure(partial(pow, 1)) == jax.tree.structure(partial(pow, 2)),
        jax.tree.structure(partial(inner, 1)) == jax.tree.structure(partial(inner, 2)),
        jax.tree.structure(partial(pow, 1)) == jax.tree.structure(partial(max, 1)),
        isinstance(partial(pow, 2), functools.partial),
    ]


def failures(jax):
    """Built-in class of the error of every misuse, "none" where there is no error."""
    tree, tree_util = jax.tree, jax.tree_util

    class Plain:
        pass

    @dataclasses.dataclass
    class Record:
        a: int
        b: int

    @dataclasses.dataclass
    class Computed:
        a: int
        b: int = dataclasses.field(init=False, default=1)

    two = tree.structure((0, 0))
    misuses = {
        "too few leaves": lambda: tree.unflatten(two, [1]),
        "too many leaves": lambda: tree.unflatten(two, iter([1, 2, 3])),
        "leaves that are none": lambda: tree.unflatten(two, 5),
        "other length": lambda: tree.map(max, (1, [2]), (1, [2, 3])),
        "other type": lambda: tree.map(max, (1, [2]), (1, (2,))),
        "other keys": lambda: tree.map(max, {"a": 1}, {"b": 1}),
        "leaf for node": lambda: tree.map(max, [[1]], [1]),
        "node for leaf": lambda: tree.map(lambda x, y: y, [1], [[1]]),
        "value for none": lambda: tree.map(max, (1, None), (1, 2)),
        "none for value": lambda: tree.map(lambda x, y: y, (1, 2), (1, None)),
        "unsortable keys": lambda: tree.leaves({1: 1, "a": 2}),
        "unsortable keys of a defaultdict": lambda: tree.leaves(defaultdict(int, {1: 1, "a": 2})),
        "not a boolean": lambda: tree.leaves([1], is_leaf=lambda node: 1),
        "wrong prefix": lambda: tree.broadcast((1, 2), [1, 2]),
        "too short prefix": lambda: tree.broadcast((1, 2), (1, 2, 3)),
        "deeper than the inner structure": lambda: tree.transpose(two, two, [[1, 2], [3, (4, 5)]]),
        "reduce nothing": lambda: tree.reduce(max, []),
        "reduce nothing in pairs": lambda: tree.reduce_associative(max, []),
        "one level of a leaf": lambda: tree_util.flatten_one_level(1),
        "registered twice": lambda: tree_util.register_pytree_node(list, list, list),
        "one list of fields": lambda: tree_util.register_dataclass(Record, ["a", "b"]),
        "missing field": lambda: tree_util.register_dataclass(Record, ["a"], []),
        "unknown field": lambda: tree_util.register_dataclass(Record, ["a", "b", "c"], []),
        "field in both lists": lambda: tree_util.register_dataclass(Record, ["a", "b"], ["a"]),
        "computed field": lambda: tree_util.register_dataclass(Computed),
        "no dataclass": lambda: tree_util.register_dataclass(Plain),
        "dropped field": lambda: tree_util.register_dataclass(Record, ["a"], [], drop_fields=["b"]),
    }

    def error_classes(misuse):
        try:
            misuse()
        except Exception as error:  # any of them is the answer
            return [cls.__name__ for cls in type(error).__mro__]
        return ["none"]

    return {name: error_classes(misuse) for name, misuse in misuses.items()}
