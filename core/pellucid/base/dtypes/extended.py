"""Extended dtypes: elements that are small arrays of an ordinary dtype, such as random keys."""

import builtins
import math
from typing import Any

import numpy as np

float0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])
"""Dtype of the tangents of values that can't vary, such as integers. Its elements hold nothing."""


class extended(np.generic):
    """Scalar type above those of all extended dtypes; a category for `issubdtype`."""


class prng_key(extended):
    """Scalar type above those of all dtypes of random keys; a category for `issubdtype`."""


class ExtendedDType:
    """A dtype each element of which is stored as an array of `element_shape` and `base_dtype`.

    An array of this dtype and shape `s` is lowered as one of `base_dtype` and shape
    `s + element_shape`. `type` is its category for `issubdtype`; `implementation` is whatever
    gives the elements their meaning (for keys, the generator). Dtypes are equal if all of
    these are.

    >>> key = ExtendedDType("key<fry>", prng_key, np.dtype("uint32"), (2,))
    >>> key, key.itemsize
    (key<fry>, 8)
    """

    __slots__ = ("_hash", "base_dtype", "element_shape", "implementation", "name", "type")

    def __init__(
        self,
        name: str,
        type: builtins.type[extended],
        base_dtype: np.dtype[Any],
        element_shape: tuple[int, ...],
        implementation: Any = None,
    ) -> None:
        self.name = name
        self.type: builtins.type[extended] = type
        self.base_dtype = base_dtype
        self.element_shape = element_shape
        self.implementation = implementation
        self._hash = hash((name, type, base_dtype, element_shape, implementation))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.base_dtype.itemsize * math.prod(self.element_shape)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ExtendedDType)
            and self.name == other.name
            and self.type is other.type
            and self.base_dtype == other.base_dtype
            and self.element_shape == other.element_shape
            and self.implementation == other.implementation
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.name
