"""`ref.at[index]`: references to parts of a reference's value."""

from __future__ import annotations

import functools
import math
from typing import Any

from pellucid.base.errors import ArgumentTypeError
from pellucid.base.tree import register_pytree_node
from pellucid.ir.avals import AbstractRef
from pellucid.refs.index import RefIndex, parsed
from pellucid.tracing.values import type_of

Step = tuple[RefIndex, tuple[Any, ...]]
"""An index, and its operands."""


class RefView:
    """A reference to a part of the value of `ref`; `steps` are the indices, each into the part before it.

    It is read and written like a reference, and a tree with the reference and the operands of the indices as leaves:
    compiled functions, branches, loops and `checkpoint` take it where they take a reference.
    """

    __slots__ = ("ref", "steps")

    def __init__(self, ref: Any, steps: tuple[Step, ...]) -> None:
        self.ref = ref
        self.steps = steps

    @property
    def shape(self) -> tuple[int, ...]:
        index, operands = self.steps[-1]
        return index.result_shape([type_of(x).shape for x in operands])

    @property
    def dtype(self) -> Any:
        return self.ref.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def at(self) -> RefIndexer:
        return RefIndexer(self)

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


def steps_of(caller: str, ref: Any, index: Any) -> tuple[Any, list[Step]]:
    """(the reference behind `ref`, which may be a view of it, the indices that lead to `ref[index]`)."""
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
    if not last.is_full:
        steps.append((last, tuple(operands)))
    return ref.ref, steps


def _unflattened(indices: Any, children: Any) -> RefView:
    return RefView(children[0], tuple(zip(indices, children[1:], strict=True)))


register_pytree_node(
    RefView,
    lambda view: (
        (view.ref, *(operands for _, operands in view.steps)),
        tuple([index for index, _ in view.steps]),
    ),
    _unflattened,
)
