"""A neural ordinary differential equation: the law of motion of a pendulum, learned from where it was.

`odeint` integrates with adaptive steps; its derivative is another integration, backwards in time (Chen et al., 2018), so
memory doesn't grow with the number of steps. Run it: python examples/neural_ode.py
"""

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import nn
from pellucid.experimental.ode import odeint

HIDDEN = 32
LEARNING_RATE = 1e-2
TIMES = np.linspace(0, 2, 9, dtype=np.float32)


def pendulum(state, t):
    """Derivative by time of angle and angular velocity, with a little friction."""
    angle, velocity = state
    return jnp.array([velocity, -4 * jnp.sin(angle) - 0.2 * velocity])


def network(state, t, params):
    """The derivative that the network believes in."""
    hidden = jnp.tanh(params["into"] @ state + params["bias"])
    return params["out"] @ hidden


def trajectories(key, count):
    """Trajectories [count, times, 2] of the true pendulum from random beginnings."""
    starts = jax.random.uniform(key, (count, 2), minval=-1.5, maxval=1.5)
    return jax.vmap(lambda start: odeint(pendulum, start, TIMES))(starts)


def initial_params(key):
    """Weights of a network from two numbers to two, with one hidden layer."""
    keys = jax.random.split(key)
    initializer = nn.initializers.lecun_normal(in_axis=1, out_axis=0)
    return {
        "into": initializer(keys[0], (HIDDEN, 2)),
        "bias": jnp.zeros(HIDDEN),
        "out": initializer(keys[1], (2, HIDDEN)),
    }


def loss(params, paths):
    """Mean squared distance between true and predicted trajectories that begin at the same points."""
    predict = lambda start: odeint(network, start, TIMES, params, rtol=1e-4, atol=1e-5)
    return jnp.mean((jax.vmap(predict)(paths[:, 0]) - paths) ** 2)


@jax.jit
def train_step(params, means, squares, step, paths):
    """(parameters, both moments of Adam, loss) after step number `step`, counted from 1."""
    value, gradients = jax.value_and_grad(loss)(params, paths)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8)
    return jax.tree.map(update, params, means, squares), means, squares, value


def main(steps=200):
    """Learn the law of motion, print losses and a prediction for later times; returns all losses."""
    keys = jax.random.split(jax.random.key(0))
    paths = trajectories(keys[0], 32)
    params = initial_params(keys[1])
    means = squares = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for step in range(1, steps + 1):
        params, means, squares, value = train_step(params, means, squares, step, paths)
        losses.append(float(value))
        if step % 25 == 1:
            print(f"step {step:4}  loss {losses[-1]:.5f}")
    later = np.linspace(0, 4, 9, dtype=np.float32)
    start = jnp.array([1.0, 0.0])
    true, predicted = odeint(pendulum, start, later), odeint(network, start, later, params)
    for time, x, y in zip(later, true[:, 0], predicted[:, 0], strict=True):
        print(f"angle at {time:.1f} s: {x:6.3f}, predicted {y:6.3f}")
    return losses


if __name__ == "__main__":
    main()
