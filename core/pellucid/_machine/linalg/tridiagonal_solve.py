"""Systems of equations whose matrix is tridiagonal."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import ArrayLike, ShapeError
from pellucid._machine.higher_order.loops import scan
from pellucid._machine.ir import Avals, Traits, Zero, is_linear, real_operations, size_of
from pellucid._machine.primitives.arithmetic import div, mul, neg, sub
from pellucid._machine.primitives.assembly import pad
from pellucid._machine.primitives.creation import full_like
from pellucid._machine.primitives.movement import expand_dims, move_axis
from pellucid._machine.primitives.slicing import index_in_dim
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import MatrixPrimitive, without_info
from .native import INT32, gpu_name, lapack_name, native


class TridiagonalSolveParams(NamedTuple):
    perturb_singular: bool


def _operations(operands: Avals, results: Avals, params: Any) -> float:
    return 9 * size_of(operands[3]) * real_operations(operands[3])


class TridiagonalSolve(MatrixPrimitive[TridiagonalSolveParams]):
    name = "tridiagonal_solve"
    traits = Traits(kind="contraction", flops=_operations, makes_nan=True, parts="first")
    core_ranks = (1, 1, 1, 2)

    def platforms_for(self, params):
        return ("cpu", "cuda", "rocm") if params.perturb_singular else None

    def abstract_eval(self, avals, params):
        self.check(avals)
        sizes = {avals[0].shape[-1], avals[1].shape[-1], avals[2].shape[-1], avals[3].shape[-2]}
        if len(sizes) > 1:
            raise ShapeError(
                "tridiagonal_solve needs diagonals of one length, and right-hand sides with as many rows.",
                got=[
                    f"{name}: {a.text()}"
                    for name, a in zip(("dl", "d", "du", "b"), avals, strict=True)
                ],
            )
        return [avals[3].strip_weak_type()]

    def jvp(self, primals, tangents, params):
        dl, d, du, b = primals
        x = bind1(self, dl, d, du, b, params=params)
        total: Any = tangents[3]
        for tangent, offset in zip(tangents[:3], (-1, 0, 1), strict=True):
            if type(tangent) is not Zero:
                change = mul(expand_dims(tangent, (type_of(tangent).ndim,)), shift(x, offset, -2))
                total = neg(change) if type(total) is Zero else sub(total, change)
        return [x], [bind1(self, dl, d, du, total, params=params)]

    def transpose(self, cotangents, operands, params):
        [cotangent], [dl, d, du, _] = cotangents, operands
        if any(map(is_linear, (dl, d, du))):
            raise self.missing("transpose by the matrix")
        below, above = shift(du, -1, -1), shift(dl, 1, -1)
        return [None, None, None, bind1(self, below, d, above, cotangent, params=params)]

    def definition(self, operands, params, platform):
        avals = [type_of(x) for x in operands]
        types = [(a.shape, a.dtype) for a in avals]
        n_batch = avals[0].ndim - 1
        if params.perturb_singular:
            target = (
                "tridiagonal_solve_perturbed_ffi"
                if platform == "cpu"
                else gpu_name("cu_tridiagonal_solve_perturbed", platform)
            )
            return native(target, operands, types[3:], n_batch, linear=(3,))
        if platform == "cpu":
            results = [*types, (avals[0].shape[:-1], INT32)]
            aliases = [(i, i) for i in range(4)]
            parts = native(
                lapack_name("gtsv", operands[0]), operands, results, n_batch, "", aliases
            )
            return without_info(parts[3:])
        if platform in ("cuda", "rocm"):
            target = gpu_name("cusparse_gtsv2_ffi", platform)
            return native(target, operands, types[3:], n_batch, "", [(0, 3)], linear=(3,))
        return [solve_by_elimination(*operands)]


tridiagonal_solve_p = TridiagonalSolve()


def shift(x: Array, offset: int, axis: int) -> Array:
    """`x` with element i + `offset` along `axis`, counted from the end, at i, and zeros beyond the ends."""
    aval = type_of(x)
    config = [(0, 0, 0)] * aval.ndim
    config[axis] = (-offset, offset, 0)
    return pad(x, aval.dtype.type(0), config)


def solve_by_elimination(dl: Array, d: Array, du: Array, b: Array) -> Array:
    """The solutions by elimination without exchanges of rows (Thomas), for diagonally dominant matrices."""
    rows = [move_axis(x, type_of(x).ndim - 1, 0) for x in (dl, d, du)]
    rows = [expand_dims(x, (type_of(x).ndim,)) for x in rows]
    right = move_axis(b, type_of(b).ndim - 2, 0)

    def forward(carry: Any, row: Any) -> Any:
        above, before = carry
        lower, diagonal, upper, y = row
        pivot = sub(diagonal, mul(lower, above))
        above = div(upper, pivot)
        y = div(sub(y, mul(lower, before)), pivot)
        return (above, y), (above, y)

    def backward(below: Any, row: Any) -> Any:
        above, y = row
        x = sub(y, mul(above, below))
        return x, x

    first = index_in_dim(right, 0, 0, keepdims=False)
    start = (full_like(index_in_dim(rows[0], 0, 0, keepdims=False), 0), full_like(first, 0))
    _, swept = scan(forward, start, (*rows, right))
    _, x = scan(backward, full_like(first, 0), swept, reverse=True)
    return move_axis(x, 0, type_of(b).ndim - 2)


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """The solutions x of A x = `b` for tridiagonal matrices A.

    `d`, of shape [..., n], is the diagonal; dl[i] stands left of d[i] (dl[0] isn't read), du[i] right of it (du[n - 1]
    isn't). `b` has shape [..., n, k]. `perturb_singular` lets CPUs and GPUs replace pivots that vanish by tiny ones;
    else solutions of singular systems are NaN or infinite. TPUs exchange no rows.

    Raises: ShapeError for shapes that don't fit; DtypeError unless all have one of the dtypes float32 to complex128.
    Source: LAPACK, `gtsv`.

    >>> tridiagonal_solve(np.float32([0, 1]), np.float32([1, 1]), np.float32([0, 0]), np.float32([[1], [3]]))
    Array([[1.],
           [2.]], dtype=float32)
    """
    return bind1(
        tridiagonal_solve_p, dl, d, du, b, params=TridiagonalSolveParams(bool(perturb_singular))
    )


__all__ = ["tridiagonal_solve", "tridiagonal_solve_p"]
