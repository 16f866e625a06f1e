"""Discharge of references: turns programs that read and write references into pure programs on values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import DeletedArrayError, EffectsError, strict_zip
from pellucid._machine.ir import (
    AbstractRef,
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Lineage,
    Literal,
    Mask,
    OnReferences,
    Operands,
    Results,
    Values,
    constants_as_inputs,
    programs_of,
    uses_references,
    values_of,
)

from .current import context, use_facts, use_no_scope, use_trace
from .operands import type_of
from .staging import StagingTrace, StagingTracer
from .tracer import origin_lines


class ReferenceCell:
    """A reference during discharge: `value` is its content at the current point of the program.

    Reading or writing it after it was consumed raises DeletedArrayError.
    """

    __slots__ = ("_given_up_by", "last_value")

    def __init__(self, value: Any) -> None:
        self.last_value = value
        self._given_up_by = ""

    @property
    def value(self) -> Any:
        self._check()
        return self.last_value

    @value.setter
    def value(self, value: Any) -> None:
        self._check()
        self.last_value = value

    def given_up(self, function: str) -> Any:
        """The last value; the reference can't be used any more."""
        self._check()
        self._given_up_by = function
        return self.last_value

    def _check(self) -> None:
        if self._given_up_by:
            raise DeletedArrayError(
                f"a reference was used after `{self._given_up_by}`.",
                got=f"a reference to {type_of(self.last_value).text()}",
                do="Make a new one with `new_ref`.",
            )


class Discharged(NamedTuple):
    """A discharged program. It takes `consts`, the inputs, and contents for references; it returns the results, then
    the final contents of the input references whose indices are in `written`.
    """

    program: ClosedJaxpr
    consts: Values
    written: tuple[int, ...]


def read_cells(operands: Operands) -> Values:
    """`operands` with cells replaced by their contents."""
    return [x.value if type(x) is ReferenceCell else x for x in operands]


def discharge_program(jaxpr: Jaxpr, operands: Operands | None = None) -> Discharged:
    """`jaxpr`, which has no constants, as a program on values; cached.

    If `operands` are given, references among them that are not cells stay references.
    """
    passed = frozenset(
        i
        for i, x in enumerate(operands or ())
        if type(x) is not ReferenceCell and is_reference(jaxpr.invars[i])
    )
    return jaxpr.remembered(("discharged", passed), lambda: _discharge_program(jaxpr, passed))


def without_references(jaxpr: Jaxpr) -> tuple[Jaxpr, Values]:
    """(`jaxpr` with the references that it creates itself discharged, additional leading constants)."""
    if not uses_references(jaxpr):
        return jaxpr, []
    closed = constants_as_inputs(jaxpr)
    # References among the inputs stay references, because `operands` contains no cells: only internal ones are
    # discharged.
    values = discharge_program(closed, closed.invars)
    # Inputs before: new constants, constants, arguments. After: the first two are constants again.
    program, n = values.program.jaxpr, len(values.consts) + len(jaxpr.constvars)
    opened = program.replace(constvars=program.invars[:n], invars=program.invars[n:])
    return opened, values.consts


def _discharge_program(jaxpr: Jaxpr, passed: frozenset[int]) -> Discharged:
    trace = StagingTrace(jaxpr.debug)
    # `values`: value or cell of each variable. `cells`: for each input reference, its cell and initial content.
    values: dict[Any, Any] = {}
    cells: dict[int, tuple[ReferenceCell, Any]] = {}
    for i, var in enumerate(jaxpr.invars):
        # A reference input becomes an input for its content; other inputs keep their variables.
        if type(var.aval) is AbstractRef and i not in passed:
            tracer = trace.new_argument(var.aval.inner_aval)
            values[var] = cell = ReferenceCell(tracer)
            cells[i] = cell, tracer
        else:
            trace.invars.append(var)
            values[var] = StagingTracer(trace, var, None)
    history = _History(trace, jaxpr)
    with use_trace(trace), use_no_scope():
        history.note(jaxpr.invars, values)
        _run_on_cells(trace, jaxpr, values, keep=True, history=history)
    # Indices of references whose content changed; their final contents are returned after the results.
    written = tuple([i for i, (cell, before) in cells.items() if cell.last_value is not before])
    results = values_of(jaxpr.outvars, values)
    if any(type(x) is ReferenceCell for x in results):
        raise EffectsError(
            "a reference that is made in a part of a program (jit, scan, cond) is used outside of it.",
            got=", ".join(a.aval.text() for a in jaxpr.outvars if type(a.aval) is AbstractRef),
            do="Make it outside and pass it, for example where a custom derivative keeps it for the backward pass.",
        )
    program, consts = trace.finish([*results, *(cells[i][0].last_value for i in written)])
    trace.close()
    return Discharged(ClosedJaxpr(constants_as_inputs(program)), consts, written)


def on_values(
    primitive: Any, operands: Operands, params: Any, identities: Operands | None = None
) -> Results:
    """Results of an equation on values: references among its operands are read before, and written after it.

    `identities` has one object per operand, equal for the same reference; by default the operands themselves.
    """
    named = {id(k): x for k, x in strict_zip(identities or operands, operands) if is_reference(x)}
    cells = {key: ReferenceCell(x.aval.methods["get"](x)) for key, x in named.items()}
    before = {key: cell.value for key, cell in cells.items()}
    held_in = [cells.get(id(k), x) for k, x in strict_zip(identities or operands, operands)]
    results = primitive.discharge(tuple(held_in), params)
    for key, x in named.items():
        if cells[key].value is not before[key]:
            x.aval.methods["set"](x, cells[key].value)
    return results


class _History:
    """For debuggers: the contents of a program's references over its course, and the values read from them; empty
    unless the trace records moments.
    """

    def __init__(self, trace: StagingTrace, jaxpr: Jaxpr) -> None:
        self._trace = trace
        debug = jaxpr.debug
        self._held = None if debug is None or debug.notes is None else debug.references
        self._latest: dict[Any, Any] = {}

    def note(self, atoms: Sequence[Any], values: dict[Any, Any]) -> None:
        """Records the contents of the references among `atoms` that have changed."""
        if self._held is None:
            return
        equations = self._trace.equations
        for atom in atoms:
            value = None if type(atom) is Literal else values.get(atom)
            value = value.last_value if type(value) is ReferenceCell else value
            if value is not None and self._latest.get(atom, self) is not value:
                self._latest[atom] = value
                place = equations[-1].id if equations else None
                self._held.setdefault(atom, []).append((self._trace.atom(value), place))


def _run_on_cells(
    trace: StagingTrace,
    jaxpr: Jaxpr,
    values: dict[Any, Any],
    *,
    keep: bool,
    history: _History | None = None,
) -> None:
    """Stages the equations of `jaxpr` into `trace`, and stores the values or cells of its variables in `values`.

    With `keep`, equations without references are copied unchanged, with facts and variables.
    """
    with use_facts() as facts:
        for equation in jaxpr.equations:
            operands = values_of(equation.operands, values)
            knows_references = _knows_references(equation, operands)
            if keep and not knows_references:
                # Current operands: a value read from a reference has another variable than before.
                atoms = [
                    a if type(a) is Literal else trace.atom(x)
                    for a, x in strict_zip(equation.operands, operands)
                ]
                same = equation.replace(operands=atoms)
                trace.equations.append(same)
                trace.effects = trace.effects | same.effects
                values.update((v, StagingTracer(trace, v, same)) for v in equation.results)
                continue
            facts.enter(equation, Lineage("discharge", (equation,)))
            primitive, params = equation.primitive, equation.params
            if knows_references:
                if not isinstance(primitive, OnReferences):
                    raise primitive.missing("discharge")
                results = primitive.discharge(tuple(operands), params)
            else:
                results = trace.interpret(primitive, tuple(operands), params)
            values.update(strict_zip(equation.results, results))
            if history is not None and knows_references:
                history.note([*equation.operands, *equation.results], values)


def _knows_references(equation: Equation, operands: Operands) -> bool:
    if any(type(x) is ReferenceCell for x in operands) or any(map(is_reference, equation.results)):
        return True
    primitive = equation.primitive
    if isinstance(primitive, OnReferences) and primitive.is_discharged_alone:
        return True
    return any(map(uses_references, programs_of(equation)))


def inline_on_cells(jaxpr: Jaxpr, operands: Operands) -> Values:
    """Results of `jaxpr`, which has no constants, on `operands` (some may be cells), staged into the current program."""
    trace = context.trace
    values: dict[Any, Any] = dict(strict_zip(jaxpr.invars, operands))
    _run_on_cells(trace, jaxpr, values, keep=False)
    return values_of(jaxpr.outvars, values)


# Compiled programs ---------------------------------------------------------------------------------------


class DischargedJaxpr:
    """A jaxpr in the form that is compiled: on values, without references.

    `closed` takes the contents of the references `closed_over` by the jaxpr, then those of its arguments. It returns
    the results, then the contents of the references that it wrote; `written` are their indices among the inputs. A
    program without references is used as it is.
    """

    __slots__ = ("closed", "closed_over", "takes_references", "written")

    def __init__(self, jaxpr: Jaxpr, consts: Operands) -> None:
        n = len(consts)
        self.takes_references = any(type(v.aval) is AbstractRef for v in jaxpr.invars)
        if not self.takes_references:
            opened = jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:])
            self.closed, self.closed_over, self.written = ClosedJaxpr(opened, consts), [], ()
            return
        body = discharge_program(jaxpr)
        n_more = len(body.consts)
        inputs = body.program.jaxpr.invars
        # Inputs of the program on values: new constants, the `n` closed-over values, arguments.
        captured, arguments = inputs[n_more : n_more + n], inputs[n_more + n :]
        # Contents of closed-over references change, so they become inputs; other closed-over values stay constants.
        referred = [i for i in range(n) if is_reference(jaxpr.invars[i])]
        constants = [i for i in range(n) if i not in referred]
        opened = body.program.jaxpr.replace(
            constvars=[*inputs[:n_more], *(captured[i] for i in constants)],
            invars=[*(captured[i] for i in referred), *arguments],
        )
        # For each input of `closed`, its index in `jaxpr`, by which `written` are mapped to inputs of `closed`.
        order = [*referred, *range(n, len(jaxpr.invars))]
        self.closed = ClosedJaxpr(opened, [*body.consts, *(consts[i] for i in constants)])
        self.closed_over = [consts[i] for i in referred]
        self.written = tuple([order.index(i) for i in body.written])

    def of_inputs(self, arguments: Operands | None) -> tuple[Any, ...] | None:
        """Extends per-argument settings to the inputs of `closed`: None for closed-over references."""
        return None if arguments is None else (*[None] * len(self.closed_over), *arguments)

    def of_results(self, results: Results | None) -> tuple[Any, ...] | None:
        """Extends per-result settings to the results of `closed`: None for contents of references."""
        return None if results is None else (*results, *[None] * len(self.written))

    def donated_inputs(self, arguments: Mask) -> Mask:
        """For each input of `closed`, whether its buffer may be reused for results; always for contents of written
        references.
        """
        n_arguments = len(self.closed.in_avals) - len(self.closed_over)
        flags = self.of_inputs(arguments or [False] * n_arguments) or ()
        return tuple([bool(d) or i in self.written for i, d in enumerate(flags)])

    def operands(self, leaves: Operands) -> Results:
        """The operands of `closed` for the arguments `leaves`, with the current contents of references."""
        if not self.takes_references:
            return leaves
        # A ShapeDtypeStruct of a reference has the sharding of its content.
        inputs = (*self.closed_over, *leaves)
        return [getattr(x, "value", x) if is_reference(x) else x for x in inputs]

    def settle(self, leaves: Operands, results: Results) -> Results:
        """Separates the program's results from those of `closed`, and assigns the new contents to written references."""
        if not self.written:
            return results
        # References in the order of the inputs of `closed`; `results` end with one content per written reference.
        references, n = [*self.closed_over, *leaves], len(results) - len(self.written)
        for position, value in strict_zip(self.written, results[n:]):
            references[position].value = value
        return list(results[:n])


def is_reference(x: Any) -> bool:
    """Whether `x` is a reference, or a tracer of one."""
    return type(getattr(x, "aval", None)) is AbstractRef


def check_distinct(caller: str, names: Sequence[str], operands: Operands) -> None:
    """Raises EffectsError if the same reference is passed twice, because writes through one operand wouldn't be seen
    through the other.
    """
    seen: dict[Any, int] = {}
    for i, x in enumerate(operands):
        if is_reference(x):
            key = id(x.variable) if type(x) is StagingTracer else id(x)
            if key in seen:
                places = [names[j] if j < len(names) else f"operand {j}" for j in (seen[key], i)]
                raise EffectsError(
                    f"{caller} got the same reference twice.",
                    got=[f"{place}: {x.aval.text()}" for place in places],
                    do="Pass it once, and don't also use it from outside the function: references may have no other name.",
                )
            seen[key] = i


def check_results_are_values(caller: str, results: Results) -> None:
    """Raise EffectsError if a function returns a reference."""
    for x in results:
        if is_reference(x):
            raise EffectsError(
                f"{caller} returns a reference, which functions that are traced can't.",
                got=[f"got {x.aval.text()}", *origin_lines(x)],
                do="Return what it holds, `ref[...]`, or make the reference outside and pass it.",
            )


def check_carry_is_values(caller: str, carry: Operands) -> None:
    """Raise EffectsError if a loop is to carry a reference."""
    references = [x.aval.text() for x in carry if is_reference(x)]
    if references:
        raise EffectsError(
            f"{caller} takes no references as initial values or inputs of its steps.",
            got=", ".join(references),
            do="Use the reference from outside the body, which may read and write it.",
        )
