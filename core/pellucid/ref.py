"""Mutable references, under the names of `jax.ref`."""

from pellucid._machine.ir.avals import AbstractRef as AbstractRef
from pellucid._machine.refs.access import (
    addupdate as addupdate,
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    get as get,
    new_ref as new_ref,
    set as set,
    swap as swap,
)
from pellucid._machine.refs.primitives import Ref as Ref
