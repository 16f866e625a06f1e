"""Compiled functions as bytes: loaded here, onto other devices and in another process, where nothing is compiled."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid.experimental import io_callback
from pellucid.experimental.serialize_executable import deserialize_and_load, serialize
from pellucid.sharding import NamedSharding, PartitionSpec as P

X = np.arange(16, dtype=np.float32).reshape(8, 2)


def compiled(function, *args, **kwargs):
    return pl.jit(function).lower(*args, **kwargs).compile()


def test_structures_and_constants() -> None:
    table = jnp.arange(8.0)

    def f(x, *, scale):
        return {"y": (x["a"] * scale["s"], table[:2])}

    loaded = deserialize_and_load(*serialize(compiled(f, {"a": X}, scale={"s": np.float32(2)})))
    result = loaded({"a": X + 1}, scale={"s": np.float32(3)})
    np.testing.assert_array_equal(result["y"][0], (X + 1) * 3)
    np.testing.assert_array_equal(result["y"][1], [0, 1])
    assert "multiply" in loaded.as_text()
    with pytest.raises(ArgumentTypeError, match="of other types"):
        loaded({"a": X[:4]}, scale={"s": np.float32(3)})


def test_devices_are_chosen_when_it_is_loaded() -> None:
    mesh = pl.make_mesh((4,), ("a",), devices=pl.devices()[:4])
    x = pl.device_put(X, NamedSharding(mesh, P("a")))
    data = serialize(compiled(lambda x: x - x.sum(0), x))
    here = deserialize_and_load(*data)
    assert here(x).sharding.is_equivalent_to(x.sharding, 2)
    others = pl.devices()[4:]
    there = deserialize_and_load(*data, execution_devices=others)
    result = there(X)
    assert result.sharding.device_set == {*others}
    np.testing.assert_allclose(result, X - X.sum(0))
    with pytest.raises(ArgumentValueError, match="2 devices, compiled for 4"):
        deserialize_and_load(*data, execution_devices=others[:2])


def test_keys_and_donated_arguments() -> None:
    loaded = deserialize_and_load(*serialize(compiled(pl.random.split, pl.random.key(3))))
    np.testing.assert_array_equal(
        pl.random.key_data(loaded(pl.random.key(5))),
        pl.random.key_data(pl.random.split(pl.random.key(5))),
    )
    donating = pl.jit(lambda x: x + 1, donate_argnums=0).lower(X).compile()
    x = jnp.asarray(X)
    np.testing.assert_array_equal(deserialize_and_load(*serialize(donating))(x), X + 1)
    assert x.is_deleted()


LOAD = """
import pickle, sys, numpy as np, pellucid as pl
from pellucid.experimental.serialize_executable import deserialize_and_load

class Counter(pl.Observer):
    def compilation_started(self, event):
        raise AssertionError(f"{event} was compiled")

with pl.observe(Counter()):
    f = deserialize_and_load(*pickle.load(open(sys.argv[1], "rb")))
    print(f(np.full((8, 2), 2, np.float32)).sum())
"""


def test_another_process_compiles_nothing(tmp_path) -> None:
    path = tmp_path / "f.pickle"
    path.write_bytes(pickle.dumps(serialize(compiled(lambda x: jnp.exp(x) * 0 + x, X))))
    run = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "32.0", run.stderr


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: serialize(jnp.sin), ArgumentTypeError, "lower"),
        (lambda: serialize(compiled(lambda x: pl.pure_callback(np.sin, x, x), X)), UnsupportedError, "calls Python"),
        (
            lambda: serialize(compiled(lambda x: io_callback(np.sin, x, x, ordered=True), X)),
            UnsupportedError, "can't be serialized",
        ),
        (lambda: deserialize_and_load(b"abc", None, None), ArgumentValueError, "no compiled function"),
        (
            lambda: deserialize_and_load(serialize(compiled(jnp.sin, X))[0], *[pl.tree.structure((1, 2))] * 2),
            ArgumentValueError, "structure of arguments",
        ),
    ],
)  # fmt: skip
def test_mistakes(mistake, error, message) -> None:
    with pytest.raises(error, match=message):
        mistake()


def test_damaged_bytes_are_not_loaded():
    serialized, in_tree, out_tree = serialize(
        pl.jit(lambda x: x + 1).lower(np.float32(1)).compile()
    )
    for bit in range(0, 8 * len(serialized), 997):
        damaged = bytearray(serialized)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ArgumentValueError, match="no compiled function"):
            deserialize_and_load(bytes(damaged), in_tree, out_tree)
