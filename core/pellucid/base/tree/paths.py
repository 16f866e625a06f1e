"""Key paths: where in a tree a leaf lies, and how that is written."""

import json
from typing import Any, TypeAlias, TypeVar

from pellucid.xla.pytree import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

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
    steps = list(map(_quoted, path))
    if len(steps) > 2 * SHOWN_STEPS:
        steps[SHOWN_STEPS:-SHOWN_STEPS] = [" … "]
    return name + "".join(steps)


def index_keys(count: int) -> tuple[FlattenedIndexKey, ...]:
    """Steps to the children of a node that doesn't name them."""
    return tuple(map(FlattenedIndexKey, range(count)))


def _bare(key) -> str:
    match key:
        case DictKey(value) | FlattenedIndexKey(value) | GetAttrKey(value) | SequenceKey(value):
            return str(value)
    return str(key)


def _quoted(key) -> str:
    if isinstance(key, DictKey) and isinstance(key.key, str):
        return f"[{json.dumps(key.key, ensure_ascii=False)}]"
    return str(key)
