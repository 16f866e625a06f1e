"""Operations that act on the program, not on values: lifting values into it, keeping unused ones, barriers, tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentTypeError, ArrayLike, strict_zip, tree, tree_map
from pellucid._machine.ir import (
    HOST,
    MOVEMENT,
    Operands,
    P,
    Primitive,
    Values,
    Zero,
    abstract_token,
    is_linear,
    no_dce_effect,
)
from pellucid._machine.tracing import attribute_text, bind, bind1, xla_metadata
from pellucid._machine.xla import Array

from .movement import IdentityOfValues


class WithoutResults(Primitive[P]):
    """A primitive without results, for which the operands' tangents and layouts don't matter."""

    traits = HOST.replace(flops=0.0)
    types_are_laid_out = True

    def abstract_eval(self, avals, params):
        return ()

    def jvp(self, primals, tangents, params):
        return bind(self, *primals, params=params), []


# stage ----------------------------------------------------------------------------------------------


class Stage(IdentityOfValues):
    """Returns its operand, as part of the program."""

    name = "stage"


stage_p = Stage()


def stage(x: ArrayLike, /) -> Array:
    """`x`, a Python number or any array, as a value of the program that is being traced; else as an array.

    Shape and dtype stay; Python numbers stay weakly typed.
    Raises: ArgumentTypeError for lists and strings.

    >>> stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return bind1(stage_p, x)


# dce_sink -------------------------------------------------------------------------------------------


class DceSinkParams(NamedTuple):
    prevent_mlir_dce: bool


class DceSink(WithoutResults[DceSinkParams]):
    """A use of a value that does nothing."""

    name = "dce_sink"
    own_effects = frozenset({no_dce_effect})

    def batch(self, axis, operands, dims, params):
        return bind(self, *operands, params=params), []

    def lower(self, ctx, operands, params):
        if params.prevent_mlir_dce:
            attributes = {
                "call_target_name": "dce_sink",
                "api_version": ctx.integer(4, 32),
                "has_side_effect": True,
            }
            ctx.op("stablehlo.custom_call", [], operands, attributes)
        return ()


dce_sink_p = DceSink()


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep the equations that compute `val`, arrays in a tree, in the program, though nothing needs them.

    The compiler may still leave them out, unless `prevent_mlir_dce` keeps them from it too, which its target must know.

    Gives None, for operands of any shape and dtype.
    Raises: ArgumentTypeError for leaves that aren't arrays or numbers.

    >>> from pellucid import make_jaxpr
    >>> make_jaxpr(lambda x: dce_sink(lax.sin(x)))(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        dce_sink[prevent_mlir_dce=False] b
      in () }
    """
    params = DceSinkParams(prevent_mlir_dce)
    tree_map(lambda x: bind(dce_sink_p, x, params=params), val)


# Tokens ---------------------------------------------------------------------------------------------


class TokenBarrier(Primitive):
    """A token that waits for its operands, which are tokens."""

    traits = HOST.replace(flops=0.0, returns_list=False)

    def abstract_eval(self, avals, params):
        others = [aval.text() for aval in avals if aval is not abstract_token]
        if others:
            raise ArgumentTypeError(
                f"{self.name} needs tokens.",
                got=", ".join(others),
                do="Make one with `create_token()`.",
            )
        return [abstract_token]

    def lower(self, ctx, operands, params):
        return [ctx.op1(f"stablehlo.{self.name}", abstract_token, operands)]


create_token_p, after_all_p = TokenBarrier("create_token"), TokenBarrier("after_all")


def create_token(_: object = None) -> Any:
    """A token, which orders the operations that pass it on; the argument is ignored.

    The result has neither shape nor dtype. Raises nothing.
    Source: StableHLO specification, `create_token`.

    >>> create_token().aval
    Tok
    """
    return bind1(create_token_p)


def after_all(*operands: Any) -> Any:
    """A token for what must come after all of `operands`, which are tokens.

    Raises: ArgumentTypeError for anything else.

    The result has neither shape nor dtype.
    Source: StableHLO specification, `after_all`.

    >>> after_all(create_token(), create_token()).aval
    Tok
    """
    return bind1(after_all_p, *operands)


# optimization_barrier ------------------------------------------------------------------------------


class OptimizationBarrier(Primitive):
    """Returns its operands, across which XLA moves no operation before it fuses operations."""

    name = "optimization_barrier"
    traits = MOVEMENT.replace(returns_list=True)
    types_are_laid_out = True

    def abstract_eval(self, avals, params):
        return avals

    def jvp(self, primals, tangents, params):
        return bind(self, *primals), _bind_barrier(tangents)

    def transpose(self, cotangents, operands, params):
        return [
            c if is_linear(x) else None for c, x in strict_zip(_bind_barrier(cotangents), operands)
        ]

    def batch(self, axis, operands, dims, params):
        return bind(self, *operands), dims

    def lower(self, ctx, operands, params):
        types = ctx.types(ctx.avals_out)
        return ctx.op("stablehlo.optimization_barrier", types, operands).results


optimization_barrier_p = OptimizationBarrier()


def _bind_barrier(tangents: Operands) -> Values:
    """`tangents` behind a barrier of their own; known zeros stay."""
    nonzero = iter(bind(optimization_barrier_p, *(t for t in tangents if type(t) is not Zero)))
    return [t if type(t) is Zero else next(nonzero) for t in tangents]


def optimization_barrier(operand: Any, /) -> Any:
    """`operand`, an array or a tree of arrays, none of which is available before all of them are.

    The compiler moves no computation across the barrier.

    Results have the shapes and dtypes of the operands.
    Raises: ArgumentTypeError for leaves that aren't arrays or numbers.
    Source: StableHLO specification, `optimization_barrier`.

    >>> optimization_barrier((np.float32(1), np.float32(2)))
    (Array(1., dtype=float32), Array(2., dtype=float32))
    """
    leaves, structure = tree.tree_flatten(operand)
    return structure.unflatten(bind(optimization_barrier_p, *leaves)) if leaves else operand


class XlaMetadataParams(NamedTuple):
    """Pairs of a key and a text."""

    xla_metadata_kvs: tuple[tuple[str, Any], ...]


class XlaMetadataValue(IdentityOfValues[XlaMetadataParams]):
    """Returns its operand; the operation that computes it gets metadata."""

    name = "xla_metadata_value"

    def lower(self, ctx, operands, params):
        texts = {key: attribute_text(value) for key, value in params.xla_metadata_kvs}
        ctx.note_metadata(operands[0], texts)
        return operands


xla_metadata_value_p = XlaMetadataValue()


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attach metadata to operations, by key: frontend attributes, which passes of XLA may read.

    Without `x` it is a context, or a decorator, for all operations made in it; a value of None takes back what a
    context around it says. With `x`, arrays in a tree, it gives `x` back, and the operations that compute these arrays
    have the metadata.

    >>> from pellucid import jit
    >>> def function(x):
    ...     with set_xla_metadata(priority=3):
    ...         return lax.sin(x)
    >>> "frontend_attributes = {priority =" in jit(function).lower(1.0).as_text()
    True
    """
    if x is None:
        return xla_metadata(kwargs)
    params = XlaMetadataParams(tuple(sorted(kwargs.items())))
    return tree_map(lambda leaf: bind1(xla_metadata_value_p, leaf, params=params), x)
