"""Decompositions call the platform's libraries, each device for its own part of a batch."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import (
    CompilationError,
    DtypeError,
    MissingRule,
    ShapeError,
)
from pellucid._machine.linalg.qr import OrmqrParams, ormqr_p
from pellucid._machine.xla import plugins
from pellucid.experimental import topologies
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P
from tests.core.linalg.compile_decompositions import calls_for

linalg = pl.lax.linalg
SQUARE = np.stack([np.eye(3, dtype=np.float32) * (i + 2) + 0.1 for i in range(8)])

CALLS = {
    "cholesky": (linalg.cholesky, "cusolver_potrf_ffi", "stablehlo.cholesky"),
    "triangular_solve": (
        lambda x: linalg.triangular_solve(x, x), "stablehlo.triangular_solve", "stablehlo.triangular_solve",
    ),
    "lu": (linalg.lu, "cusolver_getrf_ffi", "LuDecomposition"),
    "qr": (linalg.qr, "cusolver_orgqr_ffi", "ProductOfElementaryHouseholderReflectors"),
    "ormqr": (lambda x: linalg.ormqr(x, x[:, 0], x), "cusolver_ormqr_ffi", "stablehlo.while"),
    "qr with pivoting": (lambda x: linalg.qr(x, pivoting=True), "cuhybrid_geqp3", None),
    "eigh": (linalg.eigh, "cusolver_syevd_ffi", "@Eigh"),
    "eig": (linalg.eig, "cuhybrid_eig_real", None),
    "svd": (linalg.svd, "cusolver_gesvdj_ffi", "@Eigh"),
    "svd by QR": (
        lambda x: linalg.svd(x[:, :2], algorithm=linalg.SvdAlgorithm.QR), "cusolver_gesvd_ffi", None,
    ),
    "svd by polar decomposition": (
        lambda x: linalg.svd(x, algorithm=linalg.SvdAlgorithm.POLAR), "cusolver_gesvdp_ffi", "@Qr",
    ),
    "tridiagonal": (linalg.tridiagonal, "cusolver_sytrd_ffi", None),
    "tridiagonal_solve": (
        lambda x: linalg.tridiagonal_solve(x[:, 0], x[:, 1], x[:, 2], x), "cusparse_gtsv2_ffi", "stablehlo.while",
    ),
    "symmetric_product": (lambda x: linalg.symmetric_product(x, x), "cusolver_syrk_ffi", "dot_general"),
    "cholesky_update": (lambda x: linalg.cholesky_update(x[0], x[0, 0]), "cu_cholesky_update_ffi", "stablehlo.while"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_names_of_libraries(name: str) -> None:
    function, on_gpu, on_tpu = CALLS[name]
    traced = pl.jit(function).trace(SQUARE)
    assert on_gpu in traced.lower(lowering_platforms=("cuda",)).as_text()
    if on_tpu is None:
        with pytest.raises(CompilationError, match="no implementation for platform tpu"):
            traced.lower(lowering_platforms=("tpu",))
    else:
        assert on_tpu in traced.lower(lowering_platforms=("tpu",)).as_text()


OPTIONS_ON_TPUS = {
    "1,1,100,1e-6": linalg.eigh,
    "0,1,100,1e-6": lambda x: linalg.eigh(x, lower=False),
    "1,0,100,1e-6": lambda x: linalg.eigh(x, sort_eigenvalues=False),
}


@pytest.mark.parametrize("options", OPTIONS_ON_TPUS)
def test_options_of_eigh_on_tpus(options: str) -> None:
    traced = pl.jit(OPTIONS_ON_TPUS[options]).trace(SQUARE)
    assert f'backend_config = "{options}"' in traced.lower(lowering_platforms=("tpu",)).as_text()


@pytest.mark.parametrize(
    ("size", "implementation", "is_divided"),
    [(256, None, False), (257, None, True), (257, "JACOBI", False), (256, "QDWH", False), (257, "QDWH", True)],
)  # fmt: skip
def test_large_matrices_on_tpus(size: int, implementation: str | None, is_divided: bool) -> None:
    which = None if implementation is None else linalg.EighImplementation[implementation]
    x = pl.ShapeDtypeStruct((size, size), np.float32)
    traced = pl.jit(lambda x: linalg.eigh(x, implementation=which)).trace(x)
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "@Eigh" in text
    assert ("@Qr" in text) is is_divided


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_reflections_one_by_one(dtype: type, left: bool, transpose: bool) -> None:
    """On TPUs, where no library has it, `ormqr` is made of products: here with LAPACK's results."""
    rng = np.random.default_rng(0)
    sizes = {"a": (2, 5, 3), "taus": (2, 3), "c": (2, 5, 4) if left else (2, 4, 5)}
    parts = [rng.normal(size=(2, *size)) for size in sizes.values()]
    operands = [(x + 1j * y if dtype is np.complex64 else x).astype(dtype) for x, y in parts]
    params = OrmqrParams(left, transpose)
    got = pl.jit(lambda *x: ormqr_p.definition(x, params, "tpu")[0])(*operands)
    expected = linalg.ormqr(*operands, left=left, transpose=transpose)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def compiled_ahead(platform: str) -> list[str]:
    """Lines of the program that compiles for a device that isn't there."""
    script = pathlib.Path(__file__).with_name("compile_decompositions.py")
    settings = {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
    done = subprocess.run(
        [sys.executable, str(script), platform],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | settings | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return [
        line for line in done.stdout.splitlines() if line.startswith(tuple(calls_for(platform)))
    ]


@pytest.mark.skipif(plugins.tpu_library() is None, reason="no compiler of TPUs is installed: the extra `tpu-aot`")  # fmt: skip
@pytest.mark.timeout(700)
def test_compilation_for_tpus() -> None:
    assert compiled_ahead("tpu") == [*calls_for("tpu")]


@pytest.mark.skipif(plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed: the extra `gpu-aot`")  # fmt: skip
@pytest.mark.timeout(700)
def test_compilation_for_gpus() -> None:
    assert compiled_ahead("cuda") == [*calls_for("cuda")]


CUT = {
    "cholesky": linalg.cholesky,
    "lu": linalg.lu,
    "qr": lambda x: linalg.qr(x, pivoting=True),
    "svd": lambda x: linalg.svd(x, full_matrices=False),
    "inv": jnp.linalg.inv,
    "derivative": pl.grad(lambda x: jnp.linalg.slogdet(x).logabsdet.sum()),
}


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("name", CUT)
def test_devices_decompose_their_own_matrices(name: str, kind: AxisType) -> None:
    function = CUT[name]
    expected = pl.tree.leaves(function(SQUARE))
    mesh = pl.make_mesh((8,), ("x",), axis_types=(kind,))
    with pl.set_mesh(mesh):
        x = pl.device_put(SQUARE, NamedSharding(mesh, P("x")))
        compiled = pl.jit(function).lower(x).compile()
        assert "all-" not in compiled.as_text()
        for got, want in zip(pl.tree.leaves(compiled(x)), expected, strict=True):
            assert got.sharding.spec[0] == "x"
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed: the extra `gpu-aot`")  # fmt: skip
@pytest.mark.parametrize("name", [*CUT, "eig"])
def test_gpus_decompose_their_own_matrices(name: str) -> None:
    topology = topologies.get_topology_desc("H100", platform="cuda", topology="1x1x2")
    mesh = topologies.make_mesh(topology, (2,), ("x",))
    x = pl.ShapeDtypeStruct(SQUARE.shape, SQUARE.dtype, sharding=NamedSharding(mesh, P("x")))
    text = pl.jit((CUT | {"eig": linalg.eig})[name]).lower(x).compile().as_text()
    assert 'custom_call_target="cu' in text
    assert "all-" not in text


def test_failures_are_nan() -> None:
    indefinite = np.stack([np.eye(2), -np.eye(2)]).astype(np.float32)
    factors = np.asarray(linalg.cholesky(indefinite))
    np.testing.assert_array_equal(factors[0], np.eye(2))
    assert np.isnan(factors[1][np.tril_indices(2)]).all()
    assert np.isnan(linalg.eigh(np.full((2, 2), np.nan, np.float32))[1]).all()


def test_errors() -> None:
    with pytest.raises(ShapeError, match="square"):
        linalg.cholesky(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match="behind them"):
        linalg.lu(np.ones(3, np.float32))
    with pytest.raises(DtypeError, match="float32"):
        linalg.qr(np.ones((2, 2), np.int32))
    with pytest.raises(ShapeError, match="needs as many"):
        linalg.triangular_solve(
            np.eye(2, dtype=np.float32), np.ones((3, 1), np.float32), left_side=True
        )
    with pytest.raises(MissingRule, match="full_matrices"):
        pl.grad(lambda x: linalg.svd(x)[0].sum())(np.ones((3, 2), np.float32))
    with pytest.raises(MissingRule, match="enable_eigvec_derivs"):
        pl.jvp(linalg.eig, (SQUARE,), (SQUARE,))
    with pytest.raises(ValueError, match="subset_by_index"):
        linalg.eigh(SQUARE, subset_by_index=(2, 5))


def test_one_matrix_and_a_batch_of_right_hand_sides() -> None:
    """The matrix isn't repeated: right-hand sides go side by side."""
    a, b = SQUARE[0], np.ones((5, 3, 2), np.float32)
    solve = pl.vmap(lambda y: linalg.triangular_solve(a, y, left_side=True))
    assert "f32[3,10]" in str(pl.make_jaxpr(solve)(b))
    np.testing.assert_allclose(solve(b)[4], np.linalg.solve(np.triu(a), b[4]), rtol=1e-5)
