"""A mixture of experts over eight devices: each has one expert and an eighth of the points, and sends points to their experts.

Within `shard_map` a function is that of one device. `all_to_all` sends for each expert as many places as there is capacity, and a
second one brings results back (Shazeer et al., 2017; Lepikhin et al., 2020). Run it: python examples/mixture_of_experts.py
"""

import functools

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax, nn
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

EXPERTS, WIDTH, HIDDEN = 8, 8, 16
POINTS = 512
CAPACITY = 16  # points that each device may send to each expert: twice as many as fair shares
BALANCE = 0.02
LEARNING_RATE = 1e-2


def initial_params(key):
    """The router's weights, and those of the experts with a leading axis for the expert."""
    keys = jax.random.split(key, 3)
    return {
        "router": 0.5 * jax.random.normal(keys[0], (WIDTH, EXPERTS)),
        "into": jax.random.normal(keys[1], (EXPERTS, WIDTH, HIDDEN)) / WIDTH**0.5,
        "out": jax.random.normal(keys[2], (EXPERTS, HIDDEN, WIDTH)) / HIDDEN**0.5,
    }


SPECS = {"router": P(), "into": P("expert"), "out": P("expert")}


def layer(params, x, capacity=CAPACITY):
    """(results [points, width], how unequal loads are) of this device's points `x`, whose experts are on all devices.

    A point that finds no place at its expert keeps its value.
    """
    probabilities = nn.softmax(x @ params["router"])
    chosen = nn.one_hot(jnp.argmax(probabilities, axis=1), EXPERTS)
    place = (
        jnp.cumsum(chosen, axis=0) * chosen - 1
    )  # [points, experts]: in the queue of its expert, else -1
    sent = nn.one_hot(
        place.astype(jnp.int32), capacity
    )  # [points, experts, places]: all 0 for -1 and where there is no place
    queues = jnp.einsum("nd,nec->ecd", x, sent)
    arrived = lax.all_to_all(
        queues, "expert", 0, 0, tiled=True
    )  # [devices, places, width], for one expert
    hidden = nn.relu(jnp.einsum("scd,dh->sch", arrived, params["into"][0]))
    results = jnp.einsum("sch,hd->scd", hidden, params["out"][0])
    returned = lax.all_to_all(
        results, "expert", 0, 0, tiled=True
    )  # [experts, places, width], of this device's points
    weights = sent * jnp.sum(probabilities * chosen, axis=1)[:, None, None]
    load = lax.pmean(jnp.mean(chosen, axis=0), "expert")
    wanted = lax.pmean(jnp.mean(probabilities, axis=0), "expert")
    return x + jnp.einsum("ecd,nec->nd", returned, weights), EXPERTS * jnp.sum(load * wanted)


def loss(params, x, y):
    """Mean squared error over all devices' points, and what unequal loads cost."""
    results, unequal = layer(params, x)
    return lax.pmean(jnp.mean((results - y) ** 2), "expert") + BALANCE * unequal


def train_step_over(mesh):
    """The function from parameters, both moments of Adam, step and data to those after the step and the loss."""

    @jax.jit
    @functools.partial(
        jax.shard_map, mesh=mesh, in_specs=(SPECS, SPECS, SPECS, P(), P("expert"), P("expert")), out_specs=(SPECS, SPECS, SPECS, P()),
    )  # fmt: skip
    def train_step(params, means, squares, step, x, y):
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
        squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, squares, gradients)
        rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8)
        return jax.tree.map(update, params, means, squares), means, squares, value

    return train_step


def points(rng):
    """(x, y) [points, width]: y is another linear function of x in each of eight clusters."""
    cluster = rng.integers(0, EXPERTS, POINTS)
    centers = 2 * rng.normal(size=(EXPERTS, WIDTH))
    functions = rng.normal(size=(EXPERTS, WIDTH, WIDTH)) / WIDTH**0.5
    x = centers[cluster] + rng.normal(size=(POINTS, WIDTH))
    y = x + np.einsum("nd,nde->ne", x, functions[cluster])
    return x.astype(np.float32), y.astype(np.float32)


def main(steps=200):
    """Train over eight devices, print losses and where arrays lie; returns all losses."""
    mesh = jax.make_mesh((EXPERTS,), ("expert",), axis_types=(AxisType.Auto,))
    place = lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec))
    params = initial_params(jax.random.key(0))
    params = {name: place(x, SPECS[name]) for name, x in params.items()}
    means = squares = jax.tree.map(jnp.zeros_like, params)
    x, y = [place(array, P("expert")) for array in points(np.random.default_rng(0))]
    train_step = train_step_over(mesh)
    losses = []
    for step in range(1, steps + 1):
        params, means, squares, value = train_step(params, means, squares, step, x, y)
        losses.append(float(value))
        if step % 20 == 1:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    for name, array in params.items():
        part = array.addressable_shards[0].data.shape
        print(f"{name:6} {array.shape!s:11} {part} on each device")
    return losses


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
