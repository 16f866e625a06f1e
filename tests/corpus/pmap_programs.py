"""Programs with `pmap`; each takes the array library."""

import numpy as np

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


def elementwise(jax):
    return jax.pmap(lambda x: jax.numpy.sin(x) * 2)(X)


def normalized(jax):
    return jax.pmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")(X)


def trees_and_keywords(jax):
    f = jax.pmap(lambda p, *, scale: {"y": p["a"] * scale, "z": (p["b"].sum(),)})
    return f({"a": X, "b": X * 2}, scale=np.arange(8, dtype=np.float32))


def argument_for_all(jax):
    return jax.pmap(lambda w, x: x @ w, in_axes=(None, 0))(W, X)


def other_axes(jax):
    return jax.pmap(lambda x, y: x + y, in_axes=(1, 0), out_axes=1)(X.T.copy(), X)


def result_for_all(jax):
    return jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i", out_axes=None)(X)


def static_argument(jax):
    return jax.pmap(lambda x, n: x**n, static_broadcasted_argnums=1)(X, 3)


def static_argument_among_axes(jax):
    f = jax.pmap(
        lambda n, w, x: (x @ w) * n, static_broadcasted_argnums=(0,), in_axes=(None, None, 0)
    )
    return f(2, W, X)


def some_devices(jax):
    return jax.pmap(lambda x: jax.lax.all_gather(x, "i"), axis_name="i")(X[:4])


def chosen_devices(jax):
    devices = jax.devices()[::-1][:4]
    return jax.pmap(lambda x: x + jax.lax.axis_index("i"), axis_name="i", devices=devices)(X[:4])


def exchange(jax):
    def f(x):
        moved = jax.lax.ppermute(x, "i", [(k, (k + 1) % 8) for k in range(8)])
        return (
            jax.lax.pmax(moved, "i"),
            jax.lax.pmean(x, "i"),
            jax.lax.psum_scatter(jax.numpy.tile(x, 2), "i"),
        )

    return jax.pmap(f, axis_name="i")(X)


def groups(jax):
    f = lambda x: jax.lax.psum(x, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]])
    return jax.pmap(f, axis_name="i")(X)


def gradient_outside(jax):
    f = jax.pmap(lambda w, x: jax.lax.pmean((x @ w) ** 2, "i"), axis_name="i", in_axes=(None, 0))
    return jax.grad(lambda w, x: f(w, x).sum(), (0, 1))(W, X)


def gradient_inside(jax):
    def step(w, x):
        gradient = jax.grad(lambda w: ((x @ w) ** 2).sum())(w)
        return w - 0.1 * jax.lax.pmean(gradient, "i")

    return jax.pmap(step, axis_name="i", in_axes=(None, 0))(W, X)


def derivative_of_sum_inside(jax):
    f = lambda x: jax.lax.psum(x**2, "i").sum()
    return jax.pmap(jax.grad(f), axis_name="i")(X)


def forward(jax):
    f = jax.pmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")
    return jax.jvp(f, (X,), (np.cos(X),))


def within_vmap(jax):
    f = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
    return jax.vmap(f)(np.stack([X, 2 * X]))


def around_vmap(jax):
    f = jax.vmap(lambda x: jax.lax.psum(x, ("i", "j")), axis_name="j")
    return jax.pmap(f, axis_name="i")(X)


def within_jit(jax):
    return jax.jit(lambda x: jax.pmap(lambda y: y * 2)(x) + 1)(X)


def with_loop(jax):
    def f(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: jax.numpy.sin(y) + jax.lax.pmean(y, "i"), x)

    return jax.pmap(f, axis_name="i")(X)


def sizes_differ(jax):
    return jax.pmap(lambda x, y: x)(X, X[:4])


def too_many(jax):
    return jax.pmap(lambda x: x)(np.ones((9, 2), np.float32))


PROGRAMS = [
    elementwise, normalized, trees_and_keywords, argument_for_all, other_axes, result_for_all, static_argument,
    static_argument_among_axes, some_devices, chosen_devices, exchange, groups,
    gradient_outside, gradient_inside, derivative_of_sum_inside, forward, within_vmap, around_vmap, within_jit,
    with_loop, sizes_differ, too_many,
]  # fmt: skip

FAILING = {sizes_differ, too_many}
"""Programs that are mistakes."""
