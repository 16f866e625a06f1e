"""Programs that jax exports, and calls of exported programs by jax.

`python -m tests.corpus.exported` writes the files of `tests/core/export/artifacts` anew; it needs jax and flatbuffers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
PARAMS = {
    "w": np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3),
    "unused": np.ones(2, np.float32),
}
SCALE = np.float32(3)
CUT = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
MESH_SHAPE, MESH_AXES = (4, 2), ("x", "y")
DTYPES = ("bool", "int8", "uint16", "float16", "bfloat16", "complex64", "float8_e4m3fn", "int4")
FOLDER = Path(__file__).parent.parent / "core/export/artifacts"


def layer(jax, x, params, scale=2.0):
    jnp = jax.numpy
    return {"y": jnp.tanh(x @ params["w"]) * scale, "positive": (jnp.sum(x > 0), None, [x])}


def eigenvalues(jax, x):
    return tuple(jax.numpy.linalg.eigh(x))


def by_platform(jax, x):
    return jax.lax.platform_dependent(x, cpu=jax.numpy.sin, default=jax.numpy.cos)


def uniform(jax, key):
    return jax.random.uniform(key, (3,))


def symbolic(jax, x, y):
    """For x [b, 4] and y [2*c, 4]."""
    jnp = jax.numpy
    total, sums = jax.lax.scan(lambda s, row: (s + row, s * row), jnp.zeros(4), x)
    return {
        "joined": jnp.concatenate([x, y]) / x.shape[0],
        "sums": (sums, jax.nn.softmax(total), jnp.cumsum(x, 0)),
        "parts": (jnp.sort(x, 0)[:-1], y[::2], x[: x.shape[0] // 2 + 1], y.reshape(-1, 8)),
        "products": jnp.mean(x @ y.T, 0),
        "special": jax.lax.erf(y) + jnp.arange(y.shape[0])[:, None],
    }


def products(jax, x):
    return x @ x.T


def mesh_shardings(jax):
    """(a mesh of eight devices, sharding of the argument, sharding of the result)."""
    sharding = jax.sharding
    mesh = sharding.Mesh(np.array(jax.devices()[:8]).reshape(MESH_SHAPE), MESH_AXES)
    spec = sharding.PartitionSpec
    return (mesh, *(sharding.NamedSharding(mesh, s) for s in (spec("x", "y"), spec("x"))))


def exports(jax) -> dict[str, bytes]:
    """Files by name."""
    export = jax.export.export

    def jitted(program, **options):
        def function(*args, **kwargs):
            return program(jax, *args, **kwargs)

        function.__name__ = program.__name__
        return jax.jit(function, **options)

    _, argument, result = mesh_shardings(jax)
    struct = jax.ShapeDtypeStruct
    b, c = jax.export.symbolic_shape("b, c", constraints=["b >= 2"])
    sized = [struct((size, 4), np.float32) for size in (b, 2 * c)]
    many = [struct((2,), dtype) for dtype in DTYPES]
    files = {
        "layer": export(jitted(layer))(X, PARAMS, scale=SCALE).serialize(vjp_order=2),
        "eigenvalues": export(jitted(eigenvalues), platforms=["cpu", "cuda"])(CUT[:4]).serialize(),
        "by_platform": export(jitted(by_platform), platforms=["cuda", "cpu"])(X).serialize(),
        "uniform": export(jitted(uniform))(jax.random.key(1)).serialize(),
        "symbolic": export(jitted(symbolic))(*sized).serialize(vjp_order=1),
        "dtypes": export(jax.jit(lambda *xs: xs))(*many).serialize(),
        "symbolic_products": export(jitted(products, in_shardings=argument, out_shardings=result))(
            struct((8 * c, 2 * b), np.float32)
        ).serialize(vjp_order=1),
        "products": export(jitted(products, in_shardings=argument, out_shardings=result))(
            CUT
        ).serialize(vjp_order=1),
    }
    return {name: bytes(data) for name, data in files.items()}


def call(jax, blob: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]):
    return jax.export.deserialize(bytearray(blob)).call(*args, **kwargs)


def call_with_key(jax, blob: bytes):
    return call(jax, blob, (jax.random.key(1),), {})


def second_derivative(jax, blob: bytes):
    """Of the layer, by the derivatives in the file."""
    exported = jax.export.deserialize(bytearray(blob))

    def norm(x):
        gradient = jax.grad(lambda x: exported.call(x, PARAMS, scale=SCALE)["y"].sum())(x)
        return (gradient**2).sum()

    return jax.grad(norm)(X)


def symbolic_calls(jax, blob: bytes):
    """Results and gradients for two sizes, the second under `jit` in a program for other symbols."""
    exported = jax.export.deserialize(bytearray(blob))

    def loss(x, y):
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(exported.call(x, y)))

    (k,) = jax.export.symbolic_shape("k", constraints=["k >= 2"])
    outer = jax.export.export(jax.jit(jax.grad(lambda x: loss(x, x[:2]))))(
        jax.ShapeDtypeStruct((k, 4), np.float32)
    )
    results = []
    for x in (X, CUT):
        results += [
            *jax.tree.leaves(exported.call(x, CUT[:6])),
            *jax.grad(loss, (0, 1))(x, CUT[:6]),
        ]
        results.append(outer.call(x))
    return results


def over_devices(jax, blob: bytes):
    """The products on a mesh, and their gradient."""
    exported = jax.export.deserialize(bytearray(blob))
    mesh, _, result = mesh_shardings(jax)
    x = jax.device_put(CUT, exported.in_shardings_jax(mesh)[0])
    y = exported.call(x)
    gradient = jax.grad(lambda x: exported.call(x).sum())(x)
    return np.asarray(y), y.sharding.is_equivalent_to(result, 2), np.asarray(gradient)


def types(jax, blob: bytes):
    exported = jax.export.deserialize(bytearray(blob))
    return (
        exported.fun_name, str(exported.in_tree), str(exported.out_tree), exported.platforms,
        [(str(a.shape), str(a.dtype)) for a in (*exported.in_avals, *exported.out_avals)],
        exported.nr_devices, exported.module_kept_var_idx, exported.uses_global_constants,
        exported.calling_convention_version, exported.has_vjp(),
    )  # fmt: skip


def write_artifacts() -> None:
    import jax
    import jax.export

    for name, data in exports(jax).items():
        (FOLDER / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    write_artifacts()
