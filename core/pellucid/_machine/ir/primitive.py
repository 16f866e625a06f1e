"""Primitives: the class of an operation contains all of its rules."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from pellucid._machine.base import ArgumentTypeError, MissingRule, cached, strict_zip
from pellucid._machine.base.late import late
from pellucid._machine.sharding import NamedSharding
from pellucid._machine.sharding.explicit_types import (
    ShardedOperation,
    mesh_of,
    operand_of,
    rule_of,
    sharding_type_error,
    shown_sharding,
)

from .avals import AbstractRef, AbstractValue, ShapedArray
from .effects import Effects, no_effects
from .facets import LaidOut, OnReferences
from .factors import Factors, alike
from .rules import (
    Avals,
    BatchAxis,
    BatchDim,
    Dims,
    Operands,
    Results,
)
from .slots import Slots, call_slots
from .traits import Traits

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .jaxpr import ClosedJaxpr, Equation

    P = TypeVar("P", default=Any)
    """Class of the params; `Primitive` without it has params of any class."""
else:
    P = typing.TypeVar("P")


class NoParams(NamedTuple):
    """Params of a primitive without params."""


NO_PARAMS = NoParams()


class Interpreted:
    """The reference's attributes of primitives, for program interpreters written by libraries."""

    traits: Traits
    """Facts about the primitive. It has no default: `__init__` raises ArgumentTypeError if no class defines it."""
    call_primitive = False
    """Whether `bind` takes a function before the operands. False, because a call's program is a param."""

    @property
    def multiple_results(self) -> bool:
        """Whether `bind` returns a list of results."""
        return self.traits.returns_list

    def bind(self: Any, *operands: Any, **params: Any) -> Any:
        """The result of applying the primitive under the current trace, or a list of results if `multiple_results`.

        Raises: ArgumentTypeError for unknown or missing params.

        >>> pl.lax.add_p.bind(np.float32(1), np.float32(2))
        Array(3., dtype=float32)
        """
        results = binder(self, *operands, params=params_of(self, params))
        return list(results) if self.multiple_results else results[0]

    def bind_with_trace(
        self: Any, trace: Any, args: Sequence[Any], avals: Any, params: Mapping[str, Any]
    ) -> Any:
        """Like `bind`, under `trace` instead of the current one; `avals` is ignored.

        >>> trace = pl.core.find_top_trace(())
        >>> pl.lax.add_p.bind_with_trace(trace, [np.float32(1), np.float32(2)], None, {})
        Array(3., dtype=float32)
        """
        with late("use trace")(trace):
            return self.bind(*args, **params)

    def get_bind_params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of `bind` for an equation with `params`; programs are params like others."""
        return dict(params)


class Primitive(Interpreted, Generic[P]):
    """An operation. Subclasses override the rules that they support.

    Every rule receives the operands as a tuple and the static parameters as one `params` value, a NamedTuple whose
    fields have the names in the text of programs. Every primitive returns a list or tuple of results, even if there is
    only one. A rule runs with the parent trace as the current one.
    """

    name: str
    own_effects: Effects = no_effects
    """Effects of all equations, unless `effects` is overridden."""
    all_dims: str | None = None
    """The mark of each factor, if all dimensions of operands are dimensions of the results; else None."""
    types_are_laid_out = False
    """Whether the types that `abstract_eval` returns include shardings already, so that factors aren't needed."""

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            self.name = name
        if not hasattr(self, "traits"):
            raise ArgumentTypeError(
                f"`{self.name}` has no traits.",
                do=f"Say what it does: `{type(self).__name__}.traits = Traits(kind=..., flops=...)`.",
            )
        registry[self.name] = self

    @functools.cached_property
    def params_type(self) -> type[Any]:
        """The class of the params, from the annotation of the row's `hlo` or the argument of `Primitive[...]`."""
        lowering = getattr(self, "hlo", None)
        if inspect.isfunction(lowering):
            params_type = typing.get_type_hints(lowering).get("params", Any)
            return NoParams if params_type is Any else params_type
        for cls in type(self).__mro__:
            for base in getattr(cls, "__orig_bases__", ()):
                for argument in typing.get_args(base):
                    if isinstance(argument, type) and argument is not Any:
                        return argument
        return NoParams

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return _registered_primitive, (self.name,)

    # Rules ------------------------------------------------------------------------------------

    def abstract_eval(self, avals: Avals, params: P) -> Sequence[AbstractValue]:
        """Types of the results, without sharding; raises for unsuitable operands."""
        raise self.missing("abstract_eval")

    def effects(self, avals: Avals, params: P) -> Effects:
        """Effects of an equation with these operands: by default `own_effects`."""
        return self.own_effects

    def factors(self, avals: Avals, results: Results, params: P) -> Factors | None:
        """Which dimensions of operands and results are sharded together, in the notation of
        `sharding/explicit_types.py`.

        By default given by `all_dims`. Called only if an operand's type has a sharding, or the user specified that of
        the result. None if `types_are_laid_out`.
        """
        if self.types_are_laid_out:
            return None
        if self.all_dims is not None:
            return alike(avals, results, self.all_dims)
        operands = [*map(operand_of, avals)]
        raise sharding_type_error(
            self.name,
            "it has no rule for operands that are sharded over Explicit mesh axes.",
            operands,
            mesh_of(self.name, avals),
            "Gather them first with reshard(x, PartitionSpec()), or leave the axes to the compiler: auto_axes.",
        )

    def jvp(self, primals: Operands, tangents: Operands, params: P) -> tuple[Any, Any]:
        """(results, their tangents). Some tangents may be `Zero`, but not all of the given ones."""
        raise self.missing("jvp")

    def transpose(self, cotangents: Operands, operands: Operands, params: P) -> Results:
        """Cotangents, or `Zero`, of the operands that are given as `LinearOperand`; None for the others.

        A cotangent may be `Zero`; all are only for a `TransposedByUser` and for primitives that contain one.
        """
        raise self.missing("transpose")

    def batch(
        self, axis: BatchAxis, operands: Operands, dims: tuple[BatchDim, ...], params: P
    ) -> tuple[Results, Dims]:
        """(results, their batch axes) for operands with batch axes `dims`."""
        raise self.missing("batch")

    def lower(self, ctx: Any, operands: Operands, params: P) -> Results:
        """StableHLO values of the results."""
        raise self.missing("lower")

    # ------------------------------------------------------------------------------------------

    @cached(1 << 16)
    def types(self, avals: Avals, params: P) -> tuple[tuple[AbstractValue, ...], Effects]:
        """(types of the results, effects), cached by (primitive, avals, params)."""
        return derived_types(self, avals, params)

    def memory(self, params: P) -> dict[Any, Any] | None:
        """The cache for programs compiled for `params`, dropped together with them; None for params that refer to
        nothing.
        """
        return None

    dead_code: Callable[..., tuple[list[bool], Any]] | None = None
    """A rule (used results, equation) -> (used operands, remaining equation or None). None if the equation needs all
    operands.
    """

    def typed(self, avals: Avals, results: Results, params: P) -> Results:
        """The types `results`, with meshes added: the last step of type inference.

        By default they are sharded over Explicit mesh axes like the operands, and vary over the manual axes over which
        any operand, or the content of a reference, varies.
        """
        if (
            any(getattr(aval, "shown_sharding", None) is not None for aval in avals)
            or asked_layout(self, params) is not None
        ):
            results = self._laid_out(avals, results, params)
        varying = [
            aval.varying
            for aval in avals
            if type(aval) in (ShapedArray, AbstractRef) and aval.varying
        ]
        if not varying:
            return results
        axes = frozenset[str]().union(*varying)
        return [r.update(varying=axes) if type(r) is ShapedArray else r for r in results]

    def _laid_out(self, avals: Avals, results: Results, params: P) -> Sequence[AbstractValue]:
        """`results` with shardings over Explicit mesh axes, from factors and traits or as specified by the user."""
        factors = self.factors(avals, results, params)
        if factors is None:
            return results
        stated = asked_layout(self, params)
        mesh = mesh_of(self.name, avals) if stated is None else stated.mesh.abstract_mesh
        linear = self.traits.linear_for(avals, params)
        is_contraction = self.traits.kind == "contraction" and linear != "all"
        operation = ShardedOperation(
            self.name,
            rule_of(factors),
            [*map(operand_of, avals)],
            mesh,
            linear,
            self.traits.passive_operands(len(avals)),
            is_contraction,
            isinstance(self, LaidOut),
        )
        shapes = [result.shape for result in results]
        specs = (
            operation.specs(shapes)
            if stated is None
            else [operation.requested_spec(stated, shape) for shape in shapes]
        )
        return [
            result.update(shown_sharding=shown_sharding(mesh, spec))
            for result, spec in strict_zip(results, specs)
        ]

    def missing(self, rule: str) -> MissingRule:
        return MissingRule(
            f"`{self.name}` has no {rule} rule.",
            do=f"To add one: define `{type(self).__name__}.{rule}` in {type(self).__module__}.",
        )


class HigherOrderPrimitive(Primitive[P]):
    """A primitive with programs among its params. Their types include shardings, so that nothing is derived from
    factors.
    """

    types_are_laid_out = True
    varies_jointly = False
    """Whether operands are cast to vary over the same manual axes, as for operations; not if they are inputs of
    programs.
    """
    rule_params: tuple[str, ...] = ()
    """Names of params that only transformations read; lowered programs don't depend on them."""

    running_program = ""
    """For a primitive without `slots`: the param `field[name]` with the program that it runs; others serve
    transformations only.
    """

    def types(self, avals: Avals, params: P) -> tuple[tuple[AbstractValue, ...], Effects]:
        return tuple(self.abstract_eval(avals, params)), self.effects(avals, params)

    def slots(self, params: P) -> Slots | None:
        """The programs with the roles of operands and results; None if the operands aren't inputs of the programs."""
        return None

    def with_slots(self, params: P, slots: Slots) -> P:
        """`params` with the programs, and the group sizes, of `slots`."""
        raise self.missing("with_slots")

    def called(self, params: P) -> Any:
        """The program, if the primitive only calls one; else None."""
        return None

    def dead_code(self, used: list[bool], equation: Equation) -> tuple[list[bool], Any]:
        """(which operands the `used` results need, the remaining equation or None)."""
        return [True] * len(equation.operands), equation


class OneJaxprPrimitive(HigherOrderPrimitive[P]):
    """A primitive that runs one jaxpr once, on all of its operands, and returns its results."""

    program_field = "jaxpr"
    """Name of the param that contains the jaxpr."""

    def program(self, params: P) -> ClosedJaxpr:
        """The jaxpr that runs."""
        return getattr(params, self.program_field)

    def abstract_eval(self, avals: Avals, params: P) -> Sequence[AbstractValue]:
        return self.program(params).out_avals

    def effects(self, avals: Avals, params: P) -> Effects:
        return self.program(params).effects

    def slots(self, params: P) -> Slots:
        return call_slots(self.program(params))

    def lower(self, ctx: Any, operands: Operands, params: P) -> Results:
        return ctx.inline(self.program(params).jaxpr, (), operands)


def derived_types(
    self: Primitive, avals: Avals, params: Any
) -> tuple[tuple[AbstractValue, ...], Effects]:
    """(types of the results, effects), by the rules of a primitive; the implementation of `types` for classes that must
    not cache params.
    """
    if any(type(aval) is AbstractRef for aval in avals) and not (
        isinstance(self, OnReferences) and self.takes_references
    ):
        raise ArgumentTypeError(
            f"`{self.name}` needs arrays, got a reference.",
            got=", ".join(aval.text() for aval in avals),
            do="Read what the reference holds: `ref[...]`.",
        )
    results = self.typed(avals, self.abstract_eval(avals, params), params)
    return tuple(results), self.effects(avals, params)


def asked_layout(primitive: Primitive[P], params: P) -> NamedSharding | None:
    """The user-specified sharding of the results over Explicit mesh axes."""
    return primitive.out_sharding(params) if isinstance(primitive, LaidOut) else None


def called_program(primitive: Primitive[P], params: P) -> Any:
    """The program, if an equation only calls one; else None."""
    return primitive.called(params) if isinstance(primitive, HigherOrderPrimitive) else None


def is_always_transformed(primitive: Primitive) -> bool:
    """Whether derivative and batching rules apply even if no operand has a tangent or a batch axis."""
    return isinstance(primitive, OnReferences) and primitive.always_transformed


def params_of(primitive: Primitive[P], params: Mapping[str, Any]) -> P:
    """`params`, given by the names in the text of programs, in the form that rules take.

    Raises: ArgumentTypeError for unknown or missing params.
    """
    kind = primitive.params_type
    try:
        return kind(**params)
    except TypeError:
        fields = ", ".join(getattr(kind, "_fields", ())) or "none"
        raise ArgumentTypeError(
            f"`{primitive.name}.bind` got other params than it takes.",
            got=", ".join(params) or "none",
            do=f"Its params are: {fields}.",
        ) from None


def binder(primitive: Primitive, *operands: Any, params: Any) -> Results:
    """Replaced by `bind` of `tracing.trace` when that module loads."""
    raise RuntimeError("pellucid._machine.tracing.trace is not loaded")


registry: dict[str, Primitive] = {}
"""All primitives by name."""


def _registered_primitive(name: str) -> Primitive:
    return registry[name]
