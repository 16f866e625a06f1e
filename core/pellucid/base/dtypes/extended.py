"""Extended dtypes: elements that are small arrays of an ordinary dtype, such as random keys."""

import builtins
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

float0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])
"""Dtype of the tangents of values that can't vary, such as integers. Its elements hold nothing."""


class extended(np.generic):
    """Scalar type above those of all extended dtypes; a category for `issubdtype`."""


class prng_key(extended):
    """Scalar type above those of all dtypes of random keys; a category for `issubdtype`."""


@dataclass(frozen=True, slots=True, repr=False)
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

    name: str
    type: builtins.type[extended]
    base_dtype: np.dtype
    element_shape: tuple[int, ...]
    implementation: Any = None
    kind: ClassVar[str] = "V"
    """As of NumPy's dtypes whose elements are no numbers."""

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.base_dtype.itemsize * math.prod(self.element_shape)

    def __hash__(self) -> int:
        return hash((self.name, self.implementation))  # the rest seldom differs alone

    def __repr__(self) -> str:
        return self.name
