"""Why a tree can't be flattened: the search for the node to blame, made only after a failure."""

import sys
from collections import defaultdict
from typing import Any

from pellucid.base.errors import message
from pellucid.base.tree.errors import CyclicTreeError, TreeError, UnsortableKeysError
from pellucid.base.tree.paths import KeyPath, shown_path
from pellucid.xla import pytree

FLATTEN_FAILURES = (SystemError, RecursionError, TypeError, ValueError)
"""What the C++ flattening raises for the trees that `diagnosis_of` explains."""


def diagnosis_of(tree: Any, error: Exception) -> Exception | None:
    """The error to raise in place of `error`, which flattening `tree` raised.

    None if nothing is known to be wrong with the tree, so that `error` itself, from the
    user's predicate or class, is the best explanation.
    """
    return _search(tree) or (error.__cause__ if isinstance(error, SystemError) else None)


def _search(tree: Any) -> TreeError | None:
    """Depth first, as the flattening itself, but on a list instead of Python's stack."""
    ancestors: dict[int, KeyPath] = {}
    finished: set[int] = set()
    alive: list[Any] = []  # a freed child's id could come back as that of another one
    todo: list[tuple[Any, KeyPath, bool]] = [(tree, (), False)]
    while todo:
        node, path, is_done = todo.pop()
        if is_done:
            del ancestors[id(node)]
            finished.add(id(node))
            continue
        if id(node) in finished:
            continue
        if id(node) in ancestors:
            return _cyclic(node, path, ancestors[id(node)])
        if len(path) > sys.getrecursionlimit():
            return _too_deep(len(path))
        if isinstance(node, dict) and _is_unsortable(node):
            return _unsortable(node, path)
        try:
            flattened = pytree.flatten_one_level_with_keys(node)
            children = [] if flattened is None else list(flattened[0])
        except Exception:  # the user's own code, which raised this before, too
            return None
        if children:
            alive.append(node)
            ancestors[id(node)] = path
            todo.append((node, path, True))
            todo.extend((child, (*path, key), False) for key, child in reversed(children))
    return None


def _is_unsortable(node: dict[Any, Any]) -> bool:
    if type(node) not in (dict, defaultdict):  # the nodes whose keys are sorted
        return False
    try:
        sorted(node)
    except Exception:  # `<` of the keys' class
        return True
    return False


def _unsortable(node: dict[Any, Any], path: KeyPath) -> UnsortableKeysError:
    kinds = sorted({type(key).__qualname__ for key in node})
    return UnsortableKeysError(
        message(
            "The keys of a dict can't be sorted, so its leaves have no order.",
            got=f"{shown_path('tree', path)}: {type(node).__qualname__} with keys of type"
            f" {' and '.join(kinds)}",
            do="Use keys of one type, or an OrderedDict, whose own order is taken.",
        )
    )


def _cyclic(node: Any, path: KeyPath, first: KeyPath) -> CyclicTreeError:
    return CyclicTreeError(
        message(
            "A tree contains itself, so it has no end.",
            got=f"{shown_path('tree', path)}: the same {type(node).__qualname__} as"
            f" {shown_path('tree', first)}",
            do="Keep the way back to the parent out of the tree, for example as static data.",
        )
    )


def _too_deep(depth: int) -> CyclicTreeError:
    return CyclicTreeError(
        message(
            f"A tree is nested more than {depth - 1} levels deep.",
            do="Keep long chains in a list; if the depth is meant, raise"
            " `sys.setrecursionlimit`.",
        )
    )
