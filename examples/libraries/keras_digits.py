"""Handwritten digits told apart by a network of Keras, which is fitted, saved and loaded.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/keras_digits.py` runs it on pellucid.
"""

import os
import tempfile

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from sklearn.datasets import load_digits


def main(steps: int = 60) -> list[float]:
    """Trains for some steps and returns their losses, and at last that of the network which was saved."""
    keras.utils.set_random_seed(0)
    data = load_digits()
    images = (data.images[: 64 * steps, :, :, None] / 16).astype("float32")
    digits = data.target[: 64 * steps]
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)), layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(),
            layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(0.1), layers.Dense(10),
        ]
    )  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    history = model.fit(images, digits, batch_size=64, epochs=3, shuffle=False, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        loaded = keras.saving.load_model(f"{folder}/model.keras")
    np.testing.assert_array_equal(
        loaded.predict(images, verbose=0), model.predict(images, verbose=0)
    )
    return [*history.history["loss"], float(loaded.evaluate(images, digits, verbose=0)[0])]


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"epoch {number}: loss {value:.6f}")
