"""Trees: what the reference does, what holds for all of them, and what goes wrong."""

import collections
import dataclasses
import functools
import math
import operator
import pickle
import types

import numpy as np
import pytest
from corpus import dtype_facts, trees
from hypothesis import given, strategies as st

import pellucid as pl
import pellucid.tree
import pellucid.tree_util
from pellucid._machine.base.tree import (
    CyclicTreeError,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    TreeArgumentError,
    TreeError,
    TreeStructureError,
    TreeTransposeError,
    UnsortableKeysError,
    broadcast_prefix,
    broadcast_prefix_to,
    build_tree,
    flatten_one_level,
    flatten_up_to,
    generate_key_paths,
    is_none,
    is_tree_node,
    keystr,
    leaf_paths,
    prefix_errors,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    shown_path,
    structure_differences,
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
    treedef_is_leaf,
    treedef_is_strict_leaf,
    treedef_tuple,
)
from tools import public_api

LIBRARY = types.SimpleNamespace(tree=pellucid.tree, tree_util=pellucid.tree_util)

# As in the reference


@pytest.mark.parametrize(
    "program", [trees.flattened, trees.path_texts, trees.mapped, trees.partials]
)
def test_results_agree_with_the_reference(oracle, program):
    assert program(LIBRARY) == oracle.call(program)


def test_errors_can_be_caught_by_the_reference_s_built_in_classes(oracle):
    ours, theirs = trees.failures(LIBRARY), oracle.call(trees.failures)
    for name, ancestors in theirs.items():
        assert ancestors[0] in ours[name], name
    assert [name for name, ancestors in theirs.items() if ancestors == ["none"]] == [
        name for name, ancestors in ours.items() if ancestors == ["none"]
    ]


def test_the_facades_have_the_reference_s_names(oracle):
    names = oracle.call(dtype_facts.public_names)
    assert sorted(public_api.names_of(pellucid.tree)) == names["tree"]
    assert sorted(public_api.names_of(pellucid.tree_util)) == names["tree_util"]


# What holds for all trees

Point = collections.namedtuple("Point", "x y")  # noqa: PYI024
LEAVES = st.integers() | st.text(max_size=2) | st.floats(allow_nan=False)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Layer:
    weight: object
    bias: object
    name: str = pellucid.tree.static(default="layer")


def nodes(children):
    keyed = st.dictionaries(st.text(max_size=3), children, max_size=3)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        keyed,
        st.dictionaries(st.integers(), children, max_size=3),
        keyed.map(collections.OrderedDict),
        keyed.map(functools.partial(collections.defaultdict, int)),
        st.builds(Point, children, children),
        st.builds(Layer, children, children, st.sampled_from(["a", "b"])),
        st.just(None),
    )


TREES = st.recursive(LEAVES, nodes, max_leaves=12)


def followed(tree, path):
    """The node of `tree` at `path`."""
    for key in path:
        match key:
            case DictKey(name):
                tree = tree[name]
            case SequenceKey(index):
                tree = tree[index]
            case GetAttrKey(name):
                tree = getattr(tree, name)
            case _:
                raise AssertionError(key)
    return tree


@given(TREES)
def test_unflatten_undoes_flatten(tree):
    leaves, treedef = tree_flatten(tree)
    rebuilt = tree_unflatten(treedef, leaves)
    assert rebuilt == tree
    assert type(rebuilt) is type(tree)
    assert tree_structure(rebuilt) == treedef
    assert hash(tree_structure(rebuilt)) == hash(treedef)
    assert treedef.num_leaves == len(leaves)
    assert tree_leaves(tree) == leaves
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@given(TREES)
def test_a_path_leads_to_its_leaf(tree):
    pairs, treedef = tree_flatten_with_path(tree)
    assert [leaf for _, leaf in pairs] == tree_leaves(tree)
    assert treedef == tree_structure(tree)
    assert all(followed(tree, path) is leaf for path, leaf in pairs)
    assert len({keystr(path) for path, _ in pairs}) == len(pairs)
    assert generate_key_paths(tree) == pairs == tree_leaves_with_path(tree)


@given(TREES)
def test_mapping_keeps_structure_and_composes(tree):
    assert tree_map(lambda leaf: leaf, tree) == tree
    twice = tree_map(repr, tree_map(repr, tree))
    assert twice == tree_map(lambda leaf: repr(repr(leaf)), tree)
    assert tree_structure(twice) == tree_structure(tree)
    assert tree_map(lambda a, b: (a, b), tree, tree) == tree_map(lambda leaf: (leaf, leaf), tree)
    assert tree_map_with_path(lambda _, leaf: leaf, tree) == tree


def nested_lists(tree):
    """`tree` with a list of the children in place of each node."""
    if not is_tree_node(type(tree)):
        return tree
    return [nested_lists(child) for child in flatten_one_level(tree)[0]]


@given(TREES)
def test_a_tree_is_built_from_nested_lists(tree):
    assert build_tree(tree_structure(tree), nested_lists(tree)) == tree


@given(TREES)
def test_a_predicate_makes_leaves_of_nodes(tree):
    assert tree_leaves(tree, is_leaf=lambda node: True) == [tree]
    assert tree_leaves(tree, is_leaf=lambda node: node is tree) == [tree]
    assert tree_leaves(tree, is_leaf=lambda node: False) == tree_leaves(tree)
    with_nones = tree_leaves(tree, is_leaf=is_none)
    assert [leaf for leaf in with_nones if leaf is not None] == tree_leaves(tree)
    with_paths = tree_flatten_with_path(tree, lambda path, node: not path, is_leaf_takes_path=True)
    assert with_paths[0] == [((), tree)]


@given(TREES, TREES)
def test_transposing_twice_changes_nothing(outer, inner):
    outer_treedef, inner_treedef = tree_structure(outer), tree_structure(inner)
    rows = outer_treedef.num_leaves
    tree = outer_treedef.unflatten(
        [tree_map(lambda leaf, row=row: (row, leaf), inner) for row in range(rows)]
    )
    if rows == 0 or inner_treedef.num_leaves == 0:
        return
    leaf_treedef = tree_structure((0, 0))
    transposed = tree_transpose(outer_treedef, inner_treedef.compose(leaf_treedef), tree)
    assert tree_structure(transposed) == inner_treedef.compose(leaf_treedef).compose(outer_treedef)
    assert tree_transpose(inner_treedef.compose(leaf_treedef), outer_treedef, transposed) == tree
    if rows > 0:
        assert tree_transpose(outer_treedef, None, tree) == transposed


@given(st.lists(st.text(max_size=2)))
def test_reductions_of_an_associative_operation_agree(leaves):
    assert tree_reduce(operator.add, leaves, "") == "".join(leaves)
    assert tree_reduce_associative(operator.add, leaves, identity="") == "".join(leaves)
    assert tree_all(leaves) == all(leaves)


def is_prefix_leaf(size):
    """Whether a node of the prefix is to be cut there, decided by its repr."""
    return lambda node: len(repr(node)) % size == 0


@given(TREES, st.integers(2, 5))
def test_a_prefix_speaks_for_the_leaves_below_it(tree, size):
    treedef = tree_structure(tree, is_leaf=is_prefix_leaf(size))
    prefix = treedef.unflatten(range(treedef.num_leaves))
    subtrees = flatten_up_to(treedef, tree)
    expected = [
        index for index, subtree in enumerate(subtrees) for _ in range(len(tree_leaves(subtree)))
    ]
    assert broadcast_prefix(prefix, tree) == expected
    assert broadcast_prefix_to(prefix, tree_structure(tree)) == expected
    assert tree_leaves(tree_broadcast(prefix, tree)) == expected
    assert tree_structure(tree_broadcast(prefix, tree)) == tree_structure(tree)
    assert prefix_errors(prefix, tree) == []


@given(TREES, TREES)
def test_differences_are_found_where_structures_differ(a, b):
    differences = structure_differences(tree_structure(a), tree_structure(b))
    assert (differences == []) == (tree_structure(a) == tree_structure(b))
    for difference in differences:
        assert difference.got != difference.expected
        followed(b, difference.path)


@given(TREES, TREES)
def test_prefix_errors_are_found_where_a_prefix_does_not_fit(a, b):
    errors = prefix_errors(a, b)
    if not errors:
        assert broadcast_prefix(a, b) == broadcast_prefix_to(a, tree_structure(b))
        return
    with pytest.raises(TreeStructureError) as caught:
        flatten_up_to(tree_structure(a), b)
    assert caught.value.differences == tuple(errors)
    with pytest.raises(TreeStructureError):
        broadcast_prefix_to(a, tree_structure(b))


# Nodes of users


def test_a_leaf_predicate_sees_a_prefix_only():
    assert broadcast_prefix((0, None), ({"a": 1}, [2, 3]), is_none) == [0, None, None]
    with pytest.raises(TreeStructureError, match=r"full\[1\]: got list of 2, expected None"):
        broadcast_prefix((0, None), ({"a": 1}, [2, 3]))


def test_a_dropped_field_is_left_to_its_default():
    @functools.partial(register_dataclass, data_fields=["a"], meta_fields=[], drop_fields=["b"])
    @dataclasses.dataclass
    class Cached:
        a: int
        b: int = 7

    assert tree_map(lambda x: x + 1, Cached(1, 2)) == Cached(2, 7)


def test_a_computed_field_can_be_dropped():
    @functools.partial(register_dataclass, drop_fields=["b"])
    @dataclasses.dataclass
    class Computed:
        a: int
        b: int = dataclasses.field(init=False, default=1)

    assert tree_leaves(Computed(5)) == [5]


def test_a_class_that_is_no_dataclass_is_registered_by_its_fields():
    class Record:
        def __init__(self, a, b):
            self.a, self.b = a, b

    register_dataclass(Record, ["a"], ["b"])
    leaves, treedef = tree_flatten(Record(1, 2))
    assert leaves == [1]
    assert treedef.unflatten([3]).b == 2
    with pytest.raises(TreeError, match="in data_fields and in meta_fields: a"):
        register_dataclass(type("Other", (), {}), ["a"], ["a"])


def test_a_named_tuple_can_be_registered():
    Tagged = collections.namedtuple("Tagged", "value tag")  # noqa: PYI024
    register_pytree_node(Tagged, lambda t: ((t.value,), t.tag), lambda tag, c: Tagged(c[0], tag))
    assert tree_leaves(Tagged(1, "x")) == [1]
    with pytest.raises(TreeError, match="Tagged is registered already"):
        register_pytree_node(Tagged, lambda t: ((), None), lambda tag, c: None)


def test_partial_is_a_tree_that_pickles_and_calls():
    partial = pickle.loads(pickle.dumps(Partial(operator.mul, 3)))
    assert partial(4) == 12
    assert tree_map(lambda x: x + 1, partial)(4) == 16
    nested = Partial(Partial(operator.mul, 3), 4)
    assert tree_leaves(nested) == [4]
    shown = repr(nested).replace(f"{Partial.__module__}.", "")  # shown from Python 3.13 on
    assert shown == "Partial(Partial(<built-in function mul>, 3), 4)"
    assert hash(tree_structure(nested)) == hash(tree_structure(Partial(nested.func, 5)))


def test_structures_tell_leaves_from_empty_nodes():
    for tree, is_leaf, is_strict_leaf in (
        (1, True, True),
        (None, True, False),
        ([], True, False),
        ([1], False, False),
    ):
        treedef = tree_structure(tree)
        assert treedef_is_leaf(treedef) == is_leaf
        assert treedef_is_strict_leaf(treedef) == is_strict_leaf


# Failures


def test_a_misfit_names_the_path_and_both_sides():
    params = {"layer1": Layer({"a": 1, "b": 2}, 0)}
    other = {"layer1": Layer((1, 2), 0)}
    with pytest.raises(TreeStructureError) as caught:
        tree_map(max, params, params, other)
    assert str(caught.value) == (
        "tree_map: the structures don't match.\n"
        "  rest[1][\"layer1\"].weight: got tuple of 2, expected dict with keys 'a', 'b'"
    )
    [difference] = caught.value.differences
    assert difference.text("params") == (
        "params[\"layer1\"].weight: got tuple of 2, expected dict with keys 'a', 'b'"
    )


def differences_text(expected, got):
    return [difference.text("t") for difference in prefix_errors(expected, got)]


def test_each_kind_of_difference_is_described():
    class Node:
        def __init__(self, static, *children):
            self.static, self.children = static, children

    register_pytree_node(Node, lambda n: (n.children, n.static), lambda s, c: Node(s, *c))
    array = np.zeros((3, 4), np.float32)
    assert differences_text([[1]], [array]) == ["t[0]: got float32[3,4], expected list of 1"]
    assert differences_text([(1,)], ["x"]) == ["t[0]: got str, expected tuple of 1"]
    assert differences_text([()], [None]) == ["t[0]: got None, expected tuple of 0"]
    assert differences_text([{}], [{"a": 1}]) == [
        "t[0]: got dict with keys 'a', expected dict with no keys"
    ]
    assert differences_text(Point(1, [2]), Point(1, (2,))) == [
        "t.y: got tuple of 1, expected list of 1"
    ]
    assert differences_text(Point(1, 2), (1, 2)) == ["t: got tuple of 2, expected Point of 2"]
    assert differences_text(
        collections.OrderedDict(b=1, a=2), collections.OrderedDict(a=1, b=2)
    ) == ["t: got OrderedDict with keys 'a', 'b', expected OrderedDict with keys 'b', 'a'"]
    assert differences_text(
        collections.defaultdict(int, a=1), collections.defaultdict(list, a=1)
    ) == [
        (
            "t: got defaultdict with keys 'a' with static data (<class 'list'>, ('a',)), expected"
            " defaultdict with keys 'a' with static data (<class 'int'>, ('a',))"
        )
    ]
    qualname = Node.__qualname__
    assert differences_text(Node("x", 1), Node("y", 1)) == [
        f"t: got {qualname} of 1 with static data 'y', expected {qualname} of 1 with static data 'x'"
    ]
    assert differences_text(Node("x", 1), Node("x", 1, 2)) == [
        f"t: got {qualname} of 2, expected {qualname} of 1"
    ]
    assert differences_text([Node("x", [1])], [Node("x", (1,))]) == [
        "t[0][<flat index 0>]: got tuple of 1, expected list of 1"
    ]


def test_large_dicts_are_described_by_what_one_side_lacks():
    expected = {f"key{i:02}": i for i in range(20)}
    got = {**expected, "more": 1}
    del got["key03"]
    [text] = differences_text(expected, got)
    assert text == (
        "t: got dict with 20 keys (here only: 'more'), expected dict with 20 keys (here only: 'key03')"
    )


def test_several_misfits_are_counted():
    with pytest.raises(TreeStructureError) as caught:
        tree_map(max, [[1]] * 5, [1] * 5)
    assert str(caught.value).splitlines()[1:] == [
        "  rest[0][0]: got int, expected list of 1",
        "  rest[0][1]: got int, expected list of 1",
        "  rest[0][2]: got int, expected list of 1",
        "  and 2 more",
    ]
    assert len(caught.value.differences) == 5


def test_none_as_a_node_is_explained():
    with pytest.raises(TreeStructureError, match="`is_leaf=lambda x: x is None` makes it a leaf"):
        tree_map(max, (1, None), (1, 2))


def test_a_node_that_can_not_be_rebuilt_is_still_named():
    class Picky:
        def __init__(self, value):
            if value is None:
                raise ValueError("needs a value")
            self.value = value

    register_pytree_node(Picky, lambda p: ((p.value,), None), lambda _, c: Picky(*c))
    [difference] = structure_differences(tree_structure(Picky([1])), tree_structure(Picky((1,))))
    assert difference.path == (FlattenedIndexKey(0),)
    assert difference.text("t") == "t[<flat index 0>]: got tuple of 1, expected list of 1"


def test_leaves_below_a_node_that_changes_with_its_placeholders_are_counted():
    """A class may keep numbers as static data, and so flatten into fewer leaves when it is rebuilt from numbers."""

    class Sorted:
        def __init__(self, *values):
            self.values = values

        def flat(self):
            arrays = [x for x in self.values if not isinstance(x, int)]
            return arrays, tuple(x for x in self.values if isinstance(x, int))

    register_pytree_node(Sorted, Sorted.flat, lambda ints, arrays: Sorted(*ints, *arrays))
    structure = tree_structure({"a": 0.0, "b": Sorted(1, 2.0, {"c": 3.0}), "d": 0.0})
    paths = [keystr(path) for path in leaf_paths(structure)]
    assert paths == ["['a']", "['b'][<flat index 0>]", "['b'][<flat index 1>]['c']", "['d']"]

    def f(x, y, *, z):
        return y, z

    text = pl.jit(f).lower(1.0, Sorted(1, 2.0, 3.0), z=4.0).as_text(debug_info=True)
    for name in ("y[<flat index 0>]", "y[<flat index 1>]", "z"):
        assert f'loc("{name}")' in text
    for name in ("result[0][<flat index 1>]", "result[1]"):
        assert f'jax.result_info = "{name}"' in text


@register_pytree_node_class
class Shaped:
    """A class whose constructor looks at its array."""

    def __init__(self, array):
        assert array.ndim > 0
        self.array = array

    def tree_flatten(self):
        return (self.array,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_classes_that_look_at_their_children_go_through_jit():
    value = Shaped(np.ones(2, np.float32))
    paths = leaf_paths(tree_structure(({"a": [0, value]}, 0)))
    assert [keystr(path) for path in paths] == ["[0]['a'][0]", "[0]['a'][1][<flat index 0>]", "[1]"]

    def f(x, *, scale):
        return Shaped(x.array * scale)

    jitted = pl.jit(f, donate_argnames="scale")
    scale = np.float32([2, 3])
    assert jitted(value, scale=scale).array.tolist() == [2.0, 3.0]
    text = jitted.lower(value, scale=scale).as_text(debug_info=True)
    assert 'loc("x[<flat index 0>]")' in text
    assert 'loc("scale")' in text
    exported = pl.export.export(pl.jit(lambda x: x.array + 1))(value)
    assert exported.call(value).tolist() == [2.0, 2.0]
    assert pl.pmap(lambda x: x.array + 1)(Shaped(np.ones((1, 2)))).shape == (1, 2)


def test_types_name_the_children_of_classes_that_refuse_placeholders():
    class Layer:
        def __init__(self, weight):
            self.weight = weight
            self.width = weight.shape[-1]

    keys = lambda x: [(pl.tree_util.GetAttrKey("weight"), x.weight)]
    pl.tree_util.register_pytree_with_keys(
        Layer, lambda x: (keys(x), None), lambda _, children: Layer(*children)
    )
    text = pl.jit(lambda layer: layer.weight).lower(Layer(np.ones(3))).as_text(debug_info=True)
    assert 'loc("layer.weight")' in text


def test_wrong_numbers_of_leaves_are_counted():
    treedef = tree_structure({"a": 0, "b": [0, 0]})
    with pytest.raises(TreeStructureError) as caught:
        tree_unflatten(treedef, [1, 2])
    assert str(caught.value) == (
        "tree_unflatten got the wrong number of leaves.\n"
        "  2 leaves for a structure of 3: PyTreeDef({'a': *, 'b': [*, *]})\n"
        '  first without a value: tree["b"][1]'
    )
    with pytest.raises(TreeStructureError, match="4 leaves for a structure of 3"):
        tree_unflatten(treedef, [1, 2, 3, 4])
    with pytest.raises(ValueError, match="Too many leaves"):
        tree_unflatten(treedef, iter([1, 2, 3, 4]))


@pytest.mark.parametrize("call", [
    lambda: tree_unflatten([1], tree_structure(1)),
    lambda: treedef_tuple([1]),
    lambda: tree_transpose([1], tree_structure(1), 1),
    lambda: tree_transpose(tree_structure(1), [1], 1),
])  # fmt: skip
def test_something_else_in_place_of_a_structure_is_refused(call):
    with pytest.raises(TreeArgumentError, match="needs the structure of a tree"):
        call()


def test_a_transposition_that_does_not_fit_shows_both_structures():
    with pytest.raises(TreeTransposeError) as caught:
        tree_transpose(tree_structure([0, 0]), tree_structure({"a": 0}), [{"a": (1, 2)}, {"a": 3}])
    assert str(caught.value).splitlines()[1:] == [
        "  tree: 3 leaves, PyTreeDef([{'a': (*, *)}, {'a': *}])",
        "  expected: 2 x 1 leaves, PyTreeDef([{'a': *}, {'a': *}])",
    ]
    with pytest.raises(TreeTransposeError, match="inner structure can't be found"):
        tree_transpose(tree_structure([]), None, [])


@pytest.mark.parametrize(
    "flatten", [tree_flatten, tree_leaves, tree_structure, tree_flatten_with_path]
)
def test_unsortable_keys_are_named_with_their_path(flatten):
    with pytest.raises(UnsortableKeysError) as caught:
        flatten({"a": [0, {1: 1, "x": 2}]})
    assert str(caught.value).splitlines()[1] == '  tree["a"][1]: dict with keys of type int and str'


def test_unsortable_keys_below_a_leaf_do_no_harm():
    tree = [1, {1: 1, "x": 2}]
    assert tree_leaves(tree, is_leaf=lambda node: isinstance(node, dict)) == tree
    with pytest.raises(UnsortableKeysError):
        tree_map(lambda x, y: y, tree, tree)


@pytest.mark.parametrize(
    "flatten", [tree_flatten, tree_flatten_with_path, lambda tree: tree_map(repr, tree)]
)
@pytest.mark.parametrize(
    "make", [list, lambda: {"a": 1}, lambda: collections.OrderedDict(a=1), lambda: [1, [2]]]
)
def test_a_tree_that_contains_itself_is_refused(flatten, make):
    inner = make()
    if isinstance(inner, dict):
        inner["self"] = [inner]
    else:
        inner.append({"self": inner})
    with pytest.raises(CyclicTreeError, match="contains itself") as caught:
        flatten((0, inner))
    assert "the same" in caught.value.got[0]
    assert caught.value.got[0].endswith("as tree[1]")
    assert isinstance(caught.value, RecursionError)


def test_a_shared_subtree_is_no_cycle():
    shared = [1]
    for _ in range(12):
        shared = [shared, shared]
    assert len(tree_leaves(shared)) == 2**12


def test_a_tree_that_is_too_deep_is_refused():
    deep = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CyclicTreeError, match="nested more than"):
        tree_flatten(deep)


def test_errors_of_the_user_s_own_code_pass_through():
    class Broken:
        pass

    def broken(node):
        raise ZeroDivisionError("mine") from KeyError("cause")

    register_pytree_node(Broken, broken, broken)
    for call in (
        lambda: tree_leaves([Broken()]),
        lambda: tree_leaves([1], is_leaf=broken),
        lambda: tree_flatten_with_path([Broken()]),
    ):
        with pytest.raises(ZeroDivisionError, match="mine") as caught:
            call()
        assert isinstance(caught.value.__cause__, KeyError)


def test_an_iteration_that_ends_in_a_mapped_function_does_not_end_the_map():
    with pytest.raises(StopIteration):
        tree_map(lambda leaf: next(iter(())), [1, 2])


def test_static_data_without_equality_are_a_difference():
    class Config:
        pass

    register_pytree_node(Config, lambda c: ((), (3, np.arange(3))), lambda s, c: Config())
    with pytest.raises(TreeStructureError, match="static data"):
        tree_map(lambda x, y: x, Config(), Config())


def test_errors_pickle_with_their_differences():
    with pytest.raises(TreeStructureError) as caught:
        tree_map(max, [1], (1,))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.differences) == (str(caught.value), caught.value.differences)


def test_long_paths_are_shortened_in_messages():
    path = tuple(map(SequenceKey, range(30)))
    assert shown_path("t", path) == "t[0][1][2][3][4][5][6][7] … [22][23][24][25][26][27][28][29]"
    assert shown_path("t", path[:3]) == "t[0][1][2]"


def test_infinite_leaves_are_leaves():
    assert tree_leaves([math.inf, {1, 2}, range(3), "text"]) == [math.inf, {1, 2}, range(3), "text"]


def test_nodes_may_have_other_static_data_where_they_are_asked_for_paths():
    class Tagged:
        def __init__(self, value, tag):
            self.value, self.tag = value, tag

    pl.tree_util.register_pytree_with_keys(
        Tagged,
        lambda x: (((GetAttrKey("value"), x.value),), ("with paths", x.tag)),
        lambda data, children: Tagged(*children, data[1] if isinstance(data, tuple) else data),
        lambda x: ((x.value,), x.tag),
    )
    double = lambda x, _=None: Tagged(x.value * 2, x.tag)
    one = Tagged(1.0, "a")
    assert pl.lax.scan(lambda x, _: (double(x), None), one, None, length=3)[0].value == 8
    assert pl.lax.while_loop(lambda x: x.value < 9, double, one).value == 16
    assert pl.lax.cond(True, double, lambda x: x, one).value == 2
