"""Cholesky factors, and their updates by vectors."""

from __future__ import annotations

from pellucid._machine.base import ArrayLike
from pellucid._machine.ir import NoParams
from pellucid._machine.primitives.arithmetic import div, sub
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import (
    MatrixPrimitive,
    decomposition,
    hermitian_from,
    hermitian_part,
    product,
    tril,
    without_info,
)
from .native import INT32, boolean, byte, gpu_name, lapack_name, native
from .triangular import triangular_solve


class Cholesky(MatrixPrimitive[NoParams]):
    """Returns L with A = L Lᴴ, whose upper triangle is unspecified; reads the lower triangle of A."""

    name = "cholesky"
    traits = decomposition(1 / 3).replace(returns_list=False)

    def abstract_eval(self, avals, params):
        self.check(avals, square=True)
        return [avals[0].strip_weak_type()]

    def jvp(self, primals, tangents, params):
        factor = tril(bind1(self, *primals, params=params))
        tangent = hermitian_from(tangents[0], lower=True)
        solved = triangular_solve(
            factor, tangent, lower=True, transpose_a=True, conjugate_a=True, left_side=False
        )
        solved = triangular_solve(factor, solved, lower=True, left_side=True)
        # The lower triangle with half the diagonal: L⁻¹ dA L⁻ᴴ is its sum with its conjugate transpose.
        diagonal = sub(tril(solved), tril(solved, -1))
        half = sub(tril(solved), div(diagonal, type_of(solved).dtype.type(2)))
        return [factor], [product(factor, half)]

    def lower(self, ctx, operands, params):
        if ctx.platform == "tpu" and 0 not in ctx.avals_in[0].shape:
            lower = {"lower": True}
            return [ctx.as_result("stablehlo.cholesky", operands, lower)]
        return super().lower(ctx, operands, params)

    def definition(self, operands, params, platform):
        [x] = operands
        *batch, n, _ = type_of(x).shape
        results = [((*batch, n, n), type_of(x).dtype), (batch, INT32)]
        is_cpu = platform == "cpu"
        target = lapack_name("potrf", x) if is_cpu else gpu_name("cusolver_potrf_ffi", platform)
        config = f"uplo = {byte('L')}" if is_cpu else f"lower = {boolean(True)}"
        return without_info(native(target, operands, results, len(batch), config, [(0, 0)]))


cholesky_p = Cholesky()


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with positive diagonal for which `x` = L Lᴴ.

    `x` has shape [..., n, n] and is Hermitian and positive definite; where it isn't, L is NaN. By default (x + xᴴ) / 2
    is decomposed; with `symmetrize_input=False` only the lower triangle is read, and differentiated.

    Raises: DtypeError unless elements are float32, float64, complex64 or complex128; ShapeError for other shapes.
    Source: LAPACK, `potrf`; derivative: Murray, Differentiation of the Cholesky decomposition (2016).

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    if symmetrize_input:
        cholesky_p.check((type_of(x),), square=True)
        x = hermitian_part(x)
    return tril(bind1(cholesky_p, x, params=NoParams()))


__all__ = ["cholesky", "cholesky_p"]
