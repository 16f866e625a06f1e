"""Programs over several devices that call Python."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid._machine.base.errors import CallbackError, DeviceError, EffectsError, UnsupportedError
from pellucid.experimental import checkify, io_callback
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

SHAPE = pl.ShapeDtypeStruct((8, 2), np.float32)


@pytest.fixture
def x():
    mesh = Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("a", "b"))
    values = np.arange(16, dtype=np.float32).reshape(8, 2)
    return pl.device_put(values, NamedSharding(mesh, P("a", "b")))


def test_python_is_called_once_with_the_whole_array(x):
    shapes = []

    def host(a):
        shapes.append(a.shape)
        return np.asarray(a) + 1

    y = pl.jit(lambda v: pl.pure_callback(host, SHAPE, v * 2))(x)
    np.testing.assert_array_equal(y, np.asarray(x) * 2 + 1)
    assert shapes == [(8, 2)]
    assert y.sharding.is_fully_replicated
    actual = pl.jit(lambda v: io_callback(host, SHAPE, v, ordered=True).sum())(x)
    assert float(actual) == 136


def test_order_and_loops(x):
    seen = []

    @pl.jit
    def f(v, name):
        def step(i, row):
            pl.debug.callback(lambda *n: seen.append(tuple(map(int, n))), name, i, ordered=True)
            return i + 1, row.sum()

        return lax.scan(step, 0, v)[1]

    for name in range(3):
        f(x, name)
    pl.effects_barrier()
    assert seen == [(name, i) for name in range(3) for i in range(8)]


def test_parts_of_each_device(x):
    parts = []
    show = lambda v: pl.debug.callback(lambda a: parts.append(a.shape), v, partitioned=True)
    pl.jit(show)(x)
    pl.effects_barrier()
    assert parts == [(2, 1)] * 8


def test_a_failure_leaves_no_device_waiting(x):
    def fail(a):
        raise KeyError("no")

    f = pl.jit(lambda v: (pl.pure_callback(fail, SHAPE, v) + v).sum())
    g = pl.jit(lambda v: (io_callback(fail, None, v, ordered=True), v.sum())[1])
    for function in (f, g, f):
        with pytest.raises(CallbackError, match="raised KeyError") as caught:
            function(x)
        assert isinstance(caught.value.__cause__, KeyError)
    assert float(pl.jit(lambda v: v.sum())(x)) == 120
    pl.effects_barrier()


def test_references_keep_their_placement(x):
    ref = pl.new_ref(x)
    pl.jit(lambda r: r.addupdate(1.0, 0))(ref)
    assert ref.sharding == x.sharding
    assert ref[0].tolist() == [1, 2]


def test_checks(x):
    def f(v):
        checkify.check((v < 15).all(), "too large: {}", v.max())
        return v

    error, _ = pl.jit(checkify.checkify(f))(x)
    assert error.get().startswith("too large: 15.0")


@pytest.mark.parametrize("wrap", [lambda f: f, pl.jit])
def test_ordered_callbacks_run_where_one_device_has_all(wrap):
    seen = []
    mesh = Mesh(np.array(pl.devices()[:1]), ("x",))

    def note(x):
        pl.debug.callback(lambda v: seen.append(v.tolist()), x, ordered=True)
        y = io_callback(lambda v: v * 3, pl.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)
        pl.debug.callback(lambda v: seen.append(v.tolist()), y, ordered=True)
        return y

    call = wrap(pl.shard_map(note, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x")))
    assert call(np.arange(2.0)).tolist() == [0.0, 3.0]
    pl.effects_barrier()
    assert seen == [[0.0, 1.0], [0.0, 3.0]]
    two = Mesh(np.array(pl.devices()[:2]), ("x",))
    with pytest.raises(EffectsError, match="effects in an order"):
        pl.shard_map(note, mesh=two, in_specs=pl.P("x"), out_specs=pl.P("x"))(np.arange(2.0))


@pytest.mark.parametrize("caller", [pl.pure_callback, io_callback])
def test_results_lie_on_one_device(x, caller):
    def f(v, sharding):
        return caller(
            lambda a: np.asarray(a) + 1, pl.ShapeDtypeStruct(v.shape, v.dtype), v, sharding=sharding
        )

    last = SingleDeviceSharding(pl.devices()[7])
    assert f(np.ones(2, np.float32), last).devices() == {pl.devices()[7]}
    for wrap in (lambda g: g, pl.jit):
        with pytest.raises(UnsupportedError, match="needs a SingleDeviceSharding"):
            wrap(lambda v: f(v, x.sharding))(x)
        with pytest.raises(UnsupportedError, match="within shard_map"):
            wrap(
                pl.shard_map(
                    lambda v: f(v, last), mesh=x.sharding.mesh, in_specs=P("a"), out_specs=P("a")
                )
            )(x)


def test_a_sharding_chooses_the_device_that_calls(x):
    def called(device):
        sharding = SingleDeviceSharding(pl.devices()[device])
        return pl.jit(lambda v: pl.pure_callback(lambda a: a, SHAPE, v, sharding=sharding))

    [line] = [
        line for line in called(5).lower(x).as_text().splitlines() if "device_ids=[5]" in line
    ]
    assert "sdy.mesh" in line
    np.testing.assert_array_equal(called(5)(x), np.asarray(x))
    assert called(5)(np.asarray(x)).devices() == {pl.devices()[5]}
    few = pl.device_put(np.asarray(x), NamedSharding(Mesh(np.array(pl.devices()[:2]), ("a",)), P()))
    with pytest.raises(DeviceError, match=r"device 5; the program runs on 0, 1"):
        called(5)(few)
