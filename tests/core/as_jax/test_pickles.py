"""Pickles go from the reference to pellucid and back: each is written by one process and read by another."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import pellucid as pl
from pellucid._machine.base.errors import UnsupportedError
from pellucid.as_jax.pickles import named_sharding

VALUES = """
import collections, pickle, sys
import cloudpickle, equinox, flax, optax
import numpy as np
import jax, jax.numpy as jnp
from flax import nnx
from flax.training.train_state import TrainState
from jax.experimental import sparse
from jax.experimental.layout import Layout
from jax.scipy.spatial.transform import Rotation

params = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3, jnp.bfloat16)}
key = jax.random.key(3)
mesh = jax.sharding.AbstractMesh((2,), ("x",))
linear = flax.linen.Dense(3)
variables = linear.init(key, jnp.ones((1, 2)))
values = {
    "arrays": [jnp.arange(3), jnp.asarray(1.0), jnp.array([1, 2], jnp.int4), jnp.ones(2, jnp.float8_e4m3fn), jnp.zeros((0, 3)), params],
    "keys": [key, jax.random.split(key, 3), jax.random.PRNGKey(1),
             *[jax.random.key(1, impl=name) for name in ("rbg", "unsafe_rbg", "threefry4x32", "philox4x32")]],
    "dtypes": [key.dtype, jnp.dtype("bfloat16"), jax.dtypes.float0],
    "structures": [jax.tree.structure(t) for t in ({"a": [1, (2, None)]}, collections.OrderedDict(a=1))],
    "types": [
        jax.ShapeDtypeStruct((2, 3), jnp.bfloat16), jax.ShapeDtypeStruct((), key.dtype), jax.ShapeDtypeStruct((2,), jnp.int8, weak_type=True),
        jax.ShapeDtypeStruct((2,), jnp.float32, sharding=jax.NamedSharding(mesh, jax.P("x"))), jax.typeof(jnp.ones(2)), jax.typeof(key),
    ],
    "placements": [mesh, jax.P("x", None, ("y", "z")), jax.P("x", unreduced={"y"}), jax.NamedSharding(mesh, jax.P("x")), Layout((1, 0))],
    "optimizers": [o.init(params) for o in (optax.adam(1e-3), optax.chain(optax.clip(1.0), optax.adamw(optax.linear_schedule(1.0, 0.1, 3))),
                                            optax.masked(optax.sgd(1.0, momentum=0.9), {"w": True, "b": False}))],
    "modules": [equinox.nn.MLP(2, 2, 4, 1, key=key, activation=np.tanh, final_activation=np.tanh), equinox.nn.LSTMCell(2, 3, key=key)],
    "states": [variables, flax.core.freeze(variables), nnx.state(nnx.Linear(2, 3, rngs=nnx.Rngs(0))), nnx.Rngs(0),
               TrainState.create(apply_fn=None, params=variables["params"], tx=optax.sgd(0.1)).replace(tx=None)],
    "sparse arrays": [sparse.BCOO.fromdense(jnp.eye(2)), sparse.BCSR.fromdense(jnp.eye(2))],
    "rotations": Rotation.from_quat(jnp.array([0.0, 0, 0, 1])),
    "functions": [jax.jit, jax.lax.add, jax.nn.gelu, jax.tree_util.Partial(max, 1)],
    "paths": [jax.tree_util.DictKey("a"), jax.tree_util.GetAttrKey("a"), jax.tree_util.SequenceKey(0)],
    "choices": [jax.sharding.AxisType.Auto, jax.lax.Precision.HIGHEST, jax.lax.GatherScatterMode.CLIP],
    "modules of Python": [jax, jnp, jax.lax],
}
"""

WRITE = """
written = {}
for name, value in values.items():
    written[name] = [] if name in ("functions", "modules of Python") and not hasattr(jax, "__pellucid__") else [pickle.dumps(value)]
    written[name].append(cloudpickle.dumps(value))
del written["functions"][1:]  # cloudpickle takes what jax decorates by value
with open(sys.argv[1], "wb") as file:
    pickle.dump(written, file)
"""

READ = """
def fact(x):
    if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        return type(x), str(x.dtype), np.asarray(jax.random.key_data(x)).tolist()
    if isinstance(x, (jax.Array, np.ndarray)):
        return type(x), str(x.dtype), x.shape, getattr(x, "weak_type", None), np.asarray(x).astype(np.complex64).tolist()
    return type(x), str(x), x.__hash__ and type(x).__name__ != "Partial" and hash(x)

with open(sys.argv[1], "rb") as file:
    for name, written in pickle.load(file).items():
        for each in written:
            read, expected = pickle.loads(each), values[name]
            assert type(read) is type(expected), name
            structures = [jax.tree.structure(t) for t in (read, expected)]
            assert structures[0] == structures[1], (name, structures)
            for a, b in zip(jax.tree.leaves(read), jax.tree.leaves(expected)):
                assert fact(a) == fact(b), (name, fact(a), fact(b))
            if name == "keys":
                assert (jax.random.bits(read[0]) == jax.random.bits(key)).all()
            if name in ("types", "placements", "dtypes", "structures"):
                assert read == expected, name
print("read")
"""

ANSWERED = "import pellucid.as_jax\npellucid.as_jax.install()\n"


def run(python: Path, program: str, file: Path) -> str:
    process = subprocess.run(
        [python, "-W", "ignore", "-c", program, str(file)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture(params=["the reference", "pellucid"])
def writer_and_reader(request, interpreters) -> list[tuple[Path, str]]:
    """Interpreter and beginning of the program that writes, and of the one that reads; pellucid's has no jax installed."""
    pair = [(interpreters["both installed"], ""), (interpreters["pellucid alone"], ANSWERED)]
    return pair if request.param == "the reference" else pair[::-1]


@pytest.mark.oracle
def test_pickles_are_read_by_the_other(writer_and_reader, tmp_path):
    file = tmp_path / "values"
    (writer, start), (reader, other) = writer_and_reader
    run(writer, start + VALUES + WRITE, file)
    assert run(reader, other + VALUES + READ, file) == "read\n"


def test_own_pickles_are_read(interpreter, tmp_path):
    run(interpreter, ANSWERED + VALUES + WRITE, tmp_path / "values")
    assert run(interpreter, ANSWERED + VALUES + READ, tmp_path / "values") == "read\n"


CHECKPOINTS = """
import sys
import jax, jax.numpy as jnp, numpy as np
import optax, orbax.checkpoint
from flax import serialization
folder, writes = sys.argv[1], WRITES
params = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3, jnp.bfloat16), "n": jnp.int32(3), "list": [np.arange(3)]}
tree = {"params": params, "state": optax.adam(1e-3).init(params), "key": jax.random.key(3)}
checkpointer = orbax.checkpoint.StandardCheckpointer()
if writes:
    checkpointer.save(f"{folder}/orbax", tree)
    checkpointer.wait_until_finished()
    bytes = serialization.to_bytes({"params": params, "state": tree["state"]})
    with open(f"{folder}/msgpack", "wb") as file:
        file.write(bytes)
else:
    with open(f"{folder}/msgpack", "rb") as file:
        read = serialization.from_bytes({"params": params, "state": tree["state"]}, file.read())
    again = checkpointer.restore(f"{folder}/orbax", tree)
    assert (again.pop("key") == tree.pop("key")).all()
    for each in (read, again):
        assert jax.tree.structure(each) == jax.tree.structure(tree)
        for a, b in zip(jax.tree.leaves(each), jax.tree.leaves(tree)):
            assert a.dtype == b.dtype and (np.asarray(a) == np.asarray(b)).all()
    print("read")
"""


@pytest.mark.oracle
def test_checkpoints_are_read_by_the_other(writer_and_reader, tmp_path):
    (writer, start), (reader, other) = writer_and_reader
    run(writer, start + CHECKPOINTS.replace("WRITES", "True"), tmp_path)
    assert run(reader, other + CHECKPOINTS.replace("WRITES", "False"), tmp_path) == "read\n"


def test_own_checkpoints_are_read(interpreter, tmp_path):
    run(interpreter, ANSWERED + CHECKPOINTS.replace("WRITES", "True"), tmp_path)
    program = ANSWERED + CHECKPOINTS.replace("WRITES", "False")
    assert run(interpreter, program, tmp_path) == "read\n"


def test_a_sharding_with_numbered_devices_is_refused():
    mesh = pl.sharding.AbstractMesh((2,), ("x",))
    assert named_sharding(mesh, pl.P("x"), None) == pl.NamedSharding(mesh, pl.P("x"))
    with pytest.raises(UnsupportedError, match="numbers its devices in another order"):
        named_sharding(mesh, pl.P("x"), None, (1, 0))
