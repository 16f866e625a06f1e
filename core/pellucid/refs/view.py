"""`ref.at[index]`, `ref.reshape(…)`, …: references to parts of a reference's value, or to other forms of it."""

from __future__ import annotations

import functools
import math
from typing import Any

from pellucid.base import ArgumentTypeError, ShapeError, dtypes, register_pytree_node
from pellucid.ir import AbstractRef
from pellucid.primitives.movement import canonical_axis, inferred_sizes
from pellucid.tracing import type_of

from .index import RefIndex, parsed
from .transforms import Bitcast, Reshaped, Transform, Transposed

Step = tuple[RefIndex | Transform, tuple[Any, ...]]
"""An index or a transformation, and the operands of the index."""


class RefView:
    """A reference to a part of the value of `ref`: `steps` lead to it, each from the part before it.

    The first is an index, which may be that of the whole.

    It is read and written like a reference, and a tree with the reference and the operands of the indices as leaves:
    compiled functions, branches, loops and `checkpoint` take it where they take a reference.
    """

    __slots__ = ("ref", "steps")

    def __init__(self, ref: Any, steps: tuple[Step, ...]) -> None:
        self.ref = ref
        self.steps = steps

    @property
    def shape(self) -> tuple[int, ...]:
        step, operands = self.steps[-1]
        return step.result_shape([type_of(x).shape for x in operands])

    @property
    def dtype(self) -> Any:
        casts = [step.new_dtype for step, _ in self.steps if type(step) is Bitcast]
        return casts[-1] if casts else self.ref.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def at(self) -> RefIndexer:
        return RefIndexer(self)

    @property
    def T(self) -> RefView:
        return transposed(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional reference")
        return self.shape[0]

    def __getattr__(self, name: str) -> Any:
        method = AbstractRef.methods.get(name)
        if method is None:
            raise AttributeError(f"'RefView' object has no attribute {name!r}")
        return functools.partial(method, self)

    def __getitem__(self, index: Any) -> Any:
        return self.get(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.set(value, index)

    def __repr__(self) -> str:
        return f"RefView({self.ref.aval.text()}, shape={list(self.shape)})"


class RefIndexer:
    """The property `at` of references: `ref.at[index]` is a reference to a part."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __getitem__(self, index: Any) -> RefView:
        base, steps = steps_of("at", self.ref, index)
        return RefView(base, tuple(steps))

    def __repr__(self) -> str:
        return f"RefIndexer({self.ref!r})"


def reshaped(ref: Any, *shape: Any) -> RefView:
    """`ref.reshape(*shape)`: a view of the elements of `ref`, in row-major order, with `shape`; one size may be -1.

    Raises: ShapeError for a shape with another number of elements.
    """
    stated = shape if len(shape) != 1 or type(shape[0]) is int else tuple(shape[0])
    sizes = inferred_sizes("reshape", ref.shape, stated)
    if math.prod(sizes) != ref.size:
        raise ShapeError(
            f"reshape: a reference can't be seen in shape {list(sizes)}, which has another number of elements.",
            got=f"a reference of shape {list(ref.shape)}",
        )
    return _transformed("reshape", ref, Reshaped(ref.shape, sizes))


def transposed(ref: Any, *permutation: Any) -> RefView:
    """`ref.transpose(*permutation)`: a view of `ref` with its axes permuted; reversed by default.

    Raises: ShapeError unless `permutation` has each axis once.
    """
    axes = permutation if len(permutation) != 1 or type(permutation[0]) is int else permutation[0]
    if not permutation or axes is None:
        axes = range(ref.ndim)[::-1]
    order = tuple([canonical_axis(axis, ref.ndim) for axis in axes])
    if sorted(order) != list(range(ref.ndim)):
        raise ShapeError(
            f"transpose needs a permutation of {ref.ndim} axes, got {order}.",
            got=f"a reference of shape {list(ref.shape)}",
        )
    return _transformed("transpose", ref, Transposed(ref.shape, order))


def bitcast(ref: Any, dtype: Any) -> RefView:
    """`ref.bitcast(dtype)`: a view of the bits of `ref` as elements of `dtype`.

    The last dimension but one takes up another width: to a dtype `n` times narrower each row becomes `n` rows, the
    lowest bits first. Raises: ShapeError for rows that don't make up whole ones of the other width.
    """
    new_dtype = dtypes.check_user_dtype(dtype, "bitcast")
    cast = Bitcast(ref.shape, ref.dtype, new_dtype)
    cast.result_shape(())
    return _transformed("bitcast", ref, cast)


def _transformed(caller: str, ref, transform: Transform) -> RefView:
    base, steps = steps_of(caller, ref, ...)
    return RefView(base, (*steps, (transform, ())))


def steps_of(caller: str, ref: Any, index: Any) -> tuple[Any, list[Step]]:
    """(the reference behind `ref`, which may be a view of it, the steps that lead to `ref[index]`, the last an index)."""
    if type(ref) is not RefView:
        parsed_index, operands = parsed(caller, index, ref.shape)
        return ref, [(parsed_index, tuple(operands))]
    steps = list(ref.steps)
    if steps[0][0].shape != ref.ref.shape:
        raise ArgumentTypeError(
            f"{caller}: the reference has another shape than the one of which this is a part.",
            got=f"a reference of shape {list(ref.ref.shape)}, a part of one of shape {list(steps[0][0].shape)}",
            do="Pass the reference itself where it is batched or cut, and take the part inside.",
        )
    last, operands = parsed(caller, index, ref.shape)
    if not last.is_full or type(steps[-1][0]) is not RefIndex:
        steps.append((last, tuple(operands)))
    return ref.ref, steps


def _unflattened(kinds, children) -> RefView:
    return RefView(children[0], tuple(zip(kinds, children[1:], strict=True)))


register_pytree_node(
    RefView,
    lambda view: (
        (view.ref, *(operands for _, operands in view.steps)),
        tuple([step for step, _ in view.steps]),
    ),
    _unflattened,
)
