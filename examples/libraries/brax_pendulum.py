"""Brax's generalized pipeline: forces on a falling pendulum are trained, through its steps.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/brax_pendulum.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
from brax.generalized import pipeline
from brax.io import mjcf

XML = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" gear="1" ctrlrange="-5 5" ctrllimited="true"/></actuator>
</mujoco>
"""


def main(steps: int = 12) -> list[float]:
    """Trains for some steps and returns their losses."""
    system = mjcf.loads(XML)
    start = pipeline.init(system, jnp.array([0.3]), jnp.zeros(1))

    def loss(actions):
        def one(state, action):
            return pipeline.step(system, state, action), None

        state, _ = jax.lax.scan(one, start, actions)
        return (state.q[0] - 0.5) ** 2

    step = jax.jit(jax.value_and_grad(loss))
    actions, losses = jnp.zeros((10, 1)), []
    for _ in range(steps):
        value, gradient = step(actions)
        losses.append(float(value))
        actions = actions - 50.0 * gradient
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"step {number}: loss {value:.8f}")
