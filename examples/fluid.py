"""A fluid that draws: which flow at the beginning moves a blot of smoke into a ring, a second later?

The solver is semi-Lagrangian, on a torus (Stam, 1999). Its adjoint is the gradient: reverse mode through all steps, each of which
is computed again on the way back (`checkpoint`), so that memory holds one state for each step. Run it: python examples/fluid.py
"""

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.scipy.ndimage import map_coordinates

SIZE = 32
TIME_STEPS, STEP = 10, 0.1
LEARNING_RATE, MOMENTUM = 2.0, 0.9


def moved(field, flow):
    """`field` [size, size] after it went with `flow` [2, size, size] (cells per unit of time) for one step, by looking back."""
    here = jnp.stack(jnp.meshgrid(*[jnp.arange(SIZE, dtype=flow.dtype)] * 2, indexing="ij"))
    return map_coordinates(field, list(here - STEP * flow), order=1, mode="wrap")


def without_sources(flow):
    """`flow` without its divergence: in Fourier space, without the part along the wave vector."""
    waves = jnp.fft.fftfreq(SIZE).at[SIZE // 2].set(0)  # the shortest one has no slope on the grid
    k = jnp.stack(jnp.meshgrid(waves, waves, indexing="ij"))
    squared = jnp.sum(k**2, axis=0)
    squared = jnp.where(squared == 0, 1, squared)  # a constant flow has no divergence
    spectrum = jnp.fft.fft2(flow)
    along = jnp.sum(k * spectrum, axis=0) / squared
    return jnp.fft.ifft2(spectrum - k * along).real.astype(flow.dtype)


def after(flow, smoke):
    """(flow, smoke) at the end."""

    @jax.checkpoint
    def step(state, _):
        flow, smoke = state
        flow = without_sources(jnp.stack([moved(part, flow) for part in flow]))
        return (flow, moved(smoke, flow)), None

    return lax.scan(step, (without_sources(flow), smoke), length=TIME_STEPS)[0]


def blot(dtype=np.float32):
    """Smoke [size, size] in a round blot."""
    x, y = np.mgrid[:SIZE, :SIZE] - SIZE / 2
    return np.exp(-(x**2 + y**2) / 30).astype(dtype)


def ring(dtype=np.float32):
    """Smoke [size, size] of the same amount in a ring that isn't quite round."""
    x, y = np.mgrid[:SIZE, :SIZE] - SIZE / 2
    shape = np.exp(-((np.hypot(x / 1.2, y) - 6) ** 2) / 5)
    return (shape * blot().sum() / shape.sum()).astype(dtype)


def loss(flow, smoke, target):
    """Sum of squared differences between the smoke at the end and the target."""
    return jnp.sum((after(flow, smoke)[1] - target) ** 2)


@jax.jit
def train_step(flow, velocity, smoke, target):
    """(flow at the beginning, velocity, loss) after one step of descent with momentum."""
    value, gradient = jax.value_and_grad(loss)(flow, smoke, target)
    velocity = MOMENTUM * velocity + gradient
    return flow - LEARNING_RATE * velocity, velocity, value


def main(steps=100):
    """Find the flow, print losses and the smoke; returns all losses."""
    smoke, target = blot(), ring()
    flow = 0.1 * jax.random.normal(jax.random.key(0), (2, SIZE, SIZE))
    velocity = jnp.zeros_like(flow)
    losses = []
    for step in range(1, steps + 1):
        flow, velocity, value = train_step(flow, velocity, smoke, target)
        losses.append(float(value))
        if step % 10 == 1:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    shades = np.array(list(" .:-=+*#%@"))
    drawn = np.clip(10 * np.asarray(after(flow, smoke)[1]), 0, 9).astype(int)
    print("\n".join("".join(shades[row]) for row in drawn[::2]))
    return losses


if __name__ == "__main__":
    main()
