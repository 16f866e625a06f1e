"""Compile decompositions for a device that isn't there: a program of its own, since a compiler may end its process."""

import sys
from typing import Any

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.linalg.spectrum import divide_spectrum
from pellucid._machine.xla.compile import compile_only, compile_options
from pellucid._machine.xla.plugins import topology_devices
from pellucid.experimental import topologies
from pellucid.kernels.targets import tpu_chip

linalg = pl.lax.linalg
SQUARES = [(4, 4), (3, 4, 4), (2, 0, 4, 4), (0, 0)]
RECTANGLES = [(4, 4), (2, 6, 3), (3, 6), (0, 3), (3, 0)]
ON_BOTH: dict[str, tuple[Any, list[Any]]] = {
    "cholesky": (linalg.cholesky, SQUARES),
    "eigh": (linalg.eigh, SQUARES),
    "lu": (linalg.lu, RECTANGLES),
    "qr": (linalg.qr, RECTANGLES),
    "thin qr": (lambda x: linalg.qr(x, full_matrices=False), RECTANGLES),
    "svd": (linalg.svd, RECTANGLES),
    "singular values": (lambda x: linalg.svd(x, compute_uv=False), RECTANGLES[1:3]),
    "svd by polar decomposition": (
        lambda x: linalg.svd(x, full_matrices=False, algorithm=linalg.SvdAlgorithm.POLAR), [(6, 4)],
    ),
    "eigh by Jacobi's method": (
        lambda x: linalg.eigh(x, implementation=linalg.EighImplementation.JACOBI), [(4, 4)],
    ),
    "a divided spectrum": (
        lambda x: divide_spectrum(x + jnp.conj(x.mT), linalg.eigh, smallest=4), [(10, 10)],
    ),
    "householder_product": (lambda x: linalg.householder_product(x, x[..., 0, :]), [(2, 6, 3), (3, 3)]),
    "ormqr": (lambda x: linalg.ormqr(x, x[..., 0, :], x), [(2, 6, 3), (3, 3)]),
    "triangular_solve": (lambda x: linalg.triangular_solve(x, x, transpose_a=True), SQUARES),
    "tridiagonal_solve": (
        lambda x: linalg.tridiagonal_solve(x[..., 0, :], x[..., 1, :], x[..., 2, :], x), [(4, 4), (3, 4, 4)],
    ),
    "qdwh": (linalg.qdwh, [(6, 4), (3, 4, 4)]),
    "symmetric_product": (lambda x: linalg.symmetric_product(x, x), [(4, 4), (3, 4, 4)]),
    "inv": (jnp.linalg.inv, [(4, 4)]),
    "a derivative": (pl.grad(lambda x: jnp.linalg.slogdet(x).logabsdet.sum()), [(3, 4, 4)]),
}  # fmt: skip
ON_GPUS: dict[str, tuple[Any, list[Any]]] = {
    "eig": (linalg.eig, SQUARES),
    "tridiagonal": (linalg.tridiagonal, [(4, 4)]),
    "qr with pivoting": (lambda x: linalg.qr(x, pivoting=True), [(4, 4), (6, 3)]),
    "svd by QR": (lambda x: linalg.svd(x, algorithm=linalg.SvdAlgorithm.QR), [(3, 6)]),
}


def calls_for(platform: str) -> dict[str, tuple[Any, list[Any]]]:
    """What is compiled for a platform: functions and the shapes of their argument, by name."""
    return ON_BOTH if platform == "tpu" else ON_BOTH | ON_GPUS


def main(platform: str) -> None:
    """Print one line for each call."""
    if platform == "tpu":
        devices = topology_devices("tpu", tpu_chip("v5e").topology, {})[:1]
    else:
        devices = topologies.get_topology_desc("H100", platform=platform).devices
    for name, (function, shapes) in calls_for(platform).items():
        print(name, *failures(platform, devices, function, shapes), flush=True)


def failures(platform: str, devices: Any, function: Any, shapes: list[Any]) -> list[str]:
    """What the compiler says of each shape and dtype that it can't compile."""
    found = []
    for shape in shapes:
        for dtype in (np.float32, np.complex64):
            traced = pl.jit(function).trace(pl.ShapeDtypeStruct(shape, dtype))
            module = traced.lower(lowering_platforms=(platform,)).compiler_ir()
            try:
                compile_only(module, devices, compile_options(devices))
            except RuntimeError as error:
                found.append(f"{shape} {dtype.__name__}: {str(error).splitlines()[0]}")
    return found


if __name__ == "__main__":
    main(sys.argv[1])
