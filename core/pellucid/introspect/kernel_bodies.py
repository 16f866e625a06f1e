"""Programs within equations as views show them: a kernel over a grid opens into its body."""

from __future__ import annotations

import math

from pellucid._machine.ir import Equation, Jaxpr
from pellucid.kernels.kernel_call import pallas_call_p

from .bodies import EquationBody, bodies_of

KERNEL = "kernel"
"""Role of the body of a kernel, which runs once for each program of its grid."""
DEFINITION = "definition"
"""Role of the program on values that defines what a kernel computes."""


def kernel_body(equation: Equation) -> Jaxpr | None:
    """The body over references of the kernel that an equation calls; None for other equations, and for what was derived from a kernel."""
    is_own = equation.primitive is pallas_call_p and equation.params.is_own
    return equation.params.kernel.body.jaxpr if is_own else None


def shown_bodies(equation: Equation) -> list[EquationBody]:
    """The programs that an equation runs, and before them the body of a kernel over references.

    What was derived from a kernel has no body but its definition.
    """
    bodies = bodies_of(equation)
    own = kernel_body(equation)
    if own is None:
        return bodies
    grid = equation.params.kernel.grid
    count = None if None in grid else math.prod(grid)
    definition = [
        body._replace(role=DEFINITION) if body.role == "jaxpr" else body for body in bodies
    ]
    return [EquationBody(own, KERNEL, count, False), *definition]
