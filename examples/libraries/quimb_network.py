"""A matrix product state, optimized by quimb to be a chain's ground state, with gradients by jax.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/quimb_network.py` runs it on pellucid.
"""

import autoray
import numpy as np
import quimb.tensor as qtn


def normalized(state):
    """The state with norm 1."""
    return state / (state.H @ state) ** 0.5


def energy(state, hamiltonian):
    """The energy of a normalized state."""
    above, middle, below = qtn.tensor_network_align(state.H, hamiltonian, state)
    return (above & middle & below).contract(...)


def main(steps: int = 40) -> list[float]:
    """Optimizes for some steps and returns the energies."""
    # cotengra would else take it from NumPy, also with jax
    assert autoray.get_namespace("jax").tensordot
    length = 8
    state = qtn.MPS_rand_state(length, bond_dim=4, seed=0, dtype="float32")
    hamiltonian = qtn.MPO_ham_heis(length).astype("float32")
    optimizer = qtn.TNOptimizer(
        state, energy, norm_fn=normalized, loss_constants={"hamiltonian": hamiltonian},
        autodiff_backend="jax", optimizer="adam", progbar=False, device="cpu",
    )  # fmt: skip
    found = optimizer.optimize(steps, learning_rate=0.05)
    assert np.isclose(np.linalg.norm(normalized(found).to_dense()), 1, atol=1e-4)
    return [float(value) for value in optimizer.losses[:steps]]


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: energy {value:.6f}")
