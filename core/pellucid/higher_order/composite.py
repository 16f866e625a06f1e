"""`composite`: a function that compilers may know by name, with its decomposition for those that don't."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import (
    ArgumentTypeError,
    ArgumentValueError,
    EffectsError,
    Function,
    TracedValueError,
    tree_flatten,
)
from pellucid.ir import ClosedJaxpr
from pellucid.lowering.custom_calls import typed_attribute
from pellucid.tracing import Tracer, bind, types_of
from pellucid.transforms.arguments import check_callable, checked_leaves
from pellucid.xla.mlir import ir

from .bodies import traced
from .calls import Defined, JitParams

_NUMBERS = "biuf"
_NAME = re.compile(r"[a-zA-Z]\w*([.][\w$]+)+", re.ASCII)


class ArrayAttribute:
    """A NumPy array among params: hashed and compared by its content."""

    __slots__ = ("_key", "array")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array.copy()
        self._key = (array.shape, array.dtype.str, array.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayAttribute) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"HashableArray({self.array!r})"


class CompositeParams(NamedTuple):
    """`attributes` are triples (name, leaves, structure)."""

    attributes: tuple[tuple[str, tuple[Any, ...], Any], ...]
    jaxpr: ClosedJaxpr
    name: str
    version: int

    def as_call(self) -> JitParams:
        """Params of a call of the decomposition."""
        return JitParams(self.name, self.jaxpr)


class Composite(Defined[CompositeParams]):
    """A named operation, defined by its decomposition."""

    name = "composite"

    def lower(self, ctx, operands, params):
        if ctx.dimensions:  # shapes can't be refined through the reference to the decomposition
            return ctx.call(params.jaxpr.jaxpr, params.name, operands)
        attributes = {}
        for name, leaves, structure in params.attributes:
            arrays = [x.array if isinstance(x, ArrayAttribute) else x for x in leaves]
            if (value := structure.unflatten(arrays)) is not None:
                attributes[name] = typed_attribute(ctx, value)
        symbol = ctx.module_lowering.symbol(params.jaxpr.jaxpr, params.name)
        operation = ctx.op(
            "stablehlo.composite",
            ctx.types(ctx.avals_out),
            [*ctx.globals, *operands],
            {
                "name": params.name,
                "decomposition": ir.FlatSymbolRefAttr.get(symbol),
                "composite_attributes": ctx.dictionary(attributes),
                "version": ctx.integer(params.version, 32),
            },
        )
        return list(operation.results)


composite_p = Composite()


def composite(decomposition: Function, name: str, version: int = 0) -> Function:
    """`decomposition` as one operation called `name`, which a compiler that knows it may compute in its own way.

    Positional arguments of the function that is given back are the operands, trees of arrays; keywords are attributes:
    numbers, strings, NumPy arrays, and lists, tuples and dictionaries of them. Keywords that are None are left out.
    Derivatives and batches are those of the decomposition, without the name.

    Raises: ArgumentValueError for another name; ArgumentTypeError for attributes of other types; TracedValueError for attributes that are traced;
    EffectsError for a decomposition with side effects.
    Source: StableHLO specification, `composite`.

    >>> tangent = composite(lambda x: lax.sin(x) / lax.cos(x), name="my.tangent")
    >>> print(f"{tangent(1.0):.4f}")
    1.5574
    """
    check_callable(decomposition, "composite")
    if not _NAME.fullmatch(name):
        raise ArgumentValueError(
            "composite: a name has words of letters, digits and underscores, with a point between them.",
            got=f"name: {name!r}",
            do='Put a name of your own in front, as in "my.operation".',
        )

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        frozen = tuple([_frozen(name, key, value) for key, value in attributes.items()])
        leaves, in_tree = tree_flatten(args)
        operands = checked_leaves(leaves, "composite", decomposition, args)
        function = functools.partial(decomposition, **attributes) if attributes else decomposition
        body = traced(function, in_tree, types_of(operands), "composite")
        if body.program.effects:
            raise EffectsError(
                f"composite: the decomposition of {name!r} has side effects.",
                got=", ".join(map(repr, body.program.effects)),
            )
        params = CompositeParams(frozen, body.program, name, version)
        return body.out_tree.unflatten(bind(composite_p, *body.consts, *operands, params=params))

    return call


def _frozen(name: str, key: str, value) -> tuple[str, tuple[Any, ...], Any]:
    """An attribute as params keep it."""
    leaves, structure = tree_flatten(value)
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            raise TracedValueError(
                f"composite: an attribute of {name!r} is known only when the program runs.",
                got=f"{key}: {leaf.aval.text()}",
                do="Pass it as a positional argument.",
            )
        is_number = isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in _NUMBERS
        if not is_number and not isinstance(leaf, (bool, int, float, str, bytes)):
            raise ArgumentTypeError(
                f"composite: an attribute of {name!r} can't be written into the program.",
                got=f"{key}: {type(leaf).__name__}",
                do="Use numbers, strings and NumPy arrays; pass other arrays as positional arguments.",
            )
    arrays = tuple([ArrayAttribute(x) if isinstance(x, np.ndarray) else x for x in leaves])
    return key, arrays, structure


__all__ = ["composite", "composite_p"]
