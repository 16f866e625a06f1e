"""Taylor mode: values together with several derivatives along a curve.

A rule maps the Taylor coefficients of the operands to those of the result by the recurrences of Griewank and Walther,
Evaluating Derivatives (2nd ed.), table 13.2. What has no recurrence is differentiated by nested forward mode.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from pellucid.base import ArgumentTypeError, ArgumentValueError, Function, strict_zip
from pellucid.ir import Operands, Primitive, Values, Zero, called
from pellucid.primitives.arithmetic import (
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
from pellucid.primitives.families import constant_like
from pellucid.primitives.transcendental import (
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
from pellucid.tracing import (
    Trace,
    Tracer,
    bind1,
    context,
    is_array_like,
    replay,
    type_of,
    use_trace,
)

from .arguments import check_callable, checked_leaves, is_differentiable, result_leaves
from .jvp import jvp_flat
from .zeros import instantiate

Coefficients = list[Any]
"""Of t^0, t^1, ...: the value, then the k-th derivative divided by k!; None for what is known to be zero."""


def jet(
    fun: Function,
    primals: Operands,
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """`fun` along a curve: its value, and for each array of the result the list of its derivatives along the curve.

    The curve goes through `primals`, a tuple of arrays; `series` has for each of them the same number of derivatives by
    the curve's parameter. With `factorial_scaled=False`, the k-th entries on both sides are Taylor coefficients:
    derivatives divided by k!.

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
        JetTracer(trace, [x, *(_scaled(t, s) for t, s in strict_zip(terms, scales[1:]))])
        for x, terms in strict_zip(leaves, series)
    ]
    try:
        with use_trace(trace):
            results, tree = result_leaves(fun(*arguments), "jet", fun)
    finally:
        trace.alive = False
    curves = [trace.coefficients(x) for x in results]
    derivatives = [
        [instantiate(_filled(c, y[0])) if c is None else _scaled(c, 1.0 / s) for c, s in strict_zip(y[1:], scales[1:])]
        for y in curves
    ]  # fmt: skip
    return tree.unflatten([y[0] for y in curves]), tree.unflatten(derivatives)


def _checked_order(primals, series) -> int:
    """The common length of all series."""
    if not isinstance(primals, (tuple, list)) or not isinstance(series, (tuple, list)):
        raise ArgumentTypeError(
            "jet takes primals and series as tuples or lists, one item for each argument.",
            got=f"got {type(primals).__name__} and {type(series).__name__}",
        )
    if len(primals) != len(series):
        raise ArgumentValueError(
            "jet needs a series for each primal.",
            got=f"{len(primals)} primals, {len(series)} series",
        )
    for i, (x, terms) in enumerate(strict_zip(primals, series)):
        if not isinstance(terms, (tuple, list)):
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
                    "jet takes arrays, not trees of them.", got=f"{what}: {type(value).__name__}"
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

    def interpret(self, primitive, operands, params):
        curves = [self.coefficients(x) for x in operands]
        if all(c is None for curve in curves for c in curve[1:]):
            with use_trace(self.parent):
                return self.parent.interpret(primitive, tuple([c[0] for c in curves]), params)
        body = called(primitive, params)
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
                results = _nested(
                    lambda *xs: context.trace.interpret(primitive, xs, params), curves
                )
        return [JetTracer(self, curve) for curve in results]

    def custom_call(self, call, operands):
        if not call.has_forward_mode:  # so the function itself is differentiated
            return call.function(*operands)
        curves = [self.coefficients(x) for x in operands]
        with use_trace(self.parent):
            results = _nested(lambda *xs: context.trace.custom_call(call, xs), curves)
        return [JetTracer(self, curve) for curve in results]


# Algebra with zeros -------------------------------------------------------------------------------------


def _filled(c, like):
    """The coefficient `c` of a curve through `like`, as a tangent."""
    return Zero(type_of(like).tangent()) if c is None else c


def _scaled(x, factor: float):
    return x if x is None or factor == 1.0 else mul(x, constant_like(x, factor))


def _times(x, y):
    return None if x is None or y is None else mul(x, y)


def _plus(x, y):
    return y if x is None else x if y is None else add(x, y)


def _minus(x, y):
    return x if y is None else neg(y) if x is None else sub(x, y)


def _sum(terms):
    total = None
    for term in terms:
        total = _plus(total, term)
    return total


def _product(x: Coefficients, y: Coefficients, k: int):
    """The coefficient of t^k of a product."""
    return _sum(_times(x[i], y[k - i]) for i in range(k + 1))


def _integral(x: Coefficients, slope: Coefficients, k: int):
    """The coefficient of t^k of z, where z' = `slope` x'; it takes those of `slope` below t^k."""
    return _scaled(_sum(_scaled(_times(x[i], slope[k - i]), i) for i in range(1, k + 1)), 1.0 / k)


# Rules ----------------------------------------------------------------------------------------------------


def _multilinear(primitive: Primitive[Any], curves: list[Coefficients], params) -> Coefficients:
    """The k-th coefficient is the sum of all products of coefficients whose orders add up to k."""
    total = len(curves[0])
    passive = primitive.traits.passive_operands(len(curves))
    orders = [range(1 if i in passive else total) for i in range(len(curves))]

    def term(chosen: tuple[int, ...]) -> Any:
        factors = [curve[i] for curve, i in strict_zip(curves, chosen)]
        if any(factor is None for factor in factors):
            return None
        return bind1(primitive, *factors, params=params)

    return [
        _sum(term(chosen) for chosen in itertools.product(*orders) if sum(chosen) == k)
        for k in range(total)
    ]


def _quotient(x: Coefficients, y: Coefficients) -> Coefficients:
    z = [div(x[0], y[0])]
    for k in range(1, len(x)):
        z.append(_over(_minus(x[k], _sum(_times(y[i], z[k - i]) for i in range(1, k + 1))), y[0]))
    return z


def _over(x, y):
    return None if x is None else div(x, y)


def _squared(x: Coefficients) -> Coefficients:
    return [_product(x, x, k) for k in range(len(x))]


def _integer_power(params, x: Coefficients) -> Coefficients:
    n = abs(params.y)
    one = [add(mul(x[0], constant_like(x[0], 0)), constant_like(x[0], 1)), *[None] * (len(x) - 1)]
    power: Coefficients | None = None
    while n:
        if n & 1:
            power = x if power is None else [_product(power, x, k) for k in range(len(x))]
        x = _squared(x)
        n >>= 1
    power = one if power is None else power
    return _quotient(one, power) if params.y < 0 else power


def _from_value(primitive: Primitive[Any], coefficient: Function) -> Function:
    """The rule of a unary primitive: its value, and then `coefficient(x, z, k)`, from the coefficients z below t^k."""

    def rule(params: Any, x: Coefficients) -> Coefficients:
        z = [bind1(primitive, x[0], params=params)]
        for k in range(1, len(x)):
            z.append(coefficient(x, z, k))
        return z

    return rule


def _of_logarithm(x: Coefficients, z: Coefficients, k: int):
    lower = _scaled(_sum(_scaled(_times(z[i], x[k - i]), i) for i in range(1, k)), 1.0 / k)
    return _over(_minus(x[k], lower), x[0])


def _of_square_root(x: Coefficients, z: Coefficients, k: int):
    rest = _minus(x[k], _sum(_times(z[i], z[k - i]) for i in range(1, k)))
    return _over(rest, _scaled(z[0], 2))


def _sigmoid(primitive: Primitive[Any]) -> Function:
    """The rule of tanh, whose slope is 1 - z^2, or of the logistic function, whose slope is z - z^2."""

    def rule(params: Any, x: Coefficients) -> Coefficients:
        z = [bind1(primitive, x[0], params=params)]
        slope: Coefficients = []
        one = [constant_like(x[0], 1), *[None] * len(x)]
        for k in range(1, len(x)):
            first = (one if primitive is tanh_p else z)[k - 1]
            slope.append(_minus(first, _product(z, z, k - 1)))
            z.append(_integral(x, slope, k))
        return z

    return rule


def _wave(f: Function, g: Function, f_sign: float, g_sign: float) -> Function:
    """The rule of f, where f' = `f_sign` g and g' = `g_sign` f."""

    def rule(params: Any, x: Coefficients) -> Coefficients:
        y, z = [f(x[0])], [g(x[0])]
        for k in range(1, len(x)):
            step, other = _integral(x, z, k), _integral(x, y, k)
            y.append(_scaled(step, f_sign))
            z.append(_scaled(other, g_sign))
        return y

    return rule


_RULES: dict[Primitive[Any], Function] = {
    div_p: lambda params, x, y: _quotient(x, y),
    square_p: lambda params, x: _squared(x),
    integer_pow_p: _integer_power,
    exp_p: _from_value(exp_p, _integral),
    log_p: _from_value(log_p, _of_logarithm),
    sqrt_p: _from_value(sqrt_p, _of_square_root),
    tanh_p: _sigmoid(tanh_p),
    logistic_p: _sigmoid(logistic_p),
    sin_p: _wave(sin, cos, 1.0, -1.0),
    cos_p: _wave(cos, sin, -1.0, 1.0),
    sinh_p: _wave(sinh, cosh, 1.0, 1.0),
    cosh_p: _wave(cosh, sinh, 1.0, 1.0),
}
"""`rule(params, *curves)` of primitives that aren't linear; `Traits.linear` decides for those that are."""


def _linear(primitive: Primitive[Any], curves: list[Coefficients], params) -> list[Coefficients]:
    """Of a primitive linear in what varies, each coefficient is a tangent."""
    primals = tuple([c[0] for c in curves])
    results: list[Coefficients] = [[y] for y in context.trace.interpret(primitive, primals, params)]
    for k in range(1, len(curves[0])):
        tangents = tuple([_filled(c[k], c[0]) for c in curves])
        if all(type(t) is Zero for t in tangents):
            out_tangents: Any = [None] * len(results)
        else:
            _, out_tangents = primitive.jvp(primals, tangents, params)
        for y, t in strict_zip(results, out_tangents):
            y.append(None if type(t) is Zero else t)
    return results


def _moving(curves: list[Coefficients]) -> set[int]:
    """Positions of the operands that vary along the curve."""
    return {i for i, curve in enumerate(curves) if any(c is not None for c in curve[1:])}


def _nested(function: Function, curves: list[Coefficients]) -> list[Coefficients]:
    """The coefficients of any function of flat values, by forward mode of forward mode.

    A function of a point and its first k derivatives, differentiated along the curve, gives one derivative more.
    """
    order = len(curves[0]) - 1
    moving = sorted(_moving(curves))
    levels = [
        [
            _scaled(
                instantiate(_filled(curves[i][k], curves[i][0])) if k else curves[i][0],
                math.factorial(k),
            )
            for i in moving
        ]
        for k in range(order + 1)
    ]
    n = len(moving)

    def along(k: int, *flat: Any) -> Values:
        """Results at the point and their first k derivatives, level by level."""
        if k == 0:
            moved = dict(strict_zip(moving, flat))
            return list(function(*(moved.get(i, curve[0]) for i, curve in enumerate(curves))))
        results, tangents, _ = jvp_flat(
            lambda *xs: (along(k - 1, *xs), ()), flat[: n * k], flat[n:]
        )
        m = len(results) // k
        return [*results, *(instantiate(t) for t in tangents[len(results) - m :])]

    values = along(order, *(x for level in levels for x in level))
    m = len(values) // (order + 1)
    return [
        [_scaled(values[i + k * m], 1.0 / math.factorial(k)) for k in range(order + 1)]
        if is_differentiable(type_of(values[i]))
        else [values[i], *[None] * order]
        for i in range(m)
    ]
