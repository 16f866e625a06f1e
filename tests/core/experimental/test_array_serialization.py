"""Arrays in files: what is written is read again, by other shardings, by tensorstore itself and in the background."""

import json
import threading

import ml_dtypes
import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid.experimental.array_serialization import serialization
from pellucid.sharding import NamedSharding, PartitionSpec as P

ts = pytest.importorskip("tensorstore")
MESH = pl.make_mesh((2, 4), ("a", "b"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
PLACES = [P("a", "b"), P("b"), P(), P(None, ("a", "b"))]


def place(spec):
    return NamedSharding(MESH, spec)


@pytest.mark.parametrize("ocdbt", [False, True])
@pytest.mark.parametrize("written", PLACES[:2])
def test_other_shardings_read_the_same(tmp_path, written, ocdbt) -> None:
    specs = [serialization.get_tensorstore_spec(tmp_path / name, ocdbt=ocdbt) for name in "xy"]
    serialization.run_serialization([pl.device_put(X, place(written)), pl.numpy.ones(())], specs)
    for read in PLACES:
        x, y = serialization.run_deserialization([place(read), place(P())], specs)
        np.testing.assert_array_equal(x, X)
        assert x.sharding == place(read)
        assert y == 1


@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.bfloat16, np.complex64, bool])
def test_dtypes(tmp_path, dtype) -> None:
    x = pl.numpy.asarray(np.arange(6).astype(dtype))
    spec = serialization.get_tensorstore_spec(tmp_path / "x")
    serialization.run_serialization([x], [spec])
    [y] = serialization.run_deserialization([x.sharding], [spec])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_tensorstore_reads_what_is_written(tmp_path) -> None:
    spec = serialization.get_tensorstore_spec(tmp_path / "x")
    serialization.run_serialization([pl.device_put(X, place(P("a", "b")))], [spec])
    np.testing.assert_array_equal(ts.open(spec, open=True).result().read().result(), X)
    assert json.loads((tmp_path / "x/.zarray").read_text())["chunks"] == [4, 2]


def test_a_struct_states_shape_dtype_and_place(tmp_path) -> None:
    spec = serialization.get_tensorstore_spec(tmp_path / "x")
    serialization.run_serialization([pl.numpy.asarray(X)], [spec])
    struct = pl.ShapeDtypeStruct((4, 16), np.int32, sharding=place(P("a", "b")))
    [y] = serialization.run_deserialization([struct], [spec])
    np.testing.assert_array_equal(y, np.pad(X[:4], ((0, 0), (0, 8))))
    assert y.dtype == np.int32


def test_the_program_goes_on_while_files_are_written(tmp_path) -> None:
    manager = serialization.GlobalAsyncCheckpointManager()
    x = pl.device_put(X, place(P("a")))
    is_written = threading.Event()
    paths = [str(tmp_path / "x")]
    manager.serialize_with_paths([x], paths, on_commit_callback=is_written.set)
    x.delete()
    manager.wait_until_finished()
    assert is_written.is_set()
    [y] = manager.deserialize_with_paths([place(P("b"))], paths)
    np.testing.assert_array_equal(y, X)


def test_what_the_callback_raises_is_raised_later(tmp_path) -> None:
    manager = serialization.GlobalAsyncCheckpointManager()
    manager.serialize_with_paths(
        [pl.numpy.ones(2)], [str(tmp_path / "x")], on_commit_callback=lambda: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        manager.wait_until_finished()
    manager.check_for_errors()


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda path: serialization.get_tensorstore_spec("here/x"), ArgumentValueError, "absolute"),
        (lambda path: serialization.get_tensorstore_spec(path, driver="n5"), ArgumentValueError, "n5"),
        (lambda path: serialization.run_serialization([pl.random.key(0)], [{}]), ArgumentTypeError, "key_data"),
        (lambda path: serialization.run_serialization([], [{}]), ArgumentValueError, "0 arrays"),
        (lambda path: serialization.run_deserialization([3], [{}]), ArgumentTypeError, "int"),
        (
            lambda path: serialization.run_deserialization(
                [place(P())], [serialization.get_tensorstore_spec(path)]
            ),
            ValueError, "does not exist",
        ),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, mistake, error, message) -> None:
    with pytest.raises(error, match=message):
        mistake(tmp_path / "x")
