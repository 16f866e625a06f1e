"""A picture's colours, corrected by gradients through the augmentations of dm_pix.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/pix_picture.py` runs it on pellucid.
"""

import dm_pix as pix
import jax
import jax.numpy as jnp
import numpy as np


def picture() -> jax.Array:
    """A smooth picture of 24 x 24 pixels with some texture."""
    rows, columns = np.mgrid[0:24, 0:24] / 24.0
    texture = np.random.default_rng(0).uniform(0, 0.1, (24, 24))
    channels = rows, columns, 0.5 + 0.4 * np.sin(6 * rows) * np.cos(6 * columns)
    return jnp.asarray(np.stack([0.9 * c + texture for c in channels], -1), jnp.float32)


def main(steps: int = 40) -> list[float]:
    """Descends for some steps and returns how unlike the wanted picture the corrected one is."""
    wanted = picture()
    given = pix.adjust_contrast(pix.adjust_brightness(wanted, 0.1), 0.6)
    given = pix.gaussian_blur(given, sigma=0.5, kernel_size=3)

    def corrected(params):  # by what has no kinks: hues and saturations have
        image = pix.adjust_contrast(pix.adjust_gamma(given, params["gamma"]), params["contrast"])
        return pix.adjust_brightness(image, params["brightness"])

    @jax.jit
    def step(params):
        def loss(p):
            image = corrected(p)
            return pix.mse(image, wanted) + 0.05 * (1 - pix.ssim(image, wanted))

        value, gradient = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient), value

    params = {"gamma": 1.0, "contrast": 1.0, "brightness": 0.0}
    losses = []
    for _ in range(steps):
        params, value = step(params)
        losses.append(float(value))
    batch = jnp.stack([given, wanted])
    views = jax.jit(
        lambda key, images: pix.random_flip_left_right(
            key, pix.random_crop(key, images, (2, 16, 16, 3))
        )
    )
    assert views(jax.random.key(0), batch).shape == (2, 16, 16, 3)
    turned = pix.rotate(wanted, 0.3)
    assert jnp.isfinite(turned).all()
    assert jnp.isfinite(
        pix.elastic_deformation(jax.random.key(1), wanted, alpha=4.0, sigma=2.0)
    ).all()
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
