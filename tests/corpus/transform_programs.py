"""Programs that differentiate, vectorize, loop and branch; each takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`.
"""

import importlib

import numpy as np

X = np.array([0.5, -1.25, 2.0, 0.75], np.float32)
Y = np.array([1.5, 0.25, -0.5, 3.0], np.float32)
M = np.array(
    [[0.3, -0.6, 0.1, 0.2], [0.7, 0.2, -0.4, 0.5], [-0.1, 0.9, 0.8, -0.3], [0.4, 0.1, -0.2, 0.6]],
    np.float32,
)
Z = np.array([0.5 + 1.0j, -1.25 + 0.5j], np.complex64)
FLAGS = np.array([True, False, True, False])
INDICES = np.array([0, 2, 1, 5], np.int32)


def submodule(jax, name):
    """A module of the library that is not loaded with it."""
    return importlib.import_module(f"{jax.__name__}.{name}")


def total(jax, x):
    """The sum of all elements."""
    return jax.lax.reduce_sum(x, tuple(range(x.ndim)))


def wave(jax, x):
    """A smooth function of one array."""
    jnp = jax.numpy
    return jnp.sin(x) * jnp.exp(0.5 * x) + x * x


# Differentiation ----------------------------------------------------------------------------------------


def gradient(jax, x):
    return jax.grad(lambda x: total(jax, wave(jax, x)))(x)


def gradient_of_scalar(jax, x):
    return jax.grad(lambda x: wave(jax, x))(x)


def value_and_gradient(jax, x, y):
    return jax.value_and_grad(lambda x, y: total(jax, wave(jax, x) * y), argnums=(0, 1))(x, y)


def gradient_of_tree(jax, x, y):
    def loss(params, scale):
        return total(jax, wave(jax, params["a"]) * params["b"][0]) * scale

    return jax.grad(loss)({"a": x, "b": (y,)}, 2.0)


def gradient_with_aux(jax, x):
    return jax.grad(
        lambda x: (total(jax, wave(jax, x)), {"squared": x * x, "text": 3}), has_aux=True
    )(x)


def gradient_by_integers(jax, x, n):
    return jax.grad(lambda args: total(jax, args[0] * args[1]), allow_int=True)((x, n))


def gradient_of_constant(jax, x):
    return jax.grad(lambda x: 3.0)(x)


def gradient_of_unused(jax, x, y):
    return jax.grad(lambda x, y: total(jax, x), argnums=(0, 1))(x, y)


def gradient_of_identity(jax, x):
    value, slope = jax.value_and_grad(lambda x: x)(x)
    return jax.numpy.asarray(value), slope


def holomorphic_gradient(jax, z):
    return jax.grad(lambda z: total(jax, z * z * z), holomorphic=True)(z)


def gradient_by_complex(jax, z):
    return jax.grad(lambda z: total(jax, jax.numpy.real(z * jax.numpy.conj(z) + z * z)))(z)


def fourth_derivative(jax, x):
    f = lambda x: jax.numpy.sin(x) * x
    return [
        d(x)
        for d in (
            f,
            jax.grad(f),
            jax.grad(jax.grad(f)),
            jax.grad(jax.grad(jax.grad(f))),
            jax.grad(jax.grad(jax.grad(jax.grad(f)))),
        )
    ]


def forward_over_reverse(jax, x, y):
    return jax.jvp(jax.grad(lambda x: total(jax, wave(jax, x))), (x,), (y,))


def reverse_over_forward(jax, x, y):
    return jax.grad(lambda x: total(jax, jax.jvp(lambda x: wave(jax, x), (x,), (y,))[1]))(x)


def pushforward(jax, x, y):
    return jax.jvp(
        lambda x, y: {"w": wave(jax, x) * y, "c": jax.numpy.asarray(2.0)}, (x, y), (y, x)
    )


def pushforward_with_aux(jax, x, y):
    return jax.jvp(lambda x: (wave(jax, x), x + 1), (x,), (y,), has_aux=True)


def pullback(jax, x, y):
    out, back = jax.vjp(lambda x, y: (wave(jax, x) * y, total(jax, y)), x, y)
    return out, back((y, 2.0))


def linear_approximation(jax, x, y):
    out, derivative = jax.linearize(lambda x: wave(jax, x), x)
    return out, derivative(y), derivative(x)


def transposed_function(jax, x):
    return jax.linear_transpose(lambda x: 2.0 * x[1:] + x[:-1], x)(np.ones(3, np.float32))


def jacobians(jax, x):
    f = lambda x: wave(jax, x) * x[0]
    return jax.jacfwd(f)(x), jax.jacrev(f)(x)


def jacobian_of_tree(jax, x, y):
    f = lambda d: {"u": d["a"] * d["b"], "v": total(jax, d["a"])}
    return jax.jacfwd(f)({"a": x, "b": y}), jax.jacrev(f)({"a": x, "b": y})


def jacobians_by_integers(jax, x, n):
    """By the floats beside them: by the integers themselves the reference gives int32, and we float0, as `grad` does."""
    f = lambda d: {"product": d["x"] * d["n"], "sum": total(jax, d["x"])}
    jacobian = jax.jacrev(f, allow_int=True)({"n": n, "x": x})
    return (
        jacobian["product"]["x"],
        jacobian["sum"]["x"],
        jax.hessian(lambda x: (total(jax, x * x * x), {"aux": x}), has_aux=True)(x),
    )


def second_derivatives(jax, x):
    return jax.hessian(lambda x: total(jax, wave(jax, x)) * x[0])(x)


def hessian_vector_product(jax, x, y):
    f = lambda x: total(jax, wave(jax, x)) * x[1]
    return jax.jvp(jax.grad(f), (x,), (y,))[1], jax.vjp(jax.grad(f), x)[1](y)[0]


def perturbation_confusion(jax, x):
    inner = lambda x: jax.grad(lambda y: x * y)(2.0)
    return jax.grad(lambda x: x * inner(x))(x), jax.jvp(
        lambda x: x * jax.jvp(lambda y: x + y, (1.0,), (1.0,))[1], (x,), (1.0,)
    )


def stopped_gradient(jax, x):
    return jax.grad(lambda x: total(jax, jax.lax.stop_gradient(x) * x))(x)


def gradient_of_gradient_descent(jax, rate, x):
    """One meta-gradient: how the loss after a step depends on the rate of the step."""
    loss = lambda x: total(jax, wave(jax, x))
    return jax.grad(lambda rate: loss(x - rate * jax.grad(loss)(x)))(rate)


def gradient_of_indexing(jax, x):
    return jax.grad(lambda x: x[0] * x[2] * total(jax, x[1:3]))(x)


def multilayer_perceptron(jax, w, x):
    jnp = jax.numpy

    def loss(layers, x):
        for weights, bias in layers:
            x = jnp.tanh(jax.lax.dot(weights, x) + bias)
        return total(jax, x * x)

    layers = [(w, x), (w * 0.5, x * 2.0), (w * -1.0, x)]
    return jax.value_and_grad(loss)(layers, x)


def forward_and_backward_apart(jax, x, y):
    forward, backward = jax.fwd_and_bwd(lambda x, y: wave(jax, x) * y, argnums=(0, 1))
    out, residuals = forward(x, y)
    return out, backward(residuals, x)


# Vectorization ------------------------------------------------------------------------------------------


def batched(jax, m):
    return jax.vmap(lambda x: wave(jax, x))(m)


def batched_along_axes(jax, m, x):
    return jax.vmap(lambda a, b: (a * b[0], b), in_axes=(1, None), out_axes=(1, None))(m, x)


def batched_tree(jax, m, x):
    f = lambda d, c: {"sum": total(jax, d["m"]) * d["x"], "c": c * 1.0}
    return jax.vmap(f, in_axes=({"m": 0, "x": None}, 0), out_axes={"sum": 0, "c": -1})(
        {"m": m, "x": 2.0}, m
    )


def batched_twice(jax, x, y):
    return jax.vmap(jax.vmap(lambda a, b: a * b + a, in_axes=(0, None)), in_axes=(None, 0))(x, y)


def batch_of_known_size(jax, x):
    return jax.vmap(lambda: total(jax, x), axis_size=3)()


def gradients_of_examples(jax, w, x):
    loss = lambda w, row: total(jax, jax.numpy.tanh(w * row))
    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(x, w)


def gradient_of_batched(jax, w, x):
    return jax.grad(lambda x: total(jax, jax.vmap(lambda row: wave(jax, row) * x)(w)))(x)


def batched_unused(jax, x):
    return jax.vmap(lambda a: (3.0, a))(x)


def all_orders(jax, x):
    f = lambda x: jax.numpy.sin(x) * x
    forms = [
        jax.jit(jax.vmap(jax.grad(f))), jax.vmap(jax.jit(jax.grad(f))), jax.vmap(jax.grad(jax.jit(f))),
        jax.jit(jax.vmap(jax.jit(jax.grad(jax.jit(f))))), jax.vmap(jax.grad(jax.grad(jax.jit(f)))),
        jax.grad(lambda x: total(jax, jax.vmap(f)(x))), jax.jit(jax.grad(lambda x: total(jax, jax.jit(jax.vmap(f))(x)))),
    ]  # fmt: skip
    return [form(x) for form in forms]


# Loops ----------------------------------------------------------------------------------------------------


def cumulative(jax, x):
    return jax.lax.scan(lambda c, x: (c * x + 1.0, c), 1.0, x)


def scanned_tree(jax, m, x):
    def step(carry, inputs):
        row, flag = inputs
        state = jax.numpy.tanh(carry["state"] + row)
        return {"state": state, "n": carry["n"] + 1}, (state, flag)

    return jax.lax.scan(step, {"state": x, "n": 0}, (m, FLAGS))


def scan_backwards(jax, x):
    return jax.lax.scan(lambda c, x: (c + x, c * x), 0.0, x, reverse=True)


def scan_unrolled(jax, x):
    step = lambda c, x: (c * 0.5 + x, c)
    return [
        jax.lax.scan(step, 1.0, x, unroll=unroll, reverse=r)
        for unroll in (2, 3, True)
        for r in (False, True)
    ]


def scan_of_nothing(jax):
    step = lambda c, _: (c * 2.0, c)
    return jax.lax.scan(step, 1.0, None, length=4), jax.lax.scan(step, 1.0, None, length=0)


def recurrent(jax, m, x, h):
    def loss(m, h):
        step = lambda h, x: (jax.numpy.tanh(jax.lax.dot(m, h) + x), total(jax, h * h))
        h, ys = jax.lax.scan(step, h, x)
        return total(jax, h) + total(jax, ys)

    return jax.value_and_grad(loss, argnums=(0, 1))(m, h)


def recurrent_of_batches(jax, m, x, hs):
    step = lambda m: lambda h, x: (jax.numpy.tanh(jax.lax.dot(m, h) + x), None)
    loss = lambda m, h: total(jax, jax.lax.scan(step(m), h, x)[0])
    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(m, hs), jax.jit(
        jax.vmap(jax.grad(loss, 1), in_axes=(None, 0))
    )(m, hs)


def second_derivative_of_scan(jax, x, w):
    f = lambda w: jax.lax.scan(lambda c, x: (jax.numpy.sin(c * w + x), None), w, x)[0]
    return f(w), jax.grad(f)(w), jax.grad(jax.grad(f))(w), jax.jvp(jax.grad(f), (w,), (1.0,))


def nested_scans(jax, m, w):
    inner = lambda c, x: (c * w + x, c)
    f = lambda w: jax.lax.scan(lambda c, row: (jax.lax.scan(inner, c * w, row)[0], None), 0.5, m)[0]
    return f(w), jax.grad(f)(w)


def counted(jax, n, x):
    body = lambda i, v: v * x + i
    return (
        jax.lax.fori_loop(0, 4, body, 1.0),
        jax.lax.fori_loop(0, n, body, 1.0),
        jax.jit(lambda n: jax.lax.fori_loop(0, n, body, 1.0))(n),
    )


def counted_gradient(jax, x):
    return jax.grad(lambda x: jax.lax.fori_loop(0, 5, lambda i, v: v * x + i, 1.0))(x)


def counted_tangent(jax, n, x):
    f = lambda x: jax.lax.fori_loop(0, n, lambda i, v: v * x + i, 1.0)
    return jax.jit(
        lambda n, x: jax.jvp(
            lambda x: jax.lax.fori_loop(0, n, lambda i, v: v * x + i, 1.0), (x,), (1.0,)
        )
    )(n, x), f(x)


def doubling(jax, x):
    return jax.lax.while_loop(lambda s: s[0] < 100.0, lambda s: (s[0] * 2.0, s[1] + 1), (x, 0))


def doubling_batched(jax, x):
    f = lambda x: jax.lax.while_loop(
        lambda s: s[0] < 100.0, lambda s: (s[0] * 2.0 + 1.0, s[1] + 1), (x, 0)
    )
    return jax.vmap(f)(x * x), jax.jit(jax.vmap(f))(x * x)


def batched_bound_of_loop(jax, n, x):
    return jax.vmap(lambda n, x: jax.lax.fori_loop(0, n, lambda i, v: v * x, 1.0))(n, x)


def fixed_point(jax, x):
    f = lambda x: jax.lax.while_loop(
        lambda s: jax.numpy.abs(s[0] - s[1]) > 1e-6,
        lambda s: (jax.numpy.cos(s[0]) * x, s[0]),
        (1.0, 0.0),
    )[0]
    return f(x), jax.jvp(f, (x,), (1.0,))


def mapped(jax, m):
    return jax.lax.map(lambda row: {"sum": total(jax, row)}, m), jax.lax.map(
        lambda row: row * 2.0, m, batch_size=3
    )


def gradient_of_map(jax, m):
    return jax.grad(lambda m: total(jax, jax.lax.map(lambda row: wave(jax, row), m)))(m)


def prefixes(jax, x, m):
    compose = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
    scan = jax.lax.associative_scan
    return (
        scan(jax.lax.add, x),
        scan(compose, (x, x * 2.0)),
        scan(jax.lax.max, m, axis=1, reverse=True),
    )


def gradient_of_prefixes(jax, x):
    return jax.grad(lambda x: total(jax, jax.lax.associative_scan(jax.lax.mul, x) * x))(x)


def reduced_by_function(jax, m):
    first = jax.lax.reduce(m, 1.0, lambda a, b: a * b, (0,))
    return first, jax.lax.reduce((m, m), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,))


def windows_by_function(jax, m):
    biggest = lambda a, b: jax.lax.max(a, b * 1.0)
    return jax.lax.reduce_window(m, 0.0, biggest, (2, 2), (1, 1), "SAME"), jax.lax.reduce_window(
        m, 0.0, jax.lax.add, (2, 2)
    )


# Branches -------------------------------------------------------------------------------------------------


def branch(jax, p, x):
    f = lambda p, x: jax.lax.cond(p, lambda x: x * x, jax.numpy.sin, x)
    return (
        f(p, x),
        jax.grad(f, 1)(p, x),
        jax.jit(jax.grad(jax.jit(f), 1))(p, x),
        jax.jvp(lambda x: f(p, x), (x,), (1.0,)),
    )


def branch_batched(jax, flags, x):
    f = lambda p, x: jax.lax.cond(p, lambda x: x * x, jax.numpy.sin, x)
    return (
        jax.vmap(f)(flags, x),
        jax.vmap(jax.grad(f, 1))(flags, x),
        jax.vmap(f, in_axes=(None, 0))(True, x),
    )


def branch_without_operands(jax, p, x):
    return jax.grad(lambda x: jax.lax.cond(p, lambda: x * 3.0, lambda: x * x))(x)


def branch_of_two_operands(jax, p, x, y):
    return jax.lax.cond(p, x, lambda x: x + 1.0, y, lambda y: y * 2.0)


def safe_branch(jax, x):
    """No NaN of the branch that is not chosen reaches the gradient."""
    f = lambda x: jax.lax.cond(x > 0, jax.numpy.sqrt, lambda x: 0.0 * x, x)
    return jax.vmap(jax.grad(f))(x)


def switched(jax, i, x):
    branches = [lambda x: x, lambda x: x * x, jax.numpy.sin]
    f = lambda i, x: jax.lax.switch(i, branches, x)
    return (
        f(i, x),
        jax.grad(f, 1)(i, x),
        jax.vmap(f)(INDICES, X),
        jax.vmap(jax.grad(f, 1))(INDICES, X),
    )


def branch_in_loop(jax, x):
    def step(c, i):
        return jax.lax.cond(i < 2, lambda c: c * x, lambda c: jax.numpy.sin(c) + x, c), c

    f = lambda x: jax.lax.scan(step, x, np.arange(4, dtype=np.int32))[0]
    return f(x), jax.grad(f)(x)


def for_each_platform(jax, x):
    f = lambda x: jax.lax.platform_dependent(x, tpu=lambda x: x, default=jax.numpy.sin)
    return f(x), jax.grad(f)(x), jax.vmap(f)(X)


# Derivatives of one's own -----------------------------------------------------------------------------------


def custom_forward(jax, x):
    @jax.custom_jvp
    def f(x, y):
        return jax.numpy.sin(x) * y

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        return f(x, y), jax.numpy.cos(x) * tx * y * 2.0 + jax.numpy.sin(x) * ty

    g = jax.grad(f)
    return (
        f(x, 2.0), g(x, 2.0), jax.grad(g)(x, 2.0), jax.jit(jax.grad(jax.jit(f)))(x, 2.0), jax.vmap(g)(X, Y),
        jax.jvp(f, (x, 2.0), (1.0, 1.0)), jax.grad(lambda x: total(jax, jax.vmap(f)(x, Y)))(X),
    )  # fmt: skip


def custom_forward_for_each(jax, x):
    @jax.custom_jvp
    def f(x, y):
        return x * y

    f.defjvps(lambda t, result, x, y: 10.0 * t, None)
    return jax.grad(f, argnums=(0, 1))(x, 3.0)


def custom_forward_of_function(jax, x):
    def apply(f, x):
        return f(x)

    apply = jax.custom_jvp(apply, nondiff_argnums=(0,))
    apply.defjvp(lambda f, primals, tangents: (f(*primals), 3.0 * tangents[0]))
    return jax.grad(lambda x: apply(jax.numpy.sin, x))(x), jax.jit(
        jax.grad(lambda x: apply(lambda y: y * 2.0, x))
    )(x)


def custom_forward_in_loop(jax, x):
    @jax.custom_jvp
    def f(x):
        return jax.numpy.tanh(x)

    f.defjvp(lambda p, t: (f(*p), 0.5 * t[0]))
    g = lambda x: jax.lax.scan(lambda c, _: (f(c * x), None), x, None, length=3)[0]
    return g(x), jax.grad(g)(x), jax.vmap(jax.grad(g))(X)


def custom_reverse(jax, x):
    @jax.custom_vjp
    def f(x, y):
        return jax.numpy.sin(x) * y

    f.defvjp(
        lambda x, y: (f(x, y), (x, y)),
        lambda r, g: (2.0 * jax.numpy.cos(r[0]) * r[1] * g, jax.numpy.sin(r[0]) * g),
    )
    g = jax.grad(f)
    return (
        f(x, 2.0), g(x, 2.0), jax.grad(g)(x, 2.0), jax.jit(jax.grad(jax.jit(f)))(x, 2.0), jax.vmap(g)(X, Y),
        jax.grad(lambda y: total(jax, jax.vmap(f, in_axes=(0, None))(X, y)))(2.0),
        jax.grad(lambda y: total(jax, jax.vmap(jax.jit(f), in_axes=(0, None))(X, y)))(2.0),
    )  # fmt: skip


def custom_reverse_clipped(jax, x):
    @jax.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (jax.lax.clamp(-1.0, g, 1.0),))
    return jax.grad(lambda x: total(jax, 5.0 * clipped(x) * x))(x)


def custom_reverse_in_loop(jax, x):
    @jax.custom_vjp
    def f(x):
        return jax.numpy.tanh(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (0.5 * g,))
    g = lambda x: jax.lax.scan(lambda c, _: (f(c * x), None), x, None, length=3)[0]
    return g(x), jax.grad(g)(x), jax.vmap(jax.grad(g))(X), jax.jit(jax.grad(g))(x)


def forward_through_custom_reverse(jax, x):
    @jax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    return jax.jvp(f, (x,), (1.0,))


def gradient_function(jax, x):
    f = jax.custom_gradient(lambda x, y: (x * y, lambda g: (g * y * 2.0, g * x)))
    return f(x, 3.0), jax.grad(f, argnums=(0, 1))(x, 3.0), jax.jit(jax.grad(f))(x, 3.0)


def closure_made_explicit(jax, x):
    def minimize(f, x):
        converted, values = jax.closure_convert(f, x)
        return inner(converted, x, *values)

    inner = jax.custom_vjp(lambda f, x, *values: f(x, *values), nondiff_argnums=(0,))
    inner.defvjp(lambda f, x, *v: (f(x, *v), v), lambda f, v, g: (2.0 * g, *[3.0 * g for _ in v]))
    return jax.grad(lambda x: minimize(lambda y: x * y, x))(x)


def custom_batching(jax, x):
    @jax.custom_batching.custom_vmap
    def f(x, y):
        return jax.lax.mul(x, y)

    @f.def_vmap
    def rule(size, batched, x, y):
        return jax.numpy.multiply(x, y) + 1.0, batched[0] or batched[1]

    return (
        f(1.0, 2.0),
        jax.vmap(f)(x, x),
        jax.vmap(f, in_axes=(0, None))(x, 2.0),
        jax.jit(jax.vmap(f))(x, x),
    )


def one_after_another(jax, x):
    f = jax.custom_batching.sequential_vmap(lambda x, y: x * y)
    return jax.vmap(f, in_axes=(0, None))(x, 2.0)


# Solutions --------------------------------------------------------------------------------------------------


def implicit_solution(jax, a, b):
    def steps(matvec, b):
        return jax.lax.fori_loop(0, 100, lambda i, x: x + 0.3 * (b - matvec(x)), b * 0.0)

    def f(a, b):
        return jax.lax.custom_linear_solve(lambda x: jax.lax.dot(a, x), b, steps, steps)

    loss = lambda a, b: total(jax, jax.numpy.sin(f(a, b)))
    return (
        f(a, b),
        jax.grad(loss, argnums=(0, 1))(a, b),
        jax.vmap(f, in_axes=(None, 0))(a, a),
        jax.jvp(f, (a, b), (a, b)),
    )


def newton_root(jax, a):
    def newton(f, x):
        return jax.lax.fori_loop(0, 10, lambda i, x: x - f(x) / jax.grad(f)(x), x)

    root = lambda a: jax.lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    return (
        root(a),
        jax.grad(root)(a),
        jax.grad(jax.grad(root))(a),
        jax.vmap(jax.grad(root))(np.array([1.0, 4.0], np.float32)),
    )


# Rematerialization ------------------------------------------------------------------------------------------


def rematerialized(jax, x):
    f = lambda x: total(jax, jax.numpy.sin(jax.numpy.sin(wave(jax, x))))
    policies = jax.checkpoint_policies
    return [
        jax.grad(jax.checkpoint(f, policy=policy))(x)
        for policy in (None, policies.everything_saveable, policies.dots_saveable)
    ]


def rematerialized_names(jax, x):
    name = submodule(jax, "ad_checkpoint").checkpoint_name
    f = lambda x: total(jax, jax.numpy.sin(name(jax.numpy.sin(x), "kept")))
    return jax.grad(
        jax.checkpoint(f, policy=jax.checkpoint_policies.save_only_these_names("kept"))
    )(x), jax.jit(jax.grad(jax.remat(f)))(x)


def rematerialized_layers(jax, m, x):
    layer = jax.checkpoint(lambda h, w: (jax.numpy.tanh(w * h), None), prevent_cse=False)
    f = lambda m: total(jax, jax.lax.scan(layer, x, m)[0])
    return jax.grad(f)(m), jax.jit(jax.grad(f))(m), jax.vmap(jax.grad(f))(np.stack([m, m * 2.0]))


# Vectors of trees -------------------------------------------------------------------------------------------


def raveled(jax, x, m):
    vector, unravel = submodule(jax, "flatten_util").ravel_pytree(
        {"m": m, "x": x, "n": np.arange(3, dtype=np.int32)}
    )
    return vector, unravel(vector * 2.0)


PROGRAMS = [
    (gradient, (X,)),
    (gradient_of_scalar, (0.5,)),
    (value_and_gradient, (X, Y)),
    (gradient_of_tree, (X, Y)),
    (gradient_with_aux, (X,)),
    (gradient_by_integers, (X, INDICES)),
    (gradient_of_constant, (0.5,)),
    (gradient_of_unused, (X, Y)),
    (gradient_of_identity, (0.5,)),
    (holomorphic_gradient, (Z,)),
    (gradient_by_complex, (Z,)),
    (fourth_derivative, (0.5,)),
    (forward_over_reverse, (X, Y)),
    (reverse_over_forward, (X, Y)),
    (pushforward, (X, Y)),
    (pushforward_with_aux, (X, Y)),
    (pullback, (X, Y)),
    (linear_approximation, (X, Y)),
    (transposed_function, (X,)),
    (jacobians, (X,)),
    (jacobian_of_tree, (X, Y)),
    (jacobians_by_integers, (X, INDICES)),
    (second_derivatives, (X,)),
    (hessian_vector_product, (X, Y)),
    (perturbation_confusion, (3.0,)),
    (stopped_gradient, (X,)),
    (gradient_of_gradient_descent, (0.1, X)),
    (gradient_of_indexing, (X,)),
    (multilayer_perceptron, (M, X)),
    (forward_and_backward_apart, (X, Y)),
    (batched, (M,)),
    (batched_along_axes, (M, X)),
    (batched_tree, (M, X)),
    (batched_twice, (X, Y)),
    (batch_of_known_size, (X,)),
    (gradients_of_examples, (M, X)),
    (gradient_of_batched, (M, X)),
    (batched_unused, (X,)),
    (all_orders, (X,)),
    (cumulative, (X,)),
    (scanned_tree, (M, X)),
    (scan_backwards, (X,)),
    (scan_unrolled, (X,)),
    (scan_of_nothing, ()),
    (recurrent, (M, M, X)),
    (recurrent_of_batches, (M, M, M)),
    (second_derivative_of_scan, (X, 0.5)),
    (nested_scans, (M, 0.5)),
    (counted, (3, 0.5)),
    (counted_gradient, (0.5,)),
    (counted_tangent, (3, 0.5)),
    (doubling, (3.0,)),
    (doubling_batched, (X,)),
    (batched_bound_of_loop, (INDICES, X)),
    (fixed_point, (0.7,)),
    (mapped, (M,)),
    (gradient_of_map, (M,)),
    (prefixes, (X, M)),
    (gradient_of_prefixes, (X,)),
    (reduced_by_function, (M,)),
    (windows_by_function, (M,)),
    (branch, (True, 0.5)),
    (branch, (False, 0.5)),
    (branch_batched, (FLAGS, X)),
    (branch_without_operands, (True, 0.5)),
    (branch_of_two_operands, (False, 0.5, 1.5)),
    (safe_branch, (X,)),
    (switched, (2, 0.5)),
    (switched, (-7, 0.5)),
    (branch_in_loop, (0.5,)),
    (for_each_platform, (0.5,)),
    (custom_forward, (0.5,)),
    (custom_forward_for_each, (0.5,)),
    (custom_forward_of_function, (0.5,)),
    (custom_forward_in_loop, (0.5,)),
    (custom_reverse, (0.5,)),
    (custom_reverse_clipped, (X,)),
    (custom_reverse_in_loop, (0.5,)),
    (forward_through_custom_reverse, (0.5,)),
    (gradient_function, (0.5,)),
    (closure_made_explicit, (0.5,)),
    (custom_batching, (X,)),
    (one_after_another, (X,)),
    (implicit_solution, (np.eye(4, dtype=np.float32) * 2.0 + M * 0.5, X)),
    (newton_root, (2.0,)),
    (rematerialized, (X,)),
    (rematerialized_names, (X,)),
    (rematerialized_layers, (M, X)),
    (raveled, (X, M)),
]
