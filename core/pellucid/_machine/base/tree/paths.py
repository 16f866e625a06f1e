"""Paths in trees, and their text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from pellucid._machine.xla import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    PyTreeDef,
    SequenceKey,
    pytree,
)

KeyEntry = TypeVar("KeyEntry")
"""One step of a path: one of the four key classes, or a key that a node's own flattening function returns."""


SHOWN_STEPS = 8
"""Maximum number of steps that an error message shows at each end of a path."""


KeyPath: TypeAlias = tuple[Any, ...]
"""The steps from the root of a tree to one of its nodes."""


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Text of a key path, as a Python expression after the name of the tree.

    With `simple`, each step is the bare key. `separator` is put between the steps.

    >>> keystr((DictKey("layer"), SequenceKey(0), GetAttrKey("w")))
    "['layer'][0].w"
    >>> keystr((DictKey("layer"), SequenceKey(0), GetAttrKey("w")), simple=True, separator="/")
    'layer/0/w'
    """
    write = _bare if simple else str
    return separator.join(map(write, keys))


def shown_path(name: str, path: KeyPath) -> str:
    """`name` followed by `path` in the form of error messages: shortened, with strings in double quotes.

    >>> shown_path("params", (DictKey("layer"), GetAttrKey("w")))
    'params["layer"].w'
    """
    steps = [
        f"[{json.dumps(step.key, ensure_ascii=False)}]"
        if isinstance(step, DictKey) and isinstance(step.key, str)
        else str(step)
        for step in path
    ]
    if len(steps) > 2 * SHOWN_STEPS:
        steps[SHOWN_STEPS:-SHOWN_STEPS] = [" … "]
    return name + "".join(steps)


def _bare(key: object) -> str:
    match key:
        case DictKey(value) | FlattenedIndexKey(value) | GetAttrKey(value) | SequenceKey(value):
            return str(value)
        case _:
            return str(key)


SHOWN_KEYS = 6
"""Maximum number of keys of a dict that are listed; for larger ones only keys that the other side lacks."""


def child_keys(structure: PyTreeDef, leaves: Sequence[Any] | None = None) -> KeyPath:
    """Steps from the root of `structure` to its children.

    A structure doesn't store the keys, so the node is rebuilt (from `leaves` if known) and asked for them. Children of
    a class that can't be rebuilt are numbered.
    """
    children = structure.children()
    if leaves is not None and (keys := _rebuilt_keys(structure, leaves)) is not None:
        return keys
    if children and (node := structure.node_data()) is not None:
        # Only this node is rebuilt, as a class below it may reject placeholders.
        alone = pytree.treedef_of_node(node[0], node[1], [pytree.treedef_of_leaf] * len(children))
        if (keys := _rebuilt_keys(alone, [None] * len(children))) is not None:
            return keys
    return tuple(map(FlattenedIndexKey, range(len(children))))


def _rebuilt_keys(structure: PyTreeDef, leaves: Sequence[Any]) -> KeyPath | None:
    """Steps to the children of the tree of `leaves`; None if it can't be rebuilt, or has other children then."""
    try:
        pairs, _ = pytree.flatten_one_level_with_keys(structure.unflatten(leaves)) or ((), None)
    except Exception:  # the user's own code, run to name a path
        return None
    keys = tuple(key for key, _ in pairs)
    return keys if len(keys) == len(structure.children()) else None


def leaf_paths(structure: PyTreeDef, leaves: Sequence[Any] | None = None) -> list[KeyPath]:
    """The path from the root of `structure` to each of its leaves.

    `leaves` have the leaves' attributes, for example their types. If a class of the user can't be rebuilt from these or
    from numbers, or flattens to other leaves then, the children are numbered.

    >>> leaf_paths(pl.tree_util.tree_structure({"a": 0, "b": (0, None)}))
    [(DictKey(key='a'),), (DictKey(key='b'), SequenceKey(idx=0))]
    """
    for placeholders in (range(structure.num_leaves), leaves or ()):
        try:
            pairs = pytree.flatten_with_path(structure.unflatten(placeholders))[0]
        except Exception:  # the user's own code, run to name a path
            pairs = []
        if len(pairs) == structure.num_leaves:
            return [path for path, _ in pairs]
    rest = iter(leaves or ())
    children = [(child, [*islice(rest, child.num_leaves)]) for child in structure.children()]
    return [
        (key, *path)
        for key, (child, below) in zip(child_keys(structure, leaves), children, strict=True)
        for path in leaf_paths(child, below)
    ]
