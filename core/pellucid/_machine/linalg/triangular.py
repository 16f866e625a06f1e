"""Systems of equations whose matrix is triangular."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import ArrayLike, ShapeError
from pellucid._machine.ir import Avals, Traits, Zero, is_linear, real_operations, size_of
from pellucid._machine.primitives.arithmetic import neg, sub
from pellucid._machine.primitives.movement import (
    aligned_at,
    expand_dims,
    move_axis,
    reshape,
    squeeze,
)
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import MatrixPrimitive, T, conjugate, product, tril, triu
from .native import byte, lapack_name, native


class TriangularSolveParams(NamedTuple):
    left_side: bool
    lower: bool
    transpose_a: bool
    conjugate_a: bool
    unit_diagonal: bool


def _operations(operands: Avals, results: Avals, params: Any) -> float:
    return size_of(operands[1]) * operands[0].shape[-1] * real_operations(operands[0])


class TriangularSolve(MatrixPrimitive[TriangularSolveParams]):
    name = "triangular_solve"
    traits = Traits(
        kind="contraction", flops=_operations, linear=(1,), makes_nan=True, parts="first"
    )
    core_ranks = (2, 2)

    def abstract_eval(self, avals, params):
        self.check(avals, square=True)
        a, b = avals
        if a.shape[-1] != b.shape[-2 if params.left_side else -1]:
            raise ShapeError(
                f"triangular_solve: b needs as many {'rows' if params.left_side else 'columns'} as a has.",
                got=[f"a: {a.text()}", f"b: {b.text()}"],
            )
        return [b.strip_weak_type()]

    def factors(self, avals, results, params):
        [a, b], [x], *_ = super().factors(avals, results, params)
        n = len(a) - 2
        free = n + params.left_side  # right-hand sides are independent of each other
        side = "r"
        b, x = ([*dims[:free], side, *dims[free + 1 :]] for dims in (b, x))
        return [a, b], [x]

    def jvp(self, primals, tangents, params):
        a, b = primals
        a_dot, b_dot = tangents
        x = bind1(self, a, b, params=params)
        total: Any = b_dot
        if type(a_dot) is not Zero:
            part = tril if params.lower else triu
            a_dot = part(a_dot, params.unit_diagonal * (-1 if params.lower else 1))
            a_dot = T(a_dot) if params.transpose_a else a_dot
            a_dot = conjugate(a_dot) if params.conjugate_a else a_dot
            change = product(a_dot, x) if params.left_side else product(x, a_dot)
            total = neg(change) if type(b_dot) is Zero else sub(b_dot, change)
        return [x], [bind1(self, a, total, params=params)]

    def transpose(self, cotangents, operands, params):
        [cotangent], [a, _] = cotangents, operands
        if is_linear(a):
            raise self.missing("transpose by the matrix")
        turned = params._replace(transpose_a=not params.transpose_a)
        return [None, bind1(self, a, cotangent, params=turned)]

    def batch(self, axis, operands, dims, params):
        (a, b), (a_dim, b_dim) = operands, dims
        if a_dim is None:  # one matrix: the batch becomes right-hand sides
            b = move_axis(b, b_dim, 0)
            aval = type_of(b)
            free = aval.ndim - 1 if params.left_side else aval.ndim - 2
            b = move_axis(b, 0, free - 1)  # the batch, then the right-hand sides
            shape = type_of(b).shape
            joined = (*shape[: free - 1], shape[free - 1] * shape[free], *shape[free + 1 :])
            x = reshape(bind1(self, a, reshape(b, joined), params=params), shape)
            return [x], [free - 1]
        a, b = aligned_at(axis, operands, dims)
        return [bind1(self, a, b, params=params)], [0]

    def lower(self, ctx, operands, params):
        if ctx.platform == "cpu" or any(0 in aval.shape for aval in ctx.avals_in):
            return super().lower(ctx, operands, params)
        a, b = operands
        if params.conjugate_a and not params.transpose_a:
            [a] = ctx.from_python(lambda a, b: conjugate(a), operands)
        is_adjoint = params.conjugate_a and params.transpose_a
        turn = "ADJOINT" if is_adjoint else "TRANSPOSE" if params.transpose_a else "NO_TRANSPOSE"
        attributes = {
            "left_side": params.left_side,
            "lower": params.lower,
            "unit_diagonal": params.unit_diagonal,
            "transpose_a": ctx.enum("transpose", turn),
        }
        return [ctx.as_result("stablehlo.triangular_solve", [a, b], attributes)]

    def definition(self, operands, params, platform):
        a, b = operands
        n_batch = type_of(a).ndim - 2
        if params.conjugate_a and not params.transpose_a:  # BLAS has no such option
            a = conjugate(a)
        turn = ("C" if params.conjugate_a else "T") if params.transpose_a else "N"
        options = {
            "diag": "U" if params.unit_diagonal else "N",
            "side": "L" if params.left_side else "R",
            "trans_x": turn,
            "uplo": "L" if params.lower else "U",
        }
        config = ", ".join(f"{name} = {byte(letter)}" for name, letter in options.items())
        aval = type_of(b)
        results = [(aval.shape, aval.dtype)]
        name = lapack_name("trsm", b)
        return native(name, [a, b], results, n_batch, config, [(0, 1)], linear=(1,))


triangular_solve_p = TriangularSolve()


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The solution x of op(a) x = `b` if `left_side`, else of x op(a) = `b`.

    `a` has shape [..., n, n]; of it only the `lower` or the upper triangle is read, without the diagonal if that is
    to be taken for ones. op transposes or conjugates `a`, or both. `b` has shape [..., n, k] or [..., k, n], or is one
    vector for each matrix, of shape [..., n].

    Raises: ShapeError for other shapes; DtypeError unless both have one of the dtypes float32 to complex128.
    Source: BLAS, `trsm`; StableHLO specification, `triangular_solve`.

    >>> triangular_solve(np.float32([[2, 0], [1, 1]]), np.float32([4, 5]), left_side=True, lower=True)
    Array([2., 3.], dtype=float32)
    """
    conjugate_a = bool(conjugate_a) and type_of(a).dtype.kind == "c"
    params = TriangularSolveParams(
        bool(left_side), bool(lower), bool(transpose_a), conjugate_a, bool(unit_diagonal)
    )
    ndim = type_of(b).ndim
    if ndim != type_of(a).ndim - 1:
        return bind1(triangular_solve_p, a, b, params=params)
    new = ndim if left_side else ndim - 1
    return squeeze(bind1(triangular_solve_p, a, expand_dims(b, (new,)), params=params), (new,))


__all__ = ["triangular_solve", "triangular_solve_p"]
