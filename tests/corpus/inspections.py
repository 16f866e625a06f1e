"""Programs over eight devices that say where values lie; each takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`.
"""

import numpy as np

from corpus.transform_programs import submodule

X = np.arange(128, dtype=np.float32).reshape(8, 16)


def _placed(jax, *spec):
    sharding = submodule(jax, "sharding")
    mesh = sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    return jax.device_put(X, sharding.NamedSharding(mesh, sharding.PartitionSpec(*spec)))


def _seen(jax, function, x):
    """Shapes of the parts that are seen while `function(x, look)` runs, and its result."""
    seen = []

    def look(value):
        def note(sharding):
            seen.append((tuple(sharding.shard_shape(value.shape)), sharding.num_devices))

        submodule(jax, "debug").inspect_array_sharding(value, callback=note)

    result = function(x, look)
    return result, seen


def at_once(jax, *spec):
    return _seen(jax, lambda x, look: look(x), _placed(jax, *spec))


def in_the_middle(jax, *spec):
    jnp = jax.numpy

    def function(x, look):
        @jax.jit
        def run(x):
            y = jnp.sin(x)
            look(y)
            z = y @ y.T
            look(z)
            return z.sum()

        return run(x), run(x)

    return _seen(jax, function, _placed(jax, *spec))


def in_a_gradient(jax, *spec):
    def function(x, look):
        def loss(x):
            y = jax.numpy.sin(x)
            look(y)
            return y.sum()

        return jax.jit(jax.grad(loss))(x)

    return _seen(jax, function, _placed(jax, *spec))


def of_parts(jax, *spec):
    partition = submodule(jax, "sharding").PartitionSpec(*spec)

    def function(x, look):
        def local(x):
            look(x)
            return x * 2

        mesh = x.sharding.mesh
        run = jax.shard_map(local, mesh=mesh, in_specs=partition, out_specs=partition)
        return jax.jit(run)(x)

    return _seen(jax, function, _placed(jax, *spec))


PROGRAMS = [
    (program, spec)
    for program in (at_once, in_the_middle, in_a_gradient, of_parts)
    for spec in (("x", "y"), (None, "y"), (("x", "y"),), ())
]
