"""Arrays that are pulled from a server; both ends are in this process."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, ExecutionError, UnsupportedError
from pellucid._machine.xla import distributed
from pellucid.experimental import transfer


def test_a_tree_of_arrays_is_pulled_to_where_it_is_described() -> None:
    first, second = pl.devices()[:2]
    server = transfer.start_transfer_server(first.client, "127.0.0.1:0", ["127.0.0.1:0"])
    x = {
        "a": pl.device_put(np.arange(5, dtype=np.float32), first),
        "b": pl.device_put(np.int8(3), first),
    }
    server.await_pull(11, x)
    place = pl.sharding.SingleDeviceSharding(second)
    described = {k: pl.ShapeDtypeStruct(v.shape, v.dtype, sharding=place) for k, v in x.items()}
    connection = server.connect(server.address())
    actual = connection.pull(11, described)
    assert actual["a"].tolist() == [0, 1, 2, 3, 4]
    assert (actual["b"].dtype, int(actual["b"])) == (np.int8, 3)
    assert actual["a"].devices() == {second}
    assert connection.pull(12, {}) == {}
    with pytest.raises(ArgumentValueError, match="pull needs a sharding of each array"):
        connection.pull(12, pl.ShapeDtypeStruct((2,), np.float32))


def test_an_array_that_is_an_error() -> None:
    failed = transfer.make_error_array(pl.numpy.zeros(2), "the peer has gone")
    with pytest.raises(ExecutionError, match="the peer has gone"):
        failed.block_until_ready()


def test_jaxlib_without_servers(monkeypatch) -> None:
    monkeypatch.setattr(distributed, "start_transfer_server", None)
    with pytest.raises(UnsupportedError, match="built without what start_transfer_server needs"):
        transfer.start_transfer_server(pl.devices()[0].client)
