"""Real functions defined by formulas of `Term`s: promotion, precision, derivatives, series."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import DtypeError
from pellucid._machine.higher_order.loops import while_loop
from pellucid._machine.primitives import conversion, formulas, reduction
from pellucid._machine.primitives.families import full_as
from pellucid._machine.primitives.formulas import Term, chebyshev, exp, select
from pellucid._machine.primitives.movement import broadcast_in_dim
from pellucid._machine.primitives.transcendental import no_derivative
from pellucid._machine.tracing import operand_lines, type_of
from pellucid._machine.transforms.jvp import jvp
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.creation import of_sequence
from pellucid.numpy.partials import Formula, evaluate_formula
from pellucid.numpy.promotion import broadcast_arrays, check_promotion, promote_dtypes_inexact

MAX_STEPS = 20_000
"""Maximum number of terms of a series or levels of a fraction; elements that need more are NaN."""


def promoted_reals(name: str, *operands: Any) -> list[Any]:
    """`operands` of one real floating dtype and one shape; `name` is one of `special`, or `distribution.function`.

    Raises: DtypeError for complex numbers.
    """
    name = f"scipy.{'stats' if '.' in name else 'special'}.{name}"
    operands = tuple(promote_dtypes_inexact(name, *operands))
    if any(type_of(x).dtype.kind == "c" for x in operands):
        raise DtypeError(f"{name} needs real numbers.", got=operand_lines(operands))
    check_promotion(name, *operands)
    whole = broadcast_arrays(name, *operands)
    # Numbers get the layout of the array operand: the sums of a series start with either.
    shape = type_of(whole[0]).shape
    layout = next((type_of(x).shown_sharding for x in operands if type_of(x).shape == shape), None)
    if layout is None:
        return whole
    return [
        x if type_of(x).shape else broadcast_in_dim(x, shape, (), out_sharding=layout)
        for x, y in zip(operands, whole, strict=True)
    ]


def real_function(
    formula: Formula | None = None,
    *,
    complex: Formula | None = None,
    takes_sequences: bool = False,
    called: str = "",
) -> Any:
    """A function of real arrays, from its formula in terms; integers count as floats, all arguments are broadcast.

    float16 and bfloat16 are computed in float32. The result is weakly typed if all arguments are. `complex` is the
    function of complex arrays, if there is one. Lists and tuples count as arrays where it `takes_sequences`. Messages name it
    as the formula, or as the public function that is `called`.
    """
    if formula is None:
        return functools.partial(
            real_function, complex=complex, takes_sequences=takes_sequences, called=called
        )
    signature = inspect.signature(formula)
    name = called or formula.__name__.strip("_")

    @functools.wraps(formula)
    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        if complex is not None:
            operands = promote_dtypes_inexact(f"scipy.special.{name}", *bound.args)
            if type_of(operands[0]).dtype.kind == "c":
                return complex(
                    *[conversion.convert_quietly(x, type_of(x).dtype, False) for x in operands]
                )
        values = map(of_sequence, bound.args) if takes_sequences else bound.args
        return evaluate_formula(formula, promoted_reals(name, *values))

    function.__signature__ = _for_arrays(signature)  # type: ignore[attr-defined]
    return numpy_function(function)


def _for_arrays(signature: inspect.Signature) -> inspect.Signature:
    """The signature of a function of arrays, from that of its formula."""
    parameters = [p.replace(annotation="ArrayLike") for p in signature.parameters.values()]
    results = str(signature.return_annotation).replace("Term", "Array")
    return signature.replace(parameters=parameters, return_annotation=results)


def undifferentiable(function: str, argument: str) -> Formula:
    """A partial derivative that isn't implemented: computing it raises MissingRule."""
    return lambda y, *terms: no_derivative(function, argument)()


def numerically_exact(formula: Formula, position: int) -> Formula:
    """The partial derivative by argument `position` of a formula with loops, computed by forward mode."""

    def partial(y: Term, *terms: Term) -> Term:
        values = [x.value for x in terms]

        def along(x: Any) -> Any:
            return formula(*map(Term, [*values[:position], x, *values[position + 1 :]])).value

        x = values[position]
        return Term(jvp(along, (x,), (full_as(x, 1),))[1])

    return partial


# Series and loops -----------------------------------------------------------------------------------


def series(x: Term, low: float, high: float, coefficients: Sequence[float]) -> Term:
    """The Chebyshev series on the interval from `low` to `high` at `x`, with as many terms as the dtype has digits."""
    scale = 4 / (high - low)
    return of_unit(x * scale - scale * (low + high) / 2, coefficients)


def of_unit(twice: Term, coefficients: Sequence[float]) -> Term:
    """The Chebyshev series at `twice / 2`, between -1 and 1."""
    limit = float(twice.limits.eps) / 16 * max(abs(c) for c in coefficients)
    count = 1 + max(i for i, c in enumerate(coefficients) if abs(c) > limit)
    return chebyshev(twice, coefficients[:count])


def looped(step: Formula, state: Sequence[Term]) -> list[Term]:
    """The state after `step(n, *state)` for n = 1, 2, … while an element of its first item, a bool, is true."""
    n = Term(np.asarray(1, type_of(state[1].value).dtype))
    values = [x.value for x in (n, *state)]

    def condition(values: Any) -> Any:
        axes = tuple(range(type_of(values[1]).ndim))
        return reduction.reduce_or(values[1], axes)

    def body(values: Any) -> Any:
        n, *terms = map(Term, values)
        was_active, *old = terms
        active, *new = step(n, *old)
        active = was_active & active & (n < MAX_STEPS)
        state = [select(was_active, a, b) for a, b in zip(new, old, strict=True)]
        return [x.value for x in (n + 1, active, *state)]

    return [Term(x) for x in while_loop(condition, body, values)[1:]]


# Exponentials of squares ------------------------------------------------------------------------------


def split(x: Term) -> tuple[Term, Term]:
    """(`x` with half of its digits, the rest): the square of the first is exact."""
    limits = x.limits
    exponent_bits = limits.bits - 1 - limits.nmant
    high = Term(conversion.reduce_precision(x.value, exponent_bits, limits.nmant // 2 - 1))
    return high, x - high


def exp_square(x: Term, factor: float) -> Term:
    """exp(factor x²) for a power of two `factor`, with the digits of x² that its rounding would lose."""
    high, low = split(x)
    rest = low * (x + high)
    large = exp(factor * (high * high))
    # No correction where the first factor is 0 or infinite: the other factor could be its inverse.
    correction = select((large > 0) & is_finite(large), formulas.expm1(factor * rest), 0.0)
    # Not a product of two values of exp: the compiler would add their arguments, which rounds x² after all.
    return large * (1 + correction)


def is_finite(x: Term) -> Term:
    """Mask of the elements that are neither infinite nor NaN."""
    return abs(x) < np.inf


def sin_pi(x: Term) -> Term:
    """sin(πx), zero at whole numbers."""
    k = formulas.nearest(x)
    r = x - k
    sign = 1 - 4 * abs(0.5 * k - formulas.nearest(0.5 * k))  # 1 for even k, -1 for odd k
    return sign * formulas.sin(np.pi * r)


def is_whole(x: Term) -> Term:
    """Mask of the elements that are whole numbers."""
    return formulas.floor(x) == x
