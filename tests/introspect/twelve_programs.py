"""Twelve programs of real size whose first views are looked at: training steps, samplers, solvers, and programs over meshes.

Each is a function and its arguments, of which only shapes matter: nothing here needs to be run.
"""

import functools
from collections.abc import Callable
from typing import Any

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax, nn
from pellucid.introspect import schema

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _floats(*shape: int) -> Any:
    return pl.ShapeDtypeStruct(shape, "float32")


def _integers(*shape: int) -> Any:
    return pl.ShapeDtypeStruct(shape, "int32")


def _key() -> Any:
    return pl.eval_shape(lambda: pl.random.key(0))


def _adam(params: Any, state: Any, gradients: Any, step: Any) -> Any:
    means, squares = state
    means = pl.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = pl.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, gradients)

    def updated(p: Any, m: Any, s: Any) -> Any:
        corrected = m / (1 - 0.9**step)
        return p - 1e-3 * corrected / (jnp.sqrt(s / (1 - 0.999**step)) + 1e-8)

    return pl.tree.map(updated, params, means, squares), (means, squares)


def _normalized(x: Any, scale: Any) -> Any:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def adam_loop() -> Program:
    """A hundred steps of Adam over a perceptron in one `scan`."""
    sizes = [(784, 256), (256, 256), (256, 10)]
    params = [{"w": _floats(n, m), "b": _floats(m)} for n, m in sizes]

    def loss(params: Any, x: Any, y: Any) -> Any:
        for layer in params[:-1]:
            x = nn.relu(x @ layer["w"] + layer["b"])
        logits = x @ params[-1]["w"] + params[-1]["b"]
        return -jnp.mean(jnp.take_along_axis(nn.log_softmax(logits), y[:, None], axis=1))

    def train(params: Any, images: Any, labels: Any) -> Any:
        zeros = pl.tree.map(jnp.zeros_like, params)

        def body(carry: Any, batch: Any) -> Any:
            params, state, step = carry
            value, gradients = pl.value_and_grad(loss)(params, *batch)
            params, state = _adam(params, state, gradients, step)
            return (params, state, step + 1), value

        (params, _, _), losses = lax.scan(body, (params, (zeros, zeros), 1.0), (images, labels))
        return params, losses

    return train, (params, _floats(100, 128, 784), _integers(100, 128))


def decoder() -> Program:
    """One Adam step of a decoder of eight layers in a Python loop: heads, rotary positions, gated networks."""
    width, heads, layers, words, time = 512, 8, 8, 8192, 256
    layer_params = {
        "q": _floats(width, width),
        "k": _floats(width, width),
        "v": _floats(width, width),
        "out": _floats(width, width),
        "gate": _floats(width, 4 * width),
        "up": _floats(width, 4 * width),
        "down": _floats(4 * width, width),
        "attention_scale": _floats(width),
        "network_scale": _floats(width),
    }
    params = {
        "embed": _floats(words, width),
        "layers": [layer_params for _ in range(layers)],
        "scale": _floats(width),
    }

    def rotated(x: Any) -> Any:
        half = x.shape[-1] // 2
        frequency = 10_000.0 ** (-jnp.arange(half) / half)
        angle = jnp.arange(x.shape[1])[:, None] * frequency
        a, b = jnp.split(x, 2, axis=-1)
        cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    def attention(p: Any, x: Any) -> Any:
        split = lambda w: (x @ w).reshape(*x.shape[:2], heads, -1)
        q, k, v = rotated(split(p["q"])), rotated(split(p["k"])), split(p["v"])
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(width / heads)
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = nn.softmax(jnp.where(mask, scores, -jnp.inf))
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["out"]

    def layer(p: Any, x: Any) -> Any:
        x = x + attention(p, _normalized(x, p["attention_scale"]))
        h = _normalized(x, p["network_scale"])
        return x + (nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]

    def loss(params: Any, tokens: Any) -> Any:
        x = params["embed"][tokens[:, :-1]]
        for p in params["layers"]:
            x = layer(p, x)
        logits = _normalized(x, params["scale"]) @ params["embed"].T
        chosen = jnp.take_along_axis(nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
        return -jnp.mean(chosen)

    def train_step(params: Any, state: Any, step: Any, tokens: Any) -> Any:
        value, gradients = pl.value_and_grad(loss)(params, tokens)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in pl.tree.leaves(gradients)))
        gradients = pl.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), gradients)
        params, state = _adam(params, state, gradients, step)
        return params, state, value

    return train_step, (params, (params, params), _floats(), _integers(8, time + 1))


def _convolution(x: Any, w: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def diffusion() -> Program:
    """One step of a diffusion model: noise at random times, a U-Net with time embeddings and attention, Adam."""
    widths = (32, 64, 128)

    def block(before: int, after: int) -> Any:
        return {
            "first": _floats(3, 3, before, after),
            "second": _floats(3, 3, after, after),
            "time": _floats(128, after),
            "short": _floats(1, 1, before, after),
        }

    params = {
        "time": [_floats(64, 128), _floats(128, 128)],
        "stem": _floats(3, 3, 3, widths[0]),
        "down": [block(widths[max(0, i - 1)], n) for i, n in enumerate(widths)],
        "middle": {**block(128, 128), "qkv": _floats(128, 384), "out": _floats(128, 128)},
        "up": [block(128 + 128, 64), block(64 + 64, 32), block(32 + 32, 32)],
        "last": _floats(3, 3, 32, 3),
    }

    def residual(p: Any, x: Any, time: Any) -> Any:
        h = _convolution(nn.silu(x), p["first"])
        h = h + (nn.silu(time) @ p["time"])[:, None, None]
        return _convolution(nn.silu(h), p["second"]) + _convolution(x, p["short"])

    def attention(p: Any, x: Any) -> Any:
        flat = x.reshape(x.shape[0], -1, x.shape[-1])
        q, k, v = jnp.split(flat @ p["qkv"], 3, axis=-1)
        weights = nn.softmax(q @ k.swapaxes(1, 2) / jnp.sqrt(q.shape[-1]))
        return x + (weights @ v @ p["out"]).reshape(x.shape)

    def u_net(p: Any, x: Any, t: Any) -> Any:
        with pl.named_scope("time"):
            angles = t[:, None] * jnp.exp(-jnp.arange(32) / 4)
            time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
            time = nn.silu(time @ p["time"][0]) @ p["time"][1]
        x, sides = _convolution(x, p["stem"]), []
        for i, each in enumerate(p["down"]):
            with pl.named_scope(f"down_{i}"):
                x = residual(each, x, time)
                sides.append(x)
                x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") / 4
        with pl.named_scope("middle"):
            x = attention(p["middle"], residual(p["middle"], x, time))
        for i, each in enumerate(p["up"]):
            with pl.named_scope(f"up_{i}"):
                x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
                x = residual(each, jnp.concatenate([x, sides.pop()], -1), time)
        return _convolution(x, p["last"])

    def loss(params: Any, key: Any, images: Any) -> Any:
        for_times, for_noise = pl.random.split(key)
        t = pl.random.uniform(for_times, images.shape[:1])
        noise = pl.random.normal(for_noise, images.shape)
        signal = jnp.cos(t * jnp.pi / 2)[:, None, None, None]
        noisy = signal * images + jnp.sqrt(1 - signal**2) * noise
        return jnp.mean((u_net(params, noisy, t) - noise) ** 2)

    def train_step(params: Any, state: Any, step: Any, key: Any, images: Any) -> Any:
        value, gradients = pl.value_and_grad(loss)(params, key, images)
        params, state = _adam(params, state, gradients, step)
        return params, state, value

    state = (params, params)
    return train_step, (params, state, _floats(), _key(), _floats(16, 32, 32, 3))


def mcmc() -> Program:
    """Hamiltonian Monte Carlo for a logistic regression: 64 chains, leapfrog steps within each of 1,000 proposals."""

    def log_density(w: Any, x: Any, y: Any) -> Any:
        return jnp.sum(nn.log_sigmoid((2 * y - 1) * (x @ w))) - 0.5 * jnp.sum(w * w)

    def proposal(w: Any, key: Any, x: Any, y: Any) -> Any:
        for_momentum, for_choice = pl.random.split(key)
        gradient = pl.grad(log_density)
        start = pl.random.normal(for_momentum, w.shape)

        def leapfrog(_: Any, state: Any) -> Any:
            w, momentum = state
            momentum = momentum + 0.005 * gradient(w, x, y)
            w = w + 0.01 * momentum
            return w, momentum + 0.005 * gradient(w, x, y)

        new, momentum = lax.fori_loop(0, 20, leapfrog, (w, start))
        energy = lambda w, m: log_density(w, x, y) - 0.5 * jnp.sum(m * m)
        accepted = jnp.log(pl.random.uniform(for_choice)) < energy(new, momentum) - energy(w, start)
        return jnp.where(accepted, new, w), accepted

    def chain(key: Any, start: Any, x: Any, y: Any) -> Any:
        def step(w: Any, key: Any) -> Any:
            w, accepted = proposal(w, key, x, y)
            return w, (w, accepted)

        return lax.scan(step, start, pl.random.split(key, 1000))[1]

    def sample(key: Any, starts: Any, x: Any, y: Any) -> Any:
        keys = pl.random.split(key, starts.shape[0])
        draws, accepted = pl.vmap(chain, (0, 0, None, None))(keys, starts, x, y)
        return draws.mean((0, 1)), draws.std((0, 1)), accepted.mean()

    return sample, (_key(), _floats(64, 20), _floats(500, 20), _floats(500))


def ode_adjoint() -> Program:
    """The gradient of a neural ODE by its adjoint: an adaptive solver in `while` loops, forward and backward."""
    params = {"w": [_floats(2, 64), _floats(64, 64), _floats(64, 2)], "b": [_floats(64)] * 2}

    def velocity(p: Any, y: Any, t: Any) -> Any:
        h = jnp.tanh(y**3 @ p["w"][0] + p["b"][0] + t)
        return jnp.tanh(h @ p["w"][1] + p["b"][1]) @ p["w"][2]

    def solve(field: Any, y: Any, start: Any, end: Any) -> Any:
        def advance(state: Any) -> Any:
            y, t, dt = state
            dt = jnp.minimum(dt, end - t)
            scaled = lambda k, s: pl.tree.map(lambda a, b: a + s * b, y, k)
            k1 = field(y, t)
            k2 = field(scaled(k1, dt / 2), t + dt / 2)
            k3 = field(scaled(k2, dt * 0.75), t + dt * 0.75)
            new = pl.tree.map(
                lambda a, b, c, d: a + dt * (2 * b / 9 + c / 3 + 4 * d / 9), y, k1, k2, k3
            )
            k4 = field(new, t + dt)
            error = sum(
                jnp.sum((dt * (-5 * a / 72 + b / 12 + c / 9 - d / 8)) ** 2)
                for a, b, c, d in zip(*map(pl.tree.leaves, (k1, k2, k3, k4)), strict=True)
            )
            error = jnp.sqrt(error) / 1e-5
            is_good = error < 1
            y = pl.tree.map(lambda a, b: jnp.where(is_good, b, a), y, new)
            t = jnp.where(is_good, t + dt, t)
            return y, t, dt * jnp.clip(0.9 * error ** (-1 / 3), 0.2, 5.0)

        return lax.while_loop(lambda state: state[1] < end, advance, (y, start, 0.05))[0]

    @pl.custom_vjp
    def odeint(p: Any, y: Any, end: Any) -> Any:
        return solve(functools.partial(velocity, p), y, 0.0, end)

    def forward(p: Any, y: Any, end: Any) -> Any:
        final = odeint(p, y, end)
        return final, (p, final, end)

    def backward(residuals: Any, cotangent: Any) -> Any:
        p, final, end = residuals

        def field(state: Any, t: Any) -> Any:
            y, a, _ = state
            v, pull = pl.vjp(lambda p, y: velocity(p, y, end - t), p, y)
            of_params, of_y = pull(a)
            return -v, of_y, of_params

        zeros = pl.tree.map(jnp.zeros_like, p)
        _, a, of_params = solve(field, (final, cotangent, zeros), 0.0, end)
        return of_params, a, jnp.vdot(cotangent, velocity(p, final, end))

    odeint.defvjp(forward, backward)

    def loss(p: Any, starts: Any, ends: Any) -> Any:
        return jnp.mean((odeint(p, starts, 1.0) - ends) ** 2)

    def train_step(p: Any, starts: Any, ends: Any) -> Any:
        value, gradients = pl.value_and_grad(loss)(p, starts, ends)
        return pl.tree.map(lambda p, g: p - 0.01 * g, p, gradients), value

    return train_step, (params, _floats(256, 2), _floats(256, 2))


def gnn() -> Program:
    """One step of a graph network: messages along edges, sums at nodes, attention over neighbours, three layers."""
    width = 128
    params = {
        "embed": _floats(32, width),
        "layers": [
            {
                "message": _floats(2 * width + 8, width),
                "score": _floats(width),
                "update": _floats(2 * width, width),
            }
            for _ in range(3)
        ],
        "out": _floats(width, 1),
    }

    def layer(p: Any, nodes: Any, edges: Any, senders: Any, receivers: Any) -> Any:
        n = nodes.shape[0]
        inputs = jnp.concatenate([nodes[senders], nodes[receivers], edges], axis=-1)
        messages = nn.leaky_relu(inputs @ p["message"])
        scores = messages @ p["score"]
        highest = pl.ops.segment_max(scores, receivers, n)
        weights = jnp.exp(scores - highest[receivers])
        total = pl.ops.segment_sum(weights, receivers, n)
        weights = weights / (total[receivers] + 1e-9)
        received = pl.ops.segment_sum(messages * weights[:, None], receivers, n)
        return nodes + nn.relu(jnp.concatenate([nodes, received], axis=-1) @ p["update"])

    def loss(params: Any, nodes: Any, edges: Any, senders: Any, receivers: Any, target: Any) -> Any:
        x = nodes @ params["embed"]
        for p in params["layers"]:
            x = layer(p, x, edges, senders, receivers)
        return jnp.mean((jnp.mean(x, axis=0) @ params["out"] - target) ** 2)

    def train_step(params: Any, state: Any, step: Any, *batch: Any) -> Any:
        value, gradients = pl.value_and_grad(loss)(params, *batch)
        return *_adam(params, state, gradients, step), value

    batch = (_floats(1000, 32), _floats(8000, 8), _integers(8000), _integers(8000), _floats(1))
    return train_step, (params, (params, params), _floats(), *batch)


def reinforcement() -> Program:
    """An update of PPO: rollouts of a pendulum in `scan` under `vmap`, advantages backwards, four epochs of minibatches."""
    params = {
        "policy": [_floats(3, 64), _floats(64, 64), _floats(64, 1)],
        "value": [_floats(3, 64), _floats(64, 64), _floats(64, 1)],
        "log_std": _floats(1),
    }

    def perceptron(weights: Any, x: Any) -> Any:
        for w in weights[:-1]:
            x = jnp.tanh(x @ w)
        return x @ weights[-1]

    def observe(state: Any) -> Any:
        angle, speed = state
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])

    def simulate(state: Any, action: Any) -> Any:
        angle, speed = state
        torque = jnp.clip(action[0], -2, 2)
        cost = angle**2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = jnp.clip(speed + 0.05 * (15 * jnp.sin(angle) + 3 * torque), -8, 8)
        return (angle + 0.05 * speed, speed), -cost

    def log_probability(params: Any, seen: Any, action: Any) -> Any:
        mean = perceptron(params["policy"], seen)
        z = (action - mean) * jnp.exp(-params["log_std"])
        return jnp.sum(-0.5 * z * z - params["log_std"], axis=-1)

    def rollout(params: Any, key: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            seen = observe(carry)
            noise = pl.random.normal(key, (1,))
            action = perceptron(params["policy"], seen) + jnp.exp(params["log_std"]) * noise
            after, reward = simulate(carry, action)
            value = perceptron(params["value"], seen)[0]
            return after, (seen, action, reward, value, log_probability(params, seen, action))

        for_start, for_steps = pl.random.split(key)
        angle, speed = pl.random.uniform(for_start, (2,), minval=-1.0)
        return lax.scan(step, (jnp.pi * angle, speed), pl.random.split(for_steps, 200))[1]

    def advantages(rewards: Any, values: Any) -> Any:
        def back(carry: Any, each: Any) -> Any:
            advantage, next_value = carry
            reward, value = each
            delta = reward + 0.99 * next_value - value
            advantage = delta + 0.99 * 0.95 * advantage
            return (advantage, value), advantage

        return lax.scan(back, (0.0, 0.0), (rewards, values), reverse=True)[1]

    def loss(params: Any, batch: Any) -> Any:
        seen, action, old, advantage, target = batch
        ratio = jnp.exp(log_probability(params, seen, action) - old)
        clipped = jnp.clip(ratio, 0.8, 1.2)
        gain = jnp.minimum(ratio * advantage, clipped * advantage)
        error = perceptron(params["value"], seen)[..., 0] - target
        return jnp.mean(0.5 * error**2 - gain)

    def update(params: Any, state: Any, key: Any) -> Any:
        for_rollouts, for_epochs = pl.random.split(key)
        keys = pl.random.split(for_rollouts, 128)
        seen, action, reward, value, old = pl.vmap(rollout, (None, 0))(params, keys)
        advantage = pl.vmap(advantages)(reward, value)
        target = advantage + value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        data = (seen, action, old, advantage, target)
        data = pl.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), data)

        def minibatch(carry: Any, rows: Any) -> Any:
            params, state, step = carry
            batch = pl.tree.map(lambda x: x[rows], data)
            value, gradients = pl.value_and_grad(loss)(params, batch)
            return (*_adam(params, state, gradients, step), step + 1), value

        def epoch(carry: Any, key: Any) -> Any:
            rows = pl.random.permutation(key, 128 * 200).reshape(16, -1)
            return lax.scan(minibatch, carry, rows)

        carry, losses = lax.scan(epoch, (params, state, 1.0), pl.random.split(for_epochs, 4))
        return carry[0], carry[1], losses.mean(), reward.sum(1).mean()

    return update, (params, (params, params), _key())


def mixture_of_experts() -> Program:
    """One step of a sharded mixture of experts: tokens to their two best experts and back, over data and experts."""
    mesh = pl.sharding.AbstractMesh((2, 4), ("data", "expert"))
    width, experts, capacity = 256, 8, 64

    def placed(shape: tuple[int, ...], *spec: Any) -> Any:
        sharding = pl.NamedSharding(mesh, pl.P(*spec))
        return pl.ShapeDtypeStruct(shape, "float32", sharding=sharding)

    params = [
        {
            "router": placed((width, experts)),
            "up": placed((experts, width, 4 * width), "expert"),
            "down": placed((experts, 4 * width, width), "expert"),
            "scale": placed((width,)),
        }
        for _ in range(4)
    ]

    def layer(p: Any, x: Any) -> Any:
        h = _normalized(x, p["scale"])
        with pl.named_scope("route"):
            scores = nn.softmax(h @ p["router"])
            best, chosen = lax.top_k(scores, 2)
            best = best / best.sum(-1, keepdims=True)
            one_hot = nn.one_hot(chosen, experts)
            place = jnp.cumsum(one_hot.reshape(-1, experts), axis=0).reshape(one_hot.shape) - 1
            fits = one_hot * (place < capacity)
            slots = nn.one_hot(place.astype(int), capacity) * fits[..., None]
            combine = jnp.einsum("tk,tkec->tec", best, slots)
            dispatch = (combine > 0).astype(h.dtype)
        with pl.named_scope("experts"):
            inputs = jnp.einsum("tec,td->ecd", dispatch, h)
            inputs = lax.with_sharding_constraint(inputs, pl.NamedSharding(mesh, pl.P("expert")))
            hidden = nn.gelu(jnp.einsum("ecd,edf->ecf", inputs, p["up"]))
            outputs = jnp.einsum("ecf,efd->ecd", hidden, p["down"])
            outputs = lax.with_sharding_constraint(outputs, pl.NamedSharding(mesh, pl.P("expert")))
        balance = experts * jnp.sum(scores.mean(0) * one_hot.sum(1).mean(0))
        return x + jnp.einsum("tec,ecd->td", combine, outputs), balance

    def loss(params: Any, x: Any, y: Any) -> Any:
        balance = 0.0
        for p in params:
            x, each = layer(p, x)
            balance += each
        return jnp.mean((x - y) ** 2) + 0.01 * balance

    def train_step(params: Any, x: Any, y: Any) -> Any:
        value, gradients = pl.value_and_grad(loss)(params, x, y)
        return pl.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value

    rows = placed((256, width), "data")
    return train_step, (params, rows, rows)


def ring_attention() -> Program:
    """The gradient of attention over a ring of eight devices: keys and values travel, maxima and sums run along."""
    mesh = pl.sharding.AbstractMesh((8,), ("ring",))
    spec = pl.P(None, "ring")
    around = [(i, (i + 1) % 8) for i in range(8)]

    def local(q: Any, k: Any, v: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            k, v, highest, total, mixed = carry
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
            now = jnp.maximum(highest, scores.max(-1))
            weights = jnp.exp(scores - now[..., None])
            shrink = jnp.exp(highest - now)
            total = total * shrink + weights.sum(-1)
            mixed = mixed * shrink[..., None] + jnp.einsum("bhqk,bkhd->bhqd", weights, v)
            k, v = lax.ppermute((k, v), "ring", around)
            return (k, v, now, total, mixed), None

        b, t, h, d = q.shape
        lowest = jnp.full((b, h, t), -jnp.inf)
        start = (lowest, jnp.zeros((b, h, t)), jnp.zeros((b, h, t, d)))
        varying = lax.pcast(start, "ring", to="varying")
        (_, _, _, total, mixed), _ = lax.scan(body, (k, v, *varying), length=8)
        return (mixed / total[..., None]).swapaxes(1, 2)

    attend = pl.shard_map(local, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec)
    params = {name: _floats(512, 512) for name in ("q", "k", "v", "out")}

    def loss(params: Any, x: Any, y: Any) -> Any:
        q, k, v = ((x @ params[name]).reshape(*x.shape[:2], 8, 64) for name in ("q", "k", "v"))
        return jnp.mean((attend(q, k, v).reshape(x.shape) @ params["out"] - y) ** 2)

    rows = pl.ShapeDtypeStruct((2, 2048, 512), "float32", sharding=pl.NamedSharding(mesh, spec))
    return pl.value_and_grad(loss), (params, rows, rows)


def vit() -> Program:
    """One step of a vision transformer of twelve layers in a `scan` with checkpoints, in bfloat16."""
    width, heads, layers = 192, 3, 12
    params = {
        "patch": _floats(768, width),
        "position": _floats(196, width),
        "layers": {
            "qkv": _floats(layers, width, 3 * width),
            "out": _floats(layers, width, width),
            "up": _floats(layers, width, 4 * width),
            "down": _floats(layers, 4 * width, width),
            "scale": _floats(layers, 2, width),
        },
        "head": _floats(width, 1000),
    }

    @pl.checkpoint
    def layer(x: Any, p: Any) -> Any:
        with pl.named_scope("attention"):
            h = _normalized(x, p["scale"][0])
            q, k, v = jnp.split((h @ p["qkv"]).reshape(*x.shape[:2], heads, -1), 3, axis=-1)
            x = x + nn.dot_product_attention(q, k, v).reshape(x.shape) @ p["out"]
        with pl.named_scope("network"):
            x = x + nn.gelu(_normalized(x, p["scale"][1]) @ p["up"]) @ p["down"]
        return x, None

    def loss(params: Any, images: Any, labels: Any) -> Any:
        params = pl.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        patches = images.reshape(-1, 14, 16, 14, 16, 3).transpose(0, 1, 3, 2, 4, 5)
        x = patches.reshape(-1, 196, 768).astype(jnp.bfloat16) @ params["patch"]
        x, _ = lax.scan(layer, x + params["position"], params["layers"])
        logits = (x.mean(1) @ params["head"]).astype(jnp.float32)
        smooth = 0.9 * nn.one_hot(labels, 1000) + 0.1 / 1000
        return -jnp.mean(jnp.sum(smooth * nn.log_softmax(logits), axis=-1))

    def train_step(params: Any, state: Any, step: Any, images: Any, labels: Any) -> Any:
        value, gradients = pl.value_and_grad(loss)(params, images, labels)
        return *_adam(params, state, gradients, step), value

    images, labels = _floats(32, 224, 224, 3), _integers(32)
    return train_step, (params, (params, params), _floats(), images, labels)


def generation() -> Program:
    """Words from a decoder with caches: a `while` loop until the end, each layer in a `scan`, the best forty drawn from."""
    width, heads, layers, words, longest = 256, 4, 6, 4096, 128
    params = {
        "embed": _floats(words, width),
        "layers": {
            "qkv": _floats(layers, width, 3 * width),
            "out": _floats(layers, width, width),
            "up": _floats(layers, width, 4 * width),
            "down": _floats(layers, 4 * width, width),
        },
    }
    caches = _floats(layers, 2, longest, heads, width // heads)

    def layer(carry: Any, each: Any) -> Any:
        x, at = carry
        p, cache = each
        q, k, v = jnp.split((x @ p["qkv"]).reshape(3 * heads, -1), 3)
        cache = lax.dynamic_update_slice(cache, jnp.stack([k, v])[:, None], (0, at, 0, 0))
        scores = jnp.einsum("hd,thd->ht", q, cache[0]) / jnp.sqrt(q.shape[-1])
        scores = jnp.where(jnp.arange(longest) <= at, scores, -jnp.inf)
        x = x + jnp.einsum("ht,thd->hd", nn.softmax(scores), cache[1]).reshape(-1) @ p["out"]
        x = x + nn.gelu(x @ p["up"]) @ p["down"]
        return (x, at), cache

    def next_word(params: Any, key: Any, word: Any, caches: Any, at: Any) -> Any:
        (x, _), caches = lax.scan(layer, (params["embed"][word], at), (params["layers"], caches))
        best, words = lax.top_k(params["embed"] @ x, 40)
        return words[pl.random.categorical(key, best / 0.8)], caches

    def generate(params: Any, key: Any, word: Any, caches: Any) -> Any:
        def step(state: Any) -> Any:
            key, at, text, caches = state
            key, for_word = pl.random.split(key)
            new, caches = next_word(params, for_word, text[at], caches, at)
            return key, at + 1, text.at[at + 1].set(new), caches

        def goes_on(state: Any) -> Any:
            _, at, text, _ = state
            return (at < longest - 1) & (text[at] != 0)

        text = jnp.zeros(longest, jnp.int32).at[0].set(word)
        return lax.while_loop(goes_on, step, (key, 0, text, caches))[2]

    return generate, (params, _key(), _integers(), caches)


def molecular_dynamics() -> Program:
    """Forces of a Lennard-Jones fluid by `grad`, velocity Verlet in nested loops, pressures by a second derivative."""
    n = 256

    def energy(positions: Any, box: Any) -> Any:
        apart = positions[:, None] - positions[None]
        apart = apart - box * jnp.round(apart / box)
        squared = jnp.sum(apart**2, axis=-1) + jnp.eye(n)
        sixth = jnp.where(squared < 6.25, 1.0 / squared**3, 0.0)
        return 0.5 * jnp.sum((1 - jnp.eye(n)) * 4 * (sixth**2 - sixth))

    def run(positions: Any, velocities: Any, box: Any) -> Any:
        force = lambda x: -pl.grad(energy)(x, box)

        def verlet(state: Any, _: Any) -> Any:
            x, v, f = state
            v = v + 0.5 * 0.002 * f
            x = x + 0.002 * v
            f = force(x)
            return (x, v + 0.5 * 0.002 * f, f), None

        def measured(state: Any, _: Any) -> Any:
            (x, v, f), _ = lax.scan(verlet, state, length=50)
            kinetic = 0.5 * jnp.sum(v * v)
            of_scale = pl.grad(lambda s: energy(x * s, box * s))(1.0)
            stiffness = pl.hessian(lambda s: energy(x * s, box * s))(1.0)
            scale = jnp.sqrt(1 + 0.05 * (1.5 * n / kinetic - 1))
            return (x, v * scale, f), (kinetic, energy(x, box), of_scale, stiffness)

        start = (positions, velocities, force(positions))
        return lax.scan(measured, start, length=200)

    return run, (_floats(n, 3), _floats(n, 3), _floats())


def record(program: Callable[[], Program]) -> schema.ProgramRecord:
    """The record of a program that its view draws."""
    function, args = program()
    return pl.analysis.program(function, *args)


PROGRAMS: dict[str, Callable[[], Program]] = {
    each.__name__: each
    for each in (
        adam_loop,
        decoder,
        diffusion,
        mcmc,
        ode_adjoint,
        gnn,
        reinforcement,
        mixture_of_experts,
        ring_attention,
        vit,
        generation,
        molecular_dynamics,
    )
}
