"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, ArrayLike
from pellucid._machine.primitives.arithmetic import div, sub
from pellucid._machine.primitives.conversion import convert_quietly, real
from pellucid._machine.primitives.creation import full_like
from pellucid._machine.primitives.logical import eq
from pellucid._machine.primitives.movement import broadcast_in_dim
from pellucid._machine.primitives.slicing import slice_in_dim
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import (
    PLATFORMS_OF_LIBRARIES,
    H,
    MatrixPrimitive,
    decomposition,
    diagonal_of,
    hermitian_from,
    hermitian_part,
    is_at,
    matrix_aval,
    product,
    real_of,
    where_in_matrix,
    without_info,
)
from .native import INT32, boolean, byte, gpu_name, lapack_name, native
from .spectrum import SMALLEST_DIVIDED, divide_spectrum


class EighImplementation(enum.Enum):
    """Algorithms for the eigenvalues of Hermitian matrices; each platform has some of them.

    >>> EighImplementation.QR
    <EighImplementation.QR: 'qr'>
    """

    QR = "qr"
    """On CPUs (divide and conquer) and GPUs."""
    JACOBI = "jacobi"
    """On GPUs and TPUs."""
    QDWH = "qdwh"
    """Division of the spectrum by polar factors, on every platform; TPUs use it above 256 rows, and Jacobi's below."""


_DIVIDE = (EighImplementation.QDWH,)
_DIVIDE_ON_TPUS = (None, EighImplementation.QDWH)
_CUSOLVER = {None: 0, EighImplementation.QR: 1, EighImplementation.JACOBI: 2}


class EighParams(NamedTuple):
    algorithm: EighImplementation | None
    lower: bool
    sort_eigenvalues: bool
    subset_by_index: tuple[int, int] | None


class Eigh(MatrixPrimitive[EighParams]):
    """Returns (eigenvectors, eigenvalues)."""

    name = "eigh"
    traits = decomposition(9.0)

    def platforms_for(self, params):
        match params.algorithm:
            case None:
                return None
            case EighImplementation.QR:
                return PLATFORMS_OF_LIBRARIES
            case EighImplementation.JACOBI:
                return ("cuda", "rocm", "tpu")
            case EighImplementation.QDWH:
                return None

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals, square=True)
        n = x.shape[-1]
        start, end = params.subset_by_index or (0, n)
        if not 0 <= start < end <= n and (start, end) != (0, n):
            raise ArgumentValueError(
                f"eigh: subset_by_index must be (start, end) with 0 <= start < end <= {n}.",
                got=[f"operand: {x.text()}", f"subset_by_index: {(start, end)}"],
            )
        values = matrix_aval(x, *batch, end - start, dtype=real_of(x))
        return [matrix_aval(x, *batch, n, end - start), values]

    def jvp(self, primals, tangents, params):
        v, w = bind(self, *primals, params=params._replace(subset_by_index=None))
        change = product(H(v), hermitian_from(tangents[0], lower=params.lower), v)
        on_diagonal = is_at(type_of(change).shape, 0, eq)
        gaps = where_in_matrix(on_diagonal, full_like(change, 1), eigenvalue_gaps(w, change))
        turn = where_in_matrix(on_diagonal, full_like(change, 0), div(change, gaps))
        v_dot, w_dot = (
            product(v, turn),
            real(diagonal_of(change)) if type_of(v).dtype.kind == "c" else diagonal_of(change),
        )
        start_end = params.subset_by_index
        return [slice_last_axis(x, start_end) for x in (v, w)], [
            slice_last_axis(x, start_end) for x in (v_dot, w_dot)
        ]

    def definition(self, operands, params, platform):
        [x] = operands
        aval = type_of(x)
        *batch, n, _ = aval.shape
        algorithms = _DIVIDE_ON_TPUS if platform == "tpu" else _DIVIDE
        # Windows of blocks have sizes, so matrices of symbolic ones are decomposed at once.
        has_sizes = all(type(size) is int for size in aval.shape)
        if params.algorithm in algorithms and has_sizes and n > SMALLEST_DIVIDED:
            return self._divide(x, params)
        results = [(aval.shape, aval.dtype), ((*batch, n), real_of(aval))]
        if platform == "tpu":
            options = f"{int(params.lower)},{int(params.sort_eigenvalues)},100,1e-6"
            pair = native("Eigh", operands, results, len(batch), options, api_version=1)
        else:
            results.append((batch, INT32))
            if platform == "cpu":
                target = lapack_name("syevd", x, "heevd")
                config = f"mode = {byte('V')}, uplo = {byte('L' if params.lower else 'U')}"
            else:
                target = gpu_name("cusolver_syevd_ffi", platform)
                algorithm = _CUSOLVER.get(params.algorithm, 0)
                config = f"algorithm = {algorithm} : ui8, lower = {boolean(params.lower)}"
            pair = without_info(native(target, operands, results, len(batch), config, [(0, 0)]))
        return [slice_last_axis(y, params.subset_by_index) for y in pair]

    def _divide(self, x: Array, params: EighParams) -> list[Array]:
        """The results by a division of the spectrum, down to matrices that the platform decomposes at once."""

        def solve(small: Array) -> tuple[Array, Array]:
            vectors, values = bind(self, small, params=EighParams(None, True, True, None))
            return vectors, values

        whole = hermitian_from(x, lower=params.lower)
        pair = divide_spectrum(whole, solve, subset=params.subset_by_index)
        return [slice_last_axis(y, params.subset_by_index) for y in pair]


eigh_p = Eigh()


def eigenvalue_gaps(w: Array, like: Any) -> Array:
    """For each pair, the eigenvalue of the column minus that of the row, in the dtype of `like`."""
    ndim = type_of(w).ndim
    shape = type_of(like).shape
    by_column, by_row = (
        broadcast_in_dim(w, shape, (*range(ndim - 1), i)) for i in (ndim, ndim - 1)
    )
    return convert_quietly(sub(by_column, by_row), type_of(like).dtype)


def slice_last_axis(x: Array, start_end: tuple[int, int] | None) -> Array:
    """`x[..., start:end]`; `x` if `start_end` is None."""
    if start_end is None:
        return x
    return slice_in_dim(x, *start_end, axis=type_of(x).ndim - 1)


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """(eigenvectors v, eigenvalues w) of the Hermitian matrices in `x`, of shape [..., n, n]: x v = v diag(w).

    w is real and increases, of shape [..., n]; column i of v belongs to w[i]. `subset_by_index` (start, end) keeps
    those from start to end. By default (x + xᴴ) / 2 is decomposed; with `symmetrize_input=False` only the `lower` (or
    the upper) triangle is read, and differentiated. Results are NaN where the algorithm doesn't converge. Derivatives
    of vectors need eigenvalues that differ; those of `jnp.linalg.hermitian_function` don't. `sort_eigenvalues=False` may save time on TPUs.
    Without an `implementation` CPUs and GPUs take LAPACK's and cuSOLVER's `syevd`, TPUs Jacobi's up to 256 rows and `QDWH` above.

    Raises: DtypeError unless elements are float32, float64, complex64 or complex128; ShapeError for other shapes;
    CompilationError where the platform lacks the `implementation`.
    Source: LAPACK, `syevd`; derivative: Giles, An extended collection of matrix derivative results (2008), 3.1.

    >>> eigh(np.array([[0.0, 1.0], [1.0, 0.0]], np.float32))[1]
    Array([-1.,  1.], dtype=float32)
    """
    if implementation is not None and not isinstance(implementation, EighImplementation):
        raise ArgumentTypeError(
            "eigh: implementation must be an EighImplementation.", got=f"{implementation!r}"
        )
    if symmetrize_input:
        eigh_p.check((type_of(x),), square=True)
        x = hermitian_part(x)
    subset = None if subset_by_index is None else (int(subset_by_index[0]), int(subset_by_index[1]))
    vectors, values = bind(
        eigh_p, x, params=EighParams(implementation, bool(lower), bool(sort_eigenvalues), subset)
    )
    return vectors, values


__all__ = ["EighImplementation", "eigh", "eigh_p"]
