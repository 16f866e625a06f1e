"""The operations of a function that is differentiated, as a program that can be rewritten before it is.

A function that is differentiated while it is staged leaves no program of its own: its equations are written as the
derivative rules run. Where repeated layers should be calls, they must be so before that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.base import Function, NameStack, strict_zip
from pellucid.base.late import late
from pellucid.ir import Atom, Equation, Jaxpr, Literal, Operands, Primitive, Values, Var
from pellucid.tracing import StagingTrace, StagingTracer, Tracer, replay, type_of
from pellucid.xla.arrays import ArrayImpl


class OperationLog:
    """Operations of a function that is differentiated, in the order in which they are bound.

    `parent` writes their equations, below batches that they may be a part of.
    """

    __slots__ = (
        "arguments", "atoms", "aux", "begin", "const_values", "const_vars", "effects", "is_whole", "operations",
        "parent", "results", "scope",
    )  # fmt: skip

    def __init__(self, parent: StagingTrace, scope: NameStack | None) -> None:
        self.parent = parent
        self.scope = scope
        """The name stack around the function."""
        self.begin = len(parent.equations)
        self.effects = parent.effects
        self.operations: list[tuple[Primitive[Any], Operands, Any, Values, int]] = []
        """(primitive, operands, params, results, number of the parent's equations before it)."""
        self.is_whole = True
        """Whether each operation is in the log."""
        self.atoms: dict[Any, Atom] = {}
        self.const_vars: list[Var] = []
        self.const_values: Values = []

    def logged(self, function: Function) -> Function:
        """`function`, whose arguments, results and auxiliary values are noted."""

        def noted(*arguments: Any) -> tuple[Values, Values]:
            self.arguments = arguments
            self.results, self.aux = function(*arguments)
            return self.results, self.aux

        return noted

    def with_layers_called(self) -> Function | None:
        """The function with its repeated layers as calls; None where it has none, or has effects.

        The equations that the function has left in the parent are superseded by those of the new one.
        """
        if not self.is_whole or self.parent.effects is not self.effects:
            return None
        invars = [Var(type_of(x)) for x in self.arguments]
        self.atoms = {_key(x): v for x, v in strict_zip(self.arguments, invars)}
        equations = [self._equation(*operation) for operation in self.operations]
        computed = {key: None for x in (*self.results, *self.aux) if (key := _key(x)) in self.atoms}
        outvars = [self.atoms[key] for key in computed]
        program = Jaxpr(self.const_vars, invars, equations, outvars)
        called = late("with layers called")(program)
        if called is None:
            return None
        self.parent.superseded.update(self.parent.equations[self.begin :])

        def again(*arguments: Any) -> tuple[Values, Values]:
            values = dict(strict_zip(computed, replay(called, self.const_values, *arguments)))
            return (
                [values.get(_key(x), x) for x in self.results],
                [values.get(_key(x), x) for x in self.aux],
            )

        return again

    def _equation(
        self, primitive: Primitive[Any], operands: Operands, params: Any, results: Values, at: int
    ) -> Equation:
        """An operation as an equation, with the source and scope of the first one that the parent wrote for it."""
        atoms = [self._atom(x) for x in operands]
        variables = [Var(type_of(x)) for x in results]
        for x, v in strict_zip(results, variables):
            if isinstance(x, (Tracer, ArrayImpl)):  # other results are known without the equation
                self.atoms.setdefault(_key(x), v)
        source = scope = None
        if at < len(self.parent.equations):
            written = self.parent.equations[at]
            source, scope = written.source, written.scope
            if scope is not None and self.scope is not None:
                scope = scope.without(self.scope)
        return Equation(atoms, variables, primitive, params, source=source, scope=scope)

    def _atom(self, x: Any) -> Atom:
        atom = self.atoms.get(_key(x))
        if atom is None:
            aval = type_of(x)
            if isinstance(x, (bool, int, float, complex, np.generic)):
                return Literal(x, aval)
            atom = self.atoms[_key(x)] = Var(aval)
            self.const_vars.append(atom)
            self.const_values.append(x)
        return atom


def _key(x: Any) -> Any:
    """Identity of a value: its variable in a program, else that of the object."""
    return x.variable if type(x) is StagingTracer else id(x)
