"""Programs over Explicit axes that batch along a cut dimension, or use another mesh or Auto axes on the way.

Each takes the array library first; `PROGRAMS` lists them. A result comes with the layout that its type shows.
"""

from corpus.explicit_programs import W, X, layout, placed, seen


def carried(jax):
    jnp, lax = jax.numpy, jax.lax
    f = lambda x: (
        lax.scan(lambda c, _: (jnp.sin(c) + 1, c.sum()), x, None, length=3),
        lax.scan(lambda c, r: (c + r, c * r), x.sum(), x),
        lax.fori_loop(0, 3, lambda i, c: jnp.cos(c) * i, x),
        lax.while_loop(lambda c: c.sum() < 10, lambda c: c * c + 1, x),
        lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
    )
    return seen(jax, lambda x: (jax.vmap(f)(x), jax.vmap(f, in_axes=1)(x.T)), (X, "x"))


def called(jax):
    jnp, lax = jax.numpy, jax.lax
    f = lambda x: (
        lax.map(lambda r: r * r, x),
        jax.checkpoint(jnp.sin)(x),
        jax.jit(jnp.cos)(x),
        lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
        lax.custom_linear_solve(lambda v: 2 * v, x, lambda mv, b: b / 2),
        jnp.fft.rfft(x),
    )
    return seen(jax, jax.vmap(f), (X, "x"))


def carried_within_elements(jax):
    f = lambda x: jax.lax.scan(lambda c, _: (c * 2, c.sum()), x, None, length=2)
    return seen(jax, jax.vmap(f), (X, "x", "y"))


def in_two_batches(jax):
    f = lambda x: jax.lax.fori_loop(0, 2, lambda i, c: c * c, x)
    return seen(jax, jax.vmap(jax.vmap(f)), (X.reshape(8, 4, 2), "x"))


def derivatives_of_carries(jax):
    f = lambda w, x: jax.lax.scan(lambda c, r: (jax.numpy.sin(c * r), c), x.sum(), w)[0]
    loss = lambda w, x: jax.vmap(f)(w, x).sum()
    return seen(jax, jax.value_and_grad(loss, (0, 1)), (W, "x"), (X, "x"))


def resharded_elements(jax):
    P = jax.sharding.PartitionSpec
    return seen(jax, jax.vmap(lambda r: jax.sharding.reshard(r, P("y")) * 2), (X, "x"))


def _other(jax):
    return jax.make_mesh((2, 4), ("a", "b")).abstract_mesh


def over_another_mesh(jax):
    P, reshard = jax.sharding.PartitionSpec, jax.sharding.reshard

    def function(x):
        with jax.sharding.use_abstract_mesh(_other(jax)):
            y = reshard(x, P("a", "b")) * 2
            z = jax.vmap(lambda r: reshard(r, P("b")))(reshard(x, P("a", None)))
        return y, z, reshard(y, P("x", None))

    return seen(jax, function, (X, "x", "y"))


def compiler_decides_under_auto_axes(jax):
    auto = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=auto)
    P = jax.sharding.PartitionSpec
    with jax.sharding.set_mesh(mesh):
        x = placed(jax, mesh, X, "x")
        f = jax.sharding.auto_axes(lambda x: x @ x, out_sharding=P("x"))
        results = f(x), jax.jit(f)(x)
    return [(layout(jax, y), str(y.sharding.spec)) for y in results], list(results)


def positions_with_parts_of_the_batch(jax):
    """A function over all axes of the mesh, batched along a dimension that one of them cuts."""
    P = jax.sharding.PartitionSpec
    mapped = lambda f, *axes: jax.shard_map(f, in_specs=P("y"), out_specs=P(*axes))
    functions = [mapped(jax.numpy.sin, "y"), mapped(lambda r: jax.lax.psum(r, "y"))]

    def program(x):
        gradient = jax.grad(lambda x: (jax.vmap(functions[0])(x) ** 2).sum())
        return [jax.vmap(f)(x) for f in functions], jax.vmap(functions[0], 1, 1)(x.T), gradient(x)

    return seen(jax, program, (X, "x", "y"))


PROGRAMS = [
    carried, called, carried_within_elements, in_two_batches, derivatives_of_carries, resharded_elements,
    over_another_mesh, compiler_decides_under_auto_axes, positions_with_parts_of_the_batch,
]  # fmt: skip
