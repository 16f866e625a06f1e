"""A training that stops in the middle and resumes from a checkpoint of orbax, written in the background.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/orbax_resumed.py` runs it on pellucid.
"""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

OPTIMIZER = optax.adam(2e-2)


def initial() -> dict:
    """Parameters of a network with one hidden layer, the optimizer's state and the number of steps."""
    first, second = jax.random.split(jax.random.key(0))
    params = {
        "hidden": jax.random.normal(first, (2, 16)),
        "bias": jnp.zeros(16),
        "out": 0.1 * jax.random.normal(second, (16,)),
    }
    return {"params": params, "optimizer": OPTIMIZER.init(params), "steps": jnp.zeros((), int)}


def loss_of(params: dict, points: jax.Array) -> jax.Array:
    """Mean squared error of the product of the two coordinates."""
    outputs = jnp.tanh(points @ params["hidden"] + params["bias"]) @ params["out"]
    return jnp.mean((outputs - points[:, 0] * points[:, 1]) ** 2)


@jax.jit
def step(state: dict, points: jax.Array) -> tuple[dict, jax.Array]:
    """The state after one step, and the loss before it."""
    loss, gradients = jax.value_and_grad(loss_of)(state["params"], points)
    updates, optimizer = OPTIMIZER.update(gradients, state["optimizer"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "optimizer": optimizer, "steps": state["steps"] + 1}, loss


def main(steps: int = 100) -> list[float]:
    """The losses of all steps; after half of them, the state is written, forgotten and read."""
    points = np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)
    state = initial()
    losses = []
    with tempfile.TemporaryDirectory() as folder, ocp.CheckpointManager(folder) as manager:
        while len(losses) < steps:
            state, loss = step(state, points)
            losses.append(float(loss))
            if len(losses) == steps // 2:
                manager.save(len(losses), args=ocp.args.StandardSave(state))
                manager.wait_until_finished()
                types = jax.tree.map(ocp.utils.to_shape_dtype_struct, initial())
                saved = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(types))
                assert int(saved["steps"]) == len(losses)
                state = saved
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
