"""Mutable references, under the names of `jax.ref`."""

from pellucid.ir.avals import AbstractRef
from pellucid.refs.access import addupdate, empty_ref, free_ref, freeze, get, new_ref, set, swap
from pellucid.refs.reference import Ref

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]
