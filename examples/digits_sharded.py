"""Handwritten digits over eight devices: batches are cut along one mesh axis, weights along the other.

The functions are those of one device. Where arrays lie is said when they are made; the compiler adds what devices
exchange: a sum over `model` in the forward pass, one over `data` for the gradients. Run it: python examples/digits_sharded.py
"""

import numpy as np
from sklearn.datasets import load_digits

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import nn
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

HIDDEN = 128
BATCH_SIZE = 256
LEARNING_RATE = 0.2
MOMENTUM = 0.9

SPECS = {
    "into": P(None, "model"),  # [64, hidden]: every device of an axis has some hidden features
    "bias": P("model"),
    "out": P(
        "model", None
    ),  # [hidden, 10]: the products of these features are summed over the axis
}


def initial_params(key, mesh):
    """The network's parameters, laid out over `mesh` as `SPECS` says."""
    keys = jax.random.split(key)
    params = {
        "into": jax.random.normal(keys[0], (64, HIDDEN)) / 8,
        "bias": jnp.zeros(HIDDEN),
        "out": jax.random.normal(keys[1], (HIDDEN, 10)) / HIDDEN**0.5,
    }
    return {name: jax.device_put(x, NamedSharding(mesh, SPECS[name])) for name, x in params.items()}


def loss(params, images, labels):
    """Mean cross entropy of a network with one hidden layer."""
    hidden = nn.relu(images @ params["into"] + params["bias"])
    log_probabilities = nn.log_softmax(hidden @ params["out"])
    return -jnp.mean(jnp.sum(nn.one_hot(labels, 10) * log_probabilities, axis=1))


@jax.jit
def train_step(params, velocity, images, labels):
    """(parameters, velocity, loss) after one step of descent with momentum."""
    value, gradients = jax.value_and_grad(loss)(params, images, labels)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradients)
    params = jax.tree.map(lambda p, v: p - LEARNING_RATE * v, params, velocity)
    return params, velocity, value


def main(steps=100):
    """Train over eight devices, print losses and where arrays lie; returns all losses."""
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)
    params = initial_params(jax.random.key(0), mesh)
    velocity = jax.tree.map(jnp.zeros_like, params)
    shuffled = np.random.default_rng(0)
    losses = []
    for step in range(steps):
        batch = shuffled.choice(len(images), BATCH_SIZE, replace=False)
        rows = NamedSharding(mesh, P("data"))
        x, y = jax.device_put((images[batch], labels[batch]), rows)
        params, velocity, value = train_step(params, velocity, x, y)
        losses.append(float(value))
        if step % 20 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    for name, array in params.items():
        part = array.addressable_shards[0].data.shape
        print(f"{name:5} {array.shape!s:10} {array.sharding.spec}, {part} on each device")
    return losses


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
