"""Harmonics on the sphere that s2fft fits to a field where it was seen, through its transformation and back.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/s2fft_sphere.py` runs it on pellucid.
"""

import jax

jax.config.update("jax_enable_x64", True)  # which the library asks for

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import s2fft  # noqa: E402


def main(steps: int = 40) -> list[float]:
    """Descends for some steps and returns the errors where the field was seen."""
    limit = 8
    random = np.random.default_rng(0)
    harmonics = s2fft.utils.signal_generator.generate_flm(random, limit, reality=True)
    field = jnp.real(s2fft.inverse_jax(jnp.asarray(harmonics), limit, reality=True))
    back = s2fft.forward_jax(field, limit, reality=True)
    assert jnp.allclose(back, harmonics, atol=1e-9)
    seen = jnp.asarray(random.uniform(size=field.shape) < 0.7)

    @jax.jit
    def step(parts):
        def loss(p):
            guess = s2fft.inverse_jax(p[0] + 1j * p[1], limit, spin=0)
            return jnp.mean(jnp.where(seen, jnp.abs(guess - field), 0) ** 2)

        value, gradient = jax.value_and_grad(loss)(parts)
        return parts - 2.0 * gradient, value

    parts, losses = jnp.zeros((2, limit, 2 * limit - 1)), []
    for _ in range(steps):
        parts, value = step(parts)
        losses.append(float(value))
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: {value:.6f}")
