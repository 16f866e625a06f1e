"""`composite`: a call that has a name, a version and attributes in StableHLO."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    EffectsError,
    Function,
    JAXTypeError,
    Shape,
    tree_flatten,
    wrapping,
)
from pellucid._machine.ir import (
    ClosedJaxpr,
)
from pellucid._machine.lowering.custom_calls import typed_attribute
from pellucid._machine.tracing import Tracer, bind, types_of
from pellucid._machine.transforms import (
    check_callable,
    checked_leaves,
)

from .bodies import trace_program
from .calls import Defined, JitParams

_NUMBERS = "biuf"


_NAME = re.compile(r"[a-zA-Z]\w*([.][\w$]+)+", re.ASCII)


class ArrayAttribute(NamedTuple):
    """A hashable and comparable copy of a NumPy array among params."""

    shape: Shape
    dtype: str
    data: bytes

    @property
    def array(self) -> np.ndarray:
        """The content as a NumPy array."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)

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
        # Symbolic shapes can't be refined through a reference to the decomposition.
        if ctx.dimensions:
            return ctx.call(params.jaxpr.jaxpr, params.name, operands)
        attributes = {}
        for name, leaves, structure in params.attributes:
            arrays = [x.array if isinstance(x, ArrayAttribute) else x for x in leaves]
            if (value := structure.unflatten(arrays)) is not None:
                attributes[name] = typed_attribute(ctx, value)
        values = [*ctx.globals, *operands]
        return ctx.composite(params.name, params.jaxpr.jaxpr, values, attributes, params.version)


composite_p = Composite()


def composite(decomposition: Function, name: str, version: int = 0) -> Function:
    """`decomposition` as a single operation called `name`, which compilers that know it may implement differently.

    Positional arguments of the returned function are the operands, trees of arrays. Keywords are attributes: numbers,
    strings, NumPy arrays, and lists, tuples and dictionaries of them; None values are omitted. Derivatives and batching
    are those of the decomposition, without the name.

    Raises: ArgumentValueError for another name; ArgumentTypeError for attributes of other types; JAXTypeError for attributes that are traced;
    EffectsError for a decomposition with side effects.

    The function gives results with the structure, the shapes and the dtypes of those of `decomposition`.
    Source: StableHLO specification, `composite`.

    >>> tangent = composite(lambda x: lax.sin(x) / lax.cos(x), name="my.tangent")
    >>> print(f"{tangent(1.0):.4f}")
    1.5574
    """
    check_callable(decomposition, "composite")
    if not _NAME.fullmatch(name):
        raise ArgumentValueError(
            "composite: a name must have words of letters, digits and underscores, with a point between them.",
            got=f"name: {name!r}",
            do='Put a name of your own in front, as in "my.operation".',
        )

    @wrapping(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        frozen = tuple([_hashable_attribute(name, key, value) for key, value in attributes.items()])
        leaves, in_tree = tree_flatten(args)
        operands = checked_leaves(leaves, "composite", decomposition, args)
        function = functools.partial(decomposition, **attributes) if attributes else decomposition
        body = trace_program(function, in_tree, types_of(operands), "composite")
        if body.program.effects:
            raise EffectsError(
                f"composite: the decomposition of {name!r} has side effects.",
                got=", ".join(map(repr, body.program.effects)),
            )
        params = CompositeParams(frozen, body.program, name, version)
        return body.out_tree.unflatten(bind(composite_p, *body.consts, *operands, params=params))

    return call


def _hashable_attribute(name: str, key: str, value) -> tuple[str, tuple[Any, ...], Any]:
    """An attribute in the form kept by params."""
    leaves, structure = tree_flatten(value)
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            raise JAXTypeError(
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
    arrays = [
        ArrayAttribute(x.shape, x.dtype.str, x.tobytes()) if isinstance(x, np.ndarray) else x
        for x in leaves
    ]
    return key, tuple(arrays), structure
