"""Rows for matrix decompositions and solvers.

Vectors of complex decompositions have phases that a library chooses anew for other elements, so differences of them
mean nothing; their values, the adjoint law and the reference hold them.
"""

import numpy as np

from tests.laws.sample import Sample, array, values

RNG = np.random.default_rng(11)


def elements(shape, dtype="float32"):
    """Random numbers."""
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x


def positive(shape, dtype="float32"):
    """Hermitian matrices with eigenvalues well above zero, and apart."""
    x = elements(shape, dtype)
    n = shape[-1]
    return values(
        (x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n) + np.diag(np.arange(n))).astype(dtype), dtype
    )  # fmt: skip


def regular(shape, dtype="float32"):
    """Matrices far from singular ones."""
    x = elements(shape, dtype)
    return values((x + 3 * np.eye(shape[-2], shape[-1])).astype(dtype), dtype)


def row(call, *operands, reference=None, **options):
    """A row of functions that libraries compute."""
    options = {"agrees": "close", "same_text": False, "tolerance": None} | options
    if options["tolerance"] is None:
        wide = operands[0].dtype.name in ("float64", "complex128")
        options["tolerance"] = 1e-10 if wide else 1e-4
    options.setdefault("adjoint_tolerance", 1e-7)
    options.setdefault("derivative_tolerance", 1e-5)
    return Sample(f"lax.linalg.{call}", operands, reference, **options)


def eigenvalues(x):
    return np.linalg.eigvalsh(x)


def singular_values(x):
    return np.linalg.svd(x, compute_uv=False)


def of_tracers(call, *operands, **options):
    """A row whose derivative the reference library finds only for arrays of its own."""
    return row(call, *operands, jax_call=f"lax.linalg.{call.replace('(x', '(-(-x)', 1)}", **options)


def lu(*operands, **options):
    return of_tracers("lu(x)", *operands, **options)


def gpu_only(call, *operands, **options):
    """A row of what TPUs lack."""
    return row(call, *operands, platforms=("cuda",), **options)


def cpu_only(call, *operands, **options):
    """A row of what CPUs alone have."""
    return row(call, *operands, platforms=(), **options)


def diagonals(shape, dtype="float32"):
    """Three diagonals of matrices far from singular ones."""
    lower, middle, upper = (elements(shape, dtype).astype(dtype) for _ in range(3))
    return (
        values(lower, dtype),
        values(middle + np.sign(middle.real) * 5, dtype),
        values(upper, dtype),
    )


samples = [
    # Cholesky
    row("cholesky(x)", positive((2, 3, 3)), reference=np.linalg.cholesky),
    row("cholesky(x)", positive((3, 3), "complex64"), reference=np.linalg.cholesky),
    row("cholesky(x)", positive((1, 1), "float64"), reference=np.linalg.cholesky),
    row("cholesky(x)", positive((3, 3), "complex128"), reference=np.linalg.cholesky),
    row("cholesky(x)", array((0, 0)), reference=np.linalg.cholesky),
    row("cholesky(x)", values(np.float32([[1, 2], [2, 1]])), smooth=False, batched=False, wrt=()),
    row("cholesky(x, symmetrize_input=False)", positive((3, 3)), agrees="no"),
    # triangular_solve
    row("triangular_solve(x, y)", regular((3, 3)), array((2, 3))),
    row("triangular_solve(x, y, left_side=True, lower=True)", regular((2, 3, 3)), array((2, 3, 2))),
    row("triangular_solve(x, y, left_side=True, transpose_a=True)", regular((3, 3)), array((3,))),
    row("triangular_solve(x, y, lower=True, unit_diagonal=True)", array((3, 3)), array((2, 3))),
    row(
        "triangular_solve(x, y, left_side=True, transpose_a=True, conjugate_a=True)",
        regular((3, 3), "complex64"), array((3, 2), "complex64"),
    ),
    row(
        "triangular_solve(x, y, lower=True, conjugate_a=True)",
        regular((3, 3), "complex128"), array((2, 3), "complex128"),
    ),
    row("triangular_solve(x, y, left_side=True)", regular((3, 3), "float64"), array((3, 2), "float64")),
    row("triangular_solve(x, y, left_side=True)", array((0, 0)), array((0, 2))),
    # LU
    *(lu(regular(shape)) for shape in ((3, 3), (2, 4, 3), (3, 4), (1, 1))),
    *(lu(regular((3, 3), dtype)) for dtype in ("complex64", "float64", "complex128")),
    *(lu(array(shape)) for shape in ((3, 0), (0, 3))),
    lu(values(np.float32([[1, 1], [1, 1]])), smooth=False, wrt=()),
    row("lu_pivots_to_permutation(x, 5)", values([[2, 1, 4], [0, 3, 3]], "int32"), agrees="exact"),
    row("lu_pivots_to_permutation(x, 3)", values([], "int32"), agrees="exact"),
    # QR
    *(
        row("qr(x, full_matrices=False)", regular(shape, dtype))
        for shape, dtype in (
            ((3, 3), "float32"), ((2, 4, 3), "float32"), ((3, 4), "float32"), ((4, 3), "complex64"),
            ((3, 3), "float64"), ((3, 4), "complex128"), ((1, 1), "float32"),
        )
    ),
    row("qr(x)", regular((4, 3)), smooth=False),
    row("qr(x)", regular((3, 4))),
    of_tracers("qr(x, full_matrices=False, pivoting=True)", regular((4, 3)), platforms=("cuda",)),
    of_tracers("qr(x, pivoting=True)", regular((3, 4), "complex64"), platforms=("cuda",)),
    *(row("qr(x)", array(shape)) for shape in ((3, 0), (0, 3))),
    row("householder_product(x, y)", array((2, 4, 3)), array((2, 3)), wrt=()),
    row("householder_product(x, y)", array((4, 3), "complex64"), array((2,), "complex64"), wrt=()),
    row("ormqr(x, y, z)", array((2, 4, 3)), array((2, 3)), array((2, 4, 2)), wrt=()),
    row(
        "ormqr(x, y, z, left=False, transpose=True)",
        array((4, 3), "complex64"), array((3,), "complex64"), array((2, 4), "complex64"), wrt=(),
    ),
    # eigh
    *(row("eigh(x)", positive(shape)) for shape in ((3, 3), (2, 3, 3), (1, 1))),
    row("eigh(x)", positive((3, 3), "float64")),
    row("eigh(x)", positive((3, 3), "complex64"), smooth=False),
    row("eigh(x)", positive((3, 3), "complex128"), smooth=False),
    row("eigh(x)[1]", positive((3, 3), "complex64"), reference=eigenvalues),
    row("eigh(x, lower=False, symmetrize_input=False)", positive((3, 3)), agrees="no"),
    row("eigh(x, subset_by_index=(1, 3))", positive((3, 3)), agrees="no"),
    row("eigh(x)", array((0, 0))),
    row("eigh(x)", values(np.float32([[np.nan, 0], [0, 1]])), smooth=False, wrt=(), batched=False),
    # eig
    *(gpu_only("eig(x, enable_eigvec_derivs=True)", regular((3, 3), dtype)) for dtype in ("float32", "complex64", "float64")),
    gpu_only("eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)", regular((2, 3, 3))),
    gpu_only("eig(x, compute_left_eigenvectors=False)", regular((3, 3)), wrt=()),
    gpu_only("eig(x)", array((0, 0)), wrt=()),
    # SVD
    *(row("svd(x, full_matrices=False)", regular(shape)) for shape in ((3, 3), (2, 4, 3), (3, 4))),
    row("svd(x, full_matrices=False)", regular((4, 3), "float64")),
    row("svd(x, full_matrices=False)", regular((4, 3), "complex64"), smooth=False),
    row("svd(x, full_matrices=False)", regular((3, 4), "complex128"), smooth=False),
    *(
        row("svd(x, full_matrices=False, algorithm=lax.linalg.SvdAlgorithm.POLAR)", regular(shape, dtype), agrees="no", smooth=dtype == "float32")
        for shape, dtype in (((4, 3), "float32"), ((2, 3, 4), "float32"), ((3, 3), "complex64"))
    ),
    row("eigh(x, implementation=lax.linalg.EighImplementation.QDWH)", positive((3, 3)), agrees="no"),
    row("svd(x)", regular((3, 3))),
    row("svd(x)", regular((4, 3)), wrt=()),
    gpu_only("svd(x, full_matrices=False, algorithm=lax.linalg.SvdAlgorithm.QR)", regular((4, 3))),
    row("svd(x, compute_uv=False)", regular((3, 4)), reference=singular_values),
    row("svd(x, compute_uv=False)", regular((4, 3), "complex64"), reference=singular_values),
    row("svd(x, full_matrices=False, subset_by_index=(0, 2))", regular((4, 3)), agrees="no"),
    *(row("svd(x)", array(shape), wrt=()) for shape in ((3, 0), (0, 3))),
    # Schur, Hessenberg and tridiagonal forms
    cpu_only("schur(x)", regular((2, 3, 3), "float32"), wrt=()),
    # The order of complex eigenvalues along T depends on the processor's LAPACK.
    cpu_only("schur(x)", regular((3, 3), "complex64"), wrt=(), agrees="no"),
    cpu_only("schur(x)", regular((3, 3), "float64"), wrt=()),
    cpu_only("schur(x, compute_schur_vectors=False)", regular((3, 3)), wrt=()),
    *(cpu_only("hessenberg(x)", regular(shape, dtype), wrt=()) for shape, dtype in (((2, 4, 4), "float32"), ((4, 4), "complex64"), ((4, 4), "float64"))),
    *(gpu_only("tridiagonal(x)", positive(shape, dtype), wrt=()) for shape, dtype in (((2, 4, 4), "float32"), ((4, 4), "complex64"), ((4, 4), "float64"))),
    gpu_only("tridiagonal(x, lower=False)", positive((4, 4)), wrt=()),
    # tridiagonal_solve
    row("tridiagonal_solve(x, y, z, w)", *diagonals((2, 4)), array((2, 4, 2))),
    row("tridiagonal_solve(x, y, z, w)", *diagonals((4,), "complex64"), array((4, 2), "complex64")),
    row("tridiagonal_solve(x, y, z, w)", *diagonals((4,), "float64"), array((4, 1), "float64")),
    gpu_only("tridiagonal_solve(x, y, z, w, perturb_singular=True)", *diagonals((4,)), array((4, 2))),
    # Products and updates
    row("symmetric_product(x, y, alpha=2.0, beta=3.0, symmetrize_output=True)", array((4, 3)), positive((4, 4)), wrt=()),
    row("symmetric_product(x, y, alpha=2.0, beta=3.0)", array((2, 4, 3), "float64"), positive((2, 4, 4), "float64"), agrees="no"),
    row("cholesky_update(x, y)", values(np.triu(elements((3, 3)) + 4 * np.eye(3)).astype("float32")), array((3,)), wrt=()),
    # The polar decomposition
    row("qdwh(x)[:2]", regular((4, 3)), agrees="no"),
    row("qdwh(x)[:2]", regular((3, 3), "complex64"), wrt=()),
]  # fmt: skip
