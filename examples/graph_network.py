"""A graph network finds the groups of a hundred people from who knows whom, where only two of each group are named.

A layer adds up what neighbours send: edges are two arrays of ends, and `segment_sum` adds along them, so that a graph of any shape
is one program (Kipf and Welling, 2017). Run it: python examples/graph_network.py
"""

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import nn

PEOPLE, GROUPS, NAMED_OF_EACH = 100, 4, 2
WITHIN, ACROSS = 0.3, 0.01  # probabilities that two people know each other
HIDDEN = 16
LEARNING_RATE = 1e-2
DECAY = 5e-4


def acquaintances(rng):
    """(groups [people], senders [edges], receivers [edges]): each pair in both directions, and each with itself."""
    groups = np.arange(PEOPLE) % GROUPS
    likely = np.where(groups[:, None] == groups, WITHIN, ACROSS)
    knows = np.triu(rng.random((PEOPLE, PEOPLE)) < likely, 1)
    senders, receivers = np.nonzero(knows | knows.T | np.eye(PEOPLE, dtype=bool))
    return groups.astype(np.int32), senders.astype(np.int32), receivers.astype(np.int32)


def gathered(x, senders, receivers):
    """For each person the mean of `x` [people, features] over those who know it, by the roots of both numbers of edges."""
    count = jax.ops.segment_sum(jnp.ones(len(senders)), receivers, PEOPLE)
    weights = 1 / jnp.sqrt(count[senders] * count[receivers])
    return jax.ops.segment_sum(weights[:, None] * x[senders], receivers, PEOPLE)


def logits(params, senders, receivers):
    """Scores [people, groups]. People have no features but who they are: the first weights are a row for each of them."""
    hidden = nn.relu(gathered(params["into"], senders, receivers) + params["bias"])
    return gathered(hidden @ params["out"], senders, receivers)


def loss(params, graph, named):
    """Mean cross entropy of those whose group is named, and the decay of weights."""
    groups, senders, receivers = graph
    log_probabilities = nn.log_softmax(logits(params, senders, receivers))[named]
    entropy = -jnp.mean(jnp.take_along_axis(log_probabilities, groups[named][:, None], axis=1))
    return entropy + DECAY * jnp.sum(params["into"] ** 2)


@jax.jit
def train_step(params, means, squares, step, graph, named):
    """(parameters, both moments of Adam, loss) after step number `step`, counted from 1."""
    value, gradients = jax.value_and_grad(loss)(params, graph, named)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8)
    return jax.tree.map(update, params, means, squares), means, squares, value


def main(steps=200):
    """Train, print losses and for how many of the others the group is found; returns all losses."""
    graph = acquaintances(np.random.default_rng(0))
    named = np.arange(GROUPS * NAMED_OF_EACH)  # their groups are 0, 1, 2, 3, 0, 1, …
    keys = jax.random.split(jax.random.key(0))
    glorot = nn.initializers.glorot_uniform()
    params = {
        "into": glorot(keys[0], (PEOPLE, HIDDEN)),
        "bias": jnp.zeros(HIDDEN),
        "out": glorot(keys[1], (HIDDEN, GROUPS)),
    }
    means = squares = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for step in range(1, steps + 1):
        params, means, squares, value = train_step(params, means, squares, step, graph, named)
        losses.append(float(value))
        if step % 20 == 1:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    found = jnp.argmax(logits(params, *graph[1:]), axis=1) == graph[0]
    print(
        f"of {PEOPLE - len(named)} people whose group wasn't named {jnp.sum(found[len(named) :])} are in the right one"
    )
    return losses


if __name__ == "__main__":
    main()
