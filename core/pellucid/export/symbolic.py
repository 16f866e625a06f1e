"""Symbolic shapes of the arguments that a function is exported for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Size,
    broadcast_prefix,
    is_none,
    strict_zip,
)
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.pytree import flatten

from .dimensions import Dimension
from .scopes import SymbolicScope
from .shape_texts import parsed_sizes


def is_symbolic_dim(p: Size) -> TypeGuard[Dimension]:
    """Whether a size is symbolic.

    >>> b, four = symbolic_shape("b, 4")
    >>> is_symbolic_dim(2 * b), is_symbolic_dim(four)
    (True, False)
    """
    return isinstance(p, Dimension)


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Size, ...]:
    """A shape of integers and symbolic dimensions from a text, such as "(b, 2*k + 1, ...)".

    Sizes are sums and products of integers, of variables, each an unknown integer that is at least 1, of powers `x^2`, and of
    `floordiv(x, y)`, `mod(x, y)`, `max(x, y)` and `min(x, y)`. The placeholders `_`, for one dimension, and `...`, for all
    that follow, take the sizes of `like`; None stands for "...". Constraints relate two expressions by `==`, `>=` or `<=`.
    Only dimensions of one scope can be combined: those of one call, or of calls with the same `scope`.

    Raises: ArgumentValueError for another text, for constraints that are none or that no sizes fulfil, and for
    constraints beside a scope, which has its own.

    >>> b, k = symbolic_shape("b, 2*k", constraints=["b >= k"])
    >>> b * k - 1, (4 * b + 2) // 2, b + b >= k
    (2*b*k - 1, 2*b + 1, True)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ArgumentValueError(
            "symbolic_shape takes constraints or a scope, which has constraints of its own.",
            got=f"constraints={list(constraints)}, scope={scope}",
            do="State them where the scope is made: `SymbolicScope(constraints)`.",
        )
    if not isinstance(shape_spec, (str, type(None))):
        raise ArgumentTypeError("symbolic_shape needs a string.", got=f"got {shape_spec!r:.60}")
    return parsed_sizes("..." if shape_spec is None else shape_spec, scope, like)


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """ShapeDtypeStructs like `args`, arrays or structs, with symbolic shapes.

    `shapes_specs` is a text as in `symbolic_shape`, whose placeholders take the sizes of the argument, None for the
    argument's own shape, or a tree of these that is a prefix of `args`. All are in one scope.

    >>> x, y = np.zeros((3, 4), np.float32), np.zeros(3, np.int32)
    >>> symbolic_args_specs((x, {"y": y}), "b, ...")
    (ShapeDtypeStruct(shape=(b, 4), dtype=float32), {'y': ShapeDtypeStruct(shape=(b,), dtype=int32)})
    """
    if scope is None:
        scope = SymbolicScope(constraints)
        constraints = ()
    leaves, tree = flatten(args)
    texts = broadcast_prefix(shapes_specs, args, is_leaf=is_none, caller="symbolic_args_specs")
    structs = []
    for x, text in strict_zip(leaves, texts):
        aval = type_of(x)
        shape = symbolic_shape(text, constraints=constraints, scope=scope, like=aval.shape)
        structs.append(ShapeDtypeStruct(shape, aval.dtype, weak_type=aval.weak_type))
    return tree.unflatten(structs)
