"""Products of operands whose blocks have scales, as narrow floating formats need them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.base import Axes, ShapeError, dtypes, resized, strict_zip
from pellucid.ir import Primitive, Traits, Zero, shaped_array
from pellucid.tracing import bind1, type_of

from .arithmetic import mul
from .broadcasting import broadcast_in_dim, brought_to
from .contraction import (
    CanonicalDimensions,
    DotDimensionNumbers,
    DotGeneralParams,
    batched_dimensions,
    canonical_dimensions,
    check_dimensions,
    converted,
    dot_general_p,
    dot_shape,
)
from .counts import dot_operations
from .creation import ones
from .families import add_tangents
from .movement import reshape
from .precision import preferred_dtype

_BF16 = dtypes.as_dtype("bfloat16")


class ScaledDotParams(NamedTuple):
    dimension_numbers: CanonicalDimensions
    preferred_element_type: Any


class ScaledDot(Primitive[ScaledDotParams]):
    """A product of operands each of whose blocks along the contracted axes has a factor."""

    name = "scaled_dot"
    traits = Traits(kind="contraction", flops=dot_operations, linear="each", makes_nan=True)

    def abstract_eval(self, avals, params):
        lhs, rhs, *_ = avals
        check_dimensions(lhs, rhs, params.dimension_numbers, "scaled_dot")
        contract, _ = params.dimension_numbers
        for i, side in enumerate(("lhs", "rhs")):
            aval, scale, axes = avals[i], avals[2 + i], contract[i]
            if scale.ndim != aval.ndim or not all(
                s and n % s == 0 if a in axes else s == n
                for a, (n, s) in enumerate(strict_zip(aval.shape, scale.shape))
            ):
                raise ShapeError(
                    f"scaled_dot needs a scale of the shape of {side}, but for contracted axes a divisor of their size.",
                    got=[
                        f"{side}: {aval.text()}, contracted axes {axes}",
                        f"its scale: {scale.text()}",
                    ],
                )
        shape = dot_shape(lhs.shape, rhs.shape, params.dimension_numbers)
        return [shaped_array(shape, params.preferred_element_type)]

    def jvp(self, primals, tangents, params):
        result = bind1(self, *primals, params=params)
        total: Any = Zero(type_of(result).tangent())
        for i, tangent in enumerate(tangents):  # linear in each of the four
            if type(tangent) is not Zero:
                term = _by_scaling(*resized(primals, i, tangent), *params)  # pyright: ignore[reportCallIssue]
                total = add_tangents(total, term)
        return [result], [total]

    def batch(self, axis, operands, dims, params):
        in_front = [brought_to(axis, x, d, 0) for x, d in strict_zip(operands, dims)]
        numbers, dim = batched_dimensions((), (0, 0), params.dimension_numbers)
        return [bind1(self, *in_front, params=params._replace(dimension_numbers=numbers))], [dim]

    def lower(self, ctx, operands, params):
        return ctx.from_python(_by_scaling, operands, params)


def _by_scaling(lhs, rhs, lhs_scale, rhs_scale, numbers: CanonicalDimensions, preferred):
    """The definition: operands times their scales, in bfloat16, and their product."""
    (lhs_contract, rhs_contract), _ = numbers
    return bind1(
        dot_general_p, _scaled(lhs, lhs_scale, lhs_contract), _scaled(rhs, rhs_scale, rhs_contract),
        params=DotGeneralParams(numbers, None, preferred, None),
    )  # fmt: skip


def _scaled(x, scale, axes: Axes):
    """`x` times its scale, whose elements are repeated along blocks of `axes`, in bfloat16."""
    shape = type_of(x).shape
    for a in axes:
        factors = type_of(scale).shape
        if factors[a] != shape[a]:
            block = shape[a] // factors[a]
            blocks = (*factors[: a + 1], block, *factors[a + 1 :])
            dims = tuple([i for i in range(len(blocks)) if i != a + 1])
            repeated = broadcast_in_dim(scale, blocks, dims)
            scale = reshape(repeated, resized(factors, a, shape[a]))
    return mul(converted(x, _BF16), converted(scale, _BF16))


scaled_dot_p = ScaledDot()


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: Any = None,
) -> Any:
    """Product of narrow operands with scales: each element of a scale is the factor of a block along a contracted axis.

    A scale has the shape of its operand, but for contracted axes a divisor of their size; None means 1. By default
    matrices are multiplied, or, at rank 3, batches of them. The result is bfloat16 unless `preferred_element_type` is given.
    Raises ShapeError for operands that don't fit.

    >>> scaled_dot(np.ones((2, 64)), np.ones((64, 3)), lhs_scale=np.full((2, 2), 0.5)).dtype
    dtype(bfloat16)
    """
    lhs_aval, rhs_aval = type_of(lhs), type_of(rhs)
    if dimension_numbers is None:
        defaults = {2: (((1,), (0,)), ((), ())), 3: (((2,), (1,)), ((0,), (0,)))}
        dimension_numbers = defaults.get(lhs_aval.ndim) if lhs_aval.ndim == rhs_aval.ndim else None
        if dimension_numbers is None:
            raise ShapeError(
                "scaled_dot without dimension_numbers needs two operands of rank 2, or two of rank 3.",
                got=[f"lhs: {lhs_aval.text()}", f"rhs: {rhs_aval.text()}"],
            )
    numbers = canonical_dimensions(dimension_numbers, "scaled_dot")
    check_dimensions(lhs_aval, rhs_aval, numbers, "scaled_dot")
    scales = [
        _unit_scale(aval, axes) if scale is None else scale
        for scale, aval, axes in strict_zip(
            (lhs_scale, rhs_scale), (lhs_aval, rhs_aval), numbers[0]
        )
    ]
    preferred = preferred_dtype(preferred_element_type, "scaled_dot") or _BF16
    return bind1(scaled_dot_p, lhs, rhs, *scales, params=ScaledDotParams(numbers, preferred))


def _unit_scale(aval, axes: Axes):
    """A scale of ones, with one block along each contracted axis."""
    shape = tuple([1 if a in axes else n for a, n in enumerate(aval.shape)])
    return converted(ones(shaped_array(shape, _BF16)), dtypes.as_dtype("float8_e8m0fnu"))
