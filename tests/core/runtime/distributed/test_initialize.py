"""Arguments that `distributed.initialize` refuses before it opens a connection, and its state without a job."""

import pytest
from message_checks import check_message

import pellucid as pl
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ConfigError,
    DistributedError,
)
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.distributed import initialize
from pellucid.experimental import multihost_utils


@pytest.fixture(autouse=True)
def no_devices_used(monkeypatch):
    """As in a fresh process."""
    monkeypatch.setattr(platforms, "_clients", {})


def check_refused(error, *fragments, **arguments):
    inputs = {
        "coordinator_address": "127.0.0.1:1",
        "num_processes": 2,
        "process_id": 0,
        **arguments,
    }
    check_message(lambda: pl.distributed.initialize(**inputs), error, *fragments)
    assert not pl.distributed.is_initialized()


@pytest.mark.parametrize("name", ["coordinator_address", "num_processes", "process_id"])
def test_what_is_missing_is_named(name):
    check_refused(
        ArgumentValueError, f"{name} is missing", "Pass coordinator_address", **{name: None}
    )


@pytest.mark.parametrize(("process", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_numbers_that_do_not_fit(process, count):
    check_refused(
        ArgumentValueError, "must be between 0 and num_processes - 1", f"process_id {process}, num_processes {count}",
        process_id=process, num_processes=count,
    )  # fmt: skip


def test_numbers_of_other_types():
    check_refused(ArgumentTypeError, "process_id must be an integer", "float", process_id=0.0)
    check_refused(ArgumentTypeError, "num_processes must be an integer", "str", num_processes="2")


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":80", "localhost:http", "a:70000"])
def test_addresses_that_are_none(address):
    check_refused(
        ArgumentValueError,
        "coordinator_address must be 'host:port'",
        repr(address),
        coordinator_address=address,
    )
    check_refused(
        ArgumentValueError,
        "coordinator_bind_address must be 'host:port'",
        coordinator_bind_address=address,
    )


def test_times_that_are_none():
    for name in ("initialization_timeout", "heartbeat_timeout_seconds", "shutdown_timeout_seconds"):
        check_refused(ArgumentValueError, f"{name} must be a positive number", **{name: 0})


def test_a_port_that_is_taken():
    import socket

    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]
        check_refused(
            DistributedError, f"process 0 can't listen at port {port}", "Choose another port",
            coordinator_address=f"127.0.0.1:{port}",
        )  # fmt: skip


def test_slice_index_is_deprecated():
    with pytest.warns(DeprecationWarning, match="use `partition_index`"):
        check_refused(ArgumentValueError, "process_id must be between", process_id=7, slice_index=1)


def test_addresses_as_a_plan_has_them():
    read = initialize._host_and_port
    assert read("x", "10.0.0.1:8476") == ("10.0.0.1", 8476)
    assert read("x", "[fe80::1]:8476") == ("fe80::1", 8476)


def test_device_numbers_and_the_environment(monkeypatch):
    assert initialize._device_ids(3) == (3,)
    assert initialize._device_ids([0, 2]) == (0, 2)
    assert initialize._device_ids(None) is None
    monkeypatch.setenv("JAX_LOCAL_DEVICE_IDS", "1,3")
    monkeypatch.setenv("JAX_PARTITION_INDEX", "2")
    assert initialize._device_ids(None) == (1, 3)
    assert initialize._partition_index(None) == 2
    assert initialize._partition_index(0) == 0


def test_the_slice_index_of_the_environment_is_deprecated(monkeypatch):
    monkeypatch.setenv("JAX_SLICE_INDEX", "4")
    with pytest.warns(DeprecationWarning, match="use `JAX_PARTITION_INDEX`"):
        assert initialize._partition_index(None) == 4


def test_a_job_can_not_be_asked_to_go_on_with_fewer_processes():
    check_message(
        lambda: pl.config.update("jax_enable_recoverability", True),
        ConfigError,
        "enable_recoverability' does not take True",
    )


def test_without_a_job_there_is_nothing_to_leave_and_nobody_to_wait_for():
    pl.distributed.shutdown()
    check_message(
        lambda: pl.distributed.barrier("x"),
        DistributedError,
        "not joined to others",
        "initialize() first",
    )
    check_message(pl.distributed.key_value_store, DistributedError, "key_value_store")
    check_message(
        lambda: multihost_utils.live_devices([]).__enter__(),
        DistributedError,
        "live_devices: this process is not joined",
    )


def test_hosts_are_processes_by_an_older_name(monkeypatch):
    monkeypatch.undo()
    with pytest.warns(DeprecationWarning, match="use `process_index`"):
        assert pl.host_id() == 0
    with pytest.warns(DeprecationWarning, match="use `process_indices`"):
        assert pl.host_ids() == [0]
    with pytest.warns(DeprecationWarning, match="use `process_count`"):
        assert pl.host_count() == 1
