"""Programs that communicate by hand over eight devices, as people write them, each beside its plain form.

`PROGRAMS` maps a name to (function that makes the manual form, plain form, arguments); both take the array library
first. `value`, `gradient`, … are the forms in which they are run, by name, here and with the reference.
"""

import numpy as np

BATCH, WIDTH, HIDDEN, LENGTH = 16, 8, 32, 16


def normal(seed, *shape, scale=0.5):
    """Random numbers, the same in every process."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def mesh_of(jax, **axes):
    """A mesh whose axes are the compiler's."""
    types = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)


def P(jax, *entries):
    return jax.sharding.PartitionSpec(*entries)


def ring(size, step=1):
    return [(i, (i + step) % size) for i in range(size)]


# Networks -----------------------------------------------------------------------------------------


def mlp(jax, w, x):
    return jax.numpy.tanh(x @ w["up"]) @ w["down"]


WEIGHTS = {"up": normal(1, WIDTH, HIDDEN), "down": normal(2, HIDDEN, WIDTH)}
X, Y = normal(3, BATCH, WIDTH), normal(4, BATCH, WIDTH)


def plain_loss(jax, w, x, y):
    return ((mlp(jax, w, x) - y) ** 2).mean()


def data_parallel(jax):
    """Each device has a part of the batch; the loss is the mean of theirs."""

    def loss(w, x, y):
        return jax.lax.pmean(plain_loss(jax, w, x, y), "data")

    return jax.shard_map(
        loss,
        mesh=mesh_of(jax, data=8),
        in_specs=(P(jax), P(jax, "data"), P(jax, "data")),
        out_specs=P(jax),
    )


def data_parallel_step(jax):
    """The gradient is taken inside, and summed over the devices because the weights are the same on all."""

    def step(w, x, y):
        value, gradient = jax.value_and_grad(lambda w: ((mlp(jax, w, x) - y) ** 2).sum())(w)
        count = jax.lax.psum(y.size, "data")
        return jax.lax.psum(value, "data") / count, jax.tree.map(
            lambda w, g: w - 0.1 * g / count, w, gradient
        )

    return jax.shard_map(
        step,
        mesh=mesh_of(jax, data=8),
        in_specs=(P(jax), P(jax, "data"), P(jax, "data")),
        out_specs=P(jax),
    )


def plain_step(jax, w, x, y):
    value, gradient = jax.value_and_grad(lambda w: plain_loss(jax, w, x, y))(w)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, w, gradient)


def tensor_parallel(jax):
    """The hidden layer is cut; the second product is summed."""
    return jax.shard_map(
        lambda w, x: jax.lax.psum(mlp(jax, w, x), "model"),
        mesh=mesh_of(jax, model=8),
        in_specs=({"up": P(jax, None, "model"), "down": P(jax, "model")}, P(jax)),
        out_specs=P(jax),
    )


def sequence_and_tensor_parallel(jax):
    """Activations are cut along the batch between the products, gathered before and scattered after them."""

    def layer(w, x):
        whole = jax.lax.all_gather(x, "model", axis=0, tiled=True)
        return jax.lax.psum_scatter(mlp(jax, w, whole), "model", scatter_dimension=0, tiled=True)

    return jax.shard_map(
        layer,
        mesh=mesh_of(jax, data=2, model=4),
        in_specs=(
            {"up": P(jax, None, "model"), "down": P(jax, "model")},
            P(jax, ("data", "model")),
        ),
        out_specs=P(jax, ("data", "model")),
    )


def tensor_parallel_along_two_axes(jax):
    """Both dimensions of each weight are cut, and each product is summed along the one that it contracts."""

    def layer(w, x):
        hidden = jax.numpy.tanh(jax.lax.psum(x @ w["up"], "row"))
        return jax.lax.psum(hidden @ w["down"], "column")

    cut = P(jax, None, "row")
    return jax.shard_map(
        layer,
        mesh=mesh_of(jax, row=2, column=4),
        in_specs=({"up": P(jax, "row", "column"), "down": P(jax, "column", "row")}, cut),
        out_specs=cut,
    )


def sharded_optimizer_step(jax):
    """Each device has all weights but only its part of the momentum: gradients are scattered, weights gathered."""

    def step(w, momentum, x, y):
        own = jax.lax.pcast(w, "data", to="varying")
        value, gradient = jax.value_and_grad(lambda w: plain_loss(jax, w, x, y))(own)
        gradient = jax.lax.psum_scatter(gradient, "data", tiled=True)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g / 8, momentum, gradient)

        def stepped(w, m):
            start = jax.lax.axis_index("data") * m.shape[0]
            return jax.lax.dynamic_slice_in_dim(w, start, m.shape[0]) - 0.1 * m

        parts = jax.tree.map(stepped, w, momentum)
        w = jax.lax.all_gather(parts, "data", tiled=True, to="invarying")
        return jax.lax.pmean(value, "data"), w, momentum

    cut = P(jax, "data")
    return jax.shard_map(
        step,
        mesh=mesh_of(jax, data=8),
        in_specs=(P(jax), cut, cut, cut),
        out_specs=(P(jax), P(jax), cut),
    )


def plain_optimizer_step(jax, w, momentum, x, y):
    value, gradient = jax.value_and_grad(lambda w: plain_loss(jax, w, x, y))(w)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return value, jax.tree.map(lambda w, m: w - 0.1 * m, w, momentum), momentum


MOMENTUM = {"up": normal(16, WIDTH, HIDDEN), "down": normal(17, HIDDEN, WIDTH)}


def fully_sharded(jax):
    """Weights are cut over all devices, and gathered when they are needed."""

    @jax.checkpoint
    def loss(w, x, y):
        whole = jax.tree.map(lambda w: jax.lax.all_gather(w, "data", axis=0, tiled=True), w)
        return jax.lax.pmean(plain_loss(jax, whole, x, y), "data")

    return jax.shard_map(
        loss,
        mesh=mesh_of(jax, data=8),
        in_specs=(P(jax, "data"), P(jax, "data"), P(jax, "data")),
        out_specs=P(jax),
    )


def batch_norm(jax):
    """Statistics over the whole batch."""

    def normed(x):
        mean = jax.lax.pmean(x.mean(0), "data")
        variance = jax.lax.pmean(((x - mean) ** 2).mean(0), "data")
        return (x - mean) / jax.numpy.sqrt(variance + 1e-3)

    spec = P(jax, "data")
    return jax.shard_map(normed, mesh=mesh_of(jax, data=8), in_specs=spec, out_specs=spec)


def plain_batch_norm(jax, x):
    return (x - x.mean(0)) / jax.numpy.sqrt(x.var(0) + 1e-3)


def experts(jax):
    """Each device has one expert; tokens travel to theirs and back by all_to_all."""

    def layer(w, x):  # token i of a device goes to expert i
        there = jax.lax.all_to_all(x, "expert", 0, 0, tiled=True)
        done = jax.numpy.tanh(there @ w[0])
        return jax.lax.all_to_all(done, "expert", 0, 0, tiled=True)

    spec = P(jax, "expert")
    return jax.shard_map(layer, mesh=mesh_of(jax, expert=8), in_specs=(spec, spec), out_specs=spec)


def plain_experts(jax, w, x):
    tokens = x.reshape(8, 8, WIDTH)
    return jax.numpy.tanh(jax.numpy.einsum("dew,ewv->dev", tokens, w)).reshape(x.shape)


def chosen_experts(jax, router, x):
    """(for each token one at its expert, how much the token is given to it)."""
    scores = jax.numpy.exp(x @ router)
    chosen = scores.argmax(1)[:, None] == jax.numpy.arange(8)
    gates = (scores * chosen).sum(1, keepdims=True) / scores.sum(1, keepdims=True)
    return chosen.astype("int32"), gates


def routed_experts(jax):
    """Tokens choose their expert; each device keeps as many places for each expert as it has tokens."""

    def layer(router, w, x):
        chosen, gates = chosen_experts(jax, router, x)
        place = (jax.numpy.cumsum(chosen, 0) - 1)[:, :, None] == jax.numpy.arange(len(x))
        sent = (place * chosen[:, :, None]).astype(x.dtype)  # token, expert, place
        there = jax.numpy.einsum("tep,tw->epw", sent, x)
        there = jax.lax.all_to_all(there, "expert", 0, 0, tiled=True)
        back = jax.lax.all_to_all(jax.numpy.tanh(there @ w[0]), "expert", 0, 0, tiled=True)
        return gates * jax.numpy.einsum("tep,epw->tw", sent, back)

    cut = P(jax, "expert")
    return jax.shard_map(
        layer, mesh=mesh_of(jax, expert=8), in_specs=(P(jax), cut, cut), out_specs=cut
    )


def ragged_experts(jax):
    """Tokens choose their expert; each device sends as many to each as chose it."""

    def layer(router, w, x):
        chosen, gates = chosen_experts(jax, router, x)
        order = jax.numpy.argsort(chosen.argmax(1))
        sizes = chosen.sum(0)
        starts = jax.numpy.cumsum(sizes) - sizes
        here = jax.lax.axis_index("expert")
        all_sizes, all_starts = jax.lax.all_gather((sizes, starts), "expert")  # origin, expert
        places = jax.numpy.cumsum(all_sizes, 0) - all_sizes
        coming, room = all_sizes[:, here], jax.numpy.zeros((64, x.shape[1]), x.dtype)
        exchange = jax.lax.ragged_all_to_all
        there = exchange(x[order], room, starts, sizes, places[here], coming, axis_name="expert")
        done = jax.numpy.tanh(there @ w[0])
        back = exchange(
            done, 0 * x, places[:, here], coming, all_starts[:, here], sizes, axis_name="expert"
        )
        return gates * back[jax.numpy.argsort(order)]

    cut = P(jax, "expert")
    return jax.shard_map(
        layer, mesh=mesh_of(jax, expert=8), in_specs=(P(jax), cut, cut), out_specs=cut
    )


def plain_routed_experts(jax, router, w, x):
    chosen, gates = chosen_experts(jax, router, x)
    of_all = jax.numpy.tanh(jax.numpy.einsum("tw,ewv->tev", x, w))
    return gates * jax.numpy.einsum("te,tev->tv", chosen.astype(x.dtype), of_all)


ROUTER = normal(18, WIDTH, 8)
EXPERTS = normal(5, 8, WIDTH, WIDTH), normal(6, 64, WIDTH)


def pipeline(jax):
    """Each device has one layer; microbatches move from device to device."""

    def run(w, x):
        stage, stages, n = jax.lax.axis_index("stage"), 4, x.shape[0]
        state = jax.lax.pcast(jax.numpy.zeros_like(x[0]), "stage", to="varying")
        outputs = jax.lax.pcast(jax.numpy.zeros_like(x), "stage", to="varying")

        def tick(carry, t):
            state, outputs = carry
            given = jax.numpy.where(stage == 0, x[jax.numpy.minimum(t, n - 1)], state)
            done = jax.numpy.tanh(given @ w[0])
            at = jax.numpy.clip(t - (stages - 1), 0, n - 1)
            last = jax.numpy.where(t >= stages - 1, done, outputs[at])
            outputs = jax.lax.dynamic_update_index_in_dim(outputs, last, at, 0)
            return (jax.lax.ppermute(done, "stage", ring(stages)), outputs), None

        (_, outputs), _ = jax.lax.scan(tick, (state, outputs), jax.numpy.arange(n + stages - 1))
        return jax.lax.psum(jax.numpy.where(stage == stages - 1, outputs, 0.0), "stage")

    return jax.shard_map(
        run,
        mesh=mesh_of(jax, stage=4),
        in_specs=(P(jax, "stage"), P(jax)),
        out_specs=P(jax),
    )


def plain_pipeline(jax, w, x):
    for layer in range(4):
        x = jax.numpy.tanh(x @ w[layer])
    return x


PIPELINE = normal(7, 4, WIDTH, WIDTH), normal(8, 6, 2, WIDTH)


# Attention ----------------------------------------------------------------------------------------


def attention(jax, q, k, v):
    weights = jax.numpy.exp(q @ k.T)
    return weights @ v / weights.sum(1, keepdims=True)


QKV = tuple(normal(seed, LENGTH, WIDTH) for seed in (9, 10, 11))


def ring_attention(jax):
    """Queries stay, keys and values go round."""

    def attend(q, k, v):
        def turn(carry, _):
            k, v, total, norm = carry
            weights = jax.numpy.exp(q @ k.T)
            total, norm = total + weights @ v, norm + weights.sum(1, keepdims=True)
            k, v = jax.lax.ppermute((k, v), "seq", ring(8))
            return (k, v, total, norm), None

        zero = q[:, :1] * 0
        (_, _, total, norm), _ = jax.lax.scan(turn, (k, v, q * 0, zero), None, length=8)
        return total / norm

    spec = P(jax, "seq")
    return jax.shard_map(attend, mesh=mesh_of(jax, seq=8), in_specs=(spec,) * 3, out_specs=spec)


def causal_ring_attention(jax):
    """Queries stay, keys and values go round; each query sees keys up to its own position, and rescales as it goes."""

    def attend(q, k, v):
        here, n = jax.lax.axis_index("seq"), len(q)
        positions = here * n + jax.numpy.arange(n)

        def turn(carry, step):
            k, v, total, norm, top = carry
            of_keys = (here - step) % 8 * n + jax.numpy.arange(n)
            scores = jax.numpy.where(positions[:, None] >= of_keys, q @ k.T, -1e9)
            higher = jax.numpy.maximum(top, scores.max(1, keepdims=True))
            higher = jax.lax.stop_gradient(higher)
            weights, scale = jax.numpy.exp(scores - higher), jax.numpy.exp(top - higher)
            total, norm = scale * total + weights @ v, scale * norm + weights.sum(1, keepdims=True)
            k, v = jax.lax.ppermute((k, v), "seq", ring(8))
            return (k, v, total, norm, higher), None

        zero = q[:, :1] * 0
        carry = (k, v, q * 0, zero, jax.lax.stop_gradient(zero - 1e9))
        (_, _, total, norm, _), _ = jax.lax.scan(turn, carry, jax.numpy.arange(8))
        return total / norm

    spec = P(jax, "seq")
    return jax.shard_map(attend, mesh=mesh_of(jax, seq=8), in_specs=(spec,) * 3, out_specs=spec)


def plain_causal_attention(jax, q, k, v):
    seen = jax.numpy.tril(jax.numpy.ones((LENGTH, LENGTH), bool))
    weights = jax.numpy.where(seen, jax.numpy.exp(q @ k.T), 0.0)
    return weights @ v / weights.sum(1, keepdims=True)


def gathered_attention(jax):
    """Keys and values are gathered by every device."""

    def attend(q, k, v):
        k, v = jax.lax.all_gather((k, v), "seq", tiled=True)
        return attention(jax, q, k, v)

    spec = P(jax, "seq")
    return jax.shard_map(attend, mesh=mesh_of(jax, seq=8), in_specs=(spec,) * 3, out_specs=spec)


def softmax_over_devices(jax):
    """The axis of the softmax is cut."""

    def softmax(x):
        top = jax.lax.pmax(jax.lax.stop_gradient(x).max(1, keepdims=True), "seq")
        e = jax.numpy.exp(x - top)
        return e / jax.lax.psum(e.sum(1, keepdims=True), "seq")

    spec = P(jax, None, "seq")
    return jax.shard_map(softmax, mesh=mesh_of(jax, seq=8), in_specs=spec, out_specs=spec)


def plain_softmax(jax, x):
    e = jax.numpy.exp(x - jax.lax.stop_gradient(x).max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# Arrays over devices ------------------------------------------------------------------------------


def halo_exchange(jax):
    """A stencil along a cut axis: each device gets the edges of its neighbours."""

    def smooth(x):
        left = jax.lax.ppermute(x[-1:], "space", ring(8))
        right = jax.lax.ppermute(x[:1], "space", ring(8, -1))
        wide = jax.numpy.concatenate([left, x, right])
        return 0.25 * wide[:-2] + 0.5 * wide[1:-1] + 0.25 * wide[2:] + 0.1 * x**2

    def steps(x):
        return jax.lax.fori_loop(0, 3, lambda _, x: smooth(x), x)

    spec = P(jax, "space")
    return jax.shard_map(steps, mesh=mesh_of(jax, space=8), in_specs=spec, out_specs=spec)


def plain_halo_exchange(jax, x):
    roll = jax.numpy.roll
    for _ in range(3):
        x = 0.25 * roll(x, 1, 0) + 0.5 * x + 0.25 * roll(x, -1, 0) + 0.1 * x**2
    return x


def turned(jax):
    """The cut moves from one axis to the other, and both axes are worked on where they are whole."""

    def both(x):
        x = jax.numpy.cumsum(x, 1)
        x = jax.lax.all_to_all(x, "i", 1, 0, tiled=True)
        return jax.numpy.cumsum(x, 0)

    return jax.shard_map(
        both, mesh=mesh_of(jax, i=8), in_specs=P(jax, "i"), out_specs=P(jax, None, "i")
    )


def plain_turned(jax, x):
    return jax.numpy.cumsum(jax.numpy.cumsum(x, 1), 0)


def ring_product(jax):
    """A product whose second factor goes round while it is multiplied."""

    def product(a, b):
        me = jax.lax.axis_index("i")
        total = 0.0
        for step in range(8):
            columns = jax.lax.dynamic_slice_in_dim(a, (me - step) % 8 * 2, 2, 1)
            total = total + columns @ b
            b = jax.lax.ppermute(b, "i", ring(8))
        return total

    spec = P(jax, "i")
    return jax.shard_map(product, mesh=mesh_of(jax, i=8), in_specs=(spec, spec), out_specs=spec)


FACTORS = normal(12, 16, 16), normal(13, 16, WIDTH)


def scattered_product(jax):
    """The contracted axis is cut, and each device keeps some rows of the sum."""
    return jax.shard_map(
        lambda a, b: jax.lax.psum_scatter(a @ b, "i", tiled=True),
        mesh=mesh_of(jax, i=8),
        in_specs=(P(jax, None, "i"), P(jax, "i")),
        out_specs=P(jax, "i"),
    )


def plain_product(jax, a, b):
    return a @ b


def prefix_sum(jax):
    """A scan whose carry passes through all devices: each adds what is before it."""

    def cumulative(x):
        sums = jax.lax.all_gather(x.sum(0), "i")
        before = jax.numpy.arange(8)[:, None] < jax.lax.axis_index("i")
        return jax.numpy.cumsum(x, 0) + jax.numpy.where(before, sums, 0).sum(0)

    spec = P(jax, "i")
    return jax.shard_map(cumulative, mesh=mesh_of(jax, i=8), in_specs=spec, out_specs=spec)


def plain_prefix_sum(jax, x):
    return jax.numpy.cumsum(x, 0)


def different_ways(jax):
    """Devices take different branches."""

    def chosen(w, x):
        even = jax.lax.axis_index("i") % 2 == 0
        return jax.lax.cond(even, lambda x: x @ w, lambda x: jax.numpy.sin(x) + w.sum(), x)

    return jax.shard_map(
        chosen, mesh=mesh_of(jax, i=8), in_specs=(P(jax), P(jax, "i")), out_specs=P(jax, "i")
    )


def plain_different_ways(jax, w, x):
    even = (np.arange(BATCH) // 2 % 2 == 0)[:, None]
    return jax.numpy.where(even, x @ w, jax.numpy.sin(x) + w.sum())


def unchecked(jax):
    """Types don't tell what varies; the sum in groups is of each half of the devices."""

    def shares(x):
        groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
        return x * jax.lax.psum(x, "i", axis_index_groups=groups)

    spec = P(jax, "i")
    return jax.shard_map(
        shares, mesh=mesh_of(jax, i=8), in_specs=spec, out_specs=spec, check_vma=False
    )


def plain_unchecked(jax, x):
    parts = x.reshape(2, 4, 2, -1)
    return (parts * parts.sum(1, keepdims=True)).reshape(x.shape)


def one_axis_of_two(jax):
    """The function runs over one axis; over the other the compiler decides."""

    def layer(w, x):
        return jax.lax.psum(jax.numpy.tanh(x @ w["up"]) @ w["down"], "model")

    return jax.shard_map(
        layer,
        mesh=mesh_of(jax, data=2, model=4),
        in_specs=({"up": P(jax, None, "model"), "down": P(jax, "model")}, P(jax)),
        out_specs=P(jax),
        axis_names={"model"},
    )


def one_within_another(jax):
    """A function over one axis calls a function over another."""
    mesh = mesh_of(jax, data=2, model=4)

    def inner(w, x):
        return jax.lax.psum(mlp(jax, w, x), "model")

    def outer(w, x, y):
        split = {"up": P(jax, None, "model"), "down": P(jax, "model")}
        called = jax.shard_map(
            inner, in_specs=(split, P(jax)), out_specs=P(jax), axis_names={"model"}
        )
        return jax.lax.pmean(((called(w, x) - y) ** 2).mean(), "data")

    mapped = jax.shard_map(
        outer,
        mesh=mesh,
        in_specs=(P(jax), P(jax, "data"), P(jax, "data")),
        out_specs=P(jax),
        axis_names={"data"},
    )

    def run(w, x, y):
        with jax.set_mesh(mesh):
            return jax.jit(mapped)(w, x, y)

    return run


def plain_mlp(jax, w, x):
    return mlp(jax, w, x)


WAVES = normal(14, BATCH, 24)
PROGRAMS = {
    "data_parallel": (data_parallel, plain_loss, (WEIGHTS, X, Y)),
    "data_parallel_step": (data_parallel_step, plain_step, (WEIGHTS, X, Y)),
    "tensor_parallel": (tensor_parallel, plain_mlp, (WEIGHTS, X)),
    "tensor_parallel_along_two_axes": (tensor_parallel_along_two_axes, plain_mlp, (WEIGHTS, X)),
    "sharded_optimizer_step": (
        sharded_optimizer_step,
        plain_optimizer_step,
        (WEIGHTS, MOMENTUM, X, Y),
    ),
    "sequence_and_tensor_parallel": (sequence_and_tensor_parallel, plain_mlp, (WEIGHTS, X)),
    "fully_sharded": (fully_sharded, plain_loss, (WEIGHTS, X, Y)),
    "batch_norm": (batch_norm, plain_batch_norm, (X,)),
    "experts": (experts, plain_experts, EXPERTS),
    "routed_experts": (routed_experts, plain_routed_experts, (ROUTER, *EXPERTS)),
    "ragged_experts": (ragged_experts, plain_routed_experts, (ROUTER, *EXPERTS)),
    "pipeline": (pipeline, plain_pipeline, PIPELINE),
    "ring_attention": (ring_attention, attention, QKV),
    "causal_ring_attention": (causal_ring_attention, plain_causal_attention, QKV),
    "gathered_attention": (gathered_attention, attention, QKV),
    "softmax_over_devices": (softmax_over_devices, plain_softmax, (WAVES,)),
    "halo_exchange": (halo_exchange, plain_halo_exchange, (WAVES,)),
    "turned": (turned, plain_turned, (WAVES,)),
    "ring_product": (ring_product, plain_product, FACTORS),
    "scattered_product": (scattered_product, plain_product, FACTORS),
    "prefix_sum": (prefix_sum, plain_prefix_sum, (WAVES,)),
    "different_ways": (different_ways, plain_different_ways, (normal(15, WIDTH, WIDTH), X)),
    "unchecked": (unchecked, plain_unchecked, (WAVES,)),
    "one_axis_of_two": (one_axis_of_two, plain_mlp, (WEIGHTS, X)),
    "one_within_another": (one_within_another, plain_loss, (WEIGHTS, X, Y)),
}
UNKNOWN = ("ragged_experts",)
"""Programs that the reference can't run on the CPU."""

NESTED = ("one_within_another",)
"""Programs that set a mesh themselves, which nothing that traces can do around them."""


# Forms --------------------------------------------------------------------------------------------


def function_of(jax, name, manual):
    """The function `name` of its arguments, in its manual or its plain form."""
    make, plain, _ = PROGRAMS[name]
    return make(jax) if manual else lambda *args: plain(jax, *args)


def scalar(jax, function):
    """A scalar made of all results of `function`, each element with another weight."""

    def total(*args):
        leaves = jax.tree.leaves(function(*args))
        weighted = [
            (x * jax.numpy.cos(jax.numpy.arange(x.size, dtype="float32")).reshape(x.shape)).sum()
            for x in leaves
        ]
        return sum(weighted)

    return total


def value(jax, name, manual=True):
    return jax.jit(function_of(jax, name, manual))(*PROGRAMS[name][2])


def value_at_once(jax, name, manual=True):
    return function_of(jax, name, manual)(*PROGRAMS[name][2])


def gradient(jax, name, manual=True):
    args = PROGRAMS[name][2]
    function = scalar(jax, function_of(jax, name, manual))
    return jax.jit(jax.grad(function, tuple(range(len(args)))))(*args)


def gradient_recomputed(jax, name, manual=True):
    args = PROGRAMS[name][2]
    function = scalar(jax, jax.checkpoint(function_of(jax, name, manual)))
    return jax.jit(jax.grad(function, tuple(range(len(args)))))(*args)


def batch(jax, name, manual=True):
    args = jax.tree.map(lambda x: np.stack([x, 0.5 * x, -x]), PROGRAMS[name][2])
    return jax.jit(jax.vmap(function_of(jax, name, manual)))(*args)


def batch_of_gradients(jax, name, manual=True):
    first, *rest = PROGRAMS[name][2]
    firsts = jax.tree.map(lambda x: np.stack([x, 0.5 * x]), first)
    function = scalar(jax, function_of(jax, name, manual))
    return jax.jit(jax.vmap(lambda first: jax.grad(function)(first, *rest)))(firsts)


def directional(jax, name, manual=True):
    args = PROGRAMS[name][2]
    directions = jax.tree.map(np.cos, args)
    return jax.jit(lambda a, d: jax.jvp(function_of(jax, name, manual), a, d))(args, directions)


def loop(jax, name, manual=True):
    """Gradient descent by the first argument, as a scan."""
    first, *rest = PROGRAMS[name][2]
    function = scalar(jax, function_of(jax, name, manual))

    def step(first, _):
        value, gradient = jax.value_and_grad(function)(first, *rest)
        return jax.tree.map(lambda x, g: x - 0.01 * g, first, gradient), value

    return jax.jit(lambda first: jax.lax.scan(step, first, None, length=2))(first)


FORMS = (
    value,
    value_at_once,
    gradient,
    gradient_recomputed,
    batch,
    batch_of_gradients,
    directional,
    loop,
)
