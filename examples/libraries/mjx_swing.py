"""A pendulum of MuJoCo's MJX, whose start is trained so that it ends where it should.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/mjx_swing.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

XML = """
<mujoco>
  <option timestep="0.02"/>
  <worldbody>
    <body pos="0 0 1">
      <joint type="hinge" axis="0 1 0" damping="0.05"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
</mujoco>
"""


def main(steps: int = 12) -> list[float]:
    """Trains for some steps and returns their losses."""
    model = mjx.put_model(mujoco.MjModel.from_xml_string(XML))
    start = mjx.make_data(model)

    def end(velocity):
        def one(data, _):
            return mjx.step(model, data), None

        data, _ = jax.lax.scan(one, start.replace(qvel=velocity), None, length=10)
        return data.qpos[0]

    step = jax.jit(lambda v: (end(v), jax.jacfwd(end)(v)))
    velocity, losses = jnp.array([0.5]), []
    for _ in range(steps):
        angle, slope = step(velocity)
        losses.append(float((angle - 0.4) ** 2))
        velocity = velocity - 4.0 * (angle - 0.4) * slope
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"step {number}: loss {value:.8f}")
