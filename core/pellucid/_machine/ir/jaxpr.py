"""Programs: variables, literals, equations, jaxprs."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pellucid._machine.base import Names, ScopeStack
from pellucid._machine.base.late import late
from pellucid._machine.base.narrowing import is_dict, is_list_or_tuple

from .avals import AbstractRef, AbstractValue
from .effects import Effects, StateEffect, no_effects
from .facets import Collective
from .primitive import HigherOrderPrimitive, Primitive, params_of
from .rules import Operands, Values

T = TypeVar("T")


class Var:
    """A variable: bound once, compared by identity.

    >>> x, y = pl.make_jaxpr(lambda x, y: (x, y))(1.0, 2.0).jaxpr.invars
    >>> x == y, x.aval == y.aval
    (False, True)
    """

    __slots__ = ("aval", "__weakref__")

    def __init__(self, aval: AbstractValue) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.text()}"


class DropVar(Var):
    """An unused result, printed as `_`.

    >>> pl.core.DropVar(pl.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Literal:
    """A scalar constant that is an operand of an equation, or a result of a program.

    >>> add = pl.make_jaxpr(lambda x: x + 2.0)(1.0).eqns[0]
    >>> add.invars[1].val, add.invars[1].aval
    (2.0, ShapedArray(float32[], weak_type=True))
    """

    val: Any
    aval: AbstractValue

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.text()}"


Atom = Var | Literal


class Lineage(NamedTuple):
    """How a transformation made an equation: the transformation's name, and the original equations.

    `origins` are equations; an empty tuple means that the transformation itself added the equation.
    """

    transformation: str
    origins: tuple[Equation, ...]


next_id: Callable[[], int] = itertools.count(1).__next__
"""Returns the id of a new equation."""


@dataclass(slots=True, eq=False, repr=False)
class Equation:
    """`results = primitive[params] operands`, with metadata for tools.

    Metadata: `id` (unique in the process), `source` (captured stack), `scope` (name stack), `lineage`.
    """

    operands: Sequence[Atom]
    results: Sequence[Var]
    primitive: Primitive
    params: Any
    effects: Effects = no_effects
    source: Any = None
    scope: Any = None
    lineage: Lineage | None = None
    id: int = field(default_factory=next_id)

    @property
    def invars(self) -> Sequence[Atom]:
        """The reference's name for `operands`."""
        return self.operands

    @property
    def outvars(self) -> Sequence[Var]:
        """The reference's name for `results`."""
        return self.results

    def replace(self, **changes: Any) -> Equation:
        """This equation with some fields changed; its metadata stay unless changed."""
        fields = {name: getattr(self, name) for name in Equation.__slots__}
        return Equation(**(fields | changes))

    def __repr__(self) -> str:
        results = " ".join(v.aval.text() for v in self.results)
        return f"<Equation {self.id}: {results} = {self.primitive.name}>"


class SourceInfo(NamedTuple):
    """The source of an equation: the captured stack, and the name stack.

    >>> with pl.named_scope("layer"):
    ...     program = pl.make_jaxpr(pl.lax.sin)(1.0)
    >>> isinstance(program.eqns[0].source_info, SourceInfo)
    True
    """

    traceback: Any
    name_stack: Any


_NO_NAMES = ScopeStack(None, "")


class JaxprEqn:
    """An equation in the form that interpreters written for the reference read: `params` is a dict.

    `eqn.primitive.bind(*values, **eqn.params)` evaluates it. It is immutable; `equation` is the underlying equation.

    Raises: AttributeError if `replace` is called with an unknown field.

    >>> jaxpr = pl.make_jaxpr(lambda x: pl.lax.reduce_sum(x, (0,)))(np.ones(3)).jaxpr
    >>> [(eqn.primitive.name, eqn.params["axes"]) for eqn in jaxpr.eqns]
    [('reduce_sum', (0,))]
    """

    __slots__ = ("effects", "equation", "invars", "outvars", "params", "primitive", "source_info")

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        self.invars = list(equation.operands)
        self.outvars = list(equation.results)
        self.primitive = equation.primitive
        self.params: dict[str, Any] = equation.params._asdict()
        self.effects = equation.effects
        self.source_info = SourceInfo(equation.source, equation.scope or _NO_NAMES)

    def replace(
        self,
        *,
        invars: Sequence[Atom] | None = None,
        outvars: Sequence[Var] | None = None,
        primitive: Primitive | None = None,
        params: Mapping[str, Any] | None = None,
        effects: Effects | None = None,
    ) -> JaxprEqn:
        """This equation with some fields changed."""
        primitive = self.primitive if primitive is None else primitive
        equation = self.equation.replace(
            operands=self.invars if invars is None else invars,
            results=self.outvars if outvars is None else outvars,
            primitive=primitive,
            params=params_of(primitive, self.params if params is None else params),
            effects=self.effects if effects is None else effects,
        )
        return JaxprEqn(equation)

    def __eq__(self, other: object) -> bool:
        # Programs that share an equation have forms of their own for it.
        return isinstance(other, JaxprEqn) and self.equation is other.equation

    def __hash__(self) -> int:
        return hash(self.equation)

    def __repr__(self) -> str:
        return repr(self.equation)


class Jaxpr:
    """A program: `constvars; invars -> equations -> outvars`. It is immutable.

    Compared and hashed by identity. `debug` has the names of its function and arguments for messages.
    """

    __slots__ = (
        "constvars",
        "invars",
        "equations",
        "outvars",
        "effects",
        "debug",
        "memo",
        "__weakref__",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        equations: Sequence[Equation],
        outvars: Sequence[Atom],
        effects: Effects | None = None,
        debug: DebugInfo | None = None,
    ) -> None:
        self.constvars = tuple(constvars)
        self.invars = tuple(invars)
        self.equations = tuple(equations)
        self.outvars = tuple(outvars)
        if effects is None:
            effects = no_effects.union(*(e.effects for e in equations if e.effects))
        if effects and not any(
            type(v.aval) is AbstractRef for v in (*self.constvars, *self.invars)
        ):
            # The effects of references that exist only within the program aren't visible outside.
            effects = frozenset([e for e in effects if not isinstance(e, StateEffect)])
        self.effects: Effects = effects
        self.debug = debug
        self.memo: dict[Any, Any] = {}
        """Programs derived from this one (its derivative, its batched form), by key."""

    def remembered(self, key: Any, derive: Callable[[], T]) -> T:
        """`derive()`, called only once for each `key`."""
        derived = self.memo.get(key)
        if derived is None:
            derived = self.memo[key] = derive()
        return derived

    @property
    def eqns(self) -> list[JaxprEqn]:
        """The equations in the reference's form."""
        return self.remembered("eqns", lambda: [*map(JaxprEqn, self.equations)])

    @property
    def debug_info(self) -> DebugInfo | None:
        """The reference's name for `debug`."""
        return self.debug

    @property
    def in_avals(self) -> tuple[AbstractValue, ...]:
        return tuple(v.aval for v in self.invars)

    @property
    def out_avals(self) -> tuple[AbstractValue, ...]:
        return tuple(v.aval for v in self.outvars)

    def replace(self, **changes: Any) -> Jaxpr:
        """This program with some fields changed; `eqns` and `debug_info` are other names of `equations` and `debug`."""
        if "eqns" in changes:
            changes["equations"] = [eqn.equation for eqn in changes.pop("eqns")]
        if "debug_info" in changes:
            changes["debug"] = changes.pop("debug_info")
        fields = {
            n: getattr(self, n) for n in ("constvars", "invars", "equations", "outvars", "debug")
        }
        if "equations" not in changes:
            fields["effects"] = self.effects
        return Jaxpr(**(fields | changes))

    def __repr__(self) -> str:
        return text_of(self)

    def pretty_print(self, **settings: Any) -> str:
        """The program's text; settings as in `pellucid._machine.ir.printing.text`."""
        return text_of(self, **settings)


class ClosedJaxpr:
    """A program with the values of its constants.

    >>> x = jnp.arange(3)
    >>> closed = pl.make_jaxpr(lambda y: x * y)(2)
    >>> closed.consts, closed.in_avals
    ([Array([0, 1, 2], dtype=int32)], ...)
    """

    __slots__ = ("jaxpr", "consts", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Operands = ()) -> None:
        self.jaxpr = jaxpr
        self.consts = list(consts)

    @property
    def equations(self) -> tuple[Equation, ...]:
        return self.jaxpr.equations

    invars, outvars, constvars, debug_info, effects, in_avals, out_avals, eqns = (
        property(operator.attrgetter(f"jaxpr.{name}"), doc=f"`{name}` of the jaxpr.")
        for name in (
            "invars", "outvars", "constvars", "debug_info", "effects", "in_avals", "out_avals", "eqns"
        )
    )  # fmt: skip

    @property
    def literals(self) -> list[Any]:
        """The reference's other name for `consts`."""
        return self.consts

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Operands | None = None) -> ClosedJaxpr:
        """This program with another jaxpr or other constants."""
        return ClosedJaxpr(jaxpr or self.jaxpr, self.consts if consts is None else consts)

    def __repr__(self) -> str:
        return text_of(self.jaxpr)

    def pretty_print(self, **settings: Any) -> str:
        """The program's text; settings as in `pellucid._machine.ir.printing.text`."""
        return text_of(self.jaxpr, **settings)


LateNames: TypeAlias = Sequence[str] | Callable[[], Sequence[str]]


class DebugInfo:
    """What a program was traced for, and names for messages: of its function, its arguments and its results.

    `func_src_info` is the function's name, and where it begins if that is known, as `loss at train.py:12`. Names may be
    given as functions, which are called when a message needs them; None stands for unknown ones.

    >>> info = DebugInfo("jit", "loss at train.py:12", ("params['w']", "batch"), lambda: ["result"])
    >>> info.name, info.arg_names, info.result_paths
    ('loss', ("params['w']", 'batch'), ('result',))
    """

    __slots__ = ("_names", "_result_names", "func_src_info", "notes", "references", "traced_for")

    def __init__(
        self,
        traced_for: str,
        func_src_info: str,
        arg_names: LateNames | None = None,
        result_paths: LateNames | None = None,
        *,
        notes: Any = None,
    ) -> None:
        self.traced_for = traced_for
        """Name of the function that traced the program, such as `jit` or `scan`."""
        self.func_src_info = func_src_info
        self.notes = notes
        """Lines and values that a debugger recorded during the trace (`introspect.noting`); None for most functions."""
        self.references: dict[Any, list[tuple[Any, int | None]]] = {}
        """For a function traced with notes: for each reference, its successive contents in the program without
        references, each as (atom, id of the equation after which it is the content, or None for the initial one), and
        likewise values read from it.
        """
        self._names: LateNames = () if arg_names is None else arg_names
        self._result_names: LateNames = () if result_paths is None else result_paths

    @property
    def name(self) -> str:
        """The function's name."""
        return self.func_src_info.partition(" at ")[0]

    func_name = name

    @property
    def arg_names(self) -> Names | None:
        """The reference's form of `argument_names`: None if there are none."""
        return self.argument_names or None

    @property
    def result_paths(self) -> Names | None:
        """The reference's form of `result_names`: None if there are none."""
        return self.result_names or None

    @property
    def argument_names(self) -> Names:
        """A name for each argument, such as `params['w']`."""
        self._names = names = _name_tuple(self._names)
        return names

    @property
    def result_names(self) -> Names:
        """A name for each result, such as `result['w']`; empty if unknown."""
        self._result_names = names = _name_tuple(self._result_names)
        return names

    def rearranged(
        self,
        n_inputs: int,
        inputs: Sequence[int | None],
        results: Sequence[int] | None = None,
        tangents: Sequence[int] = (),
    ) -> DebugInfo:
        """Names for a program derived from one with `n_inputs` inputs; `inputs` are positions there, None for new
        inputs. Behind them are the tangents of the inputs at the positions `tangents`: `δ(x)` for `x`.

        `results` are by default all; a negative position isn't a result.

        >>> info = DebugInfo("jit", "loss at train.py:12", ("w", "x"))
        >>> info.rearranged(2, [0, 1], tangents=[1]).argument_names
        ('w', 'x', 'δ(x)')
        """

        def argument_names() -> Sequence[str]:
            names = self.argument_names
            unnamed = n_inputs - len(names)  # constants precede arguments
            if not names or unnamed < 0:
                return ()
            padded = [*[""] * unnamed, *names]
            own = ["" if i is None else padded[i] for i in inputs]
            return [*own, *[padded[i] and f"δ({padded[i]})" for i in tangents]]

        def result_names() -> Sequence[str]:
            names = self.result_names
            if results is None or not names:
                return names
            rest = dict(enumerate(names))  # a repeated result is a residual
            return [rest.pop(i, "") for i in results]

        derived = DebugInfo(
            self.traced_for, self.func_src_info, argument_names, result_names, notes=self.notes
        )
        derived.references = self.references
        return derived

    def with_results(self, result_paths: LateNames) -> DebugInfo:
        """The same with other names of results."""
        changed = DebugInfo(
            self.traced_for, self.func_src_info, lambda: self.argument_names, result_paths, notes=self.notes
        )  # fmt: skip
        changed.references = self.references
        return changed

    def __repr__(self) -> str:
        return f"DebugInfo({self.traced_for!r}, {self.func_src_info!r})"


def _name_tuple(names: LateNames) -> Names:
    return tuple(names() if callable(names) else names)


def uses_references(jaxpr: Jaxpr) -> bool:
    """Whether `jaxpr`, or a program within it, creates or uses references."""
    return jaxpr.remembered(
        "uses references",
        lambda: any(
            any(isinstance(effect, StateEffect) for effect in e.effects)
            or any(map(uses_references, programs_of(e)))
            for e in jaxpr.equations
            if e.effects or isinstance(e.primitive, HigherOrderPrimitive)
        ),
    )


def axis_names(primitive: Primitive, params: Any) -> frozenset[Any]:
    """The named axes that an equation refers to and doesn't bind."""
    programs = subjaxprs(params) if isinstance(primitive, HigherOrderPrimitive) else ()
    inner = _NO_AXES.union(*map(axis_names_of, programs))
    return primitive.axis_names(params, inner) if isinstance(primitive, Collective) else inner


def axis_names_of(jaxpr: Jaxpr) -> frozenset[Any]:
    """The named axes that a program's equations refer to and don't bind."""
    return jaxpr.remembered(
        "axis names",
        lambda: _NO_AXES.union(*(axis_names(e.primitive, e.params) for e in jaxpr.equations)),
    )


_NO_AXES: frozenset[Any] = frozenset()


def programs_of(equation: Equation) -> Sequence[Jaxpr]:
    """The programs that an equation runs."""
    return (
        subjaxprs(equation.params) if isinstance(equation.primitive, HigherOrderPrimitive) else ()
    )


def values_of(atoms: Sequence[Atom], values: Mapping[Any, Any]) -> Values:
    """The values of `atoms`; those of variables are looked up in `values`."""
    return [a.val if type(a) is Literal else values[a] for a in atoms]


def subjaxprs(params: Any) -> list[Jaxpr]:
    """The programs in `params` of an equation, in order of the fields; `params` may be a dictionary, as users see it.

    >>> [equation] = pl.make_jaxpr(pl.jit(jnp.sin))(1.0).eqns
    >>> print(*pl.core.jaxprs_in_params(equation.params))
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    programs: list[Jaxpr] = []
    for value in params.values() if is_dict(params) else params:
        for item in value if is_list_or_tuple(value) else (value,):
            if isinstance(item, ClosedJaxpr):
                programs.append(item.jaxpr)
            elif isinstance(item, Jaxpr):
                programs.append(item)
    return programs


def text_of(jaxpr: Jaxpr, **settings: Any) -> str:
    """The text of a program; bound late, because the printer depends on this module."""
    return late("text")(jaxpr, **settings)
