"""A density of two moons, learned by a flow of flowjax and quax-like wrappers of paramax.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/flowjax_moons.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
from flowjax.distributions import Normal
from flowjax.flows import masked_autoregressive_flow
from flowjax.train import fit_to_data
from sklearn.datasets import make_moons


def main(steps: int = 12) -> list[float]:
    """Trains for some epochs and returns their losses on held-out points."""
    points = jnp.asarray(make_moons(256, noise=0.05, random_state=0)[0], jnp.float32)
    key, other = jax.random.split(jax.random.key(0))
    flow = masked_autoregressive_flow(
        key, base_dist=Normal(jnp.zeros(2)), flow_layers=2, nn_width=16
    )
    flow, losses = fit_to_data(
        other,
        flow,
        points,
        max_epochs=steps,
        learning_rate=5e-3,
        batch_size=64,
        show_progress=False,
    )
    return [float(x) for x in losses["train"]]


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"epoch {number}: loss {value:.6f}")
