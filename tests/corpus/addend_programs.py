"""Programs with addends over devices: types that say unreduced or reduced. Each takes the array library alone.

Each gives the types that values have inside, and the results.
"""

import numpy as np

A = (np.arange(64, dtype=np.float32).reshape(8, 8) / 10) % 1.7
B = np.cos(A)


def P(jax, *entries, **marks):
    return jax.sharding.PartitionSpec(*entries, **marks)


def over(jax, program):
    """What `program(put, noted)` gives under a mesh with Explicit axes; `noted` keeps the marks of a value's type."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    marks = []

    def put(x, *entries, **more):
        return jax.device_put(x, jax.sharding.NamedSharding(mesh, P(jax, *entries, **more)))

    def noted(x):
        text = str(jax.typeof(x))
        marks.append(text[text.index("{") :] if "{" in text else "")
        return x

    with jax.set_mesh(mesh):
        results = program(put, noted)
        return marks, [np.asarray(leaf) for leaf in jax.tree.leaves(results)]


def addends(jax, noted):
    """A product whose addends stay on their devices."""

    def product(a, b):
        spec = P(jax, None, None, unreduced={"x"})
        return noted(jax.numpy.einsum("ij,jk->ik", a, b, out_sharding=spec))

    return product


def summed_when_asked(jax):
    def program(put, noted):
        product, reshard = addends(jax, noted), jax.sharding.reshard
        f = jax.jit(lambda a, b: reshard(noted(product(a, b) + product(a, b).T), P(jax)))
        return f(put(A, None, "x"), put(B, "x"))

    return over(jax, program)


def scattered_when_asked(jax):
    def program(put, noted):
        product, reshard = addends(jax, noted), jax.sharding.reshard
        f = jax.jit(lambda a, b: reshard(product(a, b).sum(0), P(jax, "x")))
        return f(put(A, None, "x"), put(B, "x"))

    return over(jax, program)


def derivatives_of_addends(jax):
    def program(put, noted):
        product, reshard = addends(jax, noted), jax.sharding.reshard
        loss = lambda a, b: (reshard(product(a, b), P(jax)) ** 2).sum()
        return jax.jit(jax.grad(loss, argnums=(0, 1)))(put(A, None, "x"), put(B, "x"))

    return over(jax, program)


def weights_with_addends_as_cotangents(jax):
    def program(put, noted):
        def loss(w, x):
            w = noted(jax.sharding.reshard(w, P(jax, None, None, reduced={"x"})))
            return ((x @ w) ** 2).sum() + (x @ w).sum()

        return jax.jit(jax.grad(loss))(put(A), put(B, "x"))

    return over(jax, program)


def manual(jax, f, in_specs, out_specs):
    return jax.shard_map(f, in_specs=in_specs, out_specs=out_specs)


def cast_and_summed(jax):
    def program(put, noted):
        body = lambda x: jax.lax.psum(noted(jax.lax.pcast(x, "x", to="unreduced")), "x")
        return jax.jit(manual(jax, body, P(jax, "x"), P(jax)))(put(A, "x"))

    return over(jax, program)


def cast_and_scattered(jax):
    def program(put, noted):
        def body(x):
            addends = noted(jax.lax.pcast(x, "x", to="unreduced"))
            return noted(jax.lax.psum_scatter(addends, "x", tiled=True))

        loss = lambda x: (manual(jax, body, P(jax, None, "x"), P(jax, "x"))(x) ** 2).sum()
        return jax.jit(jax.value_and_grad(loss))(put(A, None, "x"))

    return over(jax, program)


def one_sum_for_all_uses(jax):
    """Two uses of a weight, whose cotangents are added before devices exchange them."""

    def program(put, noted):
        def body(w, x):
            w = noted(jax.lax.pcast(w, "x", to="reduced"))
            own = noted(jax.lax.pcast(w, "x", to="varying"))
            return x @ own + jax.numpy.tanh(x @ own)

        loss = lambda w, x: manual(jax, body, (P(jax), P(jax, "x")), P(jax, "x"))(w, x).sum()
        return jax.jit(jax.value_and_grad(loss))(put(A), put(B, "x"))

    return over(jax, program)


def gathered_weights(jax):
    """Each device gathers the weights, and keeps its part of the sum of their cotangents."""

    def program(put, noted):
        def body(w, x):
            w = noted(jax.lax.all_gather(w, "x", tiled=True, to="reduced"))
            return x @ jax.lax.pcast(w, "x", to="varying")

        loss = lambda w, x: (manual(jax, body, P(jax, "x"), P(jax, "x"))(w, x) ** 2).sum()
        return jax.jit(jax.grad(loss))(put(A, "x"), put(B, "x"))

    return over(jax, program)


def addends_out_of_a_region(jax):
    def program(put, noted):
        cast = lambda x: jax.lax.pcast(x, "x", to="unreduced")
        made = manual(jax, cast, P(jax, "x"), P(jax, unreduced={"x"}))
        return jax.jit(lambda x: jax.sharding.reshard(noted(made(x)), P(jax)))(put(A, "x"))

    return over(jax, program)


def addends_into_a_region(jax):
    def program(put, noted):
        product = addends(jax, noted)
        total = manual(jax, lambda u: jax.lax.psum(noted(u), "x"), P(jax, unreduced={"x"}), P(jax))
        return jax.jit(lambda a, b: total(product(a, b)))(put(A, None, "x"), put(B, "x"))

    return over(jax, program)


PROGRAMS = [
    summed_when_asked,
    scattered_when_asked,
    derivatives_of_addends,
    weights_with_addends_as_cotangents,
    cast_and_summed,
    cast_and_scattered,
    one_sum_for_all_uses,
    gathered_weights,
    addends_out_of_a_region,
    addends_into_a_region,
]
