"""A Kalman filter that learns its own noise levels from the measurements.

The filter is one `lax.scan` over time. It gives the likelihood of what was measured, so `grad` through the whole filter
is the direction in which to change the assumed noise. Run it: python examples/kalman_filter.py
"""

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax

DT = 0.1  # seconds between measurements
MOTION = np.array([[1, DT], [0, 1]], np.float32)  # state: position and velocity
INPUT = np.array([DT**2 / 2, DT], np.float32)  # how an acceleration changes the state
TRUE_ACCELERATION, TRUE_ERROR = 1.0, 0.5  # standard deviations, in m/s² and m
LEARNING_RATE = 0.05


def simulated(count):
    """Positions [count] of a particle pushed at random, and noisy measurements of them [count]."""
    random = np.random.default_rng(0)
    state, positions = np.zeros(2), []
    for _ in range(count):
        state = MOTION @ state + INPUT * random.normal(0, TRUE_ACCELERATION)
        positions.append(state[0])
    positions = np.array(positions, np.float32)
    return positions, positions + random.normal(0, TRUE_ERROR, count).astype(np.float32)


def filtered(log_noise, measurements):
    """(estimated positions [count], negative log-likelihood per measurement).

    `log_noise` has the logarithms of the standard deviations of the acceleration and of the measurements.
    """
    acceleration, error = jnp.exp(log_noise)
    process = acceleration**2 * jnp.outer(INPUT, INPUT)

    def step(belief, measurement):
        mean, covariance = belief
        mean = MOTION @ mean
        covariance = MOTION @ covariance @ MOTION.T + process
        surprise = measurement - mean[0]
        variance = covariance[0, 0] + error**2
        gain = covariance[:, 0] / variance
        log_likelihood = -0.5 * (surprise**2 / variance + jnp.log(2 * jnp.pi * variance))
        belief = mean + gain * surprise, covariance - jnp.outer(gain, covariance[0])
        return belief, (belief[0][0], log_likelihood)

    _, (positions, log_likelihoods) = lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measurements)
    return positions, -jnp.mean(log_likelihoods)


@jax.jit
def learning_step(log_noise, velocity, measurements):
    """(noise, velocity, loss) after one step of descent with momentum."""
    loss = lambda noise: filtered(noise, measurements)[1]
    value, gradient = jax.value_and_grad(loss)(log_noise)
    velocity = 0.9 * velocity - LEARNING_RATE * gradient
    return log_noise + velocity, velocity, value


def main(steps=150):
    """Learn the noise levels, print them and how far the filter is from the truth; returns all losses."""
    positions, measurements = simulated(500)
    log_noise = jnp.log(jnp.array([0.1, 3.0]))
    velocity = jnp.zeros(2)
    losses = []
    for step in range(steps):
        log_noise, velocity, value = learning_step(log_noise, velocity, measurements)
        losses.append(float(value))
        if step % 25 == 0:
            acceleration, error = np.exp(log_noise)
            print(f"step {step:4}  loss {losses[-1]:.4f}  {acceleration:.2f} m/s², {error:.2f} m")
    estimates = np.asarray(filtered(log_noise, measurements)[0])
    print(f"true noise: {TRUE_ACCELERATION} m/s², {TRUE_ERROR} m")
    print(f"error of measurements: {np.std(measurements - positions):.3f} m")
    print(f"error of the filter:   {np.std(estimates - positions):.3f} m")
    return losses


if __name__ == "__main__":
    main()
