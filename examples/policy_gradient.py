"""A pole is kept upright on a cart by policy gradient: the environment is a function of arrays, so that training is one program.

An episode is a `scan` over time, a batch of episodes a `vmap` over keys. The gradient is that of the log probabilities of what was
done, weighted by how long the pole stood afterwards (Williams, 1992). Run it: python examples/policy_gradient.py
"""

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax, nn

EPISODES, TIME = 64, 200
HIDDEN = 32
DISCOUNT = 0.98
LEARNING_RATE = 1e-2
STEP_SECONDS, PUSH, GRAVITY = 0.02, 10.0, 9.8
CART, POLE, HALF_LENGTH = 1.0, 0.1, 0.5  # kilograms, kilograms, meters


def moved(state, action):
    """State [4] of cart and pole a moment later: position, its rate, angle, its rate. Action 1 pushes to the right, 0 to the left."""
    _, speed, angle, spin = state
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    pole = POLE * HALF_LENGTH
    push = (PUSH * (2 * action - 1) + pole * spin**2 * sin) / (CART + POLE)
    lever = HALF_LENGTH * (4 / 3 - POLE * cos**2 / (CART + POLE))
    turned = (GRAVITY * sin - cos * push) / lever
    pushed = push - pole * turned * cos / (CART + POLE)
    return state + STEP_SECONDS * jnp.stack([speed, pushed, spin, turned])


def stands(state):
    """Whether the cart is on its track and the pole within 12 degrees."""
    return (jnp.abs(state[0]) < 2.4) & (jnp.abs(state[2]) < 0.21)


def initial_params(key):
    """Weights of a network with one hidden layer, which begins with pushes at random."""
    return {"into": 0.5 * jax.random.normal(key, (4, HIDDEN)), "out": jnp.zeros((HIDDEN, 2))}


def log_probabilities(params, states):
    """Log probabilities [..., 2] of both pushes in `states` [..., 4]."""
    return nn.log_softmax(jnp.tanh(states @ params["into"]) @ params["out"])


def episode(params, key):
    """(states [time, 4], actions [time], whether the pole stood before each [time]); time goes on after a fall, and doesn't count."""

    def step(carry, key):
        state, standing = carry
        action = jax.random.categorical(key, log_probabilities(params, state))
        after = moved(state, action)
        return (after, standing & stands(after)), (state, action, standing)

    keys = jax.random.split(key, TIME + 1)
    start = jax.random.uniform(keys[0], (4,), minval=-0.05, maxval=0.05)
    return lax.scan(step, (start, stands(start)), keys[1:])[1]


def loss(params, states, actions, standing):
    """What descends along the policy gradient; its value has no meaning."""
    rewards = standing.astype(jnp.float32)
    add = lambda later, now: (now + DISCOUNT * later,) * 2
    _, to_come = lax.scan(add, jnp.zeros(len(rewards)), rewards.T, reverse=True)
    better = to_come.T - jnp.mean(to_come, axis=1)  # than episodes are at that time
    better = better / (jnp.std(better) + 1e-6)
    chosen = jnp.take_along_axis(log_probabilities(params, states), actions[..., None], axis=-1)
    return -jnp.sum(chosen[..., 0] * better * rewards) / jnp.sum(rewards)


@jax.jit
def train_step(params, means, squares, step, key):
    """(parameters, both moments of Adam, mean number of steps that the pole lies) after step number `step`, counted from 1."""
    played = jax.vmap(episode, in_axes=(None, 0))(params, jax.random.split(key, EPISODES))
    gradients = jax.grad(loss)(params, *played)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8)
    params = jax.tree.map(update, params, means, squares)
    return params, means, squares, TIME - jnp.mean(jnp.sum(played[2], axis=1))


def main(steps=100):
    """Train, print how long the pole lies; returns that of all steps as losses."""
    keys = jax.random.split(jax.random.key(0), steps + 1)
    params = initial_params(keys[0])
    means = squares = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for step in range(1, steps + 1):
        params, means, squares, value = train_step(params, means, squares, step, keys[step])
        losses.append(float(value))
        if step % 10 == 1:
            print(
                f"step {step:4}  loss {losses[-1]:6.1f}: the pole stands {TIME - losses[-1]:5.1f} steps of {TIME}"
            )
    return losses


if __name__ == "__main__":
    main()
