"""Texts of programs with collectives; each function takes the array library and gives the text."""

import numpy as np

X, W = np.ones((8, 8), np.float32), np.ones((2, 8), np.float32)


def over_x(jax, body, in_specs=None, out_specs=None, **options):
    """The function `body` of (w, x) over a mesh; w is whole and x is cut unless specs say otherwise."""
    P = jax.sharding.PartitionSpec
    sizes = {"x": 4, "y": 2} if "axis_names" in options else {"x": 4}
    types = (jax.sharding.AxisType.Auto,) * len(sizes)
    mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=types)
    given = (P(), P("x")) if in_specs is None else in_specs
    made = P() if out_specs is None else out_specs
    return jax.shard_map(body, mesh=mesh, in_specs=given, out_specs=made, **options)


def text(jax, function, *args):
    return str(jax.make_jaxpr(function)(*(args or (W, X))))


def sum_of_products(jax):
    return text(jax, over_x(jax, lambda w, x: jax.lax.psum(x * w, "x")))


def maximum(jax):
    return text(jax, over_x(jax, lambda w, x: jax.lax.pmax(x * w, "x")))


def unchecked(jax):
    return text(jax, over_x(jax, lambda w, x: jax.lax.psum(x * w, "x"), check_vma=False))


def one_axis(jax):
    return text(jax, over_x(jax, lambda w, x: jax.lax.psum(x * w, "x"), axis_names={"x"}))


def exchanges(jax):
    lax = jax.lax

    def body(w, x):
        gathered = lax.all_gather(x, "x")
        scattered = lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True)
        return gathered, scattered, lax.ppermute(x, "x", [(0, 1)]), lax.axis_index("x") + x

    return text(jax, over_x(jax, body, out_specs=jax.sharding.PartitionSpec("x")))


def two_axes(jax):
    axes = ("x", "y")
    mesh = jax.make_mesh((4, 2), axes, axis_types=(jax.sharding.AxisType.Auto,) * 2)
    rows = jax.sharding.PartitionSpec(axes)
    f = jax.shard_map(
        lambda w, x: jax.lax.psum(x * w, axes[:1]) * x,
        mesh=mesh,
        in_specs=(rows, rows),
        out_specs=rows,
    )
    return text(jax, f, X, X)


def turned(jax):
    body = lambda w, x: jax.lax.all_to_all(x, "x", 1, 0, tiled=True)
    return text(jax, over_x(jax, body, out_specs=jax.sharding.PartitionSpec("x")))


def gathered_once(jax):
    return text(jax, over_x(jax, lambda w, x: jax.lax.all_gather(x, "x", to="invarying")))


def batch(jax):
    f = over_x(jax, lambda w, x: jax.lax.psum(x * w, "x"))
    return text(jax, jax.vmap(f), np.stack([W] * 3), np.stack([X] * 3))


def forward(jax):
    f = over_x(jax, lambda w, x: jax.lax.psum(x * w, "x"))
    return text(jax, lambda w, x: jax.jvp(f, (w, x), (w, x)))


def unbound(jax):
    body = lambda x: (jax.lax.psum(x, "i"), jax.lax.pmean(x, "i"))
    return str(jax.make_jaxpr(body, axis_env=[("i", 2)])(1.0))


PROGRAMS = [
    two_axes, sum_of_products, maximum, unchecked, one_axis, exchanges, turned, gathered_once, batch, forward, unbound,
]  # fmt: skip
