"""References outside traces: a box with an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.base import ArgumentTypeError, DeletedArrayError
from pellucid.ir import AbstractRef, Described, abstract_ref
from pellucid.primitives.conversion import convert_element_type
from pellucid.runtime.transfer import copied, from_host
from pellucid.tracing import type_of
from pellucid.xla.arrays import ARRAY_TYPES


def owned(x: Any) -> Any:
    """A copy of `x` as an array whose memory has no other user, so that programs may write over it."""
    aval: Any = type_of(x)
    if type(x) not in ARRAY_TYPES:
        return from_host(np.array(x, dtype=aval.dtype))
    array = copied(x)
    return convert_element_type(array, aval.dtype) if aval.weak_type else array


class _RefType(type):
    """Traced references are instances of `Ref`, too."""

    def __instancecheck__(cls, x: Any) -> bool:
        return type.__instancecheck__(cls, x) or type(getattr(x, "aval", None)) is AbstractRef


class Ref(Described, metaclass=_RefType):
    """A mutable cell that holds an array; made by `new_ref`, read and written by `ref[...]`.

    A compiled function that takes it, or uses it from outside, reads and changes what it holds. Compared and hashed by
    identity.
    """

    __slots__ = ("__weakref__", "_given_up_by", "_value", "aval")

    def __init__(self, value: Any) -> None:
        self.aval = abstract_ref(value.aval)
        self._value = value
        self._given_up_by = ""

    @property
    def value(self) -> Any:
        """The array that it holds; programs may write over its memory.

        Raises: DeletedArrayError for a deleted reference.
        """
        if self._value is None:
            raise DeletedArrayError(
                f"a reference was used after `{self._given_up_by}`.",
                got=self.aval.text(),
                do="Make a new one with `new_ref`.",
            )
        return self._value

    @value.setter
    def value(self, array: Any) -> None:
        self._value = array

    def given_up(self, function: str) -> Any:
        """The value; deletes the reference, on behalf of `function`."""
        value, self._value = self.value, None
        self._given_up_by = function
        return value

    @property
    def at(self) -> Any:
        """`ref.at[index]` is a reference to a part of the value."""
        return AbstractRef.methods["at"](self)

    @property
    def T(self) -> Any:
        """A view of the value with its axes reversed."""
        return AbstractRef.methods["T"](self)

    @property
    def sharding(self) -> Any:
        return self.value.sharding

    @property
    def format(self) -> Any:
        return self.value.format

    @property
    def committed(self) -> bool:
        return self.value.committed

    def unsafe_buffer_pointer(self) -> int:
        """The address of the memory in which the array is now."""
        return self.value.unsafe_buffer_pointer()

    def block_until_ready(self) -> Ref:
        """Wait for the program that computes what it holds."""
        self.value.block_until_ready()
        return self

    def __len__(self) -> int:
        return len(self.value)

    def __getattr__(self, name: str) -> Any:
        method = AbstractRef.methods.get(name)
        if method is None:
            raise AttributeError(f"'Ref' object has no attribute {name!r}")
        return method.__get__(self)

    def __getitem__(self, index: Any) -> Any:
        return AbstractRef.methods["get"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        AbstractRef.methods["set"](self, value, index)

    def __iter__(self) -> Any:
        return iter(self[...])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise ArgumentTypeError(
            "a reference is not an array.",
            got=self.aval.text(),
            do="Read what it holds: `ref[...]`.",
        )

    def __repr__(self) -> str:
        if self._value is None:
            return f"Ref(given up by {self._given_up_by}: {self.aval.text()})"
        return repr(self._value).replace("Array", "Ref", 1)
