"""Records of jaxprs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base.narrowing import is_list_or_tuple
from pellucid._machine.ir import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Listing,
    Literal,
    Role,
    Slot,
    Slots,
    Var,
    listing as listing_of,
    literal_text,
    param_text,
    printed_params,
    subjaxprs,
)

from . import schema
from .bodies import bodies_of, programs_within
from .columns import ProgramColumns
from .cotangents import Backward, cotangent_names, transposed_bodies
from .kernel_bodies import kernel_body, shown_bodies
from .lineage import Made, origins_of, transformation_of, written_origins_of
from .spans import Naming, SourceSpans


class JaxprReading(NamedTuple):
    """A jaxpr and its record, without costs."""

    record: schema.ProgramRecord
    bodies: dict[Jaxpr, int]
    """Maps each program to its index among the record's bodies."""
    values: dict[Var, int]
    """Maps each variable to its index among the record's values."""


def read_jaxpr(
    jaxpr: Jaxpr,
    *,
    name: str | None = None,
    key: str | None = None,
    listing: bool = True,
    source_lines: bool = True,
    value_names: bool = True,
    origin: Made | None = None,
    forward: Jaxpr | None = None,
) -> JaxprReading:
    """The record of a jaxpr, and the index in it of each program and variable.

    `key` identifies the program in links. `listing` and `source_lines` include its text and the text of the user's
    lines. `value_names` names values as that text does. `origin` is the program it was made from, with the
    transformation. `forward` is that program for a linear map or a backward pass, whose values have their names from
    those of `forward`.
    """
    name = name or name_of(jaxpr)
    writer = _JaxprWriter(ProgramColumns(key or f"{name}:jaxpr", name, "jaxpr"), origin or Made())
    if forward is not None:
        writer.follow(jaxpr, forward)
    record = writer.write(
        jaxpr, listing=listing, source_lines=source_lines, value_names=value_names
    )
    return JaxprReading(record, writer.bodies, writer.values)


class ValueName(NamedTuple):
    """A name of a value in the user's code."""

    name: str
    function: str
    """The function whose local variable it is; empty for arguments, cotangents and paths of results."""
    line: int = 0
    """The line of the expression that is assigned; 0 where `function` is empty."""


def value_names(jaxpr: Jaxpr) -> dict[Var, ValueName]:
    """The user's names for the values of a program, without those of programs within it; cached."""
    if "value names" not in jaxpr.memo:
        writer = _JaxprWriter(ProgramColumns("", name_of(jaxpr), "jaxpr"), Made())
        writer.spans.calls.update(
            writer.spans.span(e.source) for e in jaxpr.equations if bodies_of(e)
        )
        names = {v: ValueName(name, "") for v, name in argument_names(jaxpr).items() if name}
        for _, naming, assigned in writer.namings(jaxpr):
            function, line = writer.spans.function(naming.place), writer.spans.line(naming.place)
            names |= {v: ValueName(name, function, line) for v, name in assigned.items()}
        derived = _derived_names(jaxpr, {v: name.name for v, name in names.items()})
        names |= {v: ValueName(name, "") for v, name in derived.items()}
        jaxpr.memo["value names"] = names
    return jaxpr.memo["value names"]


def argument_names(jaxpr: Jaxpr) -> dict[Var, str]:
    """The user's names for the inputs of a program. Constants come before arguments and have empty names."""
    names = jaxpr.debug.argument_names if jaxpr.debug is not None else ()
    unnamed = len(jaxpr.invars) - len(names)
    padded = [*[""] * unnamed, *names] if unnamed >= 0 else [""] * len(jaxpr.invars)
    return dict(zip(jaxpr.invars, padded, strict=True))


def kept_names(jaxpr: Jaxpr) -> dict[Var, str]:
    """The names of a program's values, and of what its calls and loops keep for their derivatives."""
    return _JaxprWriter(ProgramColumns("", name_of(jaxpr), "jaxpr"), Made()).kept_names(jaxpr)


def residual_name(body: Jaxpr, value: Any, names: Mapping[Var, str]) -> str:
    """A name for a value that a program keeps for its derivative: the user's, or the operation on named values that
    computes it, `(cos angle)`; empty if some of these have no name.
    """
    if value in names:
        return names[value]
    makers = (e for e in body.equations if value in e.results and len(e.results) == 1)
    maker = next(makers, None)
    if maker is None or bodies_of(maker):
        return ""
    operands = [
        literal_text(a) if isinstance(a, Literal) else names.get(a, "") for a in maker.operands
    ]
    return f"({' '.join([maker.primitive.name, *operands])})" if all(operands) else ""


def _result_names(jaxpr: Jaxpr) -> dict[Var, str]:
    """The paths of a program's results, which are `result` or in it."""
    paths = jaxpr.debug.result_names if jaxpr.debug is not None else ()
    pairs = zip(jaxpr.outvars, paths, strict=False)
    return {v: path for v, path in pairs if type(v) is Var and path}


def _tangents(jaxpr: Jaxpr) -> set[Var]:
    """The values of a program that depend on tangents among its inputs."""
    found = {v for v, name in argument_names(jaxpr).items() if name.startswith("δ(")}
    for equation in jaxpr.equations if found else ():
        if any(type(a) is Var and a in found for a in equation.operands):
            found.update(equation.results)
    return found


def _is_tangent(equation: Equation, tangents: Collection[Var]) -> bool:
    """Whether all results of an equation are tangents. A call with paths of its results has values among them."""
    if not any(v in tangents for v in equation.results):
        return False
    return not any(b.jaxpr.debug and b.jaxpr.debug.result_names for b in bodies_of(equation))


def _derived_names(jaxpr: Jaxpr, names: dict[Var, str]) -> dict[Var, str]:
    """Names for cotangents of named values, and for unnamed results: their path, `result[0]`."""
    derived = cotangent_names(jaxpr, names)
    paths = jaxpr.debug.result_names if jaxpr.debug is not None else ()
    if len(jaxpr.outvars) > 1:
        for v, path in zip(jaxpr.outvars, paths, strict=False):  # residuals come after the results
            if type(v) is Var and v not in names and path and path != "result":
                derived.setdefault(v, path)
    return derived


def name_of(jaxpr: Jaxpr) -> str:
    """Name of a program."""
    return jaxpr.debug.name if jaxpr.debug is not None else "program"


def _slots_of(equation: Equation) -> Iterator[tuple[Slots, Slot]]:
    """The programs that an equation runs, with the roles of their operands and results; none if these are unknown."""
    if isinstance(equation.primitive, HigherOrderPrimitive) and subjaxprs(equation.params):
        slots = equation.primitive.slots(equation.params)
        if slots is not None:
            yield from ((slots, slot) for slot in slots.programs)


class _JaxprWriter:
    """Writes a jaxpr, with the programs within it, into columns."""

    def __init__(self, columns: ProgramColumns, origin: Made) -> None:
        self.columns = columns
        self.spans = SourceSpans(columns.string, columns.name)
        self.origin = origin
        self.bodies: dict[Jaxpr, int] = {}
        self.values: dict[Var, int] = {}
        self.names: dict[Var, str] = {}
        self.equation_index: dict[Equation, int] = {}
        self.in_kernels: frozenset[int] = frozenset()
        """Ids of the equations of bodies of kernels."""
        self.backward: dict[Jaxpr, Backward] = {}
        """Bodies of transposed calls."""
        self.named: dict[Jaxpr, dict[Var, str]] = {}
        """The names of the arguments and values of each program."""
        self.kept: dict[Var, str] = {}
        """Names of inputs that are what the forward pass has kept."""
        self.given: dict[int, list[str]] = {}
        """The names of an equation's results, by its id and those of the equations it was made from."""
        self.keeping: dict[Jaxpr, dict[Var, str]] = {}
        """The same, with the names of what calls and loops in each program keep."""
        self.passed: dict[Var, str] = {}
        """Names of operands, for unnamed inputs of the programs they are passed to; empty if several calls pass
        different ones.
        """

    def write(
        self, main: Jaxpr, *, listing: bool, source_lines: bool, value_names: bool
    ) -> schema.ProgramRecord:
        shown = listing_of(main) if listing or value_names else None
        self.names = {} if shown is None else shown.names
        self.bodies = {
            body: index for index, body in enumerate(programs_within(main, shown_bodies))
        }
        kernels = [k for body in self.bodies for e in body.equations if (k := kernel_body(e))]
        self.in_kernels = frozenset(
            [e.id for kernel in kernels for each in programs_within(kernel) for e in each.equations]
        )
        highest = max((e.id for body in self.bodies for e in body.equations), default=0)
        self.columns.reserve_ids(highest)
        for body in self.bodies:
            self.body(body)
        return self.columns.record(
            self.spans.sources(with_lines=source_lines),
            self.spans.columns(),
            [],
            self.listing(shown) if shown is not None and listing else None,
        )

    def follow(self, main: Jaxpr, forward: Jaxpr) -> None:
        """Let the values of `main`, made from `forward` by linearization or transposition, be named after its values."""
        for program in programs_within(forward):
            self.note_names(program)
        given = {*argument_names(forward).values()}
        added = {v: name for v, name in argument_names(main).items() if name not in given}
        self.kept = {v: name for v, name in added.items() if name[:2] not in ("δ(", "d(")}
        incoming = [v for v, name in added.items() if name.startswith("d(")]
        if incoming:
            self.backward[main] = Backward(forward, tuple(incoming))

    def note_names(self, jaxpr: Jaxpr) -> None:
        """Remember the names of a program's values by the equations that give them."""
        names = self.own_names(jaxpr)
        for e in jaxpr.equations:
            if transformation_of(e) != "transpose":
                given = [names.get(v, "") for v in e.results]
                if any(given):
                    for each in (e, *origins_of(e, self.origin.base)):
                        self.given.setdefault(each.id, given)

    def tangent_names(self, jaxpr: Jaxpr) -> dict[Var, str]:
        """Names `δ(x)` for the tangents of values whose equations this or a noted program has.

        Of the equations that compute the tangent for one equation the last gives it.
        """
        tangents, lasts = _tangents(jaxpr), dict[int, Equation]()
        for equation in jaxpr.equations if tangents else ():
            if _is_tangent(equation, tangents):
                for origin in origins_of(equation, self.origin.base):
                    lasts[origin.id] = equation
        names: dict[Var, str] = {}
        for origin, equation in lasts.items():
            given = self.given.get(origin, [])
            if len(given) == len(equation.results):
                pairs = zip(equation.results, given, strict=True)
                names |= {v: f"δ({name})" for v, name in pairs if name}
        return names

    def body(self, jaxpr: Jaxpr) -> None:
        columns = self.columns
        user_names = self.user_names(jaxpr)
        self.note_names(jaxpr)
        user_names |= self.tangent_names(jaxpr)
        residuals = self.residual_names(jaxpr, self.named[jaxpr].keys() | user_names)
        residuals |= {v: name for v, name in self.kept.items() if v in jaxpr.invars and name}
        backward = self.backward.get(jaxpr)
        self.backward |= dict(transposed_bodies(jaxpr, backward and backward.forward))
        self.pass_names(jaxpr, self.passed | self.named[jaxpr] | user_names, residuals)
        user_names |= residuals
        constants = [self.bind(v) for v in jaxpr.constvars]
        inputs = [
            self.bind(v, name or user_names.get(v, "") or self.passed.get(v, ""))
            for v, name in argument_names(jaxpr).items()
        ]
        first = columns.equation_count
        for equation in jaxpr.equations:
            self.equation(equation, user_names)
        outputs = [self.atom(a) for a in jaxpr.outvars]
        columns.end_body(name_of(jaxpr), first, constants, inputs, outputs)

    def bind(self, var: Var, user_name: str = "") -> int:
        name = "_" if type(var) is DropVar else self.names.get(var, "_")
        index = self.values[var] = self.columns.value(
            name, self.columns.aval_type(var.aval), user_name
        )
        return index

    def atom(self, atom: Atom) -> int:
        if type(atom) is Literal:
            return self.columns.literal(literal_text(atom), self.columns.aval_type(atom.aval))
        return self.values[atom]  # type: ignore[index]

    def equation(self, equation: Equation, user_names: dict[Var, str]) -> None:
        bodies = shown_bodies(equation)
        operands = [self.atom(a) for a in equation.operands]
        results = [self.bind(v, user_names.get(v, "")) for v in equation.results]
        span = self.spans.span(equation.source)
        if bodies:
            self.spans.calls.add(span)
        self.equation_index[equation] = self.columns.equation_count
        self.columns.equation(
            equation.id,
            equation.primitive.name,
            equation.primitive.traits.kind,
            operands,
            results,
            shown_params(equation),
            [(self.bodies[b.jaxpr], b.role, b.trips) for b in bodies],
            self.columns.scope_of(equation.scope),
            span,
            ", ".join(sorted(map(repr, equation.effects))) if equation.effects else "",
            transformation_of(equation) or (self.origin.by if equation.lineage is not None else ""),
            [e.id for e in self.origins(equation)],
        )

    def origins(self, equation: Equation) -> list[Equation]:
        """The equations from which an equation was made: in a kernel's definition, those of the kernel's body."""
        own = origins_of(equation, self.in_kernels) if self.in_kernels else []
        return own or origins_of(equation, self.origin.base)

    def user_names(self, jaxpr: Jaxpr) -> dict[Var, str]:
        """The user's names for results of equations, and names derived from them."""
        arguments = {v: name for v, name in argument_names(jaxpr).items() if name}
        names = {v: name for v, name in self.own_names(jaxpr).items() if v not in arguments}
        backward = self.backward.get(jaxpr)
        if backward is None:
            return names | _derived_names(jaxpr, arguments | names)
        primal = _result_names(backward.forward) | self.named.get(backward.forward, {})
        return cotangent_names(jaxpr, primal, backward) | names | _result_names(jaxpr)

    def own_names(self, jaxpr: Jaxpr) -> dict[Var, str]:
        """The user's names for arguments and results of equations; cached."""
        if jaxpr not in self.named:
            names = {v: name for v, name in argument_names(jaxpr).items() if name}
            for _, _, assigned in self.namings(jaxpr):
                names |= assigned
            self.named[jaxpr] = names
        return self.named[jaxpr]

    def residual_names(self, jaxpr: Jaxpr, named: Collection[Var]) -> dict[Var, str]:
        """Names for results that differentiation added to calls and loops: the names of the values that they save."""
        names: dict[Var, str] = {}
        self.spans.calls.update(self.spans.span(e.source) for e in jaxpr.equations if bodies_of(e))
        for equation in jaxpr.equations:
            for slots, slot in _slots_of(equation):
                body = slot.program.jaxpr
                # Results of the function itself are named by their paths.
                paths = body.debug.result_names if body.debug is not None else ()
                padded = itertools.zip_longest(body.outvars, paths, fillvalue="")
                added = {v for v, path in padded if not path} if any(paths) else ()
                results = slots.split_results(equation.results)
                for group, outputs in slots.group_results(slot, body.outvars):
                    for result, output in zip(results[group], outputs, strict=True):
                        is_kept = type(output) is Var and output in added and result not in named
                        if is_kept and (name := residual_name(body, output, self.kept_names(body))):
                            names[result] = name
        return names

    def kept_names(self, jaxpr: Jaxpr) -> dict[Var, str]:
        """The names of a program's values, and of what its own calls and loops keep for their derivatives; cached."""
        if jaxpr not in self.keeping:
            paths = {v: path for v, path in _result_names(jaxpr).items() if path != "result"}
            own = paths | self.own_names(jaxpr)
            self.keeping[jaxpr] = own | self.residual_names(jaxpr, own)
        return self.keeping[jaxpr]

    def pass_names(
        self, jaxpr: Jaxpr, names: Mapping[Var, str], residuals: Mapping[Var, str]
    ) -> None:
        """Record the names of operands as names of the inputs of the programs that equations run."""
        all_names = {**names, **residuals}
        for equation in jaxpr.equations:
            for slots, slot in _slots_of(equation):
                body = slot.program.jaxpr
                groups = slots.split(equation.operands)
                for group, inputs in slots.group_inputs(slot, body.invars).items():
                    role = slots.operands[group].role
                    # Only in backward passes does a carry have the name of its initial value.
                    if role is Role.CARRY and body not in self.backward:
                        continue
                    # A slice isn't named as its array, but a residual has the name of the value that each run saves.
                    known = residuals if role is Role.STACKED else all_names
                    for v, operand in zip(inputs, groups[group], strict=True):
                        name = known.get(operand, "") if type(operand) is Var else ""
                        self.passed[v] = name if self.passed.get(v, name) == name else ""
                        if operand in residuals:
                            self.kept[v] = self.passed[v]

    def namings(self, jaxpr: Jaxpr) -> Iterator[tuple[Equation, Naming, dict[Var, str]]]:
        """Equations whose results an assignment names, with the names.

        A line such as `y = f(x)` becomes many equations. `y` is the first of them whose result another line, or the
        caller, uses; later ones belong to derivatives. A loop runs the line several times, so each equation from the
        same place is a `y`. The first call of an operation may take another path through the library than later calls,
        so the first equation of the same kind in each repetition is a `y` too. If a transformation made several
        equations from one, only that of the same kind keeps the name. Cotangents have none. In a call of a library
        function that calls the user's functions, only programs that run as one equation, such as loops, have names.
        """
        all_namings = [self.spans.naming(self.spans.span(e.source)) for e in jaxpr.equations]
        tangents = _tangents(jaxpr)
        users: dict[Any, set[Naming | None]] = {v: {None} for v in jaxpr.outvars if type(v) is Var}
        for equation, naming in zip(jaxpr.equations, all_namings, strict=True):
            for operand in equation.operands:
                if type(operand) is not Literal:
                    users.setdefault(operand, set()).add(naming)
        chosen: dict[Naming, Equation] = {}
        used: set[Naming] = set()
        namings: list[tuple[Equation, Naming]] = []
        copied: set[tuple[int, ...]] = set()
        for equation, naming in zip(jaxpr.equations, all_namings, strict=True):
            if naming is None or transformation_of(equation) == "transpose":
                continue
            if _is_tangent(equation, tangents):
                continue
            if naming.place in self.spans.calling_back and not bodies_of(equation):
                continue
            origins = origins_of(equation, self.origin.base)
            if origins:
                written = origins if self.origin.base else written_origins_of(equation)
                if not any(e.primitive is equation.primitive for e in written):
                    continue
                ids = tuple(e.id for e in origins)
                if ids in copied:
                    continue
                copied.add(ids)
            if naming not in used:
                chosen[naming] = equation
                if any(users.get(v, set()) - {naming} for v in equation.results):
                    used.add(naming)
            namings.append((equation, naming))
        previous, is_named = None, False
        for equation, naming in namings:
            giving = chosen[naming]
            if naming != previous:
                previous, is_named = naming, False
            if equation.primitive is not giving.primitive:
                continue
            if equation.source != giving.source:
                is_used = any(users.get(v, set()) - {naming} for v in equation.results)
                if is_named or not is_used or origins_of(equation, self.origin.base):
                    continue
            is_named = True
            names = _assigned_names(equation, naming.names)
            if names:
                yield equation, naming, names

    def listing(self, shown: Listing) -> schema.ListingRecord:
        rows: list[int] = []
        for equation in shown.line_equations:
            # A program that is shown only because a param implies it belongs to the first equation that shows it.
            row = (
                -1
                if equation is None
                else self.equation_index.get(equation, rows[-1] if rows else -1)
            )
            rows.append(row)
        return schema.ListingRecord(text=shown.text, line_equations=rows)


def _assigned_names(equation: Equation, variables: Sequence[str]) -> dict[Var, str]:
    """Names for the results of an equation whose value is assigned to `variables`, unpacked if there are several.

    If the equation runs a program with known result paths, the names are such as `carry['h']` and `ys[0]`. Residuals
    come last and have no name. Other results need one variable each.
    """
    n = len(equation.results)
    bodies = [b.jaxpr.debug for b in bodies_of(equation) if len(b.jaxpr.outvars) == n]
    paths = next((d.result_names for d in bodies if d is not None and d.result_names), ())
    if not paths:
        pairs = zip(equation.results, variables, strict=False)
        return {v: name for v, name in pairs if name != "_"} if len(variables) == n else {}
    names: dict[Var, str] = {}
    for v, path in zip(equation.results, paths, strict=False):
        position, rest = 0, path.removeprefix("result")
        if len(variables) > 1:
            item = re.match(r"\[(\d+)\]", rest)
            if item is None or int(item[1]) >= len(variables):
                continue
            position, rest = int(item[1]), rest[item.end() :]
        if path and variables[position] != "_" and variables[position][0] not in "*([":
            names[v] = variables[position] + rest
    return names


def shown_params(equation: Equation) -> list[tuple[str, str]]:
    """Names and texts of the params in the program's listing, without programs."""
    shown = printed_params(equation)
    return [(name, param_text(value)) for name, value in shown.items() if not _holds_program(value)]


def _holds_program(value: Any) -> bool:
    if is_list_or_tuple(value):
        return any(isinstance(item, (Jaxpr, ClosedJaxpr)) for item in value)
    return isinstance(value, (Jaxpr, ClosedJaxpr))
