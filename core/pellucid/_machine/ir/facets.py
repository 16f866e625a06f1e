"""Facets: optional capabilities of a primitive, beyond the rules that all primitives have.

A primitive has a facet by inheriting from it; `isinstance(primitive, Facet)` tests for it. Facets come before
`Primitive` among the bases, because some replace its defaults.
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
    """A primitive whose equations are printed in a form of their own."""

    name: str
    unshown: ClassVar[Sequence[str]] = ()
    """Names of params that aren't printed."""
    says_nothing: ClassVar[Sequence[Any]] = ()
    """Values such as None, False and the empty tuple; params with such a value aren't printed."""

    def printed_params(self, equation: Equation) -> dict[str, Any]:
        """The params that are printed for `equation`, by name."""
        return {
            name: value
            for name, value in equation.params._asdict().items()
            if name not in self.unshown and not any(value is x for x in self.says_nothing)
        }

    def printed_name(self, equation: Equation) -> str:
        """The name that is printed for `equation`."""
        return self.name

    def printed_equation(
        self, equation: Equation, results: str, operands: Sequence[str]
    ) -> str | None:
        """The text of the whole equation if it has a special form; None for the usual form."""
        return None


class Linearized:
    """A primitive with its own rule for linearization: results, and a linear program for their tangents."""

    is_linearized = True
    """False in a subclass that inherits the rule but only needs its jvp rule."""

    def linearize(self, trace: Any, primals: Operands, tangents: Operands, params: Any) -> Any:
        """(results, their tangents): results are computed under the parent trace, tangents staged by `trace`."""
        raise NotImplementedError(type(self))


class OnReferences:
    """A primitive that creates references, takes them as operands or closes over them."""

    takes_references = True
    """Whether operands may be references."""
    always_transformed = False
    """Whether derivative and batching rules apply even if no operand has a tangent or a batch axis."""
    is_discharged_alone = False
    """Whether equations without references are discharged, too: those that only order others."""

    def discharge(self, operands: Operands, params: Any) -> Results:
        """Evaluate with each reference replaced by a mutable `ReferenceCell`: reads return its `value`, writes assign
        it.
        """
        raise NotImplementedError(type(self))


class Masked:
    """A primitive with a rule for cotangents that record which of their elements are structurally zero."""

    def masked(self, operands: Operands, lives: Sequence[Any], params: Any) -> Any:
        """(results, known zeros of each result), from the operands and their known zeros."""
        raise NotImplementedError(type(self))


class Placed:
    """A primitive whose equations specify meshes, shardings or devices."""

    statement: str = ""
    """Name of the user's function that specifies the results' sharding; empty if it follows from the operands."""

    def placements(self, params: Any) -> Sequence[Any]:
        """Meshes, shardings and devices in the params that determine where the program runs."""
        raise NotImplementedError(type(self))

    def stated_results(self, avals: Avals, params: Any) -> tuple[Any, ...] | None:
        """For each result, the sharding that params specify, which an eager result has exactly; None if unspecified."""
        return None


def statement_of(primitive: object) -> str:
    """`Placed.statement` of a primitive; empty for one that specifies no placement."""
    return primitive.statement if isinstance(primitive, Placed) else ""


class LaidOut(Placed):
    """A primitive with an `out_sharding` argument, which specifies the sharding of results over Explicit mesh axes."""

    name: str

    def stated_layout(self, out_sharding: Any) -> NamedSharding | None:
        """The sharding that the argument `out_sharding` of the primitive's function specifies.

        Raises: ShardingArgumentError unless it is a PartitionSpec or a NamedSharding.
        """
        return None if out_sharding is None else stated_result(self.name, out_sharding)

    def out_sharding(self, params: Any) -> NamedSharding | None:
        """The sharding that the params specify, by default in the field `out_sharding` or `sharding`; None if
        unspecified.
        """
        return params.out_sharding if hasattr(params, "out_sharding") else params.sharding

    def placements(self, params: Any) -> tuple[NamedSharding, ...]:
        layout = self.out_sharding(params)
        return () if layout is None else (layout,)


class Collective:
    """A primitive whose equations refer to named axes of `vmap` or `shard_map`."""

    waits = True
    """Whether devices wait for each other along the axes, so that all must reach the equation."""
    axes_field = "axis_name"
    """Name of the param that contains the axis names."""

    def axis_names(self, params: Any, inner: frozenset[Any]) -> frozenset[Any]:
        """The named axes that an equation refers to and doesn't bind; `inner` are those that programs within it refer
        to.
        """
        return frozenset(getattr(params, self.axes_field))


class Runs:
    """A primitive that outside of a trace runs by its own rule instead of as a compiled program."""

    calls_python = False
    """Whether params contain a user's callback. Programs with callbacks are never shared between functions."""

    def run(self, operands: Operands, params: Any) -> Values:
        """The results outside of a trace."""
        raise NotImplementedError(type(self))


class TransposedByUser:
    """A primitive whose transpose is a user's rule, which is called even if all cotangents are zero."""


class Folds:
    """A primitive whose results are sometimes known without staging an equation."""

    def fold(self, operands: Operands, params: Any) -> Values | None:
        """The results while a program is staged, or None if an equation is needed."""
        raise NotImplementedError(type(self))
