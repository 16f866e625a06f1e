"""Differences between the structures of two trees."""

from __future__ import annotations

import reprlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base.narrowing import is_tuple
from pellucid._machine.xla import (
    PyTreeDef,
)

from .paths import SHOWN_KEYS, KeyPath, child_keys, shown_path


class TreeDifference(NamedTuple):
    """A place where a tree differs from the expected structure."""

    path: KeyPath
    got: str
    expected: str

    def text(self, name: str) -> str:
        """The difference as one line about the tree called `name`."""
        return f"{shown_path(name, self.path)}: got {self.got}, expected {self.expected}"


def structure_differences(
    expected: PyTreeDef,
    got: PyTreeDef,
    *,
    leaves: Sequence[Any] | None = None,
    is_prefix: bool = False,
) -> list[TreeDifference]:
    """The places where the structure `got` differs from `expected`; empty if there are none.

    `leaves` are those of the tree with the structure `got`, to show their types. With `is_prefix`, a leaf of `expected`
    matches any subtree.

    >>> expected, got = tree_structure({"w": (1, 2)}), tree_structure({"w": 3})
    >>> [difference] = structure_differences(expected, got)
    >>> difference.text("params")
    'params["w"]: got a leaf, expected tuple of 2'
    """
    return list(_differences(expected, got, leaves, (), is_prefix=is_prefix))


def same_node(expected: PyTreeDef, got: PyTreeDef) -> bool:
    """Whether the roots of two structures are nodes of the same kind, with equal static data and as many children."""
    node, other = expected.node_data(), got.node_data()
    if node is None or other is None:
        return node is other
    return (
        node[0] is other[0]
        and _is_equal(node[1], other[1])
        and len(expected.children()) == len(got.children())
    )


def _differences(
    expected: PyTreeDef,
    got: PyTreeDef,
    leaves: Sequence[Any] | None,
    path: KeyPath,
    *,
    is_prefix: bool,
) -> Iterator[TreeDifference]:
    if is_prefix and expected.node_data() is None:
        return
    if not same_node(expected, got):
        got_text, expected_text = _node_text(got, leaves, expected), _node_text(expected, None, got)
        yield TreeDifference(path, got_text, expected_text)
        return
    start = 0
    for key, child, got_child in zip(
        child_keys(got, leaves), expected.children(), got.children(), strict=True
    ):
        end = start + got_child.num_leaves
        part = None if leaves is None else leaves[start:end]
        yield from _differences(child, got_child, part, (*path, key), is_prefix=is_prefix)
        start = end


def leaf_type(leaf: Any) -> str:
    """Type of a leaf in messages: `float32[3,4]` for arrays, else the class.

    >>> leaf_type(np.zeros((3, 4), np.float32)), leaf_type("text")
    ('float32[3,4]', 'str')
    """
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if is_tuple(shape) and dtype is not None:
        return f"{dtype}[{','.join(map(str, shape))}]"
    return type(leaf).__qualname__


def _node_text(structure: PyTreeDef, leaves: Sequence[Any] | None, other: PyTreeDef) -> str:
    node = structure.node_data()
    if node is None:
        return "a leaf" if leaves is None else leaf_type(leaves[0])
    kind, data = node
    if kind is type(None):
        return "None"
    if kind in _KEYS_OF:
        text = f"{kind.__name__} with {_keys_text(structure, other)}"
    else:
        text = f"{kind.__qualname__} of {len(structure.children())}"
    other_node = other.node_data()
    if other_node is None or other_node[0] is not kind or _is_equal(data, other_node[1]):
        return text
    if kind in _KEYS_OF and _keys(structure) != _keys(other):
        return text
    return f"{text} with static data {reprlib.repr(data)}"


_KEYS_OF: dict[type, Callable[[Any], Sequence[Any]]] = {
    dict: lambda data: data,
    OrderedDict: lambda data: data,
    defaultdict: lambda data: data[1],
}
"""Functions that extract the keys from the static data of nodes that have keys."""


def _keys(structure: PyTreeDef) -> Sequence[Any] | None:
    kind, data = structure.node_data() or (None, None)
    return _KEYS_OF[kind](data) if kind in _KEYS_OF else None


def _keys_text(structure: PyTreeDef, other: PyTreeDef) -> str:
    keys, other_keys = _keys(structure) or (), _keys(other)
    if not keys:
        return "no keys"
    if len(keys) <= SHOWN_KEYS:
        return "keys " + ", ".join(map(repr, keys))
    text = f"{len(keys)} keys"
    extra_keys = [] if other_keys is None else [repr(key) for key in keys if key not in other_keys]
    if extra_keys:
        more = ", …" if len(extra_keys) > SHOWN_KEYS else ""
        text += f" (here only: {', '.join(extra_keys[:SHOWN_KEYS])}{more})"
    return text


def _is_equal(a: object, b: object) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # `==` of the user's class, or of an array, whose truth value is undefined
        return False
