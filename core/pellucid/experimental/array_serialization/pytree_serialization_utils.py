"""Structures of trees as text, under the names of `jax.experimental.array_serialization.pytree_serialization_utils`."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

from pellucid._machine.base.errors import ArgumentValueError
from pellucid.export.flatbuffers import decode, encode
from pellucid.export.trees import decode_tree, encode_tree, register_pytree_node_serialization

_STRUCTURE, _LEAVES = "__jax_pytreedef_repr", "__jax_leaf_ids"


def serialize_pytreedef(node: Any) -> dict[str, Any]:
    """A structure as what JSON can hold: its text, and the numbers of its leaves.

    Raises: SerializationError for containers that weren't registered by `register_pytree_node_serialization`.

    >>> serialize_pytreedef(pl.tree.structure({"a": 1, "b": (2, 3)}))["__jax_leaf_ids"]
    [0, 1, 2]
    """
    text = base64.b64encode(encode(encode_tree(node))).decode("ascii")
    return {_STRUCTURE: text, _LEAVES: list(range(node.num_leaves))}


def deserialize_pytreedef(pytreedef_repr: dict[str, Any]) -> Any:
    """The structure that `serialize_pytreedef` wrote.

    Raises: ArgumentValueError for what it didn't write.

    >>> deserialize_pytreedef(serialize_pytreedef(pl.tree.structure({"a": 1, "b": (2, 3)})))
    PyTreeDef({'a': *, 'b': (*, *)})
    """
    try:
        data = base64.b64decode(pytreedef_repr[_STRUCTURE], validate=True)
        return decode_tree(decode(data))
    except (KeyError, TypeError, binascii.Error, struct.error, IndexError) as error:
        raise ArgumentValueError(
            "this is no serialized structure.", got=f"{type(error).__name__}: {error}"
        ) from error


__all__ = ["deserialize_pytreedef", "register_pytree_node_serialization", "serialize_pytreedef"]
