"""Transformations in all orders and at their edges; each program takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`.
"""

import itertools

import numpy as np

from corpus.transform_programs import submodule

X = np.array([0.5, -1.25, 2.0, 0.75], np.float32)
Y = np.array([1.5, 0.25, -0.5, 3.0], np.float32)
M = np.array([[0.3, -0.6, 0.1], [0.7, 0.2, -0.4]], np.float32)
Z = np.array([0.5 + 1.0j, -1.25 + 0.5j], np.complex64)
NUMBERS = np.array([2, -1, 0, 3], np.int32)
FLAGS = np.array([True, False, True, False])
NOTHING = np.zeros((0, 3), np.float32)


def total(jax, x):
    return jax.numpy.sum(x)


# All orders -----------------------------------------------------------------------------------------------


def _wrapped(jax, name, f):
    """`f`, from a scalar to a scalar, under one more transformation that keeps its kind."""
    jnp = jax.numpy
    if name == "jit":
        return jax.jit(f)
    if name == "grad":
        return jax.grad(f)
    if name == "jvp":
        return lambda x: jax.jvp(f, (x,), (1.5,))[1]
    if name == "vjp":
        return lambda x: jax.vjp(f, x)[1](jnp.float32(0.5))[0]
    if name == "linearize":
        return lambda x: jax.linearize(f, x)[1](jnp.float32(2.0))
    if name == "vmap":
        return lambda x: total(jax, jax.vmap(f)(x * jnp.array([1.0, -0.5, 0.25])))
    if name == "scan":
        return lambda x: jax.lax.scan(lambda c, y: (f(c * y), c), x, jnp.array([1.0, 0.5]))[0]
    if name == "cond":
        return lambda x: jax.lax.cond(x > 0.3, f, lambda x: x * 0.5, x)
    if name == "remat":
        return jax.checkpoint(f)
    if name == "fori":
        return lambda x: jax.lax.fori_loop(0, 2, lambda i, c: f(c) + 0.5 * c, x)
    if name == "map":
        return lambda x: total(jax, jax.lax.map(f, x * jnp.array([0.5, 1.5])))
    raise ValueError(name)


def _base(jax):
    return lambda x: jax.numpy.sin(x) * x + 0.25 * x * x


NAMES = ("jit", "grad", "jvp", "vjp", "linearize", "vmap", "scan", "cond", "remat", "fori", "map")


def orders_of_two(jax, x, first):
    results = []
    for second in NAMES:
        f = _wrapped(jax, second, _wrapped(jax, first, _base(jax)))
        results.append(f(x))
    return results


def orders_of_three(jax, x, first):
    """Each pair of transformations that differentiate, batch or loop around one more."""
    results = []
    for second, third in itertools.permutations(
        ("jit", "grad", "vmap", "scan", "cond", "remat"), 2
    ):
        if first in (second, third):
            continue
        f = _wrapped(jax, third, _wrapped(jax, second, _wrapped(jax, first, _base(jax))))
        results.append(jax.jit(f)(x))
    return results


# Perturbations --------------------------------------------------------------------------------------------


def confusion_through_scan(jax, x):
    def outer(x):
        inner = lambda y: jax.lax.scan(lambda c, _: (c * x + y, None), y, None, length=3)[0]
        return x * jax.grad(inner)(2.0)

    return outer(x), jax.grad(outer)(x), jax.grad(jax.grad(outer))(x)


def confusion_through_cond(jax, x):
    def outer(x):
        inner = lambda y: jax.lax.cond(y > x, lambda: x * y, lambda: x + y)
        return x * jax.jvp(inner, (2.0,), (x,))[1]

    return outer(x), jax.grad(outer)(x), jax.jvp(outer, (x,), (1.0,))


def confusion_of_custom_rules(jax, x):
    @jax.custom_jvp
    def f(x, y):
        return x * y

    f.defjvp(lambda p, t: (f(*p), p[1] * t[0] + p[0] * t[1]))
    g = lambda x: jax.grad(lambda y: f(x, y) * f(y, x))(x)
    return g(x), jax.grad(g)(x), jax.jit(jax.vmap(jax.grad(g)))(X)


def derivative_of_captured_tangent(jax, x):
    f = lambda x: jax.vjp(lambda y: x * y * y, x)[1](x)[0]
    return f(x), jax.grad(f)(x), jax.grad(jax.grad(f))(x)


# Higher derivatives ---------------------------------------------------------------------------------------


def all_fourth_derivatives(jax, x):
    """Each way to take four derivatives forward and backward."""
    f = lambda x: jax.numpy.exp(jax.numpy.sin(x))
    forward = lambda f: lambda x: jax.jvp(f, (x,), (1.0,))[1]
    results = []
    for kinds in itertools.product((jax.grad, forward), repeat=4):
        g = f
        for kind in kinds:
            g = kind(g)
        results.append(g)
    return jax.jit(lambda x: [g(x) for g in results])(x)


def fourth_derivative_of_loop(jax, x):
    f = lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jax.numpy.sin(c) * x, x)
    return [d(x) for d in (f, jax.grad(f), jax.grad(jax.grad(f)), jax.grad(jax.grad(jax.grad(f))))]


def third_derivative_tensor(jax, x):
    f = lambda x: jax.numpy.prod(jax.numpy.sin(x))
    forms = (jax.jacfwd(jax.jacrev(jax.jacfwd(f))), jax.jacrev(jax.hessian(f)))
    return [jax.jit(form)(x) for form in forms]


def mixed_derivatives(jax, x, y):
    f = lambda x, y: total(jax, jax.numpy.tanh(x * y) * x)
    return jax.jacfwd(jax.grad(f, 0), 1)(x, y), jax.jacrev(jax.grad(f, 1), 0)(x, y)


def hessian_of_tree(jax, x, y):
    f = lambda p: total(jax, p["a"] ** 2 * p["b"][0]) + p["b"][1] ** 3
    return jax.hessian(f)({"a": x, "b": (y, 0.5)})


def hessian_diagonal(jax, x):
    f = lambda x: total(jax, jax.numpy.sin(x) ** 3) + x[0] * x[1]
    g = lambda v: jax.jvp(jax.grad(f), (x,), (v,))[1]
    return jax.vmap(lambda v: jax.numpy.vdot(v, g(v)))(jax.numpy.eye(4))


def hessian_of_jitted_layers(jax, w, x):
    jnp = jax.numpy
    layer = jax.jit(lambda w, x: jnp.tanh(w * x))
    f = lambda w: total(jax, layer(w, layer(w, layer(w, x))))
    return jax.jit(jax.hessian(f))(w)


def jacobian_of_many_outputs(jax, x):
    f = lambda x: {"s": jax.numpy.sin(x), "o": jax.numpy.outer(x, x), "n": 3.0}
    return jax.jacfwd(f)(x), jax.jacrev(f)(x), jax.jit(jax.jacrev(f))(x)


# Complex numbers, integers, nothing ----------------------------------------------------------------------------


def complex_jacobians(jax, z):
    f = lambda z: z * z * jax.numpy.conj(z)
    return (
        jax.jacfwd(f, holomorphic=True)(z),
        jax.jacrev(f, holomorphic=True)(z),
        jax.vjp(f, z)[1](z),
    )


def complex_to_real(jax, z):
    f = lambda z: total(jax, jax.numpy.abs(z) ** 2 + jax.numpy.imag(z) * jax.numpy.real(z))
    return (
        jax.grad(f)(z),
        jax.jvp(f, (z,), (z * 1j,)),
        jax.vmap(jax.grad(lambda z: jax.numpy.abs(z)))(z),
    )


def complex_in_loop(jax, z):
    def f(z):
        step = lambda c, _: (c * c + z, jax.numpy.abs(c))
        return total(jax, jax.lax.scan(step, z * 0.1, None, length=3)[1])

    return jax.value_and_grad(f)(z)


def fourier_loss(jax, x):
    fft = lambda x: jax.lax.fft(x, "RFFT", (4,))
    return jax.grad(lambda x: total(jax, jax.numpy.abs(fft(x)) ** 2 + jax.numpy.real(fft(x))))(x)


def jitted_tangent_of_indices(jax, x):
    """A jitted function that returns tangents of integers, which have no numbers in them."""
    f = lambda x: tuple(jax.lax.top_k(x, 2))
    plain = jax.jvp(f, (x,), (x,))
    jitted = jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x)
    return plain, jitted


def jitted_gradient_of_integers(jax, x, n):
    f = lambda x, n: total(jax, x * n)
    return jax.jit(jax.grad(f, argnums=(0, 1), allow_int=True))(x, n), jax.jit(
        lambda x, n: jax.vjp(f, x, n)[1](1.0)
    )(x, n)


def integers_through_loops(jax, x, n):
    def f(x):
        step = lambda c, i: ((c[0] * x + i, c[1] + i), c[1])
        return jax.lax.scan(step, (x, 0), n)

    value = lambda x: f(x)[0][0]
    return (
        jax.jvp(f, (x,), (1.0,)),
        jax.jit(lambda x: jax.jvp(f, (x,), (1.0,)))(x),
        jax.grad(value)(x),
    )


def booleans_in_branches(jax, flags, x):
    f = lambda p, x: jax.lax.cond(p, lambda x: (x * x, x > 0), lambda x: (x, x < 0), x)
    return jax.vmap(f)(flags, x), jax.vmap(lambda p, x: jax.jvp(lambda x: f(p, x), (x,), (x,)))(
        flags, x
    )


def argmax_and_rounding(jax, x):
    jnp = jax.numpy
    f = lambda x: x[jnp.argmax(x)] * jnp.floor(x[0] + 3.0) + total(jax, jnp.sign(x) * x)
    return jax.value_and_grad(f)(x), jax.vmap(jax.grad(f))(jnp.stack([x, -x]))


def custom_rules_of_integers(jax, x, n):
    @jax.custom_vjp
    def power(x, n):
        return x**n

    power.defvjp(
        lambda x, n: (power(x, n), (x, n)),
        lambda r, g: (g * r[1] * r[0] ** (r[1] - 1), np.zeros(np.shape(r[1]), jax.dtypes.float0)),
    )
    return jax.grad(lambda x: power(x, n))(x), jax.jit(jax.grad(power))(x, n)


def empty_arrays(jax, nothing):
    jnp = jax.numpy
    f = lambda x: total(jax, jnp.sin(x) @ jnp.ones(3, jnp.float32))
    return (
        jax.value_and_grad(f)(nothing),
        jax.hessian(f)(nothing),
        jax.vmap(jax.grad(lambda r: total(jax, r * r)))(nothing),
        jax.jacfwd(lambda x: x * 2.0)(nothing),
        jax.jit(jax.jacrev(lambda x: jnp.sum(x, 0)))(nothing),
    )


def loops_over_nothing(jax, nothing, x):
    step = lambda c, row: (c * total(jax, row), c + 1.0)
    f = lambda x: jax.lax.scan(step, x, nothing)
    return (
        f(x),
        jax.grad(lambda x: f(x)[0])(x),
        jax.lax.map(lambda r: r * 2.0, nothing),
        jax.vmap(f)(X),
    )


def gradient_of_nothing(jax):
    return (
        jax.grad(lambda p: 2.0)({}),
        jax.jvp(lambda: jax.numpy.float32(3), (), ()),
        jax.vjp(lambda: (1.0, {}))[1]((1.0, {})),
    )


# Calls within calls -------------------------------------------------------------------------------------------


def shared_jitted_function(jax, x):
    """One jitted function in three places, differentiated by different operands."""
    f = jax.jit(lambda a, b: a * jax.numpy.sin(b))
    g = lambda x, y: f(x, y) + f(y, 2.0) + f(3.0, x)
    return jax.grad(g, argnums=(0, 1))(x, 0.5), jax.grad(jax.grad(g))(x, 0.5)


def jitted_tree_in_and_out(jax, x, y):
    @jax.jit
    def f(p, *, scale):
        return {"out": p["a"] * scale, "kept": p["b"]}

    loss = lambda p: total(jax, f(p, scale=2.0)["out"] ** 2)
    return jax.grad(loss)({"a": x, "b": y}), jax.jvp(
        lambda p: f(p, scale=3.0), ({"a": x, "b": y},), ({"a": y, "b": x},)
    )


def jitted_closure_over_tracer(jax, x):
    def outer(x):
        f = jax.jit(lambda y: x * y + jax.numpy.sin(x))
        return f(x) * f(2.0)

    return jax.grad(outer)(x), jax.vmap(jax.grad(outer))(X), jax.jit(jax.grad(jax.grad(outer)))(x)


def derivative_as_result_of_jit(jax, x):
    """The linear map and the backward pass are trees that jitted functions return and take."""
    out, derivative = jax.jit(lambda x: jax.linearize(jax.numpy.sin, x))(x)
    back = jax.jit(lambda x: jax.vjp(lambda y: y * y * y, x)[1])(x)
    return out, derivative(x), jax.jit(lambda back, ct: back(ct))(back, x)


def batched_linear_map(jax, x, m):
    _, derivative = jax.linearize(lambda v: jax.numpy.tanh(m @ v), x[:3])
    back = jax.vjp(lambda v: jax.numpy.tanh(m @ v), x[:3])[1]
    return jax.vmap(derivative)(jax.numpy.eye(3)), jax.vmap(back)(jax.numpy.eye(2))


def transposed_compositions(jax, x):
    f = lambda x: jax.lax.scan(lambda c, y: (0.5 * c + y, c * 2.0), x[0], x)[1]
    g = jax.jit(lambda x: jax.lax.cond(True, lambda x: 2.0 * x, lambda x: x, x))
    return (
        jax.linear_transpose(f, x)(x),
        jax.linear_transpose(lambda x: g(x) + x[::-1], x)(x),
        jax.linear_transpose(lambda x: jax.vmap(lambda v: v * 3.0)(x), x)(x),
        jax.jit(jax.linear_transpose(f, x))(x),
    )


def transposed_twice(jax, x):
    f = lambda x: 3.0 * x[1:] - x[:-1]
    back = jax.linear_transpose(f, x)
    return jax.linear_transpose(lambda ct: back(ct)[0], np.ones(3, np.float32))(x)


def vectorized(jax, m):
    jnp = jax.numpy
    dot = jnp.vectorize(lambda a, b: jnp.vdot(a, b), signature="(n),(n)->()")
    outer = jnp.vectorize(lambda a, b: a[:, None] * b, signature="(m),(n)->(m,n)")
    clipped = jnp.vectorize(lambda x, low: jnp.maximum(x, low), excluded={1})
    both = jnp.vectorize(lambda a: (jnp.sum(a), a * 2.0), signature="(n)->(),(n)")
    return (
        dot(m, m[0]),
        outer(m[:, None], m),
        clipped(m, 0.1),
        both(m),
        jax.grad(lambda m: total(jax, dot(m, m[0])))(m),
    )


# Curves and equations of motion ------------------------------------------------------------------------------------


def taylor_mode(jax, x):
    jet = submodule(jax, "experimental.jet").jet
    jnp = jax.numpy
    functions = [
        jnp.sin, jnp.cos, jnp.exp, jnp.tanh, jnp.sinh, jnp.cosh, jnp.log, jnp.sqrt, jax.lax.logistic,
        lambda x: 1 / (x + 2.0) ** 2, lambda x: (x + 2.0) ** 3 / (1 + x * x), lambda x: jnp.where(x > 0, x * x, x),
        lambda x: jnp.expm1(x) * x, lambda x: jax.jit(jnp.sin)(x) * x, lambda x: x**2.5,
    ]  # fmt: skip
    return [jet(f, (x,), ((1.0, 0.5, -0.2, 0.3),)) for f in functions]


def taylor_mode_of_trees(jax, m, x):
    jet = submodule(jax, "experimental.jet").jet
    f = lambda m, x: {
        "a": jax.numpy.tanh(m @ x),
        "b": jax.numpy.sum(x),
        "c": jax.numpy.asarray(2.0),
    }
    return jet(f, (m, x), ([m * 0.5, m], [x, x * 2.0])), jax.jit(
        lambda x: jet(jax.numpy.sin, (x,), ((x, x * 0.0),), factorial_scaled=False)
    )(x)


def differential_equation(jax, x, times, rate):
    """The solution at several times, and its derivatives by the start, the times and the rate."""
    odeint = submodule(jax, "experimental.ode").odeint
    jnp = jax.numpy

    def slope(y, t, rate):
        return {"a": -rate * y["a"] + y["b"][0], "b": jnp.sin(t) * y["b"] * y["a"]}

    start = lambda x: {"a": x[0], "b": x[1:3]}
    solve = lambda x, times, rate: odeint(slope, start(x), times, rate, rtol=1e-6, atol=1e-6)
    loss = lambda x, times, rate: jnp.sum(solve(x, times, rate)["b"] ** 2)
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(x, times, rate)
    return solve(x, times, rate), gradient, jax.grad(loss, argnums=1)(x, times, rate)


# Loops and branches ---------------------------------------------------------------------------------------------


def branches_that_save_different_things(jax, i, x):
    branches = [
        lambda x: total(jax, jax.numpy.sin(x) * x),
        lambda x: x[0] ** 3,
        lambda x: 2.0,
        lambda x: total(jax, jax.numpy.exp(x)),
    ]
    f = lambda x: jax.lax.switch(i, branches, x)
    return jax.value_and_grad(f)(x), jax.jit(jax.value_and_grad(f))(x), jax.hessian(f)(x)


def branches_batched_in_index(jax, x):
    branches = [lambda x: x * x, jax.numpy.sin, lambda x: 1.0]
    f = lambda i, x: jax.lax.switch(i, branches, x)
    return jax.vmap(jax.grad(f, 1))(np.array([0, 1, 2, 0]), x), jax.jit(
        jax.vmap(lambda i, x: jax.jvp(lambda x: f(i, x), (x,), (1.0,)))
    )(np.array([2, 1, 0, 1]), x)


def nested_branches(jax, x):
    def f(x):
        inner = lambda x: jax.lax.cond(x > 1.0, lambda: x * x, lambda: jax.numpy.sin(x))
        return jax.lax.cond(x > 0.0, inner, lambda x: -x * inner(x), x)

    return jax.vmap(jax.grad(f))(X), [jax.grad(f)(x), jax.grad(jax.grad(f))(x)]


def loop_whose_tangent_spreads(jax, x):
    """Carries that get a tangent only after some steps."""

    def f(x):
        step = lambda c, _: ((c[1], c[2], c[0] * 0.5 + x), c[0])
        return jax.lax.scan(step, (1.0, 2.0, 3.0), None, length=5)

    last = lambda x: total(jax, f(x)[1]) + f(x)[0][2]
    return jax.jvp(f, (x,), (1.0,)), jax.grad(last)(x), jax.vmap(jax.grad(last))(X)


def loop_that_updates_in_place(jax, x):
    x = jax.numpy.asarray(x)

    def f(x):
        write = lambda i, buffer: buffer.at[i + 1].set(buffer[i] * x[i] + 1.0)
        return jax.lax.fori_loop(0, 3, write, jax.numpy.zeros(4, x.dtype))

    return f(x), jax.jacrev(f)(x), jax.jacfwd(f)(x)


def loop_with_dynamic_slices(jax, x):
    def f(x):
        step = lambda c, i: (c + jax.lax.dynamic_slice(x, (i,), (2,)), total(jax, c))
        return jax.lax.scan(step, jax.numpy.zeros(2, x.dtype), np.arange(3))

    return jax.grad(lambda x: total(jax, f(x)[1]))(x), jax.jit(jax.jacfwd(f))(x)


def loop_until_batched(jax, x):
    def f(x):
        goes_on = lambda s: s[0] < 10.0
        return jax.lax.while_loop(goes_on, lambda s: (s[0] * 2.0 + 1.0, s[1] + s[0]), (x, 0.0))

    return jax.vmap(lambda x: jax.jvp(f, (x,), (1.0,)))(jax.numpy.abs(X)), jax.vmap(f)(X * X)


def scan_of_scan_of_batches(jax, m, x):
    def f(x):
        inner = lambda c, v: (jax.numpy.sin(c * v), c)
        outer = lambda c, row: jax.lax.scan(inner, c, row)
        return jax.lax.scan(outer, x, m)

    loss = lambda x: total(jax, f(x)[1])
    return jax.vmap(f)(x), jax.vmap(jax.grad(loss))(x), jax.jit(jax.vmap(jax.hessian(loss)))(x)


def branch_in_map_of_gradients(jax, x):
    f = lambda x: jax.lax.cond(x > 0, lambda x: x**3, lambda x: jax.numpy.cos(x), x)
    return jax.lax.map(jax.grad(f), x), jax.jit(lambda x: jax.lax.map(jax.grad(jax.grad(f)), x))(x)


def reduced_windows_by_function(jax, x):
    """Windows reduced by a function of the user that is not one the library knows."""
    biggest = lambda a, b: jax.numpy.where(a > b, a, b)
    both = lambda a, b: (a[0] + b[0], a[1] * b[1])
    f = lambda x: jax.lax.reduce_window(x, -9.0, biggest, (2,), (1,), "VALID")
    g = lambda x: jax.lax.reduce_window((x, x), (0.0, 1.0), both, (2,), (1,), "VALID")
    return f(x), g(x), jax.vmap(f)(jax.numpy.stack([x, -x]))


def scatters(jax, x, y):
    jnp = jax.numpy
    places = np.array([3, 0, 0], np.int32)
    forms = [
        lambda x, y: x.at[places].add(y[:3]),
        lambda x, y: x.at[places].multiply(y[:3]),
        lambda x, y: x.at[np.array([1, 2])].set(y[:2]),
        lambda x, y: x.at[places].max(y[:3]),
        lambda x, y: x[places] * y[:3],
    ]
    loss = lambda f: lambda x, y: total(jax, jnp.sin(f(x, y)))
    return [jax.grad(loss(f), argnums=(0, 1))(x, y) for f in forms if f is not forms[1]]


def sparse_product(jax, values, x):
    """A product with a sparse matrix in coordinates, and its transpose by differentiation."""
    rows, columns = np.array([0, 0, 1, 2]), np.array([1, 3, 0, 2])
    product = lambda values, x: jax.numpy.zeros(3, x.dtype).at[rows].add(values * x[columns])
    loss = lambda values, x: total(jax, product(values, x) ** 2)
    return jax.grad(loss, argnums=(0, 1))(values, x), jax.jacrev(product, 1)(values, x)


# Rematerialization ------------------------------------------------------------------------------------------------


def rematerialized_in_loop_with_policy(jax, m, x):
    policies = jax.checkpoint_policies
    names = policies.save_only_these_names("kept")
    name = submodule(jax, "ad_checkpoint").checkpoint_name

    def with_policy(policy):
        def layer(h, w):
            h = jax.numpy.tanh(jax.lax.dot(h, w[:, None])[0] * h)
            return name(h, "kept"), None

        layer = jax.checkpoint(layer, policy=policy)
        return lambda m: total(jax, jax.lax.scan(layer, x, m)[0])

    kinds = (policies.nothing_saveable, policies.dots_saveable, policies.everything_saveable, names)
    return [jax.grad(with_policy(p))(m) for p in kinds]


def rematerialized_twice(jax, x):
    f = jax.checkpoint(lambda x: jax.numpy.sin(jax.checkpoint(jax.numpy.exp)(x) * x))
    return jax.grad(f)(x), jax.grad(jax.grad(f))(x), jax.jit(jax.vmap(jax.grad(jax.grad(f))))(X)


def rematerialized_custom_rule(jax, x):
    @jax.custom_vjp
    def f(x):
        return jax.numpy.sin(x)

    f.defvjp(lambda x: (f(x), jax.numpy.cos(x)), lambda c, g: (3.0 * c * g,))
    g = jax.checkpoint(lambda x: f(x) * f(2.0 * x))
    return jax.grad(g)(x), jax.jit(jax.grad(g))(x), jax.vmap(jax.grad(g))(X)


def rematerialized_branch(jax, x):
    f = jax.checkpoint(
        lambda x: jax.lax.cond(x > 0, lambda x: jax.numpy.sin(x) * x, lambda x: x, x)
    )
    return jax.vmap(jax.grad(f))(X), jax.jit(jax.grad(f))(x), jax.jvp(f, (x,), (1.0,))


def rematerialized_with_static_arguments(jax, x):
    f = jax.checkpoint(lambda x, n: x**n if n > 2 else x, static_argnums=(1,))
    return jax.grad(f)(x, 3), jax.grad(f)(x, 1)


# Derivatives and batching of one's own --------------------------------------------------------------------------------


def custom_reverse_in_reverse(jax, x):
    """The second derivative runs through the user's backward function."""

    @jax.custom_vjp
    def f(x):
        return jax.numpy.exp(x)

    f.defvjp(lambda x: ((y := f(x)), y), lambda y, g: (jax.numpy.sin(y) * g,))
    return jax.grad(f)(x), jax.grad(jax.grad(f))(x), jax.vmap(jax.grad(jax.grad(f)))(X)


def custom_reverse_of_trees(jax, x, y):
    @jax.custom_vjp
    def f(p, scale):
        return {"u": p["a"] * scale, "v": p["b"]}

    def backward(saved, ct):
        return {"a": ct["u"] * saved, "b": 5.0 * ct["v"]}, None

    f.defvjp(lambda p, scale: (f(p, scale), scale), backward)
    loss = lambda p: total(jax, f(p, 2.0)["u"] * f(p, 3.0)["v"])
    return jax.grad(loss)({"a": x, "b": y}), jax.jit(jax.grad(loss))({"a": x, "b": y})


def custom_reverse_of_function_argument(jax, x):
    apply = jax.custom_vjp(lambda f, x: f(x), nondiff_argnums=(0,))
    apply.defvjp(lambda f, x: (f(x), x), lambda f, x, g: (7.0 * g * f(x),))
    return jax.grad(lambda x: apply(jax.numpy.sin, x))(x), jax.vmap(
        jax.grad(lambda x: apply(lambda y: y * y, x))
    )(X)


def custom_reverse_with_symbolic_zeros(jax, x, y):
    @jax.custom_vjp
    def f(x, y):
        return x * y, x + y

    def forward(x, y):
        return f(x.value, y.value), (x.value, y.value, x.perturbed, y.perturbed)

    def backward(saved, cts):
        x, y, _, _ = saved
        zero = lambda ct: 0.0 if type(ct).__name__ == "SymbolicZero" else ct
        return zero(cts[0]) * y + 2.0 * zero(cts[1]), zero(cts[0]) * x

    f.defvjp(forward, backward, symbolic_zeros=True)
    return jax.grad(lambda x: f(x, y)[0])(x), jax.grad(lambda x: f(x, y)[1])(x)


def custom_forward_with_symbolic_zeros(jax, x, y):
    @jax.custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        x, y = primals
        zero = [type(t).__name__ == "SymbolicZero" for t in tangents]
        tx, ty = [0.0 if z else t for z, t in zip(zero, tangents)]
        return f(x, y), 10.0 * tx * y + x * ty

    f.defjvp(rule, symbolic_zeros=True)
    return (
        jax.grad(f)(x, y),
        jax.jvp(lambda y: f(x, y), (jax.numpy.asarray(y),), (1.0,)),
        jax.jit(jax.grad(f, 1))(x, y),
    )


def custom_batching_in_forward_mode(jax, x):
    """The user's batching rule is what is differentiated; reverse mode of the function itself is ours alone."""

    @jax.custom_batching.custom_vmap
    def f(x):
        return jax.numpy.sin(x)

    f.def_vmap(lambda size, batched, x: (2.0 * jax.numpy.sin(x), True))
    g = jax.vmap(f)
    return (
        jax.grad(lambda x: total(jax, g(x) * x))(x),
        jax.jvp(g, (x,), (x,)),
        jax.vmap(lambda x: jax.jvp(f, (x,), (x,)))(x),
        jax.jit(g)(x),
    )


def tangents_of_sequential_map(jax, x):
    f = jax.custom_batching.sequential_vmap(lambda x, y: jax.numpy.sin(x) * y)
    return jax.jit(jax.vmap(f))(x, x), jax.jvp(lambda x: jax.vmap(f)(x, x), (x,), (x,))


def linear_call_and_its_transpose(jax, x):
    from_module = jax.custom_derivatives.linear_call
    f = lambda r, x: x * r
    transposed = lambda r, ct: ct * r * 10.0
    g = lambda x: from_module(f, transposed, 3.0, x)
    return g(x), jax.jvp(g, (x,), (1.0,)), jax.grad(g)(x), jax.jit(jax.grad(g))(x), jax.jit(g)(x)


def closures_of_gradients(jax, x):
    def f(x):
        converted, values = jax.closure_convert(lambda y: jax.numpy.sin(x) * y + x, 1.0)
        return converted(2.0, *values)

    return f(x), jax.grad(f)(x), jax.jit(f)(x)


def gradient_by_platform(jax, x):
    f = lambda x: jax.lax.platform_dependent(x, cpu=jax.numpy.sin, default=jax.numpy.cos)
    return jax.grad(f)(x), jax.jit(jax.grad(f))(x), jax.vmap(jax.grad(f))(X)


# Batches --------------------------------------------------------------------------------------------------------------


def batched_axes_everywhere(jax, m):
    f = lambda a, b: {"p": a @ b, "q": a * 2.0}
    return (
        jax.vmap(f, in_axes=(0, None), out_axes={"p": 0, "q": 1})(m, m[0]),
        jax.vmap(f, in_axes=(1, 1))(m, m),
        jax.vmap(f, in_axes=(-1, -1), out_axes={"p": 0, "q": -1})(m, m),
        jax.vmap(jax.vmap(lambda a: a * a, in_axes=0, out_axes=0), in_axes=1, out_axes=1)(m),
    )


def batched_contractions(jax, m):
    f = lambda a, b: (jax.numpy.einsum("i,j->ij", a, b), jax.numpy.vdot(a, b))
    return jax.vmap(f)(m, m), jax.vmap(jax.vmap(f, (None, 0)), (0, None))(m, m)


def gradients_of_examples_and_layers(jax, w, xs):
    layer = jax.jit(lambda w, x: jax.numpy.tanh(w * x))
    loss = lambda w, x: total(jax, layer(w, layer(w, x)))
    return jax.jit(jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0)))(w, xs)


def batched_random_like_bits(jax, n):
    """Integer arithmetic under vmap, jit and loops."""

    def f(n):
        step = lambda s, _: (s * 75 % 65537, s & 255)
        return jax.lax.scan(step, n + 17, None, length=4)

    return jax.vmap(f)(n), jax.jit(jax.vmap(f))(n)


def jacobian_of_batched_loop(jax, x):
    f = lambda x: jax.vmap(lambda v: jax.lax.fori_loop(0, 3, lambda i, c: c * v + 1.0, v))(x)
    return jax.jacrev(f)(x), jax.jacfwd(f)(x)


PROGRAMS = [
    *((orders_of_two, (0.7, name)) for name in NAMES),
    *((orders_of_three, (0.7, name)) for name in ("grad", "scan")),
    (confusion_through_scan, (0.5,)),
    (confusion_through_cond, (0.5,)),
    (confusion_of_custom_rules, (0.5,)),
    (derivative_of_captured_tangent, (0.5,)),
    (all_fourth_derivatives, (0.7,)),
    (fourth_derivative_of_loop, (0.7,)),
    (third_derivative_tensor, (X[:3],)),
    (mixed_derivatives, (X, Y)),
    (hessian_of_tree, (X, Y)),
    (hessian_diagonal, (X,)),
    (hessian_of_jitted_layers, (X, Y)),
    (jacobian_of_many_outputs, (X,)),
    (complex_jacobians, (Z,)),
    (complex_to_real, (Z,)),
    (complex_in_loop, (Z * 0.3,)),
    (fourier_loss, (X,)),
    (jitted_tangent_of_indices, (X,)),
    (jitted_gradient_of_integers, (X, NUMBERS)),
    (integers_through_loops, (0.5, NUMBERS)),
    (booleans_in_branches, (FLAGS, X)),
    (argmax_and_rounding, (X,)),
    (custom_rules_of_integers, (0.5, 3)),
    (empty_arrays, (NOTHING,)),
    (loops_over_nothing, (NOTHING, 0.5)),
    (gradient_of_nothing, ()),
    (shared_jitted_function, (0.7,)),
    (jitted_tree_in_and_out, (X, Y)),
    (jitted_closure_over_tracer, (0.7,)),
    (derivative_as_result_of_jit, (X,)),
    (batched_linear_map, (X, M)),
    (transposed_compositions, (X,)),
    (transposed_twice, (X,)),
    (vectorized, (M,)),
    (taylor_mode, (0.7,)),
    (taylor_mode_of_trees, (M, X[:3])),
    (differential_equation, (X, np.linspace(0.0, 2.0, 4, dtype=np.float32), np.float32(0.7))),
    (branches_that_save_different_things, (0, X)),
    (branches_that_save_different_things, (2, X)),
    (branches_batched_in_index, (X,)),
    (nested_branches, (0.5,)),
    (loop_whose_tangent_spreads, (0.5,)),
    (loop_that_updates_in_place, (X[:3],)),
    (loop_with_dynamic_slices, (X,)),
    (loop_until_batched, (X,)),
    (scan_of_scan_of_batches, (M, X)),
    (branch_in_map_of_gradients, (X,)),
    (reduced_windows_by_function, (X,)),
    (scatters, (X, Y)),
    (sparse_product, (X, Y)),
    (rematerialized_in_loop_with_policy, (np.stack([X, Y]), X)),
    (rematerialized_twice, (0.5,)),
    (rematerialized_custom_rule, (0.5,)),
    (rematerialized_branch, (0.5,)),
    (rematerialized_with_static_arguments, (0.5,)),
    (custom_reverse_in_reverse, (0.5,)),
    (custom_reverse_of_trees, (X, Y)),
    (custom_reverse_of_function_argument, (0.5,)),
    (custom_reverse_with_symbolic_zeros, (0.5, 1.5)),
    (custom_forward_with_symbolic_zeros, (0.5, 1.5)),
    (custom_batching_in_forward_mode, (X,)),
    (tangents_of_sequential_map, (X,)),
    (linear_call_and_its_transpose, (0.5,)),
    (closures_of_gradients, (0.5,)),
    (gradient_by_platform, (0.5,)),
    (batched_axes_everywhere, (M,)),
    (batched_contractions, (M,)),
    (gradients_of_examples_and_layers, (X, np.stack([X, Y]))),
    (batched_random_like_bits, (NUMBERS,)),
    (jacobian_of_batched_loop, (X,)),
]
