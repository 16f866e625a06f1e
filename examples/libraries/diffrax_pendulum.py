"""A damped pendulum learned from its motion: a network of equinox as a vector field, solved by diffrax.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/diffrax_pendulum.py` runs it on pellucid.
"""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

SECONDS = 4.0
TIMES = jnp.linspace(0.0, SECONDS, 25)


def pendulum(t, state, damping):
    """How a pendulum's angle and speed change."""
    angle, speed = state
    return jnp.stack([speed, -jnp.sin(angle) - damping * speed])


class Field(eqx.Module):
    """A vector field that a network computes."""

    network: eqx.nn.MLP

    def __init__(self, key: jax.Array) -> None:
        self.network = eqx.nn.MLP(2, 2, 24, 2, activation=jnp.tanh, key=key)

    def __call__(self, t, state, args):
        """The change of `state`."""
        return self.network(state)


def motion(field, start: jax.Array, args=None) -> jax.Array:
    """The states at `TIMES` that follow from `start` (2), as (times, 2)."""
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=SECONDS,
        dt0=0.1,
        y0=start,
        args=args,
        saveat=diffrax.SaveAt(ts=TIMES),
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-5),
        max_steps=256,
    )
    return solution.ys


def main(steps: int = 100) -> list[float]:
    """Trains for some steps and returns their losses."""
    starts = jax.random.uniform(jax.random.key(0), (16, 2), minval=-1.5, maxval=1.5)
    measured = jax.vmap(lambda start: motion(pendulum, start, 0.2))(starts)
    field = Field(jax.random.key(1))
    optimizer = optax.adam(1e-2)
    state = optimizer.init(eqx.filter(field, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(field, state):
        def mean_loss(field):
            return jnp.mean((jax.vmap(lambda start: motion(field, start))(starts) - measured) ** 2)

        loss, gradient = eqx.filter_value_and_grad(mean_loss)(field)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(field, updates), state, loss

    losses = []
    for _ in range(steps):
        field, state, loss = step(field, state)
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
