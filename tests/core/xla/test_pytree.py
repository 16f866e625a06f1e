"""The boundary to jaxlib's pytrees."""

import collections
import copy
import pickle
import sys

import pytest
from jaxlib import _jax

from pellucid._machine.base.tree import (
    CyclicTreeError,
    register_pytree_node,
    tree_flatten_with_path,
    tree_leaves,
)
from pellucid._machine.xla import pytree
from pellucid._machine.xla.recursion import remaining_levels


def test_the_registry_is_our_own():
    class Local:
        pass

    register_pytree_node(Local, lambda node: ((), None), lambda _, children: Local())
    assert pytree.default_registry is not _jax.pytree.default_registry()
    assert pytree.is_registered(Local)
    assert not _jax.pytree.default_registry().is_node(Local)


def test_ordered_and_default_dicts_are_nodes():
    assert pytree.is_registered(collections.OrderedDict)
    assert pytree.is_registered(collections.defaultdict)


def test_structures_and_the_registry_pickle_by_reference():
    treedef = pytree.flatten({"a": (1, None)})[1]
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert copy.deepcopy(treedef) == treedef
    assert pickle.loads(pickle.dumps(pytree.default_registry)) is pytree.default_registry


def test_the_bare_calls_are_those_of_c():
    assert pytree.flatten((1, [2]))[0] == [1, 2]
    assert pytree.flatten_with_path((1,))[0] == [((pytree.SequenceKey(0),), 1)]
    assert pytree.flatten_one_level({"a": 1}) == ((1,), ("a",))
    assert pytree.flatten_one_level(1) is None
    assert list(pytree.flatten_one_level_with_keys([1])[0]) == [(pytree.SequenceKey(0), 1)]
    assert pytree.all_leaves([1, 2])
    assert not pytree.all_leaves([(1,)])
    structures = [pytree.flatten(tree)[1] for tree in (1, [2])]
    assert str(pytree.treedef_tuple(structures)) == "PyTreeDef((*, [*]))"


def nested(depth, leaf):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def refuses_five(node):
    if node == 5:
        raise KeyError("five")
    return False


class Broken:
    pass


register_pytree_node(Broken, lambda node: 1 / 0, lambda _, children: Broken())

FAILING = {
    "unsortable keys": lambda: tree_leaves(nested(30, {1: 1, "a": 2})),
    "predicate": lambda: tree_leaves(nested(30, 5), is_leaf=refuses_five),
    "answer that is no boolean": lambda: tree_leaves(
        nested(30, 5), is_leaf=lambda n: n == 5 and "yes"
    ),
    "the class's own flattening": lambda: tree_leaves(nested(30, Broken())),
    "second branch": lambda: tree_leaves([nested(60, 1), {"a": nested(20, Broken())}]),
}


class Parent:
    """A node that Python code takes apart, as OrderedDict is."""

    def __init__(self, child=None):
        self.child = child


register_pytree_node(Parent, lambda parent: ((parent.child,), None), lambda _, c: Parent(*c))


def cyclic(between):
    """A tree that contains itself, with a node that `between` makes around the way back."""
    parent = Parent()
    parent.child = between(parent)
    return nested(3, parent)


@pytest.mark.parametrize("name", FAILING)
def test_a_failed_flattening_keeps_no_recursion_levels(name):
    before = remaining_levels()
    for _ in range(3):
        with pytest.raises(Exception):  # noqa: B017  (whichever it is)
            FAILING[name]()
    assert remaining_levels() == before


@pytest.mark.parametrize(
    "between",
    [
        lambda parent: parent,
        lambda parent: [parent],
        lambda parent: {"a": (1, parent), "b": 2},
        lambda parent: {"a": 1, "b": [parent]},
        lambda parent: collections.OrderedDict(a=parent),
    ],
)
@pytest.mark.parametrize("flatten", [tree_leaves, tree_flatten_with_path])
def test_a_cycle_leaves_the_thread_its_recursion_levels(between, flatten):
    before = remaining_levels()
    for depth in range(6):  # which call finds the levels used up depends on their number
        with pytest.raises(CyclicTreeError, match="contains itself"):
            called_at(depth, flatten, cyclic(between))
    assert abs(remaining_levels() - before) < 150


def called_at(depth, function, argument):
    return called_at(depth - 1, function, argument) if depth else function(argument)


def test_many_failures_leave_the_thread_usable():
    tree = nested(50, {1: 1, "a": 2})
    for _ in range(2 * sys.getrecursionlimit() // 50):
        with pytest.raises(ValueError, match="sorted"):
            tree_leaves(tree)
    assert tree_leaves(nested(200, 1)) == [1]
