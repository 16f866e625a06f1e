"""Taylor mode: values together with several derivatives along a curve.

A rule maps the Taylor coefficients of the operands to those of the result, by the recurrences of Griewank and Walther,
Evaluating Derivatives (2nd ed.), table 13.2. Primitives without a recurrence use nested forward mode.
"""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    Unary,
    strict_zip,
)
from pellucid._machine.base.narrowing import is_list_or_tuple
from pellucid._machine.ir import Operands, Primitive, Values, Zero, called_program
from pellucid._machine.primitives import constant_like, instantiate, zero_of
from pellucid._machine.primitives.arithmetic import (
    add,
    div,
    div_p,
    integer_pow_p,
    log_p,
    mul,
    neg,
    sqrt_p,
    square_p,
    sub,
)
from pellucid._machine.primitives.transcendental import (
    cos,
    cos_p,
    cosh,
    cosh_p,
    exp_p,
    logistic_p,
    sin,
    sin_p,
    sinh,
    sinh_p,
    tanh_p,
)
from pellucid._machine.tracing import (
    Trace,
    Tracer,
    bind1,
    context,
    is_array_like,
    replay,
    type_of,
    use_trace,
)

from .arguments import (
    as_results,
    check_by_argument,
    check_callable,
    checked_leaves,
    is_differentiable,
    result_leaves,
)
from .jvp import jvp_flat

Coefficients = list[Any]
"""Coefficients of t^0, t^1, ...: the value, then the k-th derivative divided by k!; None for a known zero."""


def jet(
    fun: Function,
    primals: Operands,
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """Evaluates `fun` along a curve: its value and, for each array of the result, the list of derivatives along the
    curve.

    The curve passes through `primals`, a tuple of arrays. `series` has, for each of them, the same number of
    derivatives with respect to the curve's parameter. With `factorial_scaled=False`, the k-th entries of inputs and
    outputs are Taylor coefficients instead: derivatives divided by k!.

    Raises: ArgumentTypeError, ArgumentValueError for arguments of other kinds or series of different lengths.

    >>> y, derivatives = jet(lambda x: x * x * x, (2.0,), ((1.0, 0.0, 0.0),))
    >>> float(y), [float(d) for d in derivatives]
    (8.0, [12.0, 12.0, 6.0])
    """
    check_callable(fun, "jet")
    order = _checked_order(primals, series)
    leaves = checked_leaves(list(primals), "jet", fun, tuple(primals))
    scales = [1.0 / math.factorial(k) if factorial_scaled else 1.0 for k in range(order + 1)]
    trace = JetTrace(context.trace, order)
    arguments = [
        JetTracer(trace, [x, *(_scale(t, s) for t, s in strict_zip(terms, scales[1:]))])
        for x, terms in strict_zip(leaves, series)
    ]
    try:
        with use_trace(trace):
            results, tree = result_leaves(fun(*arguments), "jet", fun)
    finally:
        trace.alive = False
    curves = [trace.coefficients(x) for x in results]
    derivatives = [
        [
            instantiate(_tangent(y, k)) if y[k] is None else _scale(y[k], 1.0 / scales[k])
            for k in range(1, order + 1)
        ]
        for y in curves
    ]
    values = as_results(y[0] for y in curves)
    return tree.unflatten(values), tree.unflatten([as_results(terms) for terms in derivatives])


def _checked_order(primals: Operands, series: Any) -> int:
    """The common length of all series."""
    check_by_argument("jet", primals=primals, series=series)
    if len(primals) != len(series):
        raise ArgumentValueError(
            "jet needs a series for each primal.",
            got=f"{len(primals)} primals, {len(series)} series",
        )
    for i, (x, terms) in enumerate(strict_zip(primals, series)):
        if not is_list_or_tuple(terms):
            raise ArgumentTypeError(
                "jet needs each series as a tuple or list of derivatives.",
                got=f"series[{i}]: {type(terms).__name__}",
            )
        for what, value in (
            (f"primals[{i}]", x),
            *((f"series[{i}][{k}]", t) for k, t in enumerate(terms)),
        ):
            if not is_array_like(value):
                raise ArgumentTypeError(
                    "jet needs arrays, not trees of them.", got=f"{what}: {type(value).__name__}"
                )
            if type_of(value).shape != type_of(x).shape:
                raise ArgumentValueError(
                    "jet: a derivative doesn't have the shape of its primal.",
                    got=f"primals[{i}]: {type_of(x).text()}, {what}: {type_of(value).text()}",
                )
    lengths = {len(terms) for terms in series}
    if len(lengths) > 1:
        raise ArgumentValueError(
            "jet needs series of one length.",
            got=", ".join(f"series[{i}]: {len(terms)}" for i, terms in enumerate(series)),
        )
    return lengths.pop() if lengths else 0


class JetTracer(Tracer):
    """A value with its Taylor coefficients."""

    __slots__ = ("coefficients",)

    def __init__(self, trace: JetTrace, coefficients: Coefficients) -> None:
        self._trace = trace
        self.aval = type_of(coefficients[0])
        self.coefficients = coefficients


class JetTrace(Trace):
    """Applies the rules of Taylor mode."""

    __slots__ = ("alive", "order", "parent")

    def __init__(self, parent: Trace, order: int) -> None:
        self.parent = parent
        self.order = order
        self.alive = True

    def coefficients(self, x: Any) -> Coefficients:
        """The coefficients of `x`; a value of another trace is constant."""
        if type(x) is JetTracer and x._trace is self:
            return x.coefficients
        return [x, *[None] * self.order]

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        curves = [self.coefficients(x) for x in operands]
        if all(c is None for curve in curves for c in curve[1:]):
            with use_trace(self.parent):
                return self.parent.interpret(primitive, tuple([c[0] for c in curves]), params)
        body = called_program(primitive, params)
        if body is not None:
            return replay(body, (), *operands)
        with use_trace(self.parent):
            rule = _RULES.get(primitive)
            linear = primitive.traits.linear_for([type_of(c[0]) for c in curves], params)
            if rule is not None:
                results = [rule(params, *curves)]
            elif linear == "each":
                results = [_multilinear(primitive, curves, params)]
            elif linear == "all" or (linear and _moving(curves).issubset(linear)):
                results = _linear(primitive, curves, params)
            else:
                results = _nest(lambda *xs: context.trace.interpret(primitive, xs, params), curves)
        return [JetTracer(self, curve) for curve in results]

    def custom_call(self, call: Any, operands: Operands) -> Values:
        if not call.has_forward_mode:  # the function itself is differentiated instead
            return call.function(*operands)
        curves = [self.coefficients(x) for x in operands]
        with use_trace(self.parent):
            results = _nest(lambda *xs: context.trace.custom_call(call, xs), curves)
        return [JetTracer(self, curve) for curve in results]


# Algebra with zeros -------------------------------------------------------------------------------------


def _tangent(curve: Coefficients, k: int) -> Any:
    return zero_of(curve[0]) if curve[k] is None else curve[k]


def _scale(x: Any, factor: float) -> Any:
    return x if x is None or factor == 1.0 else mul(x, constant_like(x, factor))


def _times(x: Any, y: Any) -> Any:
    return None if x is None or y is None else mul(x, y)


def _plus(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else add(x, y)


def _minus(x: Any, y: Any) -> Any:
    return x if y is None else neg(y) if x is None else sub(x, y)


def _sum(terms: Iterable[Any]) -> Any:
    return functools.reduce(_plus, terms, None)


def _product_coefficient(x: Coefficients, y: Coefficients, k: int) -> Any:
    """Coefficient of t^k of a product."""
    return _sum(_times(x[i], y[k - i]) for i in range(k + 1))


def _products(x: Coefficients, y: Coefficients) -> Coefficients:
    return [_product_coefficient(x, y, k) for k in range(len(x))]


def _integral(x: Coefficients, slope: Coefficients, k: int) -> Any:
    """Coefficient of t^k of z, where z' = `slope` x', from the coefficients of `slope` below t^k."""
    return _scale(_sum(_scale(_times(x[i], slope[k - i]), i) for i in range(1, k + 1)), 1.0 / k)


# Rules ----------------------------------------------------------------------------------------------------


def _multilinear(primitive: Primitive, curves: list[Coefficients], params: Any) -> Coefficients:
    """Each coefficient is the sum of all products of coefficients whose orders add up to k."""
    total = len(curves[0])
    passive = primitive.traits.passive_operands(len(curves))
    orders = [range(1 if i in passive else total) for i in range(len(curves))]
    terms: list[list[Any]] = [[] for _ in range(total)]
    for chosen in itertools.product(*orders):
        factors = [curve[i] for curve, i in strict_zip(curves, chosen)]
        if sum(chosen) < total and all(factor is not None for factor in factors):
            terms[sum(chosen)].append(bind1(primitive, *factors, params=params))
    return [*map(_sum, terms)]


def _quotient(x: Coefficients, y: Coefficients) -> Coefficients:
    z: Coefficients = [div(x[0], y[0])]
    for k in range(1, len(x)):
        z.append(_over(_minus(x[k], _sum(_times(y[i], z[k - i]) for i in range(1, k + 1))), y[0]))
    return z


def _over(x: Any, y: Any) -> Any:
    return None if x is None else div(x, y)


def _integer_power(params: Any, x: Coefficients) -> Coefficients:
    n = abs(params.y)
    one = [add(mul(x[0], constant_like(x[0], 0)), constant_like(x[0], 1)), *[None] * (len(x) - 1)]
    power: Coefficients | None = None
    while n:
        if n & 1:
            power = x if power is None else _products(power, x)
        x = _products(x, x)
        n >>= 1
    power = power or one
    return _quotient(one, power) if params.y < 0 else power


def _unary(primitive: Primitive, coefficient: Function) -> Function:
    """The rule of a unary primitive z = f(x): its value, then `coefficient(x, z, slope, k)` from coefficients of z
    below t^k.

    `slope` is a list for coefficients of dz/dx.
    """

    def rule(params: Any, x: Coefficients) -> Coefficients:
        z: Coefficients = [bind1(primitive, x[0], params=params)]
        slope: Coefficients = []
        for k in range(1, len(x)):
            z.append(coefficient(x, z, slope, k))
        return z

    return rule


def _of_logarithm(x: Coefficients, z: Coefficients, _: Any, k: int) -> Any:
    lower = _scale(_sum(_scale(_times(z[i], x[k - i]), i) for i in range(1, k)), 1.0 / k)
    return _over(_minus(x[k], lower), x[0])


def _of_square_root(x: Coefficients, z: Coefficients, _: Any, k: int) -> Any:
    rest = _minus(x[k], _sum(_times(z[i], z[k - i]) for i in range(1, k)))
    return _over(rest, _scale(z[0], 2))


def _by_slope(slope_of: Callable[[Coefficients, Coefficients, int], Any]) -> Function:
    """The coefficients of z, where `slope_of(x, z, k)` computes the coefficients of dz/dx from those of z up to t^k."""

    def coefficient(x: Coefficients, z: Coefficients, slope: Coefficients, k: int) -> Any:
        slope.append(slope_of(x, z, k - 1))
        return _integral(x, slope, k)

    return coefficient


def _wave(first: Unary, sign: float) -> Function:
    """The coefficients of z with first derivative `first` and second derivative `sign` z."""
    return _by_slope(lambda x, z, k: _scale(_integral(x, z, k), sign) if k else first(x[0]))


def _of_quotient(_: Any, x: Coefficients, y: Coefficients) -> Coefficients:
    return _quotient(x, y)


def _of_square(_: Any, x: Coefficients) -> Coefficients:
    return _products(x, x)


_UNARY: dict[Primitive, Function] = {
    log_p: _of_logarithm,
    sqrt_p: _of_square_root,
    exp_p: _by_slope(lambda x, z, k: z[k]),
    logistic_p: _by_slope(lambda x, z, k: _minus(z[k], _product_coefficient(z, z, k))),
    tanh_p: _by_slope(
        lambda x, z, k: _minus(None if k else constant_like(x[0], 1), _product_coefficient(z, z, k))
    ),
    sin_p: _wave(cos, -1.0),
    cos_p: _wave(lambda x: neg(sin(x)), -1.0),
    sinh_p: _wave(cosh, 1.0),
    cosh_p: _wave(sinh, 1.0),
}


_RULES: dict[Primitive, Function] = {
    div_p: _of_quotient,
    square_p: _of_square,
    integer_pow_p: _integer_power,
    **{primitive: _unary(primitive, coefficient) for primitive, coefficient in _UNARY.items()},
}
"""`rule(params, *curves)` of nonlinear primitives; linear ones are handled by `Traits.linear`."""


def _linear(primitive: Primitive, curves: list[Coefficients], params: Any) -> list[Coefficients]:
    """For a primitive that is linear in the varying operands: each coefficient is transformed like a tangent."""
    primals = tuple([c[0] for c in curves])
    results: list[Coefficients] = [[y] for y in context.trace.interpret(primitive, primals, params)]
    for k in range(1, len(curves[0])):
        tangents = tuple([_tangent(curve, k) for curve in curves])
        if all(type(t) is Zero for t in tangents):
            out_tangents: Any = [None] * len(results)
        else:
            _, out_tangents = primitive.jvp(primals, tangents, params)
        for y, t in strict_zip(results, out_tangents):
            y.append(None if type(t) is Zero else t)
    return results


def _moving(curves: list[Coefficients]) -> set[int]:
    """Indices of the operands that vary along the curve."""
    return {i for i, curve in enumerate(curves) if any(c is not None for c in curve[1:])}


def _nest(function: Function, curves: list[Coefficients]) -> list[Coefficients]:
    """The coefficients of any function of flat values, by nested forward mode.

    Differentiating a function of a point and its first k derivatives along the curve adds one more derivative.
    """
    order = len(curves[0]) - 1
    moving = sorted(_moving(curves))
    # By order k of derivatives, from 0 on: those of the moving operands, without the factor 1/k! of coefficients.
    levels = [
        [
            _scale(instantiate(_tangent(curves[i], k)) if k else curves[i][0], math.factorial(k))
            for i in moving
        ]
        for k in range(order + 1)
    ]
    n = len(moving)

    def along(k: int, *flat: Any) -> Values:
        """Results at the point and their first k derivatives, by order."""
        if k == 0:
            moved = dict(strict_zip(moving, flat))
            return list(function(*(moved.get(i, curve[0]) for i, curve in enumerate(curves))))
        # Before: operands of orders 0 to k. Primals are those to k - 1, tangents those from 1 on, one order higher.
        results, tangents, _ = jvp_flat(
            lambda *xs: (along(k - 1, *xs), ()), flat[: n * k], flat[n:]
        )
        m = len(results) // k
        # `results` are of orders 0 to k - 1, `m` of each; the last `m` tangents are of order k.
        return [*results, *(instantiate(t) for t in tangents[len(results) - m :])]

    values = along(order, *(x for level in levels for x in level))
    m = len(values) // (order + 1)
    return [
        [_scale(values[i + k * m], 1.0 / math.factorial(k)) for k in range(order + 1)]
        if is_differentiable(type_of(values[i]))
        else [values[i], *[None] * order]
        for i in range(m)
    ]
