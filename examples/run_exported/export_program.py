"""Writes what `run_exported` takes: a program, its arguments, and the results that pellucid computes.

python export_program.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import export


@pl.jit
def predict(params, x):
    """Probabilities [batch, 3] of a small network, and the most probable class [batch]."""
    hidden = jnp.tanh(x @ params["into"] + params["bias"])
    probabilities = pl.nn.softmax(hidden @ params["out"])
    return probabilities, jnp.argmax(probabilities, axis=-1)


def main(folder):
    """Write `predict.mlirbc`, `argument<i>.npy` and `expected<i>.npy` into `folder`; returns the paths of the arguments."""
    folder = Path(folder)
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    args = ({"into": normal(4, 8), "bias": normal(8), "out": normal(8, 3)}, normal(5, 4))
    exported = export.export(predict)(*args)
    (folder / "predict.mlirbc").write_bytes(exported.mlir_module_serialized)
    leaves = pl.tree.leaves(args)
    paths = []
    # A program takes the leaves of its arguments that it uses, in order.
    for number, index in enumerate(exported.module_kept_var_idx):
        paths.append(folder / f"argument{number}.npy")
        np.save(paths[-1], leaves[index])
    for number, result in enumerate(pl.tree.leaves(predict(*args))):
        np.save(folder / f"expected{number}.npy", np.asarray(result))
    return paths


if __name__ == "__main__":
    main(sys.argv[1])
