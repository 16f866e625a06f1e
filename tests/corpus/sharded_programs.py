"""Programs over eight devices, as people write them; each takes the array library first.

A program makes its mesh, lays out its arguments, and gives values. `PROGRAMS` lists `(program, arguments)`.
The mesh axes are the compiler's (Auto): how to communicate is left to it. Arrays that lie over devices are arguments,
never captured: the reference makes constants of captured ones, and each device then works through the whole of them.
"""

import numpy as np

BATCH, WIDTH, HIDDEN, LAYERS = 16, 8, 32, 3


def normal(seed, *shape, scale=0.5):
    """Random numbers, the same in every process."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def inputs(seed=0):
    return normal(seed, BATCH, WIDTH), normal(seed + 1, BATCH, WIDTH)


def mlp(seed=2):
    """Weights of a network with one hidden layer."""
    return {
        "up": normal(seed, WIDTH, HIDDEN),
        "bias": normal(seed + 1, HIDDEN),
        "down": normal(seed + 2, HIDDEN, WIDTH),
    }


def mesh_of(jax, **axes):
    """A mesh whose axes are the compiler's."""
    types = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)


def placed(jax, mesh, *spec):
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def forward(jax, weights, x):
    hidden = jax.numpy.tanh(x @ weights["up"] + weights["bias"])
    return hidden @ weights["down"]


def loss(jax, weights, x, y):
    return ((forward(jax, weights, x) - y) ** 2).mean()


def stepped(jax, weights, gradients):
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


def train(jax, weights, x, y):
    value, gradients = jax.value_and_grad(lambda w: loss(jax, w, x, y))(weights)
    return value, stepped(jax, weights, gradients)


# One network, laid out in different ways ----------------------------------------------------------------


def data_parallel(jax, weights, x, y):
    """The batch over all devices, the weights everywhere."""
    mesh = mesh_of(jax, data=8)
    weights = jax.device_put(weights, placed(jax, mesh))
    x, y = jax.device_put((x, y), placed(jax, mesh, "data"))
    step = jax.jit(lambda w, x, y: train(jax, w, x, y))
    for _ in range(3):
        value, weights = step(weights, x, y)
    return value, weights


TENSOR = {"up": (None, "model"), "bias": ("model",), "down": ("model",)}


def tensor_parallel(jax, weights, x, y):
    """The hidden layer over all devices."""
    mesh = mesh_of(jax, model=8)
    shardings = {name: placed(jax, mesh, *spec) for name, spec in TENSOR.items()}
    step = jax.jit(
        lambda w, x, y: train(jax, w, x, y),
        in_shardings=(shardings, None, None),
        out_shardings=(None, shardings),
    )
    for _ in range(2):
        value, weights = step(weights, x, y)
    return value, weights


def data_and_tensor_parallel(jax, weights, x, y):
    """The batch over one mesh axis, the hidden layer over the other."""
    mesh = mesh_of(jax, data=2, model=4)
    weights = {n: jax.device_put(w, placed(jax, mesh, *TENSOR[n])) for n, w in weights.items()}
    x, y = jax.device_put((x, y), placed(jax, mesh, "data"))
    return jax.jit(lambda w, x, y: train(jax, w, x, y), donate_argnums=0)(weights, x, y)


def fully_sharded(jax, weights, x, y):
    """Each weight and the batch over the same axis; layers are computed again for the derivative."""
    mesh = mesh_of(jax, data=8)
    weights = jax.device_put(weights, placed(jax, mesh, "data"))
    x, y = jax.device_put((x, y), placed(jax, mesh, "data"))

    def gathered(w):
        return jax.tree.map(lambda a: jax.lax.with_sharding_constraint(a, placed(jax, mesh)), w)

    def remade(w, x, y):
        return loss(jax, gathered(w), x, y)

    value, gradients = jax.jit(jax.value_and_grad(jax.checkpoint(remade)))(weights, x, y)
    return value, stepped(jax, weights, gradients)


def constrained_activations(jax, weights, x, y):
    """Only the activations are placed; the rest follows."""
    mesh = mesh_of(jax, data=4, model=2)

    def hidden(w, x):
        h = jax.numpy.tanh(x @ w["up"] + w["bias"])
        return jax.lax.with_sharding_constraint(h, placed(jax, mesh, "data", "model")) @ w["down"]

    return jax.jit(jax.grad(lambda w: ((hidden(w, x) - y) ** 2).mean()))(weights)


def nested_jit(jax, weights, x, y):
    """Placements of an inner function are constraints in the outer one."""
    mesh = mesh_of(jax, data=8)
    inner = jax.jit(
        lambda w, x: forward(jax, w, x),
        in_shardings=(placed(jax, mesh), placed(jax, mesh, "data")),
        out_shardings=placed(jax, mesh, "data"),
    )
    return jax.jit(jax.grad(lambda w: ((inner(w, x) - y) ** 2).sum()))(weights)


def momentum_in_a_scan(jax, weights, x, y):
    """A training loop within one program, with state laid out like the weights."""
    mesh = mesh_of(jax, data=2, model=4)
    shardings = {name: placed(jax, mesh, *spec) for name, spec in TENSOR.items()}

    def step(state, _):
        w, m = state
        value, g = jax.value_and_grad(lambda w: loss(jax, w, x, y))(w)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        w = jax.lax.with_sharding_constraint(stepped(jax, w, m), shardings)
        return (w, m), value

    zeros = jax.tree.map(jax.numpy.zeros_like, weights)
    return jax.jit(lambda w, m: jax.lax.scan(step, (w, m), None, length=4))(weights, zeros)


# Layers in a loop ----------------------------------------------------------------------------------------


def stacked(seed=5):
    return normal(seed, LAYERS, WIDTH, HIDDEN, scale=0.2), normal(
        seed + 1, LAYERS, HIDDEN, WIDTH, scale=0.2
    )


def scanned_layers(jax, up, down, x, y):
    """Layers in a scan, each layer's weights over the model axis."""
    mesh = mesh_of(jax, data=2, model=4)
    up = jax.device_put(up, placed(jax, mesh, None, None, "model"))
    down = jax.device_put(down, placed(jax, mesh, None, "model"))
    x, y = jax.device_put((x, y), placed(jax, mesh, "data"))

    def layer(h, w):
        h = h + jax.numpy.tanh(h @ w[0]) @ w[1]
        return jax.lax.with_sharding_constraint(h, placed(jax, mesh, "data")), None

    def objective(w, x, y):
        return ((jax.lax.scan(jax.checkpoint(layer), x, w)[0] - y) ** 2).mean()

    return jax.jit(jax.value_and_grad(objective))((up, down), x, y)


# Attention -----------------------------------------------------------------------------------------------


def heads(seed=9):
    """Queries, keys and values: [batch, position, head, feature]."""
    return tuple(normal(seed + i, 2, 16, 8, 4) for i in range(3))


def attention(jax, q, k, v):
    jnp = jax.numpy
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0
    scores = jnp.where(jnp.tril(jnp.ones((16, 16), bool)), scores, -1e9)
    scores = scores - scores.max(-1, keepdims=True)
    weights = jnp.exp(scores)
    return jnp.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)


def head_parallel(jax, q, k, v):
    """Attention with its heads over all devices."""
    mesh = mesh_of(jax, model=8)
    q, k, v = jax.device_put((q, k, v), placed(jax, mesh, None, None, "model"))
    return jax.jit(lambda q, k, v: attention(jax, q, k, v))(q, k, v)


def sequence_parallel(jax, q, k, v):
    """Attention with the positions of its queries over one axis and those of its keys over another."""
    mesh = mesh_of(jax, rows=4, columns=2)
    q = jax.device_put(q, placed(jax, mesh, None, "rows"))
    k, v = jax.device_put((k, v), placed(jax, mesh, None, "columns"))
    return jax.jit(jax.grad(lambda q, k, v: (attention(jax, q, k, v) ** 2).sum()))(q, k, v)


# Smaller ones --------------------------------------------------------------------------------------------


def embedding(jax, table, tokens):
    """Rows of a table that is cut along its vocabulary, and the derivative, which scatters."""
    mesh = mesh_of(jax, data=2, model=4)
    table = jax.device_put(table, placed(jax, mesh, "model"))
    tokens = jax.device_put(tokens, placed(jax, mesh, "data"))
    return jax.jit(jax.value_and_grad(lambda t, i: (t[i] ** 2).sum()))(table, tokens)


def convolution(jax, images, kernel):
    """Images over the batch and their rows: neighbours exchange edges."""
    mesh = mesh_of(jax, data=2, rows=4)
    images = jax.device_put(images, placed(jax, mesh, "data", None, "rows"))
    return jax.jit(lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"))(images, kernel)


def vectorized_over_a_mesh_axis(jax, x):
    """`vmap` whose batch is over a mesh axis, around a constraint on single rows."""
    mesh = mesh_of(jax, data=4, model=2)

    def row(r):
        return jax.lax.with_sharding_constraint(r * 2, placed(jax, mesh, "model")).sum()

    return jax.jit(jax.vmap(row, spmd_axis_name="data"))(x)


def conditional(jax, x):
    """Both branches of a condition over sharded operands, and a loop until a bound is met."""
    mesh = mesh_of(jax, data=8)
    x = jax.device_put(x, placed(jax, mesh, "data"))

    def program(x):
        x = jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x)
        return jax.lax.while_loop(lambda x: (x**2).sum() < 1e3, lambda x: 1.5 * x, x)

    return jax.jit(program)(x)


def sorted_and_summed(jax, x):
    """Operations along the sharded dimension."""
    jnp = jax.numpy
    mesh = mesh_of(jax, data=8)
    x = jax.device_put(x, placed(jax, mesh, "data"))
    return jax.jit(lambda x: (jnp.sort(x, 0), jnp.cumsum(x, 0), jnp.argmax(x, 0), x[::-1]))(x)


def eager(jax, x):
    """Without jit: every operation runs where its operands are."""
    jnp = jax.numpy
    mesh = mesh_of(jax, data=4, model=2)
    x = jax.device_put(x, placed(jax, mesh, "data", "model"))
    return x + 1, x[3], x[:, 2:5], x.T @ x, jnp.sin(x).sum(0), x.reshape(-1)


_NETWORK = (mlp(), *inputs())
_IMAGES = (normal(20, 4, 3, 8, 8), normal(21, 5, 3, 3, 3))
PROGRAMS = [
    (data_parallel, _NETWORK),
    (tensor_parallel, _NETWORK),
    (data_and_tensor_parallel, _NETWORK),
    (fully_sharded, _NETWORK),
    (constrained_activations, _NETWORK),
    (nested_jit, _NETWORK),
    (momentum_in_a_scan, _NETWORK),
    (scanned_layers, (*stacked(), *inputs())),
    (head_parallel, heads()),
    (sequence_parallel, heads()),
    (embedding, (normal(22, 32, 8), np.arange(16, dtype=np.int32) * 7 % 32)),
    (convolution, _IMAGES),
    (vectorized_over_a_mesh_axis, inputs()[:1]),
    (conditional, inputs()[:1]),
    (sorted_and_summed, inputs()[:1]),
    (eager, inputs()[:1]),
]
