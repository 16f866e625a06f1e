"""Metadata of single operations, passed to XLA as frontend attributes."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.base import tree_map
from pellucid.tracing import attribute_text, bind, bind1, xla_metadata

from .movement import Identity


class XlaMetadataParams(NamedTuple):
    """Pairs of a key and a text."""

    xla_metadata_kvs: tuple[tuple[str, Any], ...]


class XlaMetadataValue(Identity[XlaMetadataParams]):
    """The same value; the operation that computes it has metadata."""

    name = "xla_metadata_value"

    def jvp(self, primals, tangents, params):
        return bind(self, *primals, params=params), tangents

    def lower(self, ctx, operands, params):
        texts = {key: attribute_text(value) for key, value in params.xla_metadata_kvs}
        ctx.note_metadata(operands[0], texts)
        return operands


xla_metadata_value_p = XlaMetadataValue()


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attach metadata to operations, by key: frontend attributes, which passes of XLA may read.

    Without `x` it is a context, or a decorator, for all operations made in it; a value of None takes back what a
    context around it says. With `x`, arrays in a tree, it gives `x` back, and the operations that compute these arrays
    have the metadata.

    >>> from pellucid import jit
    >>> def function(x):
    ...     with set_xla_metadata(priority=3):
    ...         return lax.sin(x)
    >>> "frontend_attributes = {priority =" in jit(function).lower(1.0).as_text()
    True
    """
    if x is None:
        return xla_metadata(kwargs)
    params = XlaMetadataParams(tuple(sorted(kwargs.items())))
    return tree_map(lambda leaf: bind1(xla_metadata_value_p, leaf, params=params), x)
