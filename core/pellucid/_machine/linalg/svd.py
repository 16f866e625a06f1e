"""The singular value decomposition."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    MissingRule,
    known_at_least,
    smaller,
)
from pellucid._machine.primitives.arithmetic import (
    abs as absolute,
    add,
    div,
    max as greater,
    mul,
    sub,
)
from pellucid._machine.primitives.assembly import concatenate
from pellucid._machine.primitives.conversion import (
    complex as complex_of,
    convert_quietly,
    imag,
    real,
)
from pellucid._machine.primitives.creation import full_like
from pellucid._machine.primitives.logical import eq, select_n
from pellucid._machine.primitives.movement import broadcast_in_dim, expand_dims, rev
from pellucid._machine.primitives.slicing import slice_in_dim
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import (
    H,
    MatrixPrimitive,
    T,
    columns,
    decomposition,
    diagonal_of,
    eye_like,
    is_at,
    matrix_aval,
    product,
    real_of,
    rows,
    scale_columns,
    where_in_matrix,
    without_info,
)
from .native import INT32, boolean, byte, gpu_name, lapack_name, native
from .polar import divide_by_largest, qdwh
from .qr import qr
from .symmetric_eigen import eigenvalue_gaps, eigh, slice_last_axis


class SvdAlgorithm(enum.Enum):
    """Algorithms of the singular value decomposition; each platform has some of them.

    >>> SvdAlgorithm.QR
    <SvdAlgorithm.QR: 'QR'>
    """

    DEFAULT = "default"
    QR = "QR"
    """LAPACK's or cuSOLVER's `gesvd`."""
    JACOBI = "Jacobi"
    """cuSOLVER's `gesvdj`."""
    POLAR = "polar"
    """By the polar decomposition: cuSOLVER's `gesvdp`, elsewhere `qdwh` and `eigh`; that of TPUs."""
    DIVIDE_AND_CONQUER = "divide_and_conquer"
    """LAPACK's `gesdd`."""


_PLATFORMS: dict[SvdAlgorithm | None, tuple[str, ...]] = {
    SvdAlgorithm.QR: ("cpu", "cuda", "rocm"),
    SvdAlgorithm.JACOBI: ("cuda", "rocm"),
    SvdAlgorithm.DIVIDE_AND_CONQUER: ("cpu",),
}
MAX_JACOBI_SIZE = 1024
"""Largest number of rows and columns for which GPUs use Jacobi's algorithm by default."""


class SvdParams(NamedTuple):
    algorithm: SvdAlgorithm | None
    compute_uv: bool
    full_matrices: bool
    subset_by_index: tuple[int, int] | None


class Svd(MatrixPrimitive[SvdParams]):
    """Returns (singular values, U, Vᴴ), or the values alone."""

    name = "svd"
    traits = decomposition(20.0)

    def platforms_for(self, params):
        return _PLATFORMS.get(params.algorithm)

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals)
        *_, m, n = x.shape
        k = smaller(m, n)
        start, end = params.subset_by_index or (0, k)
        if params.subset_by_index is not None:
            got = [f"operand: {x.text()}", f"subset_by_index: {(start, end)}"]
            if params.full_matrices and params.compute_uv:
                raise ArgumentValueError("svd: a subset has no full matrices.", got=got)
            if not 0 <= start < end <= k:
                raise ArgumentValueError(
                    f"svd: subset_by_index must be (start, end) with 0 <= start < end <= {k}.",
                    got=got,
                )
        s = matrix_aval(x, *batch, end - start, dtype=real_of(x))
        if not params.compute_uv:
            return [s]
        if params.full_matrices:
            return [s, matrix_aval(x, *batch, m, m), matrix_aval(x, *batch, n, n)]
        return [s, matrix_aval(x, *batch, m, end - start), matrix_aval(x, *batch, end - start, n)]

    def jvp(self, primals, tangents, params):
        [a_dot] = tangents
        *_, m, n = type_of(a_dot).shape
        if params.compute_uv and params.full_matrices and m != n:
            raise MissingRule(
                "svd has no derivative with `full_matrices=True` and a matrix that isn't square: the vectors beyond the "
                "singular values are not determined.",
                do="Pass full_matrices=False.",
            )
        thin = params._replace(compute_uv=True, full_matrices=False, subset_by_index=None)
        s, u, vh = bind(self, *primals, params=thin)
        v = H(vh)
        change = product(H(u), a_dot, v)
        diagonal = diagonal_of(change)
        is_complex = type_of(u).dtype.kind == "c"
        s_dot = real(diagonal) if is_complex else diagonal
        subset = params.subset_by_index
        if not params.compute_uv:
            return [slice_last_axis(s, subset)], [slice_last_axis(s_dot, subset)]
        # Off the diagonal, with Uᴴ dA V = B + C, B Hermitian and C skew: dU = U (B / (s_j - s_i) + C / (s_j + s_i)),
        # dV = V (B / (s_j - s_i) - C / (s_j + s_i)). Squares of singular values would leave the range of their dtype.
        on_diagonal = is_at(type_of(change).shape, 0, eq)
        half = full_like(change, 0.5)
        parts = [mul(half, combine(change, H(change))) for combine in (add, sub)]
        pairs_of_values = [eigenvalue_gaps(s, change), _sums(s, change)]
        turns = []
        for part, values in zip(parts, pairs_of_values, strict=True):
            divisors = where_in_matrix(on_diagonal, full_like(values, 1), values)
            turn = div(part, divisors)
            turns.append(where_in_matrix(on_diagonal, full_like(turn, 0), turn))
        turn_u, turn_v = (combine(*turns) for combine in (add, sub))
        if is_complex:  # U and V share the phases; here those of U turn
            phases = imag(diagonal)
            twist = complex_of(full_like(phases, 0), div(phases, s))
            turn_u = add(turn_u, scale_columns(eye_like(turn_u), twist))
        u_dot, v_dot = product(u, turn_u), product(v, turn_v)
        # Vectors of a singular value 0 aren't determined: quotients by it are infinite or NaN.
        if m > n:
            rest = product(a_dot, v)
            rest = sub(rest, product(u, product(H(u), rest)))
            u_dot = add(u_dot, scale_columns(rest, div(full_like(s, 1), s)))
        if n > m:
            rest = product(H(a_dot), u)
            rest = sub(rest, product(v, product(vh, rest)))
            v_dot = add(v_dot, scale_columns(rest, div(full_like(s, 1), s)))
        pairs = [(s, s_dot), (u, u_dot), (v, v_dot)]
        primals_out, tangents_out = zip(
            *((slice_last_axis(x, subset), slice_last_axis(t, subset)) for x, t in pairs),
            strict=True,
        )
        return [*primals_out[:2], H(primals_out[2])], [*tangents_out[:2], H(tangents_out[2])]

    def definition(self, operands, params, platform):
        [x] = operands
        is_polar = params.algorithm is SvdAlgorithm.POLAR and platform != "cuda"
        if is_polar or platform == "tpu":
            parts = _svd_by_polar(
                x, full_matrices=params.full_matrices, compute_uv=params.compute_uv
            )
        elif platform == "cpu":
            parts = _svd_on_cpu(x, params)
        else:
            parts = _svd_on_gpu(x, params, platform)
        subset = params.subset_by_index
        if subset is None:
            return parts
        s, *vectors = parts
        if not vectors:
            return [slice_last_axis(s, subset)]
        u, vh = vectors
        return [
            slice_last_axis(s, subset),
            slice_last_axis(u, subset),
            slice_in_dim(vh, *subset, axis=type_of(vh).ndim - 2),
        ]

    def empty(self, operands, results, params):
        s, *vectors = super().empty(operands, results, params)
        return [s, *[x if 0 in type_of(x).shape else eye_like(x) for x in vectors]]


svd_p = Svd()


def _sums(s: Array, like: Any) -> Array:
    """Sums of all pairs of singular values, with the dtype of `like`."""
    ndim = type_of(s).ndim
    shape = type_of(like).shape
    first, second = (broadcast_in_dim(s, shape, (*range(ndim - 1), i)) for i in (ndim, ndim - 1))
    return convert_quietly(add(first, second), type_of(like).dtype)


def _svd_on_cpu(x: Array, params: SvdParams) -> list[Array]:
    aval = type_of(x)
    *batch, m, n = aval.shape
    k = smaller(m, n)
    u, vh = (m, n) if params.full_matrices and params.compute_uv else (k, k)
    mode = ("A" if params.full_matrices else "S") if params.compute_uv else "N"
    routine = "gesvd" if params.algorithm is SvdAlgorithm.QR else "gesdd"
    results = [
        (aval.shape, aval.dtype), ((*batch, k), real_of(aval)), ((*batch, m, u), aval.dtype),
        ((*batch, vh, n), aval.dtype), (batch, INT32),
    ]  # fmt: skip
    config = f"mode = {byte(mode)}"
    parts = native(lapack_name(routine, x), [x], results, len(batch), config, [(0, 0)])
    parts = without_info(parts[1:])
    return parts if params.compute_uv else parts[:1]


def _svd_by_polar(x: Array, *, full_matrices: bool, compute_uv: bool) -> list[Array]:
    """[s, u, vᴴ], or [s], by the eigenvalues of the Hermitian factor of the polar decomposition."""
    *_, m, n = type_of(x).shape
    if not known_at_least(m, n):
        s, *vectors = _svd_by_polar(H(x), full_matrices=full_matrices, compute_uv=compute_uv)
        return [s, *map(H, reversed(vectors))]
    last = type_of(x).ndim - 1
    x, scale = divide_by_largest(x)
    basis = None
    if m != n:
        basis, x = qr(x, full_matrices=full_matrices and compute_uv)
        x = rows(x, n)
    unitary, hermitian, _, _ = qdwh(x)
    v, s = eigh(hermitian)
    s, v = rev(s, (last - 1,)), rev(v, (last,))
    s = mul(greater(s, full_like(s, 0)), expand_dims(scale, (last - 1,)))
    if not compute_uv:
        return [s]
    # Columns of singular values that are 0, next to the greatest, are short: only their directions mean something, or
    # nothing. Those before them are orthonormal, so that the first ones of `u` are theirs, but for signs.
    u, r = qr(product(unitary, v), full_matrices=False)
    u = mul(u, expand_dims(_phases(diagonal_of(r)), (last - 1,)))
    if basis is not None:
        first = product(columns(basis, n), u)
        rest = slice_in_dim(basis, n, type_of(basis).shape[-1], axis=last)
        u = concatenate([first, rest], last)
    return [s, u, H(v)]


def _phases(x: Array) -> Array:
    """x / |x|, 1 where x is 0."""
    size = absolute(x)
    is_zero = eq(size, full_like(size, 0))
    divisor = convert_quietly(select_n(is_zero, size, full_like(size, 1)), type_of(x).dtype)
    return select_n(is_zero, div(x, divisor), full_like(x, 1))


def _svd_on_gpu(x: Array, params: SvdParams, platform: str) -> list[Array]:
    """The decomposition on GPUs by `gesvdj`, `gesvdp` or `gesvd`, which takes no fewer rows than columns."""
    aval = type_of(x)
    *batch, m, n = aval.shape
    k = smaller(m, n)
    algorithm = params.algorithm
    if algorithm in (None, SvdAlgorithm.DEFAULT):
        is_small = max(m, n) <= MAX_JACOBI_SIZE
        algorithm = SvdAlgorithm.JACOBI if is_small else SvdAlgorithm.QR
    n_batch, s = len(batch), ((*batch, k), real_of(aval))
    flags = f"compute_uv = {boolean(params.compute_uv)}"
    if algorithm is SvdAlgorithm.QR:
        is_wide = m < n
        x = T(x) if is_wide else x  # its row-major memory is the column-major memory of `x`
        tall, short = max(m, n), k
        u = tall if params.full_matrices and params.compute_uv else short
        results = [
            ((*batch, tall, short), aval.dtype), s, ((*batch, tall, u), aval.dtype),
            ((*batch, short, short), aval.dtype), (batch, INT32),
        ]  # fmt: skip
        flags += f", full_matrices = {boolean(params.full_matrices)}, transposed = false"
        target = gpu_name("cusolver_gesvd_ffi", platform)
        parts = without_info(native(target, [x], results, n_batch, flags, [(0, 0)])[1:])
        if not params.compute_uv:
            return parts[:1]
        values, left, right = parts
        return [values, T(right), T(left)] if is_wide else parts
    is_jacobi = algorithm is SvdAlgorithm.JACOBI
    whole = is_jacobi or params.full_matrices
    u, v = (m, n) if whole else (k, k)
    results = [
        (aval.shape, aval.dtype), s, ((*batch, m, u), aval.dtype), ((*batch, n, v), aval.dtype), (batch, INT32),
    ]  # fmt: skip
    target = gpu_name("cusolver_gesvdj_ffi" if is_jacobi else "cusolver_gesvdp_ffi", platform)
    flags += f", full_matrices = {boolean(whole)}"
    parts = without_info(native(target, [x], results, n_batch, flags, [(0, 0)])[1:])
    if not params.compute_uv:
        return parts[:1]
    values, left, right = parts
    if not params.full_matrices:
        left, right = columns(left, k), columns(right, k)
    return [values, left, H(right)]


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """The singular value decomposition x = U diag(s) Vᴴ of the matrices in `x`, of shape [..., m, n].

    Gives (U, s, Vᴴ), or s alone without `compute_uv`. s has shape [..., k], k = min(m, n), is real and decreases. U
    and Vᴴ have shapes [..., m, m] and [..., n, n] with `full_matrices`, else [..., m, k] and [..., k, n].
    `subset_by_index` (start, end) keeps the singular values from start to end and their vectors. Results are NaN where
    the algorithm doesn't converge. Derivatives of vectors need singular values that differ, and square matrices or
    `full_matrices=False`.

    Raises: ShapeError below rank 2; DtypeError unless elements are float32, float64, complex64 or complex128;
    CompilationError where the platform lacks the `algorithm`.
    Source: LAPACK, `gesdd`, `gesvd`; derivative: Giles (2008), 3.2; Wan and Zhang (2019) for complex matrices.

    >>> svd(np.array([[3.0, 0.0], [0.0, -4.0]], np.float32), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    if algorithm is not None and not isinstance(algorithm, SvdAlgorithm):
        algorithm = SvdAlgorithm(algorithm)
    subset = None if subset_by_index is None else (int(subset_by_index[0]), int(subset_by_index[1]))
    if subset is not None and full_matrices and not compute_uv:
        full_matrices = False
    params = SvdParams(algorithm, bool(compute_uv), bool(full_matrices), subset)
    s, *vectors = bind(svd_p, x, params=params)
    return (vectors[0], s, vectors[1]) if vectors else s


__all__ = ["SvdAlgorithm", "svd", "svd_p"]
