"""Transfer guards."""

import gc
import logging
import subprocess
import sys
import threading

import numpy as np
import pytest

import pellucid
from pellucid._machine.base.config import (
    array_garbage_collection_guard,
    config,
    thread_guard,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_host_to_device,
)
from pellucid._machine.base.errors import ConfigError, TransferGuardError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.primitives.arithmetic import add
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.transfer import device_get, device_put, from_host, move
from pellucid.sharding import SingleDeviceSharding


@pytest.fixture
def x():
    return device_put(np.ones(2, np.float32))


@pytest.fixture
def double():
    """A function whose C++ entries exist already, for arrays, NumPy arrays and numbers."""
    function = jit(lambda x: add(x, x))
    for argument in (device_put(np.ones(2, np.float32)), np.ones(2, np.float32), 1.0):
        function(argument)
    return function


IMPLICIT = {
    "numpy argument": lambda f, x: f(np.ones(2, np.float32)),
    "number": lambda f, x: f(1.0),
    "eager": lambda f, x: add(x, np.ones(2, np.float32)),
    "from_host": lambda f, x: from_host(np.ones(2, np.float32)),
}


@pytest.mark.parametrize("use", IMPLICIT)
def test_disallow_forbids_implicit_transfers(use, double, x):
    with transfer_guard("disallow"):
        with pytest.raises(TransferGuardError, match="a host-to-device transfer happened"):
            IMPLICIT[use](double, x)
        with transfer_guard_host_to_device("allow"):
            IMPLICIT[use](double, x)
    IMPLICIT[use](double, x)


def test_disallow_lets_explicit_transfers_through(double, x):
    with transfer_guard("disallow"):
        put = device_put(np.ones(2, np.float32))
        assert double(put).tolist() == [2, 2]
        assert device_put(put, platforms.devices()[1]).tolist() == [1, 1]
        assert device_get(put).tolist() == [1, 1]


def test_disallow_explicit_forbids_all(x):
    with transfer_guard("disallow_explicit"):
        with pytest.raises(TransferGuardError, match="a host-to-device transfer"):
            device_put(np.ones(2, np.float32))
        with pytest.raises(TransferGuardError, match="a device-to-device transfer"):
            device_put(x, platforms.devices()[1])


def test_implicit_moves_between_devices_are_guarded(x):
    target = SingleDeviceSharding(platforms.devices()[1])
    with (
        transfer_guard_device_to_device("disallow"),
        pytest.raises(TransferGuardError, match=r"f32\[2\] to SingleDeviceSharding"),
    ):
        move(x, target, committed=True)


def test_reading_a_cpu_s_memory_is_no_transfer(x):
    with transfer_guard("disallow_explicit"):
        assert np.asarray(x).tolist() == [1, 1]
        assert device_get(x).tolist() == [1, 1]


def test_log_tells_of_implicit_transfers_only(double, caplog):
    with caplog.at_level(logging.WARNING, "pellucid"):
        with transfer_guard("log"):
            device_put(np.ones(2, np.float32))
            assert not caplog.records
            double(np.ones(2, np.float32))
        assert "host-to-device transfer: f32[2] to SingleDevice" in caplog.text
        caplog.clear()
        with transfer_guard("log_explicit"):
            device_put(np.ones(3, np.float32))
        assert "host-to-device transfer: f32[3]" in caplog.text


def test_a_block_is_about_its_thread(double):
    results = []
    with transfer_guard("disallow"):
        thread = threading.Thread(target=lambda: results.append(double(1.0).tolist()))
        thread.start()
        thread.join()
    assert results == [2.0]


def test_the_option_is_about_all_threads(double):
    errors = []

    def run():
        try:
            double(1.0)
        except TransferGuardError as error:
            errors.append(error)

    config.update("jax_transfer_guard", "disallow")
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        config.update("jax_transfer_guard", "allow")
    assert len(errors) == 1
    assert double(1.0).tolist() == 2.0


def test_blocks_restore_each_direction(double):
    with transfer_guard_host_to_device("log"):
        with transfer_guard("disallow"):
            assert transfer_guard_device_to_device.value == "disallow"
        assert transfer_guard_host_to_device.value == "log"
        assert transfer_guard_device_to_device.value == "allow"


def test_unknown_levels_are_refused():
    with pytest.raises(ConfigError, match="expected one of 'allow', 'log'"):
        transfer_guard("forbid").__enter__()


def test_what_the_garbage_collector_frees_is_told_of(capfd):
    holder = {"array": device_put(np.ones(2, np.float32))}
    holder["itself"] = holder
    with array_garbage_collection_guard("log"):
        del holder
        gc.collect()
    assert "was deleted by the Python garbage collector" in capfd.readouterr().err


def test_only_one_thread_may_guard_threads():
    errors = []

    def run():
        try:
            with thread_guard(True):
                pass
        except RuntimeError as error:
            errors.append(error)

    with thread_guard(True):
        assert thread_guard.value is True
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert thread_guard.value is False
    assert len(errors) == 1


FIRST_USE = """
import numpy as np, pellucid as pl
from pellucid._machine.base.errors import TransferGuardError
pl.config.update("jax_transfer_guard_host_to_device", "disallow")
x = pl.device_put(np.ones(3, np.float32))
print((x + x).tolist(), pl.jit(lambda y: y + np.ones(3, np.float32))(x).tolist())
try:
    pl.jit(lambda x: x)(np.ones(3, np.float32))
except TransferGuardError as error:
    print(str(error).splitlines()[1])
"""


def test_a_guard_may_be_set_before_the_first_use_of_a_device():
    run = subprocess.run(
        [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True
    )
    values, refused = run.stdout.splitlines()
    assert values == "[2.0, 2.0, 2.0] [2.0, 2.0, 2.0]"
    assert refused.startswith("  f32[3] to SingleDeviceSharding")


@pytest.mark.parametrize(
    "name", ["median", "unique_values", "insert", "pad", "percentile", "unwrap"]
)
def test_constants_of_traced_programs_are_no_transfers(name):
    x = device_put(np.arange(6, dtype=np.float32))
    more = {"unique_values": {"size": 3}, "insert": {"obj": 1, "values": 0.5}, "pad": {"pad_width": 1}, "percentile": {"q": 30.0}}  # fmt: skip
    function = jit(lambda x: getattr(pellucid.numpy, name)(x, **more.get(name, {})) + np.ones(1, np.float32))  # fmt: skip
    with transfer_guard("disallow"):
        with_guard = function(x)
    np.testing.assert_array_equal(with_guard, function(x))
