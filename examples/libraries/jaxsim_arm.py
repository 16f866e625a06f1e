"""A double pendulum of jaxsim, whose torques are trained so that its joints speed up as they should.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/jaxsim_arm.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import jaxsim.api as js
import numpy as np
import rod
from rod.builder.primitives import BoxBuilder, PrimitiveBuilder

LENGTH = 0.5


def arm() -> rod.Model:
    """A base in the world, and two boxes that hang from it one below the other, each by a joint at its upper end."""
    pose = PrimitiveBuilder.build_pose
    links, joints, parent = [], [rod.Joint("fixed", "fixed", parent="world", child="base")], None
    for name, place in {"base": 0.0, "upper": 0.0, "lower": -LENGTH}.items():
        box = BoxBuilder(name=name, mass=1.0, x=0.1, y=0.1, z=LENGTH)
        link = box.build_link(
            name=name, pose=parent and pose(relative_to=parent, pos=np.array([0, 0, place]))
        )
        links.append(link.add_inertial(pose=pose(pos=np.array([0, 0, -LENGTH / 2]))).build())
        if parent:
            axis = rod.Axis(xyz=rod.Xyz([0, 1, 0]), limit=rod.Limit(lower=-3.0, upper=3.0))
            joints.append(rod.Joint(f"to {name}", "revolute", parent=parent, child=name, axis=axis))
        parent = name
    model = rod.Model(name="arm", link=links, joint=joints)
    model.resolve_frames()
    return model


def main(steps: int = 12) -> list[float]:
    """Trains for some steps and returns their losses."""
    model = js.model.JaxSimModel.build_from_model_description(model_description=arm())
    start = js.data.JaxSimModelData.build(model=model, joint_positions=jnp.array([0.3, -0.2]))
    goal = jnp.array([2.0, -1.0])

    @jax.jit
    @jax.value_and_grad
    def loss(torques):
        _, speeding = js.model.forward_dynamics_aba(model=model, data=start, joint_forces=torques)
        return jnp.sum((speeding - goal) ** 2)

    torques, losses = jnp.zeros(2), []
    for _ in range(steps):
        value, gradient = loss(torques)
        losses.append(float(value))
        torques = torques - 4e-5 * gradient
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"step {number}: loss {value:.8f}")
