"""Primitives: one operation with all its rules in one class."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pellucid.base.errors import ArgumentTypeError, MissingRule
from pellucid.ir.avals import AbstractRef, AbstractValue, ShapedArray
from pellucid.ir.effects import Effects, no_effects
from pellucid.ir.factors import Factors
from pellucid.ir.rules import BatchAxis, BatchDim, Zero
from pellucid.ir.traits import Traits
from pellucid.sharding.explicit_types import operand_of, sharding_type_error, shown_sharding
from pellucid.sharding.factors import Linearity, Operation, mesh_of, rule_of
from pellucid.sharding.named_sharding import NamedSharding

P = TypeVar("P")


class NoParams(NamedTuple):
    """Params of a primitive that has none."""


NO_PARAMS = NoParams()
_TYPES_KEPT = 1 << 16
_RULES = ("abstract_eval", "jvp", "linearize", "transpose", "batch", "lower")


class Primitive(Generic[P]):
    """One operation. Subclasses override the rules they support.

    Every rule takes the operands as one tuple and the static parameters as one `params` value (a
    NamedTuple whose fields are named as a program's text shows them). Every primitive gives a list or
    tuple of results, also when there is one. A rule runs with the parent trace as the current one.
    """

    name: str
    traits: Traits
    """What the primitive does. There is no default: `__init__` raises ArgumentTypeError where no class gives it."""
    remember_types = True
    """Whether the type rule is remembered for (params, avals); off where params hold programs."""
    varies_jointly = True
    """Whether all operands must vary over the same mesh axes; not where they are a program's inputs."""
    may_be_placed = False
    """Whether equations may name meshes, shardings or devices, themselves or by programs among their params."""
    takes_references = False
    """Whether operands may be references."""
    calls_python = False
    """Whether params hold a Python function of the user that the program calls, or that is told of it."""
    always_transformed = False
    """Whether derivative and batch rules are wanted though no operand has a tangent or a batch axis."""
    fold: Any = None
    """`fold(operands, params)` gives the results where they are known without an equation, else None."""
    run: Any = None
    """`run(operands, params)` gives the results outside a trace, for primitives that are no compiled programs."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.placed is not Primitive.placed or cls.out_sharding is not Primitive.out_sharding
        cls.may_be_placed = own or not cls.remember_types

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            self.name = name
        if not hasattr(self, "traits"):
            raise ArgumentTypeError(
                f"`{self.name}` has no traits.",
                do=f"Say what it does: `{type(self).__name__}.traits = Traits(kind=..., flops=...)`.",
            )
        self._types: dict[Any, tuple[tuple[AbstractValue, ...], Effects]] = {}
        registry[self.name] = self

    @property
    def multiple_results(self) -> bool:
        """Whether `bind` gives a list of results."""
        return self.traits.returns_list

    def bind(self, *operands: Any, **params: Any) -> Any:
        """The result for `operands` under the current trace, or a list of results where `multiple_results`.

        Raises: ArgumentTypeError for params that the primitive lacks or needs.

        >>> pl.lax.add_p.bind(np.float32(1), np.float32(2))
        Array(3., dtype=float32)
        """
        results = binder(self, *operands, params=self.typed_params(params))
        return list(results) if self.multiple_results else results[0]

    def get_bind_params(self, params: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What an interpreter passes to `bind` before and after the operands: nothing, and `params`."""
        return [], dict(params)

    def typed_params(self, params: Mapping[str, Any]) -> P:
        """`params`, named as a program's text names them, in the form that rules take."""
        kind = self.params_type
        try:
            return kind(**params)
        except TypeError:
            wanted = ", ".join(getattr(kind, "_fields", ())) or "none"
            raise ArgumentTypeError(
                f"`{self.name}.bind` got other params than it takes.",
                got=", ".join(params) or "none",
                do=f"Its params are: {wanted}.",
            ) from None

    @functools.cached_property
    def params_type(self) -> type[Any]:
        """The class of the params: that with which some rule of this primitive is annotated."""
        for rule in (getattr(self, "hlo", None), *(getattr(type(self), name) for name in _RULES)):
            if inspect.isfunction(rule):
                found = typing.get_type_hints(rule).get("params")
                if isinstance(found, type) and found is not Any:
                    return found
        return NoParams

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)

    # Rules ------------------------------------------------------------------------------------

    def abstract_eval(self, avals: tuple[Any, ...], params: P) -> Sequence[AbstractValue]:
        """Types of the results, without sharding; raises for operands that do not fit."""
        raise self.missing("abstract_eval")

    def effects(self, avals: tuple[Any, ...], params: P) -> Effects:
        """Effects of an equation with these operands."""
        return no_effects

    def out_sharding(self, params: P) -> NamedSharding | None:
        """The layout over Explicit mesh axes that the user asked for the results, where the params hold one."""
        return None

    def factors(self, avals: tuple[Any, ...], results: Sequence[Any], params: P) -> Factors | None:
        """Which dimensions of operands and results are cut together, in the words of `sharding/factors.py`.

        Asked only if some operand's type has a sharding, or the user stated that of the result. None where the
        types that `abstract_eval` gives have their shardings already.
        """
        operands = [*map(operand_of, avals)]
        raise sharding_type_error(
            self.name,
            "it has no rule for operands that are sharded over Explicit mesh axes.",
            operands,
            mesh_of(self.name, avals),
            "Gather them first with reshard(x, PartitionSpec()), or leave the axes to the compiler: auto_axes.",
        )

    def jvp(
        self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: P
    ) -> tuple[Any, Any]:
        """(results, their tangents). A tangent may be `Zero`, never all of those given."""
        raise self.missing("jvp")

    linearize: Any = None
    """`linearize(trace, primals, tangents, params)`: only for primitives whose params hold programs."""

    def transpose(
        self, cotangents: tuple[Any, ...], operands: tuple[Any, ...], params: P
    ) -> Sequence[Any]:
        """Cotangents of the operands given as `LinearOperand`, or `Zero`; None for the others."""
        raise self.missing("transpose")

    def batch(
        self, axis: BatchAxis, operands: tuple[Any, ...], dims: tuple[BatchDim, ...], params: P
    ) -> tuple[Sequence[Any], Sequence[BatchDim]]:
        """Apply to operands whose batch axis is at `dims`: (results, their dims)."""
        raise self.missing("batch")

    def lower(self, ctx: Any, operands: Sequence[Any], params: P) -> Sequence[Any]:
        """StableHLO values of the results."""
        raise self.missing("lower")

    def placed(self, params: P) -> Sequence[Any]:
        """Meshes, shardings and devices that an equation names, by which its program says where it runs."""
        asked = self.out_sharding(params)
        return () if asked is None else (asked,)

    def discharge(self, operands: tuple[Any, ...], params: P) -> Sequence[Any]:
        """Results where references are cells (with a `value`): what the equation does to them is done to the cells."""
        raise self.missing("discharge")

    def called(self, params: P) -> Any:
        """The program that this primitive does nothing but call, if it is such a primitive."""
        return None

    def axis_names(self, params: P, inner: frozenset[Any]) -> frozenset[Any]:
        """The named axes that an equation refers to, where the programs within it refer to `inner`."""
        return inner

    def dead_code(self, used: list[bool], equation: Any) -> tuple[list[bool], Any]:
        """Which operands are needed for the `used` results, and the equation that remains (or None)."""
        return [True] * len(equation.operands), equation

    def printed_params(self, equation: Any) -> dict[str, Any]:
        """The params that the program's text shows, by name."""
        params = equation.params
        return dict(zip(params._fields, params, strict=True))

    def printed_equation(self, equation: Any, results: str, operands: Sequence[str]) -> str | None:
        """The text of the whole equation, where it has a form of its own; None for the usual one."""
        return None

    def printed_name(self, equation: Any) -> str:
        """The name that the program's text shows."""
        return self.name

    # ------------------------------------------------------------------------------------------

    def types(self, avals: tuple[Any, ...], params: P) -> tuple[tuple[AbstractValue, ...], Effects]:
        """(types of the results, effects): the type rule, remembered."""
        if not self.remember_types:
            return self._typed(avals, params)
        key = (params, avals)
        typed = self._types.get(key)
        if typed is None:
            typed = self._typed(avals, params)
            if len(self._types) >= _TYPES_KEPT:
                self._types.clear()
            self._types[key] = typed
        return typed

    def _typed(
        self, avals: tuple[Any, ...], params: P
    ) -> tuple[tuple[AbstractValue, ...], Effects]:
        if not self.takes_references and any(type(aval) is AbstractRef for aval in avals):
            raise self._given_references(avals)
        results: Sequence[AbstractValue] = self.abstract_eval(avals, params)
        if (
            any(getattr(aval, "shown_sharding", None) is not None for aval in avals)
            or self.out_sharding(params) is not None
        ):
            results = self._laid_out(avals, results, params)
        varying = [aval.varying for aval in avals if type(aval) is ShapedArray and aval.varying]
        if varying:
            results = self.varying_results(avals, results, frozenset().union(*varying), params)
        return tuple(results), self.effects(avals, params)

    def _laid_out(
        self, avals: tuple[Any, ...], results: Sequence[Any], params: P
    ) -> Sequence[AbstractValue]:
        """`results` with their shardings over Explicit mesh axes, as factors and traits imply or the user stated."""
        if not self.remember_types:
            return results  # they come from a program, with their shardings
        factors = self.factors(avals, results, params)
        if factors is None:
            return results
        asked = self.out_sharding(params)
        mesh = mesh_of(self.name, avals) if asked is None else asked.mesh.abstract_mesh
        linear = self.traits.linear_for(avals, params)
        is_contraction = self.traits.kind == "contraction" and linear != "all"
        operation = Operation(
            self.name,
            rule_of(factors),
            [*map(operand_of, avals)],
            mesh,
            Linearity(linear, self.traits.passive_operands(len(avals)), is_contraction),
            type(self).out_sharding is not Primitive.out_sharding,
        )
        shapes = [result.shape for result in results]
        specs = (
            operation.specs(shapes)
            if asked is None
            else [operation.spec_as_asked(asked, shape) for shape in shapes]
        )
        return [
            result.update(shown_sharding=shown_sharding(mesh, spec))
            for result, spec in zip(results, specs, strict=True)
        ]

    def varying_results(
        self,
        avals: tuple[Any, ...],
        results: Sequence[AbstractValue],
        axes: frozenset[str],
        params: P,
    ) -> Sequence[AbstractValue]:
        """`results` marked as varying over the manual `axes` over which some operand varies."""
        return [r.update(varying=axes) if type(r) is ShapedArray else r for r in results]

    def _given_references(self, avals: tuple[Any, ...]) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"`{self.name}` takes arrays, and got a reference.",
            got=", ".join(aval.text() for aval in avals),
            do="Read what the reference holds: `ref[...]`.",
        )

    def has_rule(self, rule: str) -> bool:
        """Whether `rule` is defined for this primitive."""
        return getattr(type(self), rule) is not getattr(Primitive, rule)

    def missing(self, rule: str) -> MissingRule:
        return MissingRule(
            f"`{self.name}` has no {rule} rule.",
            do=f"To add one: define `{type(self).__name__}.{rule}` in {type(self).__module__}.",
        )


def binder(primitive: Primitive[Any], *operands: Any, params: Any) -> Sequence[Any]:
    """Replaced by `bind` of `tracing.trace` when that module loads."""
    raise RuntimeError("pellucid.tracing.trace is not loaded")


registry: dict[str, Primitive[Any]] = {}
"""All primitives by name."""


def _by_name(name: str) -> Primitive[Any]:
    return registry[name]


def rule_matrix() -> dict[str, dict[str, bool]]:
    """For each primitive, which rules it has."""
    return {
        name: {rule: primitive.has_rule(rule) for rule in _RULES}
        for name, primitive in sorted(registry.items())
    }


def tangents_of(results: Sequence[Any], primals_out: Sequence[AbstractValue]) -> list[Any]:
    """Tangents where None stands for a zero tangent."""
    return [
        Zero(aval.tangent()) if tangent is None else tangent
        for tangent, aval in zip(results, primals_out, strict=True)
    ]
