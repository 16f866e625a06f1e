"""Facets, what few primitives have beside the rules that all have.

A primitive has a facet by inheriting from it, and `isinstance(primitive, Facet)` asks for it. Facets stand before `Primitive`
among the bases, whose defaults some replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid._machine.sharding import NamedSharding
from pellucid._machine.sharding.stated import stated_result

from .rules import Avals, Operands, Results, Values

if TYPE_CHECKING:
    from .jaxpr import Equation


class Shown:
    """A primitive whose equations have a text of their own."""

    name: str
    unshown: ClassVar[Sequence[str]] = ()
    """Names of the params that no text shows."""
    says_nothing: ClassVar[Sequence[Any]] = ()
    """Values, as None, False and the empty tuple, that any param is left out with."""

    def printed_params(self, equation: Equation) -> dict[str, Any]:
        """The params in the text of `equation`, by name."""
        return {
            name: value
            for name, value in equation.params._asdict().items()
            if name not in self.unshown and not any(value is x for x in self.says_nothing)
        }

    def printed_name(self, equation: Equation) -> str:
        """The name in the text of `equation`."""
        return self.name

    def printed_equation(
        self, equation: Equation, results: str, operands: Sequence[str]
    ) -> str | None:
        """The text of the whole equation, where it has a form of its own; None for the usual one."""
        return None


class Linearized:
    """A primitive that is split into its results and a linear program of its own making."""

    is_linearized = True
    """Off where a class inherits the rule and its jvp rule is all it needs."""

    def linearize(self, trace: Any, primals: Operands, tangents: Operands, params: Any) -> Any:
        """(results, their tangents): the results under the parent trace, the tangents staged by `trace`."""
        raise NotImplementedError(type(self))


class OnReferences:
    """A primitive that makes, takes or closes over references."""

    takes_references = True
    """Whether operands may be references."""
    always_transformed = False
    """Whether derivative and batch rules are wanted though no operand has a tangent or a batch axis."""

    def discharge(self, operands: Operands, params: Any) -> Results:
        """Evaluate with each reference replaced by a mutable `ReferenceCell`: reads return its `value`, writes assign it."""
        raise NotImplementedError(type(self))


class Masked:
    """A primitive that has a rule of its own for cotangents that carry which of their elements are structurally zero."""

    def masked(self, operands: Operands, lives: Sequence[Any], params: Any) -> Any:
        """(results, what is known of the elements of each), from operands and what is known of theirs."""
        raise NotImplementedError(type(self))


class Placed:
    """A primitive whose equations name meshes, shardings or devices."""

    statement: str = ""
    """The user's name for what asks for the layout of the results; empty where they follow the operands."""

    def placed(self, params: Any) -> Sequence[Any]:
        """Meshes, shardings and devices by which an equation determines where its program runs."""
        raise NotImplementedError(type(self))

    def stated_results(self, avals: Avals, params: Any) -> tuple[Any, ...] | None:
        """For each result the sharding that params state, which an eager result keeps word for word; None for no statement."""
        return None


def statement_of(primitive: object) -> str:
    """`Placed.statement` of a primitive; empty for one that names no placement."""
    return primitive.statement if isinstance(primitive, Placed) else ""


class LaidOut(Placed):
    """A primitive with an `out_sharding` argument, by which its user asks for the layout of results over Explicit mesh axes."""

    name: str

    def stated_layout(self, out_sharding: Any) -> NamedSharding | None:
        """The layout that an argument `out_sharding` of the primitive's function means.

        Raises: ShardingArgumentError for what is neither a PartitionSpec nor a NamedSharding.
        """
        return None if out_sharding is None else stated_result(self.name, out_sharding)

    def out_sharding(self, params: Any) -> NamedSharding | None:
        """The layout that was asked for, where the params hold one, by default as `out_sharding` or `sharding`."""
        return params.out_sharding if hasattr(params, "out_sharding") else params.sharding

    def placed(self, params: Any) -> tuple[NamedSharding, ...]:
        layout = self.out_sharding(params)
        return () if layout is None else (layout,)


class Collective:
    """A primitive whose equations name axes of `vmap` or `shard_map`."""

    waits = True
    """Whether devices wait for others along the axes, so that all must reach the equation."""
    axes_field = "axis_name"
    """The name of the param that holds the names."""

    def axis_names(self, params: Any, inner: frozenset[Any]) -> frozenset[Any]:
        """The named axes that an equation refers to and does not bind; the programs within it refer to `inner`."""
        return frozenset(getattr(params, self.axes_field))


class Runs:
    """A primitive that is no compiled program outside a trace."""

    calls_python = False
    """Whether params contain a user callback. Such programs are never shared between functions."""

    def run(self, operands: Operands, params: Any) -> Values:
        """Results outside a trace."""
        raise NotImplementedError(type(self))


class TransposedByUser:
    """A primitive whose transpose is a rule of the user, which is asked for cotangents of zero, too."""


class Folds:
    """A primitive whose results are sometimes known without an equation."""

    def fold(self, operands: Operands, params: Any) -> Values | None:
        """Results while a program is staged, or None if it takes an equation."""
        raise NotImplementedError(type(self))
