"""Four programs as a user has them, and the fourteen figures of them that a notebook shows."""

PROGRAMS = """
import numpy as np
import pellucid as pl, pellucid.numpy as jnp
from pellucid import lax

auto = pl.sharding.AxisType.Auto
mesh = pl.make_mesh((2, 4), ("data", "model"), axis_types=(auto, auto))
ring = pl.make_mesh((8,), ("i",), axis_types=(auto,))
E, F, L, V, T, B = 64, 256, 6, 512, 32, 8
rng = np.random.default_rng(0)

def place(x, *spec):
    return pl.device_put(x, pl.NamedSharding(mesh, pl.P(*spec)))

def weights(shape, *spec):
    return place(rng.normal(size=shape).astype(np.float32) * 0.05, *spec)

params = {
    "embed": weights((V, E), None, "model"),
    "layers": {
        "qkv": weights((L, E, 3 * E), None, None, "model"),
        "out": weights((L, E, E), None, "model"),
        "up": weights((L, E, F), None, None, "model"),
        "down": weights((L, F, E), None, "model"),
    },
}
tokens = place(rng.integers(0, V, (B, T)), "data")

def layer(x, w):
    with pl.named_scope("attention"):
        q, k, v = jnp.split(x @ w["qkv"], 3, axis=-1)
        scores = jnp.einsum("bte,bse->bts", q, k) / E**0.5
        mask = jnp.tril(jnp.ones((T, T), bool))
        x = x + pl.nn.softmax(jnp.where(mask, scores, -1e9)) @ v @ w["out"]
    with pl.named_scope("mlp"):
        return x + pl.nn.gelu(x @ w["up"]) @ w["down"]

def loss(params, tokens):
    x = params["embed"][tokens]
    x, _ = lax.scan(lambda x, w: (pl.checkpoint(layer)(x, w), None), x, params["layers"])
    logits = x @ params["embed"].T
    logp = pl.nn.log_softmax(logits[:, :-1])
    return -jnp.mean(jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1))

def step(params, tokens):
    value, grads = pl.value_and_grad(loss)(params, tokens)
    return value, pl.tree.map(lambda p, g: p - 0.1 * g, params, grads)

def rnn(w, xs):
    def cell(h, x):
        h = jnp.tanh(h @ w["h"] + x @ w["x"])
        return h, h.sum()
    return lax.scan(cell, jnp.zeros(w["h"].shape[0]), xs)

w_rnn, xs = {"h": jnp.ones((32, 32)) * 0.01, "x": jnp.ones((8, 32))}, jnp.ones((50, 8))

def ring_matmul(a, b):
    def local(a, b):
        def body(i, carry):
            acc, b = carry
            return acc + a @ b, lax.ppermute(b, "i", [(j, (j + 1) % 8) for j in range(8)])
        acc = lax.pcast(jnp.zeros((a.shape[0], b.shape[1])), "i", to="varying")
        return lax.fori_loop(0, 8, body, (acc, b))[0]
    specs = (pl.P("i"), pl.P(None, "i"))
    return pl.shard_map(local, mesh=ring, in_specs=specs, out_specs=pl.P("i"))(a, b)

def net(w, x):
    for each in w:
        x = jnp.tanh(each @ x)
    return x

w_net = [jnp.ones((16, 16)) * 0.1 for _ in range(3)]
jacobians = pl.vmap(pl.jacrev(net, argnums=1), in_axes=(None, 0))

def long(x):
    for i in range(2500):
        with pl.named_scope(f"block{i // 100}"):
            y = jnp.sin(x) * 2.0
            z = jnp.cos(y) + x
            x = jnp.tanh(z) - y
    return x
"""

FIGURES = {
    "step": "pl.viz.program(step)(params, tokens)",
    "step_lens": "pl.viz.lens(step)(params, tokens)",
    "loss_ladder": "pl.viz.ladder(loss, ['jvp', 'linearize', 'transpose'])(params, tokens)",
    "step_sharding": "pl.viz.sharding(step)(params, tokens)",
    "step_compiled": "pl.viz.compiled(step)(params, tokens)",
    "long": "pl.viz.program(long)(1.0)",
    "rnn_gradient": "pl.viz.program(pl.grad(lambda w, xs: rnn(w, xs)[1].sum()))(w_rnn, xs)",
    "rnn_lens": "pl.viz.lens(rnn)(w_rnn, xs)",
    "ring_sharding": "pl.viz.sharding(ring_matmul)(jnp.ones((64, 64)), jnp.ones((64, 64)))",
    "jacobians": "pl.viz.program(jacobians)(w_net, jnp.ones((5, 16)))",
    "jacobians_lens": "pl.viz.lens(jacobians)(w_net, jnp.ones((5, 16)))",
    "loss_diff": "pl.viz.diff(loss, lambda p, t: 2 * loss(p, t))(params, tokens)",
    "memory": "pl.viz.memory()",
    "array": "params['layers']['up']",
}
