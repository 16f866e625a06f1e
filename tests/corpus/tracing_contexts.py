"""What is traced under contexts of the top level; each program takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`.
"""

import functools

import numpy as np

from corpus.transform_programs import submodule

X = np.array([0.5, -1.25, 2.0], np.float32)


def known_under_jit(jax, x):
    """Python looks at values that are computed while the function is traced."""
    jnp = jax.numpy

    @jax.jit
    def run(x):
        with jax.ensure_compile_time_eval():
            total = jnp.sum(jnp.arange(4))
            slope = jax.grad(lambda a: a * a)(3.0)
            table = jax.vmap(jnp.sin)(jnp.arange(3.0))
        return (x + table) * slope if int(total) == 6 else x

    return run(x)


def partly_known(jax, x, transformation):
    """What depends on a traced value is traced, what doesn't is known."""
    jnp = jax.numpy

    @jax.custom_jvp
    def wave(x):
        return jnp.sin(x)

    wave.defjvp(lambda primals, tangents: (wave(*primals), jnp.cos(primals[0]) * tangents[0]))

    def run(x):
        with jax.ensure_compile_time_eval():
            steps = int(jax.jit(lambda: jnp.arange(3).sum())())
            rows = [jax.jit(lambda: x + 1)(), jax.vmap(lambda y: wave(y) + x)(jnp.arange(2.0))]
            rows.append(jax.lax.cond(True, lambda: x, lambda: x + 1) * float(jax.grad(wave)(0.5)))
            rows.append(jax.lax.fori_loop(0, steps, lambda i, y: y * i + wave(y), x))
            rows.append(jax.random.normal(jax.random.key(steps)) * jax.lax.linalg.cholesky(x * x))
        return sum(map(jnp.sum, rows))

    x = jnp.reshape(jnp.eye(3) * x, (3, 3))
    if transformation == "vmap":
        return jax.vmap(run)(x[None])
    return jax.jit(run)(x) if transformation == "jit" else jax.grad(run)(x)


def is_a_value(jax, x):
    with jax.ensure_compile_time_eval():
        return jax.jit(lambda x: x * int(x[0]))(x)


def named_functions(jax, x):
    called = jax.named_call(lambda x: x * 2, name="twice")
    return jax.jit(called)(x), str(jax.make_jaxpr(called)(x))


def user_contexts(jax, x):
    scale = jax.make_user_context(3)
    traced = []

    @jax.jit
    def run(x):
        traced.append(scale.value)
        return x * scale.value

    results = [run(x)]
    for value in (2, 3, 2):
        with scale(value):
            results.append(run(x))
    return results, traced, scale.value


def no_tracing(jax, x):
    run = jax.jit(lambda x: x * 2)
    run(x)
    with jax.no_tracing():
        run(x)
        return run(x.astype(np.int32))


def no_execution(jax, x):
    run = jax.jit(lambda x: x * 2)
    run(x)
    with jax.no_execution():
        run.lower(x).compile()
        return run(x)


def narrow_sums(jax, dtype):
    with jax.allow_f16_reductions(False):
        return jax.jit(lambda x: jax.lax.reduce_sum(x, (0,)))(np.ones((1, 2), dtype)[:, :1])


def narrow_sums_of_several(jax, dtype):
    with jax.allow_f16_reductions(False):
        return jax.lax.reduce_sum(np.ones((2, 2), dtype), (0,))


def must_be_cast(jax, x):
    with jax.auto_pcast(False):
        return _over_one_device(jax, lambda x, y: x + y)(x, x)


def is_cast(jax, x):
    with jax.auto_pcast(False):
        return _over_one_device(jax, lambda x, y: x + jax.lax.pcast(y, "i", to="varying"))(x, x)


def _over_one_device(jax, function):
    sharding = submodule(jax, "sharding")
    spec = sharding.PartitionSpec
    mesh = jax.make_mesh((1,), ("i",), axis_types=(sharding.AxisType.Auto,))
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=(spec("i"), spec()), out_specs=spec("i"))
    )


# Checks of derivatives ---------------------------------------------------------------------------------


def right_derivatives(jax, x):
    checks = submodule(jax, "test_util")

    def function(tree, n):
        return {"y": jax.numpy.sin(tree["w"]) * n, "z": tree["w"].sum()}

    checks.check_grads(lambda w: function({"w": w}, 3), (x,), 3, eps=1e-2)
    checks.check_grads(jax.numpy.exp, (x,), 2, modes=["fwd", "rev", "lin"], eps=1e-2)
    checks.check_grads(lambda z: z * jax.numpy.sin(z), (np.complex64(0.5 + 1j),), 1)
    checks.check_jvp(jax.numpy.sin, functools.partial(jax.jvp, jax.numpy.sin), (x,))
    checks.check_vjp(jax.numpy.sin, functools.partial(jax.vjp, jax.numpy.sin), (x,))


def wrong_derivative(jax, x, mode, order):
    """`wrong` is right to first order, and wrong to second."""
    jnp = jax.numpy

    @jax.custom_jvp
    def slope(x):
        return jnp.cos(x)

    slope.defjvp(lambda primals, tangents: (slope(*primals), jnp.ones_like(tangents[0])))

    @jax.custom_jvp
    def wrong(x):
        return jnp.sin(x)

    wrong.defjvp(lambda primals, tangents: (wrong(*primals), slope(*primals) * tangents[0]))
    submodule(jax, "test_util").check_grads(wrong, (x,), order, modes=[mode])


PROGRAMS = [
    (known_under_jit, (X,)),
    *((partly_known, (X, transformation)) for transformation in ("jit", "vmap", "grad")),
    (is_a_value, (X,)),
    (named_functions, (X,)),
    (user_contexts, (X,)),
    (no_tracing, (X,)),
    (no_execution, (X,)),
    *((narrow_sums, (dtype,)) for dtype in ("float16", "float32")),
    *((narrow_sums_of_several, (dtype,)) for dtype in ("float16", "float32")),
    (must_be_cast, (X,)),
    (is_cast, (X,)),
    (right_derivatives, (X,)),
    *((wrong_derivative, (X, mode, order)) for mode in ("fwd", "rev") for order in (1, 2)),
]


def fails(program, arguments):
    """Whether a row is a mistake."""
    return program in (is_a_value, no_tracing, no_execution, must_be_cast) or (
        program,
        arguments[-1:],
    ) in (
        (narrow_sums_of_several, ("float16",)),
        (wrong_derivative, (2,)),
    )
