"""Automatic differentiation variational inference: Bayesian logistic regression, whose weights stay uncertain.

A Gaussian with free means and deviations is moved towards the posterior by gradients of the evidence lower bound through
its own samples (Kucukelbir et al., 2017). Run it: python examples/variational_inference.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import nn

SAMPLES = 16  # of the weights, in each step
LEARNING_RATE = 0.05
PRIOR = 1.0  # standard deviation of weights before anything is observed


def patients():
    """(features [569, 31], standardized and with a constant, labels [569]: 1 if benign)."""
    features, labels = load_breast_cancer(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    features = np.column_stack([features, np.ones(len(features))])
    return features.astype(np.float32), labels.astype(np.float32)


def log_joint(weights, features, labels):
    """Logarithm of the prior density of `weights` [31] times the likelihood of the labels, up to a constant."""
    scores = features @ weights
    log_likelihood = jnp.sum(
        labels * nn.log_sigmoid(scores) + (1 - labels) * nn.log_sigmoid(-scores)
    )
    return log_likelihood - 0.5 * jnp.sum((weights / PRIOR) ** 2)


def loss(guide, key, features, labels):
    """Negative evidence lower bound per patient, estimated with samples of the weights."""
    noise = jax.random.normal(key, (SAMPLES, len(guide["mean"])))
    weights = guide["mean"] + jnp.exp(guide["log_deviation"]) * noise
    expected = jnp.mean(jax.vmap(log_joint, in_axes=(0, None, None))(weights, features, labels))
    entropy = jnp.sum(guide["log_deviation"])
    return -(expected + entropy) / len(labels)


@jax.jit
def train_step(guide, squares, key, features, labels):
    """(guide, running squares of gradients, loss) after one step of RMSProp."""
    value, gradients = jax.value_and_grad(loss)(guide, key, features, labels)
    squares = jax.tree.map(lambda s, g: 0.9 * s + 0.1 * g**2, squares, gradients)
    update = lambda x, g, s: x - LEARNING_RATE * g / (jnp.sqrt(s) + 1e-6)
    return jax.tree.map(update, guide, gradients, squares), squares, value


def probability(guide, key, features):
    """Probability of a benign tumour for each patient, averaged over the posterior of the weights."""
    noise = jax.random.normal(key, (200, len(guide["mean"])))
    weights = guide["mean"] + jnp.exp(guide["log_deviation"]) * noise
    return jnp.mean(nn.sigmoid(features @ weights.T), axis=1)


def main(steps=200):
    """Fit the posterior, print the bound, and how often predictions that are sure are right; returns all losses."""
    features, labels = patients()
    count = features.shape[1]
    guide = {"mean": jnp.zeros(count), "log_deviation": jnp.zeros(count)}
    squares = jax.tree.map(jnp.ones_like, guide)
    key = jax.random.key(0)
    losses = []
    for step in range(steps):
        keys = jax.random.fold_in(key, step)
        guide, squares, value = train_step(guide, squares, keys, features[:400], labels[:400])
        losses.append(float(value))
        if step % 25 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    benign = np.asarray(probability(guide, key, features[400:]))
    is_right = (benign > 0.5) == labels[400:]
    is_sure = np.abs(benign - 0.5) > 0.45
    print(f"accuracy on unseen patients: {is_right.mean():.3f}")
    print(
        f"of {is_sure.sum()} that are predicted with certainty, {(is_right & is_sure).sum()} are right"
    )
    return losses


if __name__ == "__main__":
    main()
