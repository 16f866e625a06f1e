"""The vocabulary in which primitives state what they are and how they are transformed; it knows no transformation.

Values of rules (`Zero`, `LinearOperand`, `BatchAxis`); *effects*, which say what an equation does besides computing its
results; *traits*, facts that readers need (costs, checks, layouts, views); *slots*, the programs among the params and
the roles of the operands they take and results they give, by which readers follow values through programs and rewrites
put other programs in their place; and *facets*, what few primitives have beside the rules that all have. A primitive has a facet by inheriting from it, and `isinstance(primitive, Facet)` asks for it.
Facets stand before `Primitive` among the bases, whose defaults some replace.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pellucid._machine.base import strict_zip
from pellucid._machine.sharding import NamedSharding
from pellucid._machine.sharding.stated import stated_result

from .avals import ShapedArray

if TYPE_CHECKING:
    from .jaxpr import ClosedJaxpr, Equation


class _OfType:
    """Something of which rules know the type `aval` alone."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"


class Zero(_OfType):
    """A tangent or cotangent known to be zero; `aval` is its own type (not the primal's).

    >>> Zero(pl.typeof(np.float32(1)))
    Zero(float32[])
    """

    __slots__ = ()


class LinearOperand(_OfType):
    """Stands, in a transpose rule, for an operand whose cotangent is wanted.

    >>> LinearOperand(pl.typeof(np.float32(1)))
    LinearOperand(float32[])
    """

    __slots__ = ()


def is_linear(operand: Any) -> bool:
    """Whether a transpose rule must give this operand's cotangent.

    >>> is_linear(pl.interpreters.ad.UndefinedPrimal(pl.typeof(1.0))), is_linear(1.0)
    (True, False)
    """
    return type(operand) is LinearOperand


class BatchAxis(NamedTuple):
    """The axis that `vmap` adds: its length, its name for collectives, its mesh axes."""

    size: int
    name: Any = None
    spmd_name: Any = None
    explicit: Any = None
    """The sharding of one dimension that the types of all batched arguments show for the batch; None if they don't."""

    def added_to(self, aval: Any, dim: int) -> Any:
        """Type of a batch of values of type `aval`, along `dim`."""
        return aval.with_dim(dim, self.size, self.spmd_name, self.explicit)


BatchDim: TypeAlias = int | None
"""Position of the batch axis in a value; None where the value has none."""
Operands: TypeAlias = Sequence[Any]
"""Operands of an equation, or its primals, tangents, cotangents: arrays, tracers, numbers; `Zero` where a rule says so."""
Results: TypeAlias = Sequence[Any]
"""Results of an equation, in order."""
Values: TypeAlias = list[Any]
"""Operands or results in a list of their own, which its receiver may change."""
Mask: TypeAlias = Sequence[bool]
"""A flag for each operand or result: whether it has a tangent, is batched, is used."""
Avals: TypeAlias = Sequence[Any]
"""Types of operands or results."""
Dims: TypeAlias = Sequence[BatchDim]
"""Positions of the batch axis, one for each operand or result."""


# Effects -------------------------------------------------------------------------------------------


class Effect:
    """Something an equation does besides computing its results.

    `ordered` effects of one kind happen in program order (a token is threaded through the program);
    `control_flow_allowed` says whether such an equation may stand in a branch or a loop, `batched_control_flow_allowed`
    whether it may where `vmap` runs what an element of the batch doesn't choose.
    `keeps_equation` says whether it happens though nobody uses the equation's results, `may_repeat` whether it may
    happen again where `checkpoint` computes a value for a second time.

    >>> pl.make_jaxpr(lambda x: pl.debug.print("{}", x))(1.0).effects
    frozenset({DebugEffect})
    """

    ordered = False
    control_flow_allowed = False
    batched_control_flow_allowed = False
    keeps_equation = True
    may_repeat = True

    def __repr__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, repr=False)
class NamedAxisEffect(Effect):
    """Use of a named axis; it disappears where the axis is bound."""

    name: Any
    control_flow_allowed = True

    def __repr__(self) -> str:
        return f"NamedAxisEffect({self.name})"


class DebugEffect(Effect):
    """Output for whoever looks; nothing in the program depends on it.

    >>> [effect] = pl.make_jaxpr(lambda x: pl.debug.print("{}", x))(1.0).effects
    >>> isinstance(effect, pl.debug.DebugEffect), effect.ordered
    (True, False)
    """

    control_flow_allowed = True
    batched_control_flow_allowed = True


class OrderedDebugEffect(DebugEffect):
    """Debug output that comes in program order.

    >>> pl.make_jaxpr(lambda x: pl.debug.print("{}", x, ordered=True))(1.0).effects
    frozenset({OrderedDebugEffect})
    """

    ordered = True


class IOEffect(Effect):
    """Side effects of a Python function."""

    may_repeat = False
    control_flow_allowed = True


class OrderedIOEffect(IOEffect):
    """Side effects of a Python function, in program order."""

    ordered = True


class NoDCEEffect(Effect):
    """Nothing happens, but the equation stays in the program."""

    control_flow_allowed = True
    batched_control_flow_allowed = True


class StateEffect(Effect):
    """Use of a reference; it ends where the reference does, so a program without references as inputs has none."""

    control_flow_allowed = True


class ReadEffect(StateEffect):
    """A reference is read."""

    keeps_equation = False


class WriteEffect(StateEffect):
    """A reference is written."""


class AccumEffect(StateEffect):
    """Something is added to a reference."""


class AllocationEffect(StateEffect):
    """A reference is made."""

    keeps_equation = False


read_effect = ReadEffect()
write_effect = WriteEffect()
accum_effect = AccumEffect()
allocation_effect = AllocationEffect()
debug_effect = DebugEffect()
ordered_debug_effect = OrderedDebugEffect()
no_dce_effect = NoDCEEffect()
io_effect = IOEffect()
ordered_io_effect = OrderedIOEffect()

Effects = frozenset[Effect]
no_effects: Effects = frozenset()


# Traits --------------------------------------------------------------------------------------------

Kind: TypeAlias = Literal[
    "contraction",
    "elementwise",
    "reduction",
    "movement",
    "indexing",
    "control",
    "collective",
    "random",
    "creation",
    "host",
    "custom",
]
"""The kind of work that a primitive does; views colour equations by it. `custom` is what a library defines."""

CountRule: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Any], float]
"""(operand avals, result avals, params) -> number of operations of one run."""

Linear: TypeAlias = Literal["all", "each"] | tuple[int, ...]
"""`"all"`: linear in all operands that are not passive, jointly. `"each"`: in each of them, the others fixed
(multilinear). A tuple: in the operands at these positions, jointly, the others fixed."""

LinearRule: TypeAlias = Callable[[Sequence[Any], Any], Linear | None]
"""(operand avals, params) -> `Linear`, where linearity depends on dtypes or params."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts about a primitive. The class of a family gives the default; a row states what differs."""

    kind: Kind
    flops: float | CountRule | None
    """Arithmetic operations: per result element, or a rule for one run; None where they are unknown.

    Where params hold the program that combines two elements, the number of its runs.
    """
    transcendentals: float | CountRule = 0.0
    """Transcendental functions, in the same form."""
    linear: Linear | LinearRule | None = None
    """Operands in which the primitive is linear; decides which of them may be `unreduced`."""
    passive: tuple[int, ...] | Literal["others"] = ()
    """Operands that select elements (indices, predicates): never differentiated, no part of `linear`.
    `"others"`: all that a `linear` of positions doesn't name."""
    makes_nan: bool = False
    """Whether results can be NaN where no operand is."""
    cheap: bool | Literal["if one operand is small"] = False
    """Whether recomputing the result takes no longer than reading it from memory; decides what is kept for the backward
    pass. Sums of two large operands are none: with them whole polynomials would move there, a tenth of a step."""
    touches: Literal["all", "part", "in place"] = "all"
    """Memory traffic: reads all of its operands, a part of the first, or updates the first in place."""
    equalizes: bool = False
    """Whether the result is the same on all devices along the collective's axes, unless it works within groups."""
    keys: Literal["new", "used", "moved"] | None = None
    """Random keys among the results: new ones, or those of the operands, moved. `"used"`: new ones, and those of the operands
    are used up. By default keys are moved where elements are."""
    returns_list: bool = False
    """Whether `bind` returns a list of results, also when there is one (`multiple_results`)."""

    def replace(self, **changes: Any) -> Traits:
        """These traits with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def moves_keys(self) -> bool:
        """Whether random keys among the results are those of the operands."""
        return self.keys == "moved" or (self.keys is None and self.kind in ("movement", "indexing"))

    def linear_for(self, avals: Sequence[Any], params: Any) -> Linear | None:
        """`linear` for operands of these types."""
        return self.linear(avals, params) if callable(self.linear) else self.linear

    def passive_operands(self, n_operands: int) -> tuple[int, ...]:
        """`passive` as positions among so many operands."""
        if self.passive != "others":
            return self.passive
        linear = self.linear if isinstance(self.linear, tuple) else ()
        return tuple([i for i in range(n_operands) if i not in linear])

    def counts(
        self, operands: Sequence[Any], results: Sequence[Any], params: Any
    ) -> tuple[float | None, float | None]:
        """(arithmetic operations, transcendental functions) of one run; None where they are unknown.

        An operation on complex numbers counts as four.
        """
        flops, transcendentals = self.flops, self.transcendentals
        if flops is None:
            return None, None
        if callable(flops):
            flops = flops(operands, results, params)
        elif flops:
            flops *= sum(size_of(r) * real_operations(r) for r in results)
        if callable(transcendentals):
            transcendentals = transcendentals(operands, results, params)
        elif transcendentals:
            transcendentals *= sum(map(size_of, results))
        return flops, transcendentals


def size_of(aval: Any) -> float:
    """Number of elements; 0 for tokens and references."""
    return float(aval.size) if isinstance(aval, ShapedArray) else 0.0


def real_operations(aval: Any) -> float:
    """Number of real operations in one on elements of this type: 4 for complex ones, else 1."""
    return 4.0 if getattr(getattr(aval, "dtype", None), "kind", "") == "c" else 1.0


ARITHMETIC = Traits(kind="elementwise", flops=1.0)
"""One operation for each element of the result."""
CHEAP_ARITHMETIC = ARITHMETIC.replace(cheap=True)
"""Such an operation whose result is computed again rather than kept."""
TRANSCENDENTAL = Traits(kind="elementwise", flops=0.0, transcendentals=1.0, makes_nan=True)
"""One transcendental function for each element of the result."""
MOVEMENT = Traits(kind="movement", flops=0.0, linear="all")
"""Elements of the operands, or zeros, in another arrangement."""
INDEXING = Traits(kind="indexing", flops=0.0)
"""Elements at positions that are values."""
COLLECTIVE = Traits(kind="collective", flops=0.0, linear="all")
"""Elements move between devices."""
CONTROL = Traits(kind="control", flops=None, returns_list=True)
"""The programs among the params do the work."""
HOST = Traits(kind="host", flops=None, returns_list=True)
"""The host does the work."""


# Slots --------------------------------------------------------------------------------------------


class Role(enum.Enum):
    """Role of consecutive operands or results of an equation for its programs."""

    INDEX = "index"
    """Operand: the number of the one program that runs."""
    CONSTANT = "constant"
    """Operand: the same value in every run."""
    CARRY = "carry"
    """Operand and result: the result of one run is the operand of the next."""
    STACKED = "stacked"
    """Operand or result: one element along axis 0 for each run."""
    RESULT = "result"
    """Result of the one run."""


class Group(NamedTuple):
    """Consecutive operands, or results, of one role."""

    role: Role
    size: int


class Slot(NamedTuple):
    """A program: positions of the operand groups that are its inputs and of the result groups that it gives, in order.

    One that gives no group decides by its only result whether a loop continues.
    """

    program: ClosedJaxpr
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    @property
    def is_predicate(self) -> bool:
        """Whether its result decides if a loop continues."""
        return not self.gives


class Slots(NamedTuple):
    """All programs of an equation."""

    operands: tuple[Group, ...]
    results: tuple[Group, ...]
    programs: tuple[Slot, ...]
    runs: int | None = 1
    """Number of runs of each; None where it is known only at run time."""
    is_reversed: bool = False
    """Whether the runs take, and give, elements along axis 0 from the last to the first."""
    ends: bool = False
    """Whether a predicate comes after each run and ends the loop; otherwise it comes before each run."""

    @property
    def choosing(self) -> list[int]:
        """Positions of the operand groups that choose which one of the programs runs: one, or none."""
        return _places(self.operands, Role.INDEX)

    @property
    def carries(self) -> list[tuple[int, int]]:
        """(position among operand groups, position among result groups) of each carry."""
        places = [_places(groups, Role.CARRY) for groups in (self.operands, self.results)]
        return list(strict_zip(*places))

    def split(self, values: Operands) -> list[Values]:
        """`values`, one for each operand, group by group."""
        return _split(self.operands, values)

    def split_results(self, values: Operands) -> list[Values]:
        """`values`, one for each result, group by group."""
        return _split(self.results, values)

    def gathered(
        self, slot: Slot, groups: Sequence[Sequence[Any]] | Mapping[int, Sequence[Any]]
    ) -> Values:
        """The values for the inputs of a program, from those for all operands by group."""
        return [x for group in slot.takes for x in groups[group]]

    def taken(self, slot: Slot, values: Operands) -> dict[int, Values]:
        """`values`, one for each input of a program, by position of the operand group."""
        sizes = [self.operands[group] for group in slot.takes]
        return dict(strict_zip(slot.takes, _split(sizes, values)))

    def given(self, slot: Slot, values: Operands) -> list[tuple[int, Values]]:
        """`values`, one for each result of a program, with the position of their result group."""
        sizes = [self.results[group] for group in slot.gives]
        return list(strict_zip(slot.gives, _split(sizes, values)))


def call_slots(program: ClosedJaxpr) -> Slots:
    """The slots of an equation that runs one program once, on all of its operands."""
    jaxpr = program.jaxpr
    operands, results = len(jaxpr.invars), len(jaxpr.outvars)
    return Slots(
        (Group(Role.CONSTANT, operands),),
        (Group(Role.RESULT, results),),
        (Slot(program, (0,), (0,)),),
    )


def _places(groups: Sequence[Group], role: Role) -> list[int]:
    return [i for i, group in enumerate(groups) if group.role is role]


def _split(groups: Sequence[Group], values: Operands) -> list[Values]:
    return consecutive([group.size for group in groups], values)[:-1]


def consecutive(sizes: Iterable[int], values: Operands) -> list[Values]:
    """Consecutive parts of `values` of these sizes, and the rest."""
    rest = iter(values)
    return [*([*itertools.islice(rest, n)] for n in sizes), [*rest]]


# Facets --------------------------------------------------------------------------------------------


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
        """Evaluate with each reference replaced by a mutable `Cell`: reads return its `value`, writes assign it."""
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
    """A primitive whose user may ask for the layout of its results over Explicit mesh axes."""

    name: str

    def stated_layout(self, out_sharding: Any) -> NamedSharding | None:
        """The layout that an argument `out_sharding` of the primitive's function means.

        Raises: ShardingArgumentError for what is neither a PartitionSpec nor a NamedSharding.
        """
        return None if out_sharding is None else stated_result(self.name, out_sharding)

    def out_sharding(self, params: Any) -> NamedSharding | None:
        """The layout that was asked for, where the params hold one, by default as `out_sharding` or `sharding`."""
        return params.out_sharding if hasattr(params, "out_sharding") else params.sharding

    def placed(self, params):
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
