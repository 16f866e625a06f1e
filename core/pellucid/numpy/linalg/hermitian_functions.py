"""Functions of Hermitian matrices, with derivatives that are right where eigenvalues are equal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    DerivativeRuleError,
    Unary,
    library_code,
    public_functions,
)
from pellucid._machine.higher_order.custom_gradient import closure_convert
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.higher_order.custom_rules import SymbolicZero
from pellucid._machine.higher_order.linear_calls import linear_call
from pellucid._machine.linalg.matrices import H, hermitian_part, product
from pellucid._machine.linalg.symmetric_eigen import eigh
from pellucid._machine.primitives.conversion import stop_gradient
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms.gradient import linear_transpose
from pellucid._machine.transforms.jvp import jvp
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.creation import ones_like, zeros_like
from pellucid.numpy.einsum import einsum
from pellucid.numpy.elementwise import abs as absolute, maximum
from pellucid.numpy.joining import stack
from pellucid.numpy.manipulation import broadcast_to, expand_dims, matrix_transpose, where
from pellucid.numpy.number_kinds import real
from pellucid.numpy.products import tensordot
from pellucid.numpy.sorting import sort

from .arguments import square_matrices

_NEAR = 1 / 16
"""Eigenvalues that differ by less than this share of the larger one are near: quotients of their differences lose digits."""
_ON_INTERVAL = np.polynomial.legendre.leggauss(6)
_NODES, _WEIGHTS = (_ON_INTERVAL[0] + 1) / 2, _ON_INTERVAL[1] / 2
"""Nodes and weights of Gauss-Legendre quadrature from 0 to 1."""


def hermitian_function(f: Unary, A: ArrayLike) -> Array:
    """V f(w) Vᴴ for the Hermitian matrices A = V diag(w) Vᴴ in `A`, of shape [..., n, n]: `f` of an array works on each eigenvalue.

    (A + Aᴴ) / 2 is taken. Derivatives of all orders are right where eigenvalues are equal or near, which those of `eigh` aren't: they
    are made of divided differences of `f`, by quadrature of its derivatives where values are near. `f` must be differentiable as often.
    A derivative of order k takes n**(k + 1) evaluations of `f`, some more near equal values. What `f` closes over is differentiated, too.

    Raises: ShapeError unless matrices are square; ArgumentTypeError for what can't be called.
    Source: Daleckii and Krein (1965); Higham, Functions of Matrices (2008), 3.2; Hermite and Genocchi's formula.

    >>> hermitian_function(jnp.sqrt, np.array([[4.0, 0.0], [0.0, 9.0]]))
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    >>> pl.grad(lambda a: hermitian_function(jnp.sqrt, a)[0, 0])(4 * jnp.eye(2))[0, 0]
    Array(0.25, dtype=float32)
    """
    if not callable(f):
        raise ArgumentTypeError(
            "linalg.hermitian_function: `f` must be a function of eigenvalues.",
            got=f"f: {type(f).__name__}",
            do="Pass the function first: hermitian_function(jnp.sqrt, A).",
        )
    a = hermitian_part(square_matrices("hermitian_function", A))
    v, w = eigh(stop_gradient(a), symmetrize_input=False)
    converted, constants = closure_convert(f, w)
    return _form(lambda w, constants: converted(w, *constants), a, v, w, tuple(constants), ())


def _form_of(f: Any, a: Any, v: Any, w: Any, constants: Any, directions: Any) -> Any:
    """The derivative of V f(w) Vᴴ in `directions`, of the order of their number: a form that is linear in each of
    them.

    `a` is the matrix of which v and w are parts; it has the tangent, and they have none.
    """
    turned = [product(H(v), e, v) for e in directions]
    order = len(turned)
    values = _divided_differences(lambda w: f(w, constants), w, order)
    if not order:
        scaled = v * values[..., None, :]
        return product(scaled, H(v).astype(scaled.dtype))
    letters = "ijklmnopqrstuvwxyz"[: order + 1]
    terms = [f"...{letters[n]}{letters[n + 1]}" for n in range(order)]
    formula = f"...{letters},{','.join(terms)}->...{letters[0]}{letters[-1]}"
    chains = itertools.permutations(turned)
    total: Any = sum(einsum(formula, values, *chain, precision="highest") for chain in chains)
    v = v.astype(total.dtype)
    return product(v, total, H(v))


_form = custom_jvp(library_code(_form_of), nondiff_argnums=(0,))


@library_code
def _form_jvp(f: Any, primals: Any, tangents: Any) -> Any:
    a, v, w, constants, directions = primals
    a_dot, _, _, constants_dot, directions_dot = tangents
    y = _form(f, *primals)
    y_dot = zeros_like(y)
    parts = (a, v, w, constants)
    # Product rule: `e_dot` replaces direction i, `a_dot` is an additional one; the form is symmetric in its
    # directions.
    for i, e_dot in enumerate((*directions_dot, a_dot)):
        if not isinstance(e_dot, SymbolicZero):
            others = (*directions[:i], *directions[i + 1 :])
            y_dot = y_dot + _directional_form(f, parts, others, e_dot)
    if any(not isinstance(dot, SymbolicZero) for dot in constants_dot):
        dots = [
            zeros_like(c) if isinstance(dot, SymbolicZero) else dot
            for c, dot in zip(constants, constants_dot, strict=True)
        ]
        y_dot = y_dot + _tangent_of_form(f, parts, directions, tuple(dots))
    return y, y_dot


_form.defjvp(_form_jvp, symbolic_zeros=True)


def _directional_form(f: Any, parts: Any, others: Any, direction: Any) -> Any:
    """The form in the directions `others` and in `direction`, as a linear call whose transpose is a form again, and
    so has derivatives.

    It has its own transpose, because tr(C D[E]) is the same in both: that of the next derivative of the trace.
    """

    def form(residuals: Any, e: Any) -> Any:
        parts, others = residuals
        return _form(f, *parts, (*others, e))

    def transpose_form(residuals: Any, ct: Any) -> Any:
        e_ct = matrix_transpose(form(residuals, matrix_transpose(ct)))
        return e_ct if direction.dtype.kind == "c" else real(e_ct)

    return linear_call(form, transpose_form, (parts, others), direction)


def _tangent_of_form(f: Any, parts: Any, directions: Any, constants_dot: Any) -> Any:
    """The tangent of the form for `constants_dot`, the tangents of the values that `f` closes over."""

    def tangent_of_constants(w: Any, pair: Any) -> Any:
        at, dot = pair
        return jvp(lambda c: f(w, c), (at,), (dot,))[1]

    def form(residuals: Any, dot: Any) -> Any:
        (a, v, w, constants), directions = residuals
        return _form(tangent_of_constants, a, v, w, (constants, dot), directions)

    def transpose_form(residuals: Any, ct: Any) -> Any:
        (a, v, w, constants), directions = residuals
        v, w = _once(a, v, w)
        linear = lambda dot: _form_of(tangent_of_constants, a, v, w, (constants, dot), directions)
        return linear_transpose(linear, constants)(ct)[0]

    return linear_call(form, transpose_form, (parts, directions), constants_dot)


@custom_jvp
def _once(a: Any, v: Any, w: Any) -> Any:
    """`v` and `w`, for results that can't be differentiated by `a`: a tangent of `a` raises DerivativeRuleError."""
    return v, w


def _once_jvp(primals: Any, tangents: Any) -> Any:
    if not isinstance(tangents[0], SymbolicZero):
        raise DerivativeRuleError(
            "linalg.hermitian_function: gradients by what `f` closes over have no derivatives by the matrix.",
            do="Differentiate by the matrix first and by the values second, or forwards by the values.",
        )
    _, v, w = primals
    return (v, w), (zeros_like(v), zeros_like(w))


_once.defjvp(_once_jvp, symbolic_zeros=True)


# Divided differences ----------------------------------------------------------------------------------


def _divided_differences(f: Unary, w: Any, order: int) -> Any:
    """f[w_i, w_j, ...] for all choices of `order` + 1 of the values in the last axis, of shape [..., n, n, ...]."""
    if not order:
        return f(w)
    *batch, n = type_of(w).shape
    shape = (*batch, *[n] * (order + 1))
    along = [
        expand_dims(w, [len(batch) + k for k in range(order + 1) if k != j])
        for j in range(order + 1)
    ]
    points = sort(stack([broadcast_to(x, shape) for x in along]), axis=0)
    return _divided_difference(f, [points[k] for k in range(order + 1)])


def _divided_difference(f: Unary, points: Sequence[Any]) -> Any:
    """The divided difference of `f` at arrays of `points`, in rising order."""
    order = len(points) - 1
    if not order:
        return f(points[0])
    low, high = points[0], points[-1]
    gap = high - low
    is_near = gap <= _NEAR * maximum(absolute(low), absolute(high))
    # Both formulas are evaluated, each at points where it is finite.
    far = _divided_difference(f, points[1:]) - _divided_difference(f, points[:-1])
    quotient = far / where(is_near, ones_like(gap), gap)
    near = [where(is_near, x, high) for x in points]
    return where(is_near, _integrate(f, near), quotient)


def _integrate(f: Unary, points: Sequence[Any]) -> Any:
    """The integral of the derivative of `f` over the simplex of mixtures of `points` (Hermite and Genocchi)."""
    order = len(points) - 1
    derivative = f
    for _ in range(order):
        derivative = _derivative(derivative)
    # t_1 = u_1, t_2 = u_1 u_2, ...: the simplex as a cube, whose volume element is u_1^(order - 1) u_2^(order - 2) ...
    u = np.stack([g.ravel() for g in np.meshgrid(*[_NODES] * order, indexing="ij")])
    products = np.stack([g.ravel() for g in np.meshgrid(*[_WEIGHTS] * order, indexing="ij")])
    powers = np.arange(order - 1, -1, -1)[:, None]
    weights, mixtures = np.prod(products * u**powers, axis=0), np.cumprod(u, axis=0)
    dtype = type_of(points[0]).dtype
    steps = stack([high - low for low, high in itertools.pairwise(points)])
    x = points[0] + tensordot(mixtures.T.astype(dtype), steps, 1, precision="highest")
    values = derivative(x)
    return tensordot(weights.astype(values.dtype), values, 1, precision="highest")


def _derivative(f: Unary) -> Unary:
    return lambda x: jvp(f, (x,), (ones_like(x),))[1]


__all__ = ["hermitian_function"]

public_functions(__all__, globals())
