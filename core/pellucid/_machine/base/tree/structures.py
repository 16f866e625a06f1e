"""Paths in trees, differences of structures, the diagnosis of trees that can't be flattened, and the errors about these."""

import json
import reprlib
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

from pellucid._machine.base.errors import PellucidError
from pellucid._machine.xla import (
    SPARE_LEVELS,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeafWithPath,
    PyTreeDef,
    SequenceKey,
    give_levels,
    pytree,
    restore_levels,
    take_levels,
)

# Paths --------------------------------------------------------------------------------------------


KeyEntry = TypeVar("KeyEntry")
"""One step of a path: one of the four key classes, or what a node's own flattening gives."""

SHOWN_STEPS = 8
"""An error message shows no more than so many steps at each end of a path."""

KeyPath: TypeAlias = tuple[Any, ...]
"""The steps from the root of a tree to one of its nodes."""


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Text of a key path, as it would be written in Python after the name of the tree.

    With `simple`, each step is the bare key. `separator` stands between the steps.

    >>> keystr((DictKey("layer"), SequenceKey(0), GetAttrKey("w")))
    "['layer'][0].w"
    >>> keystr((DictKey("layer"), SequenceKey(0), GetAttrKey("w")), simple=True, separator="/")
    'layer/0/w'
    """
    write = _bare if simple else str
    return separator.join(map(write, keys))


def shown_path(name: str, path: KeyPath) -> str:
    """`name` followed by `path` as error messages write it: short, strings in double quotes.

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


def _bare(key) -> str:
    match key:
        case DictKey(value) | FlattenedIndexKey(value) | GetAttrKey(value) | SequenceKey(value):
            return str(value)
    return str(key)


# Differences --------------------------------------------------------------------------------------


SHOWN_KEYS = 6
"""A dict with more keys than this is described by the keys that the other side lacks."""


class Difference(NamedTuple):
    """One place where a tree isn't what it should be."""

    path: KeyPath
    got: str
    expected: str

    def text(self, name: str) -> str:
        """This difference as one line about the tree called `name`."""
        return f"{shown_path(name, self.path)}: got {self.got}, expected {self.expected}"


def structure_differences(
    expected: PyTreeDef,
    got: PyTreeDef,
    *,
    leaves: Sequence[Any] | None = None,
    is_prefix: bool = False,
) -> list[Difference]:
    """Places where the structure `got` isn't `expected`; empty if there are none.

    `leaves` are those of the tree whose structure is `got`; with them its types are shown.
    With `is_prefix`, a leaf of `expected` stands for any subtree.

    >>> expected, got = tree_structure({"w": (1, 2)}), tree_structure({"w": 3})
    >>> [difference] = structure_differences(expected, got)
    >>> difference.text("params")
    'params["w"]: got a leaf, expected tuple of 2'
    """
    return list(_differences(expected, got, leaves, (), is_prefix=is_prefix))


def same_node(expected: PyTreeDef, got: PyTreeDef) -> bool:
    """Whether the roots of two structures are nodes of one kind, whatever is below them."""
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
) -> Iterator[Difference]:
    if is_prefix and expected.node_data() is None:
        return
    if not same_node(expected, got):
        got_text, expected_text = _described(got, leaves, expected), _described(expected, None, got)
        yield Difference(path, got_text, expected_text)
        return
    start = 0
    for key, child, got_child in zip(
        child_keys(got, leaves), expected.children(), got.children(), strict=True
    ):
        end = start + got_child.num_leaves
        part = None if leaves is None else leaves[start:end]
        yield from _differences(child, got_child, part, (*path, key), is_prefix=is_prefix)
        start = end


def child_keys(structure: PyTreeDef, leaves: Sequence[Any] | None = None) -> KeyPath:
    """Steps from the root of `structure` to its children.

    A structure doesn't store them, so the node is rebuilt (from `leaves`, if they are known)
    and asked; the children of a class that can't be rebuilt are counted.
    """
    children = structure.children()
    if leaves is not None and (keys := _rebuilt_keys(structure, leaves)) is not None:
        return keys
    if children and (node := structure.node_data()) is not None:
        # The node alone: a class below it may refuse placeholders.
        alone = pytree.treedef_of_node(node[0], node[1], [pytree.treedef_of_leaf] * len(children))
        if (keys := _rebuilt_keys(alone, [None] * len(children))) is not None:
            return keys
    return tuple(map(FlattenedIndexKey, range(len(children))))


def _rebuilt_keys(structure: PyTreeDef, leaves: Sequence[Any]) -> KeyPath | None:
    """Steps to the children of the tree of `leaves`; None where it can't be made, or has other children."""
    try:
        pairs, _ = pytree.flatten_one_level_with_keys(structure.unflatten(leaves)) or ((), None)
    except Exception:  # the user's own code, run to name a path
        return None
    keys = tuple(key for key, _ in pairs)
    return keys if len(keys) == len(structure.children()) else None


def leaf_paths(structure: PyTreeDef, leaves: Sequence[Any] | None = None) -> list[KeyPath]:
    """The path from the root of `structure` to each of its leaves.

    `leaves`: what has the attributes of the leaves, as their types. Below a class of the user that can't be rebuilt
    from these, or from numbers, or flattens into other leaves then, children are counted.

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


def leaf_type(leaf: Any) -> str:
    """Type of a leaf as messages show it: `float32[3,4]` for arrays, else the class.

    >>> leaf_type(np.zeros((3, 4), np.float32)), leaf_type("text")
    ('float32[3,4]', 'str')
    """
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{dtype}[{','.join(map(str, shape))}]"
    return type(leaf).__qualname__


def _described(structure: PyTreeDef, leaves: Sequence[Any] | None, other: PyTreeDef) -> str:
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
"""How to find the keys in the static data of the nodes that have any."""


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


def _is_equal(a, b) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # `==` of the user's class, or of an array, where no truth value exists
        return False


# Errors -------------------------------------------------------------------------------------------


class TreeError(PellucidError, ValueError):
    """A tree of Python containers can't be used as asked."""


class TreeArgumentError(PellucidError, TypeError):
    """A function of trees was given something that is no structure, no class or no field."""


class TreeStructureError(TreeError):
    """Two trees, or a tree and its leaves, don't fit.

    `differences` holds one record for each place where they differ.
    """

    def __init__(self, what: str, *, differences: Iterable[Difference] = (), **more: Any) -> None:
        super().__init__(what, **more)
        self.differences = tuple(differences)


class TreeTransposeError(TreeStructureError, TypeError):
    """The tree to transpose isn't the inner structure within the outer one."""


class UnsortableKeysError(TreeError, TypeError):
    """The keys of a dict can't be put in order, so its leaves have none either."""


class CyclicTreeError(TreeError, RecursionError):
    """A tree contains itself, or is nested too deep to be taken apart."""


# Diagnosis ----------------------------------------------------------------------------------------


def raise_failure(tree: Any, predicate: IsLeafWithPath | None, error: Exception) -> NoReturn:
    """Raise what explains `error`, which C++ raised when it flattened `tree`.

    That is `error` itself if it comes from the user's code. The caller has given this thread
    the spare recursion levels; they are taken back, and those that the failed call has kept
    are given.
    """
    diagnosis, path = _search(tree, predicate)
    # Comparing keys with the last level gives neither of these errors, but one about the keys.
    if isinstance(error, (RecursionError, SystemError)) or isinstance(diagnosis, CyclicTreeError):
        restore_levels()
    else:
        give_levels(len(path))
        take_levels(len(SPARE_LEVELS))
    if diagnosis is not None:
        raise diagnosis from None
    if isinstance(error, SystemError) and error.__cause__ is not None:
        raise error.__cause__
    raise error


def _search(tree, predicate: IsLeafWithPath | None) -> tuple[TreeError | None, KeyPath]:
    """Diagnosis of a tree and the path to its faulty node; no diagnosis where the user's own code is at fault.

    Goes depth first, as the flattening does, but on a list instead of Python's stack.
    """
    ancestors = {}
    finished = set()
    alive = []  # a freed child's id could come back as that of another one
    todo: list[tuple[Any, KeyPath, bool]] = [(tree, (), False)]
    while todo:
        node, path, is_done = todo.pop()
        if is_done:
            del ancestors[id(node)]
            finished.add(id(node))
            continue
        if id(node) in finished:
            continue
        kind = type(node).__qualname__
        if id(node) in ancestors:
            cyclic = CyclicTreeError(
                "A tree contains itself, so it has no end.",
                got=f"{shown_path('tree', path)}: the same {kind} as"
                f" {shown_path('tree', ancestors[id(node)])}",
                do="Keep the way back to the parent out of the tree, for example as static data.",
            )
            return cyclic, path
        if len(path) > sys.getrecursionlimit():
            too_deep = CyclicTreeError(
                f"A tree is nested more than {len(path) - 1} levels deep.",
                do="Keep long chains in a list; if the depth is meant, raise `sys.setrecursionlimit`.",
            )
            return too_deep, path
        try:
            children = _children(node, path, predicate)
        except Exception:  # the user's own code, which has raised this before
            if not _is_unsortable(node):
                return None, path
            unsortable = UnsortableKeysError(
                "The keys of a dict can't be sorted, so its leaves have no order.",
                got=f"{shown_path('tree', path)}: {kind} with keys of type"
                f" {' and '.join(sorted({type(key).__qualname__ for key in node}))}",
                do="Use keys of one type, or an OrderedDict, whose own order is taken.",
            )
            return unsortable, path
        if children:
            alive.append(node)
            ancestors[id(node)] = path
            todo.append((node, path, True))
            todo.extend((child, (*path, key), False) for key, child in reversed(children))
    return None, ()


def _children(node, path: KeyPath, predicate: IsLeafWithPath | None) -> list[tuple[Any, Any]]:
    if predicate is not None:
        answer = predicate(path, node)
        if not isinstance(answer, (bool, type(None))):
            raise TypeError  # refused by the flattening, too
        if answer:
            return []
    flattened = pytree.flatten_one_level_with_keys(node)
    return [] if flattened is None else list(flattened[0])


def _is_unsortable(node: dict[Any, Any]) -> bool:
    if type(node) not in (dict, defaultdict):  # the nodes whose keys are sorted
        return False
    try:
        sorted(node)
    except Exception:  # `<` of the keys' class
        return True
    return False
