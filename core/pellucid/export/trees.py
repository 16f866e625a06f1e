"""Structures of arguments and results in serialized programs, and the Python containers that they may have."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pellucid._machine.base import ArgumentValueError, strict_zip
from pellucid._machine.xla import pytree

from .errors import SerializationError
from .flatbuffers import Table

Class = TypeVar("Class", bound=type)
FromChildren = Callable[[Any, Sequence[Any]], Any]


class _Kind(NamedTuple):
    """How nodes of one class are serialized."""

    node_type: type
    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]
    from_children: FromChildren | None


_by_type: dict[type, _Kind] = {}
_by_name: dict[str, _Kind] = {}
_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)
_BUILT_IN: dict[int, type] = {_NONE: NoneType, _TUPLE: tuple, _LIST: list, _DICT: dict}
_KIND_OF = {cls: kind for kind, cls in _BUILT_IN.items()}


def register_pytree_node_serialization(
    nodetype: Class,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: FromChildren | None = None,
) -> Class:
    """Let exported programs with `nodetype` among their arguments or results be serialized; returns `nodetype`.

    `serialized_name` identifies the class in files. `serialize_auxdata` and `deserialize_auxdata` convert the static
    data of a node to bytes and back. `from_children(static_data, children)` makes a node of which only the structure
    is used; by default the function that the class was registered with as a tree.

    Raises: ArgumentValueError where the class or the name is registered already, and without `from_children` for a
    class that is not a tree.

    >>> import json
    >>> class Pair:
    ...     def __init__(self, items, label):
    ...         self.items, self.label = items, label
    >>> pl.tree_util.register_pytree_node(Pair, lambda p: (p.items, p.label), lambda label, items: Pair(items, label))
    >>> _ = register_pytree_node_serialization(
    ...     Pair, serialized_name="docs.Pair", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode)
    >>> exported = pl.export.export(pl.jit(lambda pair: Pair(pair.items, "sums")))(Pair([1, 2], "numbers"))
    >>> pl.export.deserialize(exported.serialize()).out_tree
    PyTreeDef(CustomNode(Pair[sums], [*, *]))
    """
    for registered, key, what in (
        (_by_type.get(nodetype), nodetype, "class"),
        (_by_name.get(serialized_name), serialized_name, "serialized_name"),
    ):
        if registered is not None:
            raise ArgumentValueError(
                f"the {what} {key!r} is registered for serialization already.",
                got=f"registered: {registered.node_type} as {registered.name!r}",
            )
    if from_children is None and not pytree.is_registered(nodetype):
        raise ArgumentValueError(
            "register_pytree_node_serialization needs a class that is a tree, or `from_children`.",
            got=f"nodetype: {nodetype}",
            do="Register it first: `tree_util.register_pytree_node`.",
        )
    kind = _Kind(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children)
    _by_type[nodetype] = _by_name[serialized_name] = kind
    return nodetype


def register_namedtuple_serialization(nodetype: Class, *, serialized_name: str) -> Class:
    """Let exported programs with the named tuple `nodetype` be serialized, by the names of its fields.

    Raises: ArgumentValueError for a class that is no named tuple, or where the class or the name is registered already.

    >>> from typing import NamedTuple
    >>> class State(NamedTuple):
    ...     mean: float
    ...     count: int
    >>> _ = register_namedtuple_serialization(State, serialized_name="docs.State")
    >>> exported = pl.export.export(pl.jit(lambda s: s._replace(count=s.count + 1)))(State(0.5, 1))
    >>> pl.export.deserialize(exported.serialize()).call(State(0.5, 1)).count
    Array(2, dtype=int32)
    """
    make: Any = nodetype
    fields: tuple[str, ...] | None = getattr(nodetype, "_fields", None)
    if fields is None or not issubclass(nodetype, tuple):
        raise ArgumentValueError(
            "register_namedtuple_serialization needs the class of a named tuple.",
            got=f"nodetype: {nodetype}",
            do="Use `register_pytree_node_serialization` for other classes.",
        )
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(fields).encode(),
        deserialize_auxdata=json.loads,
        from_children=lambda names, items: make(**dict(strict_zip(names, items))),
    )


def _keys_to_bytes(keys: Sequence[Any]) -> bytes:
    return json.dumps(_text_keys(keys)).encode()


def _text_keys(keys: Sequence[Any]) -> list[str]:
    for key in keys:
        if not isinstance(key, str):
            raise SerializationError(
                "dictionaries in arguments and results of serialized programs must have strings as keys.",
                got=f"key {key!r} of type {type(key).__name__}",
            )
    return list(keys)


register_pytree_node_serialization(
    collections.OrderedDict,
    serialized_name="collections.OrderedDict",
    serialize_auxdata=_keys_to_bytes,
    deserialize_auxdata=json.loads,
    from_children=lambda keys, values: collections.OrderedDict(strict_zip(keys, values)),
)


def encode_tree(tree: Any) -> dict[int, Any]:
    """The table of a tree structure.

    Raises: SerializationError for nodes of a class that is not registered for serialization.
    """
    data = tree.node_data()
    children = tree.children()
    fields: dict[int, Any] = {1: list(map(encode_tree, children)) or None}
    if data is None:
        return {0: np.int8(_LEAF)}
    node_type, static = data
    kind = _KIND_OF.get(node_type)
    if kind is not None:
        keys = _text_keys(static) if kind == _DICT and children else None
        return fields | {0: np.int8(kind), 2: keys}
    custom = _by_type.get(node_type)
    if custom is None:
        raise SerializationError(
            f"`{node_type.__qualname__}` can't be serialized among the arguments or results of a program.",
            do="Register it with `register_pytree_node_serialization` or `register_namedtuple_serialization`.",
        )
    data = custom.to_bytes(static)
    if not isinstance(data, (bytes, bytearray)):
        raise SerializationError(
            f"`serialize_auxdata` of {custom.name!r} must return bytes.",
            got=f"got {type(data).__name__}",
        )
    return fields | {0: np.int8(_CUSTOM), 3: custom.name, 4: bytes(data)}


def decode_tree(table: Table) -> Any:
    """The tree structure that `encode_tree` wrote.

    Raises: SerializationError for nodes of a class that is not registered under the same name.
    """
    kind = table.number(0, np.int8)
    children = list(map(decode_tree, table.tables(1)))
    if kind == _LEAF:
        return pytree.flatten(0)[1]
    if kind == _CUSTOM:
        return _decode_custom(table, children)
    node_type = _BUILT_IN.get(kind)
    if node_type is None:
        raise SerializationError(f"there is no kind {kind} of nodes in trees.")
    static = table.texts(2) if node_type is dict else None
    return pytree.treedef_of_node(node_type, static, children)


def _decode_custom(table: Table, children: list[Any]) -> Any:
    name = table.text(3)
    custom = _by_name.get(name or "")
    if custom is None:
        raise SerializationError(
            f"the program has arguments or results of a class that is serialized as {name!r}, which is not registered.",
            do="Register it with `register_pytree_node_serialization` or `register_namedtuple_serialization`.",
        )
    static = custom.from_bytes(table.array(4, np.uint8).tobytes())
    if custom.from_children is None:
        return pytree.treedef_of_node(custom.node_type, static, children)
    node = custom.from_children(static, [c.unflatten([0] * c.num_leaves) for c in children])
    return pytree.flatten(node)[1]
