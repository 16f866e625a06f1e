"""Programs over meshes of Explicit axes: what types say of results, and what is refused.

Each takes the array library first; `PROGRAMS` lists them. A result is given with the layout that its type shows, or as
its error's kind.
"""

import numpy as np

X = np.arange(64, dtype=np.float32).reshape(8, 8) / 16
W = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
V = np.linspace(0.5, 2, 8, dtype=np.float32)
IMAGES = np.linspace(-1, 1, 4 * 3 * 8 * 8, dtype=np.float32).reshape(4, 3, 8, 8)
KERNEL = np.linspace(-1, 1, 5 * 3 * 3 * 3, dtype=np.float32).reshape(5, 3, 3, 3)


def layout(jax, x):
    """The entries that the type of `x` shows; () where every device has all of it."""
    sharding = jax.typeof(x).sharding
    entries = () if sharding is None else tuple(sharding.spec)
    return str(entries) if any(entry is not None for entry in entries) else "()"


def placed(jax, mesh, x, *spec):
    return jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))


def seen(jax, function, *operands):
    """Results of `function` on operands laid out as stated, `(array, entry, …)`, eager and compiled."""
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    with jax.sharding.set_mesh(mesh) if hasattr(jax.sharding, "set_mesh") else jax.set_mesh(mesh):
        given = [placed(jax, mesh, *operand) for operand in operands]
        layouts = []

        def noted(*args):
            results = function(*args)
            layouts.append([layout(jax, leaf) for leaf in jax.tree.leaves(results)])
            return results

        compiled = jax.jit(noted)(*given)
        results = [np.asarray(leaf) for leaf in jax.tree.leaves(compiled)]
        layouts.append([layout(jax, leaf) for leaf in jax.tree.leaves(compiled)])
        return layouts, results


def elementwise(jax):
    jnp = jax.numpy
    return seen(jax, lambda x, y: (x + y, jnp.sin(x), x * 2, x > y, jnp.where(x > 0, x, y), -x.astype(jnp.float16)), (X, "x"), (W, "x"))  # fmt: skip


def elementwise_with_a_whole_operand(jax):
    return seen(jax, lambda x, y: (x + y, x * y), (X, "x", "y"), (W,))


def elementwise_of_two_layouts(jax):
    return seen(jax, lambda x, y: x + y, (X, "x"), (W, "y"))


def elementwise_of_complementary_layouts(jax):
    return seen(jax, lambda x, y: x + y, (X, "x"), (W, None, "y"))


def elementwise_that_needs_an_axis_twice(jax):
    return seen(jax, lambda x, y: x + y, (X, "x"), (W, None, "x"))


def broadcasting(jax):
    return seen(jax, lambda x, v: (x + v, x * v[:, None], v[None] - x), (X, "x"), (V,))


def transposition(jax):
    return seen(jax, lambda x: (x.T, x.T.T, x[None].transpose(2, 0, 1)), (X, "x", "y"))


def sums(jax):
    return seen(
        jax, lambda x: (x.sum(), x.sum(0), x.sum(1), x.max(0), x.min(1), x.mean()), (X, "x")
    )


def positions_of_extremes(jax):
    return seen(jax, lambda x: (x.argmax(0), x.argmin(1)), (X, "x", "y"))


def products(jax):
    return seen(jax, lambda x, w: x @ w, (X, "x"), (W, None, "y"))


def product_along_a_sharded_axis(jax):
    return seen(jax, lambda x, w: x @ w, (X, None, "y"), (W, "y"))


def product_with_a_stated_layout(jax):
    spec = jax.sharding.PartitionSpec("x", None)
    return seen(
        jax,
        lambda x, w: jax.lax.dot_general(x, w, (((1,), (0,)), ((), ())), out_sharding=spec),
        (X, "x", "y"),
        (W, "y"),
    )


def einstein_sum_with_a_stated_layout(jax):
    spec = jax.sharding.PartitionSpec("x", None)
    return seen(
        jax,
        lambda x, w: (
            jax.numpy.einsum("ij,jk->ik", x, w, out_sharding=spec),
            jax.numpy.matmul(x, w, out_sharding=spec),
        ),
        (X, "x", "y"),
        (W, "y"),
    )


def axes_left_to_the_compiler(jax):
    spec = jax.sharding.PartitionSpec("y")
    inside = jax.sharding.auto_axes(lambda x, w: jax.numpy.sort(x + w, 0), out_sharding=spec)
    return seen(jax, inside, (X, "x"), (W, None, "y"))


def product_of_which_both_free_axes_are_alike(jax):
    return seen(jax, lambda x, w: x @ w, (X, "x"), (W, None, "x"))


def batched_products(jax):
    return seen(
        jax,
        lambda x, w: jax.lax.batch_matmul(x[:, None], w[:, None].transpose(0, 2, 1)),
        (X, "x"),
        (W, "x"),
    )


def reshapes(jax):
    return seen(
        jax, lambda x: (x.reshape(64), x.reshape(8, 2, 4), x[:, None], x.reshape(8, 8, 1)), (X, "x")
    )


def reshape_that_splits_a_sharded_axis(jax):
    return seen(jax, lambda x: (x.reshape(4, 2, 8), x.reshape(2, 4, 8)), (X, "x"))


def slices_of_whole_axes(jax):
    return seen(jax, lambda x: (x[:, 2:5], jax.lax.slice_in_dim(x, 0, 4, axis=1)), (X, "x"))


def slice_that_does_not_divide(jax):
    return seen(jax, lambda x: jax.lax.slice_in_dim(x, 0, 5, axis=0), (X, "x"))


def dynamic_slices(jax):
    return seen(jax, lambda x: jax.lax.dynamic_slice_in_dim(x, 1, 3, axis=1), (X, "x"))


def padding(jax):
    return seen(jax, lambda x: jax.lax.pad(x, np.float32(0), ((0, 0, 0), (1, 2, 0))), (X, "x"))


def joined(jax):
    return seen(
        jax,
        lambda x, y: (jax.numpy.concatenate([x, y], 1), jax.numpy.stack([x, y])),
        (X, "x"),
        (W, "x"),
    )


def joined_of_two_layouts(jax):
    return seen(jax, lambda x, y: jax.numpy.concatenate([x, y]), (X, "x"), (W, "y"))


def sorting(jax):
    return seen(
        jax, lambda x: (jax.numpy.sort(x, 1), jax.lax.cumsum(x, 1), jax.lax.top_k(x, 2)), (X, "x")
    )


def sums_so_far_of_rows(jax):
    return seen(jax, lambda x: jax.numpy.cumsum(x, 1), (X, "x"))


def reversal(jax):
    return seen(jax, lambda x: jax.lax.rev(x, (1,)), (X, "x"))


def convolution(jax):
    return seen(jax, lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"), (IMAGES, "x"), (KERNEL,))


def gradient_of_a_convolution(jax):
    def loss(x, k):
        return (jax.lax.conv(x, k, (2, 2), "SAME") ** 2).sum()

    return seen(jax, jax.grad(loss, (0, 1)), (IMAGES, "x"), (KERNEL,))


def gradient_through_axes_left_to_the_compiler(jax):
    spec = jax.sharding.PartitionSpec("x", None)

    def loss(x, w):
        return (jax.numpy.einsum("ij,jk->ik", x, w, out_sharding=spec) ** 2).sum()

    return seen(jax, jax.grad(loss, (0, 1)), (X, "x", "y"), (W, "y"))


def rows_of_a_whole_table(jax):
    indices = np.array([3, 1, 2])
    return seen(jax, lambda x: x[:, indices], (X, "x"))


def row_of_a_sharded_axis(jax):
    return seen(jax, lambda x: x[0], (X, "x"))


def update_of_a_sharded_axis(jax):
    return seen(jax, lambda x: x.at[0].set(1.0), (X, "x"))


def indexing_with_a_stated_layout(jax):
    P = jax.sharding.PartitionSpec
    indices = np.array([3, 1])
    return seen(
        jax,
        lambda x: (
            x.at[indices].get(out_sharding=P(None, "y")),
            x.at[0].set(1.0, out_sharding=P("x", "y")),
            x.at[indices].add(2.0, out_sharding=P("x")),
        ),
        (X, "x", "y"),
    )


def creation(jax):
    spec = jax.sharding.PartitionSpec("x")
    return seen(
        jax,
        lambda x: (
            jax.lax.broadcasted_iota(np.int32, (8, 4), 0, out_sharding=spec),
            jax.lax.broadcast_in_dim(1.0, (8, 2), (), out_sharding=spec),
            jax.numpy.zeros((4, 4)),
        ),
        (X, "x"),
    )  # fmt: skip


def arrays_like_others(jax):
    return seen(
        jax,
        lambda x: (
            jax.numpy.zeros_like(x),
            jax.lax.full_like(x, 2.0),
            jax.numpy.ones_like(x, dtype=np.int32),
            jax.numpy.full_like(x, 3, shape=(4,)),
        ),
        (X, "x"),
    )


def running_statistics(jax):
    """A carry that begins as zeros like the values."""

    return seen(
        jax,
        lambda x: jax.lax.scan(
            lambda m, _: (0.9 * m + x, None), jax.numpy.zeros_like(x), None, length=3
        )[0],
        (X, "x"),
    )


def softmax(jax):
    def function(x):
        e = jax.numpy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return seen(
        jax, lambda x: (function(x), jax.grad(lambda x: (function(x) ** 2).sum())(x)), (X, "x")
    )


def normalized(jax):
    def function(x, g):
        m = x.mean(1, keepdims=True)
        return (x - m) / jax.numpy.sqrt(((x - m) ** 2).mean(1, keepdims=True) + 1e-5) * g

    return seen(jax, jax.grad(lambda x, g: function(x, g).sum(), (0, 1)), (X, "x"), (V,))


def network(jax):
    """Two layers, the first cut along its results and the second along what it contracts."""
    spec = jax.sharding.PartitionSpec("x", None)

    def loss(weights, x):
        h = jax.numpy.tanh(x @ weights[0])
        y = jax.lax.dot_general(h, weights[1], (((1,), (0,)), ((), ())), out_sharding=spec)
        return (y**2).mean()

    return seen(
        jax, lambda a, b, x: jax.value_and_grad(loss)((a, b), x), (W, None, "y"), (W, "y"), (X, "x")
    )


def loops(jax):
    def body(c, row):
        return jax.numpy.tanh(c + row), c * 2

    return seen(
        jax, lambda x, xs: jax.lax.scan(body, x, xs), (X, "x"), (np.stack([W, X]), None, "x")
    )


def conditions(jax):
    return seen(
        jax, lambda x: jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x), (X, "x", "y")
    )


def derivatives(jax):
    return seen(jax, jax.grad(lambda x: (jax.numpy.sin(x) * x).sum()), (X, "x", "y"))


def derivatives_of_products(jax):
    def loss(w, x):
        return (jax.numpy.tanh(x @ w) ** 2).mean()

    return seen(jax, jax.value_and_grad(loss, (0, 1)), (W,), (X, "x"))


def derivatives_of_sharded_weights(jax):
    def loss(w, x):
        return (jax.numpy.tanh(x @ w) ** 2).sum()

    return seen(jax, jax.grad(loss), (W, None, "y"), (X, "x"))


def vectorized(jax):
    return seen(jax, jax.vmap(lambda row, v: row * v + 1, in_axes=(0, None)), (X, None, "x"), (V,))


def rematerialized(jax):
    return seen(
        jax, jax.grad(jax.checkpoint(lambda x: jax.numpy.sin(jax.numpy.sin(x)).sum())), (X, "x")
    )


PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", None) == __name__
    and name not in ("layout", "placed", "seen")
]

FAILING = {
    elementwise_of_two_layouts, elementwise_that_needs_an_axis_twice, joined_of_two_layouts, product_along_a_sharded_axis,
    product_of_which_both_free_axes_are_alike, reshape_that_splits_a_sharded_axis, row_of_a_sharded_axis,
    slice_that_does_not_divide, update_of_a_sharded_axis,
}  # fmt: skip
"""Programs that are mistakes."""
