"""Each process reads the files of its own devices, and all train one model on the rows of all.

As one process: python examples/data_per_process.py
As process 0 of two, and the other with 1: JAX_NUM_CPU_DEVICES=4 python examples/data_per_process.py localhost:8476 2 0
As a process that Slurm, Kubernetes or Open MPI started: python examples/data_per_process.py cluster
Losses are the same. `jobs/` has the files for such runs.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

FILES, ROWS, FEATURES = 8, 512, 6
ROWS_OF_EACH = 8  # rows that a step takes of each file
LEARNING_RATE = 0.1


def write(folder, number):
    """Write file `number` of the data: rows of features, and what a linear function with noise makes of them."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = x @ np.arange(FEATURES, dtype=np.float32) + 0.1 * rng.normal(size=ROWS).astype(np.float32)
    np.save(folder / f"{number}.npy", np.column_stack([x, y]).astype(np.float32))


def own_files(sharding):
    """Numbers of the files that this process reads: one array over all files is cut as batches are, and these are its parts."""
    parts = sharding.addressable_devices_indices_map((FILES,)).values()
    return sorted({number for (part,) in parts for number in range(FILES)[part]})


def batches(folder, sharding, steps):
    """Arrays [FILES * ROWS_OF_EACH, FEATURES + 1] over all devices, of which this process reads its own rows."""
    files = [np.load(folder / f"{number}.npy", mmap_mode="r") for number in own_files(sharding)]
    for step in range(steps):
        # Every process draws the same rows, each from its own files.
        rows = np.random.default_rng([0, step]).choice(ROWS, ROWS_OF_EACH, replace=False)
        yield jax.make_array_from_process_local_data(
            sharding, np.concatenate([file[rows] for file in files])
        )


@jax.jit
def train_step(weights, batch):
    """(weights, loss) after one step of descent on the rows of all processes."""
    x, y = batch[:, :-1], batch[:, -1]
    value, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(weights)
    return weights - LEARNING_RATE * gradient, value


def main(steps=100):
    """Train, print losses from one process; returns all losses."""
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    weights = jax.jit(lambda: jnp.zeros(FEATURES), out_shardings=whole)()
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)  # elsewhere the data are there already
        for number in own_files(rows):
            write(folder, number)
        for step, batch in enumerate(batches(folder, rows, steps), 1):
            weights, value = train_step(weights, batch)
            losses.append(float(value))
            if step % 20 == 1 and jax.process_index() == 0:
                print(f"step {step:4}  loss {losses[-1]:.4f}")
    if jax.process_index() == 0:
        print("weights", np.asarray(weights).round(2))
    return losses


if __name__ == "__main__":
    if sys.argv[1:] == ["cluster"]:
        jax.distributed.initialize()
    elif len(sys.argv) > 1:
        address, count, index = sys.argv[1:]
        jax.distributed.initialize(address, int(count), int(index))
    else:
        jax.config.update("jax_num_cpu_devices", 8)
    main()
