"""A variational circuit of PennyLane on its jax interface, trained to a wanted expectation.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/pennylane_circuit.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import pennylane as qml


def main(steps: int = 30) -> list[float]:
    """Trains for some steps and returns their losses."""
    device = qml.device("default.qubit", wires=2)

    @qml.qnode(device, interface="jax")
    def circuit(angles):
        qml.RX(angles[0], wires=0)
        qml.RY(angles[1], wires=1)
        qml.CNOT(wires=[0, 1])
        qml.Rot(angles[2], angles[3], 0.1, wires=1)
        return qml.expval(qml.PauliZ(0) @ qml.PauliX(1))

    step = jax.jit(jax.value_and_grad(lambda a: (circuit(a) - 0.9) ** 2))
    angles = jnp.array([0.3, 0.5, 0.7, -0.4])
    losses = []
    for _ in range(steps):
        loss, gradient = step(angles)
        angles = angles - 0.2 * gradient
        losses.append(float(loss))
    assert jnp.isfinite(jax.vmap(circuit)(jnp.stack([angles, 2 * angles]))).all()
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
