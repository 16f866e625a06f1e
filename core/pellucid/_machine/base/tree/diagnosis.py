"""Diagnoses why a tree can't be flattened."""

import sys
from collections import defaultdict
from typing import Any, NoReturn

from pellucid._machine.xla import (
    SPARE_LEVELS,
    IsLeafWithPath,
    give_levels,
    pytree,
    restore_levels,
    take_levels,
)

from .errors import CyclicTreeError, TreeError, UnsortableKeysError
from .paths import KeyPath, shown_path


def raise_failure(tree: Any, predicate: IsLeafWithPath | None, error: Exception) -> NoReturn:
    """Raise the error that explains `error`, which C++ raised when flattening `tree`.

    If `error` comes from the user's code, it is raised itself. The caller has granted this thread spare recursion
    levels; this returns them, and compensates for those that the failed call has kept.
    """
    diagnosis, path = _search(tree, predicate)
    # A comparison of keys at the recursion limit raises neither of these errors, but one about the keys.
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


def _search(tree: Any, predicate: IsLeafWithPath | None) -> tuple[TreeError | None, KeyPath]:
    """(diagnosis of a tree, path to its faulty node); the diagnosis is None if the user's own code is at fault.

    The search is depth-first, like flattening, but uses a list instead of Python's stack.
    """
    ancestors: dict[int, KeyPath] = {}
    finished: set[int] = set()
    alive: list[Any] = []  # the id of a freed child could be reused for another one
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
        except Exception:  # the user's own code, which raised this before
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


def _children(node: Any, path: KeyPath, predicate: IsLeafWithPath | None) -> list[tuple[Any, Any]]:
    if predicate is not None:
        answer = predicate(path, node)
        if not isinstance(answer, (bool, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' answers
            raise TypeError  # flattening rejects it, too
        if answer:
            return []
    flattened = pytree.flatten_one_level_with_keys(node)
    return [] if flattened is None else list(flattened[0])


def _is_unsortable(node: dict[Any, Any]) -> bool:
    if type(node) not in (dict, defaultdict):  # nodes whose keys are sorted
        return False
    try:
        sorted(node)
    except Exception:  # raised by `<` of the keys' class
        return True
    return False
