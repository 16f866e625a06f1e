"""Programs with checks; each takes the array library and its checkify module, and gives checked functions' errors."""

import numpy as np

X = np.arange(3, dtype=np.float32)


def _positive(c, x, name="x"):
    c.check(x > 0, name + " is {}", x)
    return x


def user_check(jax, c):
    return lambda x: _positive(c, x) * 2, (-1.0,), c.user_checks


def passes(jax, c):
    return lambda x: _positive(c, x) * 2, (1.0,), c.all_checks


def first_of_two(jax, c):
    return lambda x: _positive(c, x, "a") + _positive(c, x - 1, "b"), (-1.0,), c.user_checks


def second_of_two(jax, c):
    return lambda x: _positive(c, x, "a") + _positive(c, x - 1, "b"), (0.5,), c.user_checks


def formatted(jax, c):
    def f(x):
        c.check(x.sum() < 0, "{} {a:.2f}", x, a=x[1])
        return x

    return f, (X,), c.user_checks


def in_jit(jax, c):
    return lambda x: jax.jit(lambda v: _positive(c, v))(x), (-1.0,), c.user_checks


def in_scan(jax, c):
    def f(x):
        return jax.lax.scan(lambda s, v: (s + _positive(c, 2 - v, "left"), v), 0.0, x)

    return f, (X * 2,), c.user_checks


def in_reversed_scan(jax, c):
    def f(x):
        return jax.lax.scan(lambda s, v: (s + _positive(c, v), v), 0.0, x - 1, reverse=True)

    return f, (X,), c.user_checks


def in_while(jax, c):
    body = lambda v: (c.check(v < 3, "at {}", v), v + 1)[1]
    return lambda n: jax.lax.while_loop(lambda v: v < 5, body, n), (0,), c.user_checks


def in_condition(jax, c):
    test = lambda v: (c.check(v < 3, "tested at {}", v), v < 5)[1]
    return lambda n: jax.lax.while_loop(test, lambda v: v + 1, n), (0,), c.user_checks


def in_first_condition(jax, c):
    test = lambda v: (c.check(v < 3, "tested at {}", v), v < 5)[1]
    return lambda n: jax.lax.while_loop(test, lambda v: v + 1, n), (9,), c.user_checks


def in_condition_and_body(jax, c):
    test = lambda v: (c.check(v < 4, "tested at {}", v), v < 5)[1]
    body = lambda v: (c.check(v < 2, "at {}", v), v + 1)[1]
    return lambda n: jax.lax.while_loop(test, body, n), (0,), c.user_checks


def in_fori(jax, c):
    body = lambda i, s: s + _positive(c, 1.5 - i, "left")
    return lambda n: jax.lax.fori_loop(0, n, body, 0.0), (4,), c.user_checks


def _branches(jax, c, x):
    yes = lambda v: _positive(c, v - 9, "yes")
    no = lambda v: jax.numpy.log(_positive(c, v, "no"))
    return jax.lax.cond(x > 0, yes, no, x)


def in_true_branch(jax, c):
    return lambda x: _branches(jax, c, x), (1.0,), c.all_checks


def in_false_branch(jax, c):
    return lambda x: _branches(jax, c, x), (-1.0,), c.all_checks


def nan_in_false_branch(jax, c):
    return lambda x: _branches(jax, c, x), (-1.0,), c.nan_checks


def in_switch(jax, c):
    branches = [lambda v: v, lambda v: _positive(c, v, "one"), lambda v: _positive(c, v - 1, "two")]
    return lambda i, x: jax.lax.switch(i, branches, x), (2, 0.5), c.user_checks


def in_nested_loops(jax, c):
    def inner(s, v):
        return jax.lax.cond(s > 2, lambda u: _positive(c, 5 - u, "room"), lambda u: u, s) + v, None

    def outer(s, v):
        return jax.lax.scan(inner, s, X + v)[0], None

    return lambda x: jax.lax.scan(outer, 0.0, x)[0], (X,), c.all_checks


def in_gradient(jax, c):
    return jax.grad(lambda x: _positive(c, x) ** 2), (-1.0,), c.user_checks


def nan_of_gradient(jax, c):
    return jax.grad(lambda x: jax.numpy.log(x) * 0.0), (0.0,), c.nan_checks


def in_remat(jax, c):
    return jax.checkpoint(lambda x: _positive(c, jax.numpy.sin(x))), (-1.0,), c.user_checks


def _custom(jax, c):
    @jax.custom_jvp
    def f(x):
        return jax.numpy.log(_positive(c, x, "inside"))

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 2))
    return f


def in_custom_jvp(jax, c):
    return lambda x: _custom(jax, c)(x), (-1.0,), c.user_checks


def nan_in_custom_jvp(jax, c):
    return lambda x: _custom(jax, c)(x), (-1.0,), c.nan_checks


def in_custom_vjp(jax, c):
    @jax.custom_vjp
    def f(x):
        return _positive(c, x, "primal")

    def forward(x):
        return _positive(c, x, "forward"), None

    f.defvjp(forward, lambda _, ct: (_positive(c, ct, "backward"),))
    return lambda x: (f(x), jax.grad(lambda v: -f(v))(x + 2)), (-1.0,), c.user_checks


def backward_of_custom_vjp(jax, c):
    @jax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, ct: (_positive(c, ct, "backward"),))
    return jax.grad(lambda v: -f(v)), (1.0,), c.user_checks


def nan(jax, c):
    return lambda x: jax.numpy.exp(jax.numpy.log(x)) + 1, (-1.0,), c.float_checks


def nan_in_batch(jax, c):
    return jax.vmap(jax.numpy.log), (X - 1,), c.nan_checks


def divided(jax, c):
    return lambda x, y: x / y, (1.0, 0.0), c.float_checks


def divided_integers(jax, c):
    return lambda x, y: x // y, (X.astype(np.int32), np.int32([1, 0, 2])), c.div_checks


def index(jax, c):
    return lambda x, i: x[i], (X, 5), c.index_checks


def negative_index(jax, c):
    return lambda x, i: x[i] + x[-1], (X, -2), c.index_checks


def too_negative_index(jax, c):
    return lambda x, i: x[i], (X, -9), c.index_checks


def index_of_matrix(jax, c):
    return lambda x, i, j: x[i, j], (np.ones((2, 3), np.float32), 1, 7), c.index_checks


def index_array(jax, c):
    return lambda x, i: x[i], (X, np.array([0, 7])), c.index_checks


def known_index(jax, c):
    return lambda x: x[5], (X,), c.index_checks


def known_negative_index(jax, c):
    return lambda x: x[None, :, None][:, -9], (X,), c.index_checks


def known_index_of_matrix(jax, c):
    return lambda x, i: x[i, 7], (np.ones((2, 3), np.float32), 1), c.index_checks


def window(jax, c):
    return lambda x, i: jax.lax.dynamic_slice(x, (i,), (2,)), (X, 2), c.index_checks


def updated_window(jax, c):
    return lambda x, i: jax.lax.dynamic_update_slice(x, x[:2], (i,)), (X, 2), c.index_checks


def scattered(jax, c):
    return lambda x, i: x.at[i].set(1.0), (X, 7), c.index_checks


def scattered_sum(jax, c):
    return lambda x, i: x.at[i].add(1.0), (X, np.array([0, 3])), c.automatic_checks


def handed_on(jax, c):
    def f(x):
        error, y = c.checkify(lambda v: _positive(c, v, "inner"))(x)
        c.check_error(error)
        return y

    return f, (-1.0,), c.user_checks


def debug_checks(jax, c):
    return lambda x: (c.debug_check(x > 0, "debug {}", x), x)[1], (-1.0,), c.user_checks


PROGRAMS = {
    name: f
    for name, f in list(globals().items())
    if callable(f) and not name.startswith("_") and getattr(f, "__module__", None) == __name__
}


def messages_of(jax, checkify, name):
    """(message without the line, category, result) of the program, compiled and not."""
    found = []
    for wrap in (jax.jit, lambda f: f):
        f, args, errors = PROGRAMS[name](jax, checkify)
        error, result = wrap(checkify.checkify(f, errors))(*map(jax.numpy.asarray, args))
        message = error.get()
        leaves = [np.asarray(x).tolist() for x in jax.tree.leaves(result)]
        category = type(error.get_exception()).__name__
        found.append((message and message.splitlines()[0], category, repr(leaves)))
    return found


def reference_messages(jax, name):
    """`messages_of` with the reference."""
    import importlib

    return messages_of(jax, importlib.import_module("jax.experimental.checkify"), name)
