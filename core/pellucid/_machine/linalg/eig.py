"""Eigenvalues and eigenvectors of matrices that need not be Hermitian."""

from __future__ import annotations

import enum
from typing import NamedTuple

from pellucid._machine.base import ArrayLike, MissingRule, dtypes
from pellucid._machine.primitives.arithmetic import abs as absolute, add, div, mul, neg
from pellucid._machine.primitives.conversion import (
    complex as complex_of,
    convert_quietly,
    imag,
    real,
)
from pellucid._machine.primitives.creation import broadcasted_iota, full_like
from pellucid._machine.primitives.logical import eq
from pellucid._machine.primitives.movement import expand_dims, reduce_sum
from pellucid._machine.primitives.reduction import argmax
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import (
    PLATFORMS_OF_LIBRARIES,
    H,
    MatrixPrimitive,
    conjugate,
    decomposition,
    diagonal_of,
    is_at,
    matrix_aval,
    product,
    scale_columns,
    where_in_matrix,
    without_info,
)
from .native import INT32, boolean, byte, gpu_name, lapack_name, native
from .solve import solve
from .symmetric_eigen import eigenvalue_gaps


class EigImplementation(enum.Enum):
    """Libraries that compute eigenvalues: on GPUs one of several, on CPUs LAPACK.

    >>> EigImplementation.LAPACK
    <EigImplementation.LAPACK: 'lapack'>
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


_MAGMA = {None: "auto", EigImplementation.MAGMA: "on", EigImplementation.LAPACK: "off"}


class EigParams(NamedTuple):
    compute_left_eigenvectors: bool
    compute_right_eigenvectors: bool
    enable_eigvec_derivs: bool
    implementation: EigImplementation | None


class Eig(MatrixPrimitive[EigParams]):
    """Returns eigenvalues, then left and right eigenvectors, each if requested."""

    name = "eig"
    traits = decomposition(25.0)

    def platforms_for(self, params):
        match params.implementation:
            case EigImplementation.CUSOLVER:
                return ()
            case EigImplementation.MAGMA:
                return ("cuda", "rocm")
        return PLATFORMS_OF_LIBRARIES

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals, square=True)
        dtype = dtypes.to_complex_dtype(x.dtype)
        n = x.shape[-1]
        vectors = matrix_aval(x, *batch, n, n, dtype=dtype)
        n_vectors = params.compute_left_eigenvectors + params.compute_right_eigenvectors
        return [matrix_aval(x, *batch, n, dtype=dtype), *[vectors] * n_vectors]

    def jvp(self, primals, tangents, params):
        has_left, has_right = params.compute_left_eigenvectors, params.compute_right_eigenvectors
        if (has_left or has_right) and not params.enable_eigvec_derivs:
            raise MissingRule(
                "eig: derivatives of eigenvectors hold only if eigenvalues differ, and for the phases that LAPACK chooses.",
                do="Pass enable_eigvec_derivs=True to lax.linalg.eig if that is so, or differentiate eigenvalues alone.",
            )
        # Only what phases don't change is used of the vectors, so the derivatives of this rule are right as well.
        every = params._replace(compute_right_eigenvectors=True, enable_eigvec_derivs=True)
        w, *left, v = bind(self, *primals, params=every)
        change = convert_quietly(tangents[0], type_of(w).dtype)
        results, results_dot = [w], [diagonal_of(solve(v, product(change, v)))]
        for vectors in left:
            results.append(vectors)
            results_dot.append(_vectors_dot(conjugate(w), vectors, H(change)))
        if has_right:
            results.append(v)
            results_dot.append(_vectors_dot(w, v, change))
        return results, results_dot

    def definition(self, operands, params, platform):
        [x] = operands
        aval = type_of(x)
        *batch, n, _ = aval.shape
        is_complex = aval.dtype.kind == "c"
        dtype = dtypes.to_complex_dtype(aval.dtype)
        left, right = params.compute_left_eigenvectors, params.compute_right_eigenvectors
        vectors = ((*batch, n, n), dtype)
        values = ((*batch, n), aval.dtype)
        results = [*[values] * (1 if is_complex else 2), vectors, vectors, (batch, INT32)]
        if platform == "cpu":
            options = {"compute_left": left, "compute_right": right}
            config = ", ".join(
                f"{k} = {byte('V' if computed else 'N')}" for k, computed in options.items()
            )
            target = lapack_name("geev", x)
        else:
            magma = _MAGMA[params.implementation]
            config = f'left = {boolean(left)}, magma = "{magma}", right = {boolean(right)}'
            target = gpu_name(f"cuhybrid_eig_{'comp' if is_complex else 'real'}", platform)
        *w, vl, vr = without_info(native(target, operands, results, len(batch), config))
        return [w[0] if is_complex else complex_of(*w), *[vl] * left, *[vr] * right]


eig_p = Eig()


def _vectors_dot(w: Array, v: Array, change: Array) -> Array:
    """Tangents of unit eigenvectors whose largest elements are real, as LAPACK chooses them."""
    turn = solve(v, product(change, v))
    on_diagonal = is_at(type_of(turn).shape, 0, eq)
    gaps = where_in_matrix(on_diagonal, full_like(turn, 1), eigenvalue_gaps(w, turn))
    turn = where_in_matrix(on_diagonal, full_like(turn, 0), div(turn, gaps))
    v_dot = product(v, turn)
    row = type_of(v).ndim - 2
    largest = expand_dims(argmax(absolute(v), row, INT32), (row,))
    is_largest = eq(broadcasted_iota(INT32, type_of(v).shape, row), largest)
    picked = convert_quietly(is_largest, type_of(v).dtype)
    at_largest, dot_at_largest = (reduce_sum(mul(picked, x), (row,)) for x in (v, v_dot))
    growth = neg(real(reduce_sum(mul(conjugate(v), v_dot), (row,))))
    phase = neg(div(imag(dot_at_largest), real(at_largest)))
    return add(v_dot, scale_columns(v, complex_of(growth, phase)))


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """[eigenvalues w, left eigenvectors, right eigenvectors] of the matrices in `x`, of shape [..., n, n].

    All are complex: w of shape [..., n], vectors of shape [..., n, n], columns of norm 1 with a real largest element;
    for right ones x v = v diag(w), for left ones vᴴ x = diag(w) vᴴ. Vectors that aren't computed are left out.
    Derivatives of vectors need eigenvalues that differ and `enable_eigvec_derivs`. Results are NaN where the algorithm
    doesn't converge. CPUs and GPUs have it; `use_magma` is an older way to choose the library of GPUs.

    Raises: DtypeError unless elements are float32, float64, complex64 or complex128; ShapeError for other shapes.
    Source: LAPACK, `geev`; derivative: Boeddeker et al., On the computation of complex-valued gradients (2017), 4.

    >>> eig(np.array([[0.0, -1.0], [1.0, 0.0]], np.float32))[0]
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    if implementation is None and use_magma is not None:
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK
    params = EigParams(
        bool(compute_left_eigenvectors), bool(compute_right_eigenvectors), bool(enable_eigvec_derivs), implementation
    )  # fmt: skip
    return list(bind(eig_p, x, params=params))


__all__ = ["EigImplementation", "eig", "eig_p"]
