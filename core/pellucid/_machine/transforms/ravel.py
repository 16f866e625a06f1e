"""Conversion of a tree of arrays to a vector, and back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, dtypes, strict_zip
from pellucid._machine.primitives import concatenate, convert_element_type, full, reshape, split
from pellucid._machine.primitives.conversion import convert_quietly
from pellucid._machine.tracing import type_of, types_of
from pellucid._machine.xla import flatten


class Unravel(NamedTuple):
    """Converts a vector back to the tree it was made from. Equal for equal structures, so it may be static in `jit`."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...] | None
    """Dtypes of the leaves; None if all have the vector's dtype."""
    dtype: Any

    def __call__(self, vector: Any) -> Any:
        aval = type_of(vector)
        sizes = [math.prod(shape) for shape in self.shapes]
        if aval.shape != (sum(sizes),):
            raise ArgumentValueError("unravel needs a vector of the raveled tree's size.",
                                     got=f"got {aval.text()}, expected {sum(sizes)} elements")  # fmt: skip
        if self.dtypes is not None and aval.dtype != self.dtype:
            raise ArgumentTypeError("unravel needs a vector of the raveled tree's dtype.",
                                    got=f"got {aval.text()}, expected {self.dtype}")  # fmt: skip
        parts = split(vector, sizes) if sizes else []
        leaves = [reshape(x, shape) for x, shape in strict_zip(parts, self.shapes)]
        if self.dtypes is not None:
            leaves = [
                convert_quietly(x, dtype) if type_of(x).dtype != dtype else x
                for x, dtype in strict_zip(leaves, self.dtypes)
            ]
        return self.tree.unflatten(leaves)


def ravel_pytree(pytree: Any) -> tuple[Any, Unravel]:
    """`(vector, unravel)`: the leaves of a tree of arrays as one vector, and the inverse function.

    The vector's dtype is the promotion of the leaves' dtypes (float32 without leaves).

    >>> vector, unravel = ravel_pytree({"a": np.float32(1), "b": np.ones((2,), np.float32)})
    >>> vector
    Array([1., 1., 1.], dtype=float32)
    >>> unravel(vector)["a"]
    Array(1., dtype=float32)
    """
    leaves, tree = flatten(pytree)
    if not leaves:
        return full((0,), 0, "float32"), Unravel(tree, (), None, None)
    avals: list[Any] = types_of(leaves)
    leaf_dtypes = tuple([a.dtype for a in avals])
    dtype = dtypes.result_type(*leaf_dtypes)
    parts = [
        reshape(convert_element_type(x, dtype), (a.size,)) for x, a in strict_zip(leaves, avals)
    ]
    vector = concatenate(parts, 0)
    shapes = tuple([a.shape for a in avals])
    return vector, Unravel(
        tree, shapes, None if all(d == dtype for d in leaf_dtypes) else leaf_dtypes, dtype
    )


__all__ = ["ravel_pytree"]
