"""Which named axes a program refers to."""

from __future__ import annotations

from typing import Any

from .jaxpr import Jaxpr, subjaxprs
from .primitive import Primitive, Programs
from .rules import Collective

_NONE: frozenset[Any] = frozenset()


def axis_names(primitive: Primitive[Any], params: Any) -> frozenset[Any]:
    """The named axes that an equation refers to and does not bind."""
    inner = _NONE
    if isinstance(primitive, Programs):
        inner = _NONE.union(*map(axis_names_of, subjaxprs(params)))
    return primitive.axis_names(params, inner) if isinstance(primitive, Collective) else inner


def axis_names_of(jaxpr: Jaxpr) -> frozenset[Any]:
    """The named axes that a program's equations refer to and do not bind."""
    names = jaxpr.memo.get("axis names")
    if names is None:
        names = _NONE.union(*(axis_names(e.primitive, e.params) for e in jaxpr.equations))
        jaxpr.memo["axis names"] = names
    return names
