"""Models and methods of the field that are differentiated; each takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`.
"""

import numpy as np


def numbers(seed, *shape):
    """Ordinary numbers, the same each time."""
    return np.random.RandomState(seed).uniform(-1.0, 1.0, shape).astype(np.float32)


X = numbers(1, 5)
INPUTS = numbers(2, 6, 4)
TOKENS = np.array([3, 1, 4, 1, 5, 2], np.int32)
IMAGES = numbers(3, 2, 6, 6, 3)
LENGTHS = np.array([2, 4, 0], np.int32)
EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 1], [3, 4]], np.int32)


def compiled(jax, program, *arguments):
    """The results of one of the programs, run as a whole by jit."""
    return jax.jit(lambda *xs: program(jax, *xs))(*arguments)


def softmax(jnp, x):
    shifted = x - jnp.max(x, axis=-1, keepdims=True)
    weights = jnp.exp(shifted)
    return weights / jnp.sum(weights, axis=-1, keepdims=True)


def sigmoid(jnp, x):
    return 1.0 / (1.0 + jnp.exp(-x))


# Attention ----------------------------------------------------------------------------------------------


def attention(jax, x, wq, wk, wv):
    jnp = jax.numpy

    def loss(wq, wk, wv):
        q, k, v = x @ wq, x @ wk, x @ wv
        return jnp.sum((softmax(jnp, q @ k.T / 2.0) @ v) ** 2)

    return jax.value_and_grad(loss, argnums=(0, 1, 2))(wq, wk, wv)


def causal_attention_of_heads(jax, x, w):
    """Multi-head attention in which no position sees a later one."""
    jnp = jax.numpy

    def loss(w, x):
        q, k, v = jnp.einsum("td,cdhe->chte", x, w)
        scores = jnp.einsum("hte,hse->hts", q, k) / 1.5
        seen = jnp.arange(x.shape[0])[:, None] >= jnp.arange(x.shape[0])[None, :]
        weights = softmax(jnp, jnp.where(seen, scores, -1e9))
        return jnp.mean(jnp.tanh(jnp.einsum("hts,hse->the", weights, v)))

    return jax.value_and_grad(loss, argnums=(0, 1))(w, x), jax.jit(jax.grad(loss))(w, x)


def attention_by_vmap_over_heads(jax, x, w):
    jnp = jax.numpy

    def head(w, x):
        q, k, v = x @ w[0], x @ w[1], x @ w[2]
        return softmax(jnp, q @ k.T) @ v

    loss = lambda w, x: jnp.sum(jax.vmap(head, in_axes=(0, None), out_axes=1)(w, x) ** 2)
    return jax.grad(loss)(w, x), jax.vmap(jax.grad(loss), in_axes=(None, 0))(
        w, jnp.stack([x, x * 0.5])
    )


def masked_attention_of_batches(jax, xs, lengths, w):
    """Sequences of different lengths; one of them is empty, and its gradient has no NaN."""
    jnp = jax.numpy

    def attend(x, length, w):
        known = jnp.arange(x.shape[0]) < length
        scores = jnp.where(known[None, :], (x @ w) @ x.T, -1e9)
        out = jnp.where(known[:, None], softmax(jnp, scores) @ x, 0.0)
        return jnp.sum(out * out)

    loss = lambda w: jnp.sum(jax.vmap(attend, in_axes=(0, 0, None))(xs, lengths, w))
    return jax.value_and_grad(loss)(w)


def online_softmax_attention(jax, q, k, v):
    """Attention that visits keys one after another and keeps running sums."""
    jnp = jax.numpy

    def attend(query, k, v):
        def step(state, kv):
            top, total, out = state
            key, value = kv
            score = jnp.sum(query * key)
            new_top = jnp.maximum(top, score)
            old, new = jnp.exp(top - new_top), jnp.exp(score - new_top)
            return (new_top, total * old + new, out * old + new * value), None

        start = (jnp.float32(-1e9), jnp.float32(0.0), jnp.zeros(v.shape[1], v.dtype))
        (_, total, out), _ = jax.lax.scan(step, start, (k, v))
        return out / total

    loss = lambda q, k, v: jnp.sum(jax.vmap(attend, in_axes=(0, None, None))(q, k, v) ** 2)
    return jax.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)


# Recurrent nets -----------------------------------------------------------------------------------------


def long_short_term_memory(jax, xs, w, u, b):
    jnp = jax.numpy

    def loss(params):
        w, u, b = params

        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(w @ x + u @ h + b, 4)
            c = sigmoid(jnp, f) * c + sigmoid(jnp, i) * jnp.tanh(g)
            h = sigmoid(jnp, o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros(u.shape[1], jnp.float32)
        _, hs = jax.lax.scan(step, (zero, zero), xs)
        return jnp.mean(hs**2)

    value, gradient = jax.value_and_grad(loss)((w, u, b))
    return value, gradient, jax.jit(jax.grad(loss))((w, u, b))


def gated_recurrent_unit(jax, xs, params):
    jnp = jax.numpy

    def cell(params, h, x):
        joined = jnp.concatenate([x, h])
        z = sigmoid(jnp, params["z"] @ joined)
        r = sigmoid(jnp, params["r"] @ joined)
        candidate = jnp.tanh(params["h"] @ jnp.concatenate([x, r * h]))
        return (1.0 - z) * h + z * candidate

    def loss(params, xs):
        h, _ = jax.lax.scan(lambda h, x: (cell(params, h, x), None), jnp.zeros(3), xs)
        return jnp.sum(jnp.sin(h))

    both = jnp.stack([xs, xs[::-1]])
    return jax.value_and_grad(loss)(params, xs), jax.vmap(jax.grad(loss), (None, 0))(params, both)


def truncated_back_propagation(jax, xs, w):
    """The state passes from one piece of the sequence to the next, its gradient doesn't."""
    jnp = jax.numpy

    def piece(w, h, xs):
        def run(w):
            last, ys = jax.lax.scan(lambda h, x: ((y := jnp.tanh(w @ h + x)), y), h, xs)
            return jnp.sum(ys**2), last

        (loss, last), gradient = jax.value_and_grad(run, has_aux=True)(w)
        return jax.lax.stop_gradient(last), loss, gradient

    h, first, g1 = piece(w, xs[0], xs[:3])
    _, second, g2 = piece(w, h, xs[3:])
    return first + second, g1 + g2


def recurrence_over_ragged_batches(jax, xs, lengths, w):
    """States that stop to change where their sequence has ended."""
    jnp = jax.numpy

    def loss(w):
        def step(h, inputs):
            i, x = inputs
            new = jnp.tanh(h @ w + x)
            return jnp.where((i < lengths)[:, None], new, h), None

        steps = jnp.arange(xs.shape[0], dtype=jnp.int32)
        h, _ = jax.lax.scan(step, jnp.zeros(xs.shape[1:], xs.dtype), (steps, xs))
        return jnp.sum(h * h)

    return jax.value_and_grad(loss)(w)


# Normalization and convolution ------------------------------------------------------------------------------


def layer_norm(jax, x, scale, shift):
    jnp = jax.numpy

    def loss(x, scale, shift):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        normal = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
        return jnp.sum(jnp.tanh(normal * scale + shift) * x)

    return jax.value_and_grad(loss, argnums=(0, 1, 2))(x, scale, shift)


def batch_norm_with_state(jax, x, scale):
    jnp = jax.numpy

    def loss(scale, state):
        mean, variance = jnp.mean(x, axis=0), jnp.var(x, axis=0)
        state = {
            "mean": 0.9 * state["mean"] + 0.1 * mean,
            "variance": 0.9 * state["variance"] + 0.1 * variance,
        }
        normal = (x - mean) / jnp.sqrt(variance + 1e-3)
        return jnp.mean((normal * scale) ** 3), state

    state = {"mean": jnp.zeros(x.shape[1]), "variance": jnp.ones(x.shape[1])}
    return jax.value_and_grad(loss, has_aux=True)(scale, state)


def batch_norm_over_named_axis(jax, x):
    jnp = jax.numpy

    def loss(x):
        mean = jnp.mean(x, axis=0)
        return jnp.sum(jax.vmap(lambda row: jnp.abs(row - mean) ** 1.5)(x))

    return jax.grad(loss)(x), jax.jit(jax.hessian(loss))(x)


def convolution_net(jax, images, kernel, dense):
    jnp = jax.numpy

    def loss(kernel, dense, images):
        x = jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.lax.reduce_window(
            jnp.maximum(x, 0.0), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        logits = x.reshape(x.shape[0], -1) @ dense
        return jnp.mean(jnp.log(jnp.sum(jnp.exp(logits), axis=-1)) - logits[:, 0])

    return jax.value_and_grad(loss, argnums=(0, 1))(kernel, dense, images)


def gradients_of_images(jax, images, kernel):
    jnp = jax.numpy

    def loss(kernel, image):
        x = jax.lax.conv_general_dilated(
            image[None], kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jnp.mean(jnp.tanh(x))

    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(kernel, images)


def average_pooling(jax, images):
    pool = lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
    return jax.grad(lambda x: jax.numpy.sum(pool(x) ** 2) / 81.0)(images)


# Embeddings, graphs, losses -----------------------------------------------------------------------------------


def embedding(jax, table, tokens):
    jnp = jax.numpy

    def loss(table):
        x = table[tokens]
        return jnp.sum(jnp.sin(x) * jnp.arange(x.shape[0], dtype=x.dtype)[:, None])

    return jax.value_and_grad(loss)(table), jax.jit(jax.grad(loss))(table)


def cross_entropy(jax, logits, labels):
    jnp = jax.numpy

    def loss(logits, labels):
        top = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
        shifted = logits - top
        normal = jnp.log(jnp.sum(jnp.exp(shifted), axis=-1))
        chosen = shifted[jnp.arange(labels.shape[0]), labels]
        return jnp.mean(normal - chosen)

    return jax.value_and_grad(loss)(logits, labels), jax.hessian(loss)(
        logits[:2, :3], labels[:2] % 3
    )


def message_passing(jax, nodes, edges, w):
    """A step of a graph net: messages along edges are summed at the nodes that they reach."""
    jnp = jax.numpy

    def loss(w, nodes):
        messages = jnp.tanh(nodes[edges[:, 0]] @ w)
        arrived = jnp.zeros_like(nodes).at[edges[:, 1]].add(messages)
        return jnp.sum((nodes + arrived) ** 2)

    return jax.value_and_grad(loss, argnums=(0, 1))(w, nodes)


def segments(jax, x, labels):
    loss = lambda x: jax.numpy.sum(jax.ops.segment_sum(x, labels, num_segments=6) ** 2)
    most = lambda x: jax.numpy.sum(jax.ops.segment_max(x, labels, num_segments=6)[1:5])
    return jax.grad(loss)(x), jax.grad(most)(x)


def mixture_of_experts(jax, x, gate, experts):
    """Each row goes to the expert that its gate prefers."""
    jnp = jax.numpy

    def loss(gate, experts):
        weights = softmax(jnp, x @ gate)
        chosen = jnp.argmax(weights, axis=-1)
        out = jax.vmap(lambda row, e: experts[e] @ row)(x, chosen)
        picked = weights[jnp.arange(x.shape[0]), chosen]
        return jnp.sum(jnp.tanh(out) * picked[:, None])

    return jax.value_and_grad(loss, argnums=(0, 1))(gate, experts)


def sorted_loss(jax, x, y):
    """A distance of distributions: of the sorted samples."""
    jnp = jax.numpy
    loss = lambda x: jnp.mean(jnp.abs(jnp.sort(x) - jnp.sort(y)))
    return jax.value_and_grad(loss)(x)


# Optimizers and meta-learning ---------------------------------------------------------------------------------


def adam(jax, x):
    jnp = jax.numpy
    loss = lambda x: jnp.sum((x**2 - 1.0) ** 2)

    def step(state, _):
        x, m, v, t = state
        value, g = jax.value_and_grad(loss)(x)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        t = t + 1
        x = x - 0.1 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8)
        return (x, m, v, t), value

    zero = jnp.zeros_like(x)
    return jax.jit(lambda x: jax.lax.scan(step, (x, zero, zero, jnp.float32(0.0)), None, length=6))(
        x
    )


def learning_to_learn(jax, w, xs, ys):
    """MAML: the gradient of the loss after a step on each task, for a batch of tasks."""
    jnp = jax.numpy
    loss = lambda w, x, y: jnp.mean((jnp.tanh(x @ w) - y) ** 2)

    def task(w, x, y):
        adapted = w - 0.3 * jax.grad(loss)(w, x[:3], y[:3])
        return loss(adapted, x[3:], y[3:])

    meta = lambda w: jnp.mean(jax.vmap(task, in_axes=(None, 0, 0))(w, xs, ys))
    return jax.value_and_grad(meta)(w), jax.jit(jax.grad(meta))(w)


def gradient_through_training(jax, rate, x):
    """The derivative of the loss after several steps by the rate of all steps."""
    jnp = jax.numpy
    loss = lambda x: jnp.sum(jnp.cos(x) + 0.1 * x**2)

    def trained(rate):
        step = lambda x, _: (x - rate * jax.grad(loss)(x), None)
        return loss(jax.lax.scan(step, x, None, length=5)[0])

    return trained(rate), jax.grad(trained)(rate), jax.jvp(trained, (rate,), (1.0,))


def conjugate_gradients(jax, x, b):
    """Newton's direction from products with the Hessian alone."""
    jnp = jax.numpy
    loss = lambda x: jnp.sum(jnp.exp(x) + x**2) + jnp.sum(x) ** 2
    product = lambda v: jax.jvp(jax.grad(loss), (x,), (v,))[1]

    def step(state, _):
        d, r, p = state
        hp = product(p)
        a = jnp.sum(r * r) / jnp.sum(p * hp)
        d, new = d + a * p, r - a * hp
        return (d, new, new + (jnp.sum(new * new) / jnp.sum(r * r)) * p), None

    (d, _, _), _ = jax.lax.scan(step, (jnp.zeros_like(x), b, b), None, length=3)
    return d


def gauss_newton(jax, x, w):
    jnp = jax.numpy
    f = lambda w: jnp.tanh(x @ w)
    out, push = jax.linearize(f, w)
    _, pull = jax.vjp(f, w)
    return pull(push(w))[0], out


def fisher_information(jax, logits):
    """The mean of outer products of gradients, and the negative mean Hessian."""
    jnp = jax.numpy
    log_p = lambda z: z - jnp.log(jnp.sum(jnp.exp(z)))
    scores = jax.jacrev(log_p)(logits)
    p = jnp.exp(log_p(logits))
    hessians = jax.jacfwd(jax.jacrev(log_p))(logits)
    return jnp.einsum("k,ki,kj->ij", p, scores, scores), -jnp.einsum("k,kij->ij", p, hessians)


# Implicit functions, equations of motion, chains ----------------------------------------------------------------


def implicit_layer(jax, w, x):
    """z with z = tanh(w z + x), differentiated by that equation."""
    jnp = jax.numpy

    def solve(f, z):
        return jax.lax.fori_loop(0, 60, lambda i, z: z + f(z), z)

    def tangent_solve(g, y):
        return jax.lax.fori_loop(0, 60, lambda i, z: z + (g(z) - y), jnp.zeros_like(y))

    def layer(w, x):
        residual = lambda z: jnp.tanh(w @ z + x) - z
        return jax.lax.custom_root(residual, jnp.zeros_like(x), solve, tangent_solve)

    return layer(w, x), jax.jvp(lambda x: layer(w, x), (x,), (x,))


def implicit_gradient(jax, w, x):
    """The same layer in reverse mode, where the tangent equation is solved by a linear solver."""
    jnp = jax.numpy

    def linear(g, y):
        solve = lambda matvec, b: jax.lax.fori_loop(
            0, 80, lambda i, z: z + (matvec(z) - b), jnp.zeros_like(b)
        )
        return jax.lax.custom_linear_solve(g, y, solve, solve)

    def layer(w, x):
        residual = lambda z: jnp.tanh(w @ z + x) - z
        solve = lambda f, z: jax.lax.fori_loop(0, 60, lambda i, z: z + f(z), z)
        return jax.lax.custom_root(residual, jnp.zeros_like(x), solve, linear)

    loss = lambda w, x: jnp.sum(layer(w, x) ** 2)
    return jax.value_and_grad(loss, argnums=(0, 1))(w, x)


def fixed_point_with_own_derivative(jax, a):
    """A loop of unknown length whose reverse derivative is a second loop."""
    jnp = jax.numpy

    def iterate(f, x):
        moved = lambda s: jnp.abs(s[0] - s[1]) > 1e-6
        return jax.lax.while_loop(moved, lambda s: (f(s[0]), s[0]), (f(x), x))[0]

    step = lambda a, x: 0.5 * (x + a / x)

    @jax.custom_vjp
    def root(a):
        return iterate(lambda x: step(a, x), a)

    def backward(saved, ct):
        a, x = saved
        _, by_x = jax.vjp(lambda x: step(a, x), x)
        _, by_a = jax.vjp(lambda a: step(a, x), a)
        return by_a(iterate(lambda u: ct + by_x(u)[0], ct))

    root.defvjp(lambda a: ((x := root(a)), (a, x)), backward)
    return root(a), jax.grad(root)(a), jax.vmap(jax.grad(root))(jnp.array([2.0, 3.0, 5.0]))


def pendulum(jax, state, length):
    """Runge-Kutta steps of a pendulum, differentiated by its length and its first state."""
    jnp = jax.numpy

    def slope(state, length):
        return jnp.stack([state[1], -9.81 / length * jnp.sin(state[0])])

    def last(state, length):
        def step(y, _):
            h = 0.05
            k1 = slope(y, length)
            k2 = slope(y + h / 2 * k1, length)
            k3 = slope(y + h / 2 * k2, length)
            k4 = slope(y + h * k3, length)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

        return jax.lax.scan(step, state, None, length=8)

    value = lambda state, length: last(state, length)[0][0]
    return (
        last(state, length),
        jax.grad(value, (0, 1))(state, length),
        jax.jacfwd(value)(state, length),
    )


def leapfrog(jax, q, p):
    """Hamilton's equations, whose right-hand side is a gradient, and the chain of a sampler."""
    jnp = jax.numpy
    energy = lambda q: 0.5 * jnp.sum(q**2) + 0.1 * jnp.sum(q**4)
    force = jax.grad(energy)

    def step(state, _):
        q, p = state
        p = p - 0.05 * force(q)
        q = q + 0.1 * p
        return (q, p - 0.05 * force(q)), energy(q) + 0.5 * jnp.sum(p**2)

    run = lambda q: jax.lax.scan(step, (q, p), None, length=7)
    return run(q), jax.jit(jax.grad(lambda q: run(q)[1][-1]))(q)


def sampling_chain(jax, x, noise, uniforms):
    """Metropolis steps with given random numbers: branches and comparisons in a loop, batched over chains."""
    jnp = jax.numpy
    log_density = lambda x, a: -a * jnp.sum(x**2)

    def chain(a, x, noise, uniforms):
        def step(x, inputs):
            move, u = inputs
            proposal = x + 0.5 * move
            accept = jnp.log(u) < log_density(proposal, a) - log_density(x, a)
            x = jax.lax.cond(accept, lambda: proposal, lambda: x)
            return x, (x, accept)

        return jax.lax.scan(step, x, (noise, uniforms))

    chains = jax.vmap(chain, in_axes=(None, 0, 0, 0))(0.7, x, noise, uniforms)
    loss = lambda x: jnp.sum(chain(0.7, x, noise[0], uniforms[0])[1][0] ** 2)
    return chains, jax.grad(loss)(x[0])


def reparametrized_expectation(jax, mean, noise):
    jnp = jax.numpy

    def loss(params):
        samples = params["mean"] + jnp.exp(params["log"]) * noise
        return jnp.mean(jnp.sum(jnp.sin(samples), axis=-1)) - jnp.sum(params["log"])

    return jax.value_and_grad(loss)({"mean": mean, "log": mean * 0.1})


def normalizing_flow(jax, z, w):
    """The log-determinant of the Jacobian of a map, and its gradient."""
    jnp = jax.numpy

    def flow(z, w):
        return z + 0.1 * jnp.tanh(w @ z)

    def log_determinant(w):
        j = jax.jacfwd(flow)(z, w)
        return jnp.log(j[0, 0] * j[1, 1] - j[0, 1] * j[1, 0])

    return jax.value_and_grad(log_determinant)(w)


def laplacian(jax, x):
    jnp = jax.numpy
    f = lambda x: jnp.exp(-0.5 * jnp.sum(x**2)) + jnp.prod(x)

    def second(v):
        return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))[1]

    return jnp.sum(jax.vmap(second)(jnp.eye(x.shape[0]))), jnp.trace(jax.hessian(f)(x))


def physics_informed_loss(jax, w, points):
    """The residual of u'' + u = 0 for a small net, differentiated by its weights: three derivatives deep."""
    jnp = jax.numpy
    net = lambda w, t: jnp.sum(w[1] * jnp.tanh(w[0] * t + w[2]))

    def loss(w):
        u = lambda t: net(w, t)
        residual = jax.vmap(lambda t: jax.grad(jax.grad(u))(t) + u(t))(points)
        return jnp.mean(residual**2)

    return jax.value_and_grad(loss)(w), jax.jit(jax.grad(loss))(w)


def dynamic_programming(jax, costs):
    """The length of a shortest path through a grid, softly, and its gradient: how much each cell counts."""
    jnp = jax.numpy
    soft_min = lambda x: -0.1 * jnp.log(jnp.sum(jnp.exp(-x / 0.1), axis=0))

    def length(costs):
        def step(best, row):
            shifted = jnp.concatenate([jnp.array([1e3], best.dtype), best[:-1]])
            best = soft_min(jnp.stack([best, shifted])) + row
            return best, best

        return jax.lax.scan(step, costs[0], costs[1:])[0][-1]

    return jax.value_and_grad(length)(costs)


def connectionist_alignment(jax, log_probs, labels, length):
    """The forward recursion of a hidden Markov model, with a ragged length."""
    jnp = jax.numpy

    def loss(log_probs):
        def step(alpha, inputs):
            t, row = inputs
            stay = alpha
            come = jnp.concatenate([jnp.full((1,), -1e9, alpha.dtype), alpha[:-1]])
            top = jnp.maximum(stay, come)
            new = top + jnp.log(jnp.exp(stay - top) + jnp.exp(come - top)) + row[labels]
            return jnp.where(t < length, new, alpha), None

        first = jnp.full(labels.shape, -1e9, log_probs.dtype).at[0].set(log_probs[0, labels[0]])
        steps = jnp.arange(1, log_probs.shape[0], dtype=jnp.int32)
        alpha, _ = jax.lax.scan(step, first, (steps, log_probs[1:]))
        return -alpha[-1]

    return jax.value_and_grad(loss)(log_probs)


def quantized_with_straight_through(jax, x):
    jnp = jax.numpy

    def quantize(x):
        return x + jax.lax.stop_gradient(jnp.round(x * 4.0) / 4.0 - x)

    return jax.value_and_grad(lambda x: jnp.sum(quantize(x) ** 2))(x)


def residual_net_in_layers(jax, w, x):
    """Equal layers as a loop with rematerialization, in half precision at heart."""
    jnp = jax.numpy

    @jax.checkpoint
    def layer(x, w):
        y = jnp.tanh(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16))
        return x + y.astype(jnp.float32), None

    loss = lambda w: jnp.sum(jax.lax.scan(layer, x, w)[0] ** 2)
    return jax.value_and_grad(loss)(w)


GATES = {name: numbers(i, 3, 7) for i, name in enumerate("zrh")}

PROGRAMS = [
    (attention, (INPUTS, numbers(4, 4, 4), numbers(5, 4, 4), numbers(6, 4, 4))),
    (causal_attention_of_heads, (INPUTS, numbers(7, 3, 4, 2, 3))),
    (attention_by_vmap_over_heads, (INPUTS, numbers(8, 2, 3, 4, 3))),
    (masked_attention_of_batches, (numbers(9, 3, 5, 4), LENGTHS, numbers(10, 4, 4))),
    (online_softmax_attention, (numbers(11, 3, 4), INPUTS, numbers(12, 6, 2))),
    (long_short_term_memory, (INPUTS, numbers(13, 12, 4), numbers(14, 12, 3), numbers(15, 12))),
    (gated_recurrent_unit, (INPUTS, GATES)),
    (truncated_back_propagation, (INPUTS, numbers(16, 4, 4))),
    (recurrence_over_ragged_batches, (numbers(17, 5, 3, 4), LENGTHS, numbers(18, 4, 4))),
    (layer_norm, (INPUTS, numbers(19, 4), numbers(20, 4))),
    (batch_norm_with_state, (INPUTS, numbers(21, 4))),
    (batch_norm_over_named_axis, (numbers(22, 3, 2),)),
    (convolution_net, (IMAGES, numbers(23, 3, 3, 3, 2), numbers(24, 18, 4))),
    (gradients_of_images, (IMAGES, numbers(25, 3, 3, 3, 2))),
    (average_pooling, (IMAGES,)),
    (embedding, (numbers(26, 7, 3), TOKENS)),
    (cross_entropy, (numbers(27, 6, 7), TOKENS)),
    (message_passing, (numbers(28, 5, 3), EDGES, numbers(29, 3, 3))),
    (segments, (numbers(30, 6), TOKENS)),
    (mixture_of_experts, (INPUTS, numbers(31, 4, 3), numbers(32, 3, 2, 4))),
    (sorted_loss, (numbers(33, 9), numbers(34, 9))),
    (adam, (numbers(35, 4),)),
    (learning_to_learn, (numbers(36, 4), numbers(37, 3, 6, 4), numbers(38, 3, 6))),
    (gradient_through_training, (np.float32(0.2), X)),
    (conjugate_gradients, (X, numbers(39, 5))),
    (gauss_newton, (INPUTS, numbers(40, 4))),
    (fisher_information, (numbers(41, 4),)),
    (implicit_layer, (numbers(42, 3, 3) * 0.4, numbers(43, 3))),
    (implicit_gradient, (numbers(42, 3, 3) * 0.4, numbers(43, 3))),
    (fixed_point_with_own_derivative, (np.float32(3.0),)),
    (pendulum, (np.array([0.4, 0.0], np.float32), np.float32(1.3))),
    (leapfrog, (X, numbers(44, 5))),
    (sampling_chain, (numbers(45, 3, 2), numbers(46, 3, 6, 2), (numbers(47, 3, 6) + 1.0) / 2.0)),
    (reparametrized_expectation, (numbers(48, 3), numbers(49, 5, 3))),
    (normalizing_flow, (numbers(50, 2), numbers(51, 2, 2))),
    (laplacian, (numbers(52, 3),)),
    (physics_informed_loss, (numbers(53, 3, 4), numbers(54, 5))),
    (dynamic_programming, (numbers(55, 4, 4) + 1.0,)),
    (connectionist_alignment, (numbers(56, 6, 5), np.array([1, 3, 2], np.int32), np.int32(5))),
    (quantized_with_straight_through, (X,)),
    (residual_net_in_layers, (numbers(57, 3, 4, 4), INPUTS)),
]
