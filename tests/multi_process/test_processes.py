"""Several processes in one job: what they compute, and what each of them sees when another one fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import programs
import pytest
from launcher import check, free_address, launch, results

import pellucid as pl
import pellucid.numpy as jnp

pytestmark = pytest.mark.multi_process


def mesh_of(n_devices: int) -> pl.sharding.Mesh:
    return pl.make_mesh(
        (n_devices,), ("x",), devices=pl.devices()[:n_devices], axis_types=(programs.AUTO,)
    )


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_training_step_is_that_of_one_process(count):
    actual = results(launch("training", count))
    n_devices = 2 * count
    mesh = pl.make_mesh(
        (n_devices // 2, 2), ("data", "model"), devices=pl.devices()[:n_devices],
        axis_types=(programs.AUTO, programs.AUTO),
    )  # fmt: skip
    here = programs.train(mesh, lambda part: part)
    weights = pl.tree.map(jnp.asarray, programs.parameters())
    for loss in here[0]:
        unsharded, weights = pl.jit(programs.step)(weights, *programs.batch())
        np.testing.assert_allclose(loss, unsharded, rtol=1e-5)
    np.testing.assert_allclose(here[1], weights["in"], rtol=1e-4, atol=1e-6)
    for each in actual:
        assert each[0] == actual[0][0]
        for ours, theirs in zip(each, here, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


MPIRUN = shutil.which("mpirun") or shutil.which("mpirun", path=Path(sys.executable).parent)


@pytest.mark.skipif(MPIRUN is None, reason="needs mpirun of Open MPI 4 or 5")
def test_processes_of_open_mpi_find_each_other(tmp_path):
    program = """import pathlib, sys
import pellucid as pl, pellucid.numpy as jnp
pl.distributed.initialize()
mesh = pl.make_mesh((2,), ("x",))
x = pl.make_array_from_callback((2,), pl.NamedSharding(mesh, pl.P("x")), lambda part: jnp.arange(2.0)[part])
total = pl.jit(pl.shard_map(lambda x: pl.lax.psum(x, "x"), mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P()))(x)
result = f"{pl.process_count()} {total.addressable_data(0)}"
pathlib.Path(sys.argv[1], str(pl.process_index())).write_text(result)
"""
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ended = subprocess.run(
        [MPIRUN, "-np", "2", "--oversubscribe", sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, **as_root, "XLA_FLAGS": "", "PELLUCID_NUM_CPU_DEVICES": "1"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    # Their output is one stream, in which two processes' texts may lie within each other.
    assert [(tmp_path / process).read_text() for process in "01"] == ["2 [1.]", "2 [1.]"]


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_collectives_and_operands_are_those_of_one_process(count):
    mesh = mesh_of(2 * count)
    x = pl.device_put(jnp.arange(2.0 * count), pl.NamedSharding(mesh, pl.P("x")))
    here = [programs.collectives(mesh), programs.operands(mesh, x)]
    for actual in results(launch("all_collectives", count)):
        assert actual == here


def test_python_branches_on_no_value_that_other_processes_may_not_have():
    for actual in results(launch("branches", 2)):
        name, text = actual["of one process"]
        assert name == "TracerBoolConversionError"
        assert "differs between devices" in text
        assert actual["of all"] == [0, 0, 1, 1]


def test_devices_arrays_meshes_barriers_and_the_store_in_two_jobs_one_after_the_other():
    """Also where the environment names a proxy, which nobody goes through."""
    proxy = {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    for process, actual in enumerate(results(launch("facts", 2, environment=proxy))):
        assert actual["first"] == actual["second"]
        assert not actual["joined"]
        assert actual["first"] == {
            "devices": [4, 2, 2],
            "processes": [process, 2, [0, 1]],
            "addressable": [False, [8], 2, 4],
            "text": "Array(shape=(8,), dtype=float32)",
            "granules": [[0, 1], [0, 1]],
            "mesh": [0, 0, 1, 1],
            "said": ["hello from 0", "hello from 1"],
            "bytes": [[0], [1]],
            "listed": ["said/0", "said/1"],
            "counted": 6,
            "left": None,
            "sum": 52.0,
        }


def test_values_between_processes():
    for process, actual in enumerate(results(launch("between_processes", 2))):
        errors = actual.pop("errors")
        local = [10 * process + i for i in range(4)]
        assert actual == {
            "stacked": [[0, 1], [1, 2]],
            "scalars": [0, 1],
            "tiled": [0, 1, 1, 2],
            "whole": [0, 1, 2, 3, 10, 11, 12, 13],
            "sent": [[1.5, 0.0], "-0.0", True, 1 << 40],
            "back": local,
            "all back": [0, 1, 2, 3, 10, 11, 12, 13],
            "preempted": False,
        }
        texts = {name: f"{kind}: {text}" for name, (kind, text, _) in errors.items()}
        check(texts["stack"], "ArgumentValueError", "spans processes", "Pass tiled=True")
        check(texts["shapes"], "AgreementError", "process 0: int64[2]", "process 1: int64[3]")
        check(
            texts["sources"],
            "ArgumentValueError",
            "one process must be the source",
            "sources: 0, 1",
        )
        check(texts["names"], "AgreementError", "process 0: 'name 0'", "process 1: 'name 1'")
        check(
            texts["values"],
            "AgreementError: the seeds",
            "['x'], int64[]: 0 in process 0; 1 in process 1",
        )
        check(
            texts["spec"], "PartitionSpecError", "tree of PartitionSpecs", "Write PartitionSpec()"
        )
        check(
            texts["put"], "AgreementError", "device_put over several processes", "process 1: i32[4]"
        )
        check(texts["numpy"], "DeviceError", "other processes' devices", "process_allgather")
        check(texts["local shape"], "IndivisibleError", "size 6", "4 parts")
        check(texts["global shape"], "ArgumentValueError", "neither this process's part", "Give 8")
        check(texts["programs"], "AgreementError", "process 0: _total(", "process 1: _average(")
        check(
            texts["arguments"],
            "AgreementError",
            "_scaled(",
            "arguments of its own with contents",
        )
        check(texts["again"], "DistributedError", "in a job already", f"process {process} of 2")
        check(
            texts["barrier"],
            "DistributedTimeoutError",
            f"barrier 'only {process}'",
            f"process {1 - process} did not come within 0.5 s",
        )
        check(
            texts["set twice"], "DistributedError", f"setting 'a{process}' failed", "ALREADY_EXISTS"
        )
        check(texts["store"], "DistributedTimeoutError", "waiting for 'nobody sets it'")


QUICK = [
    ("kill", 1, "collective"),
    ("kill", 0, "collective"),
    ("stop", 1, "collective"),
]
OTHERS = [
    ("stop", 0, "collective"),
    ("raise", 1, "collective"),
    ("raise", 0, "collective"),
    *[
        ("kill", who, where)
        for who in (0, 1)
        for where in ("reading", "barrier", "store", "shutdown")
    ],
    ("kill", 1, "another program"),
    ("kill", 0, "another program"),
]


@pytest.mark.parametrize(
    ("how", "who", "where"),
    [*QUICK, *[pytest.param(*c, marks=pytest.mark.rotates) for c in OTHERS]],
)
def test_the_others_hear_of_a_process_that_fails(how, who, where):
    check_failure(how, who, where, count=2, heartbeat=2 if how == "stop" else 60)


@pytest.mark.slow
@pytest.mark.parametrize("who", [0, 2])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_three_others_hear_of_a_process_that_fails(how, who):
    check_failure(how, who, "collective", count=4, heartbeat=3 if how == "stop" else 60)


def check_failure(how: str, who: int, where: str, count: int, heartbeat: float) -> None:
    """All but `who` get an error that names it, soon or within `heartbeat`, and go on alone."""
    ends = launch(
        "one_fails", count, how=how, who=who, where=where, heartbeat=heartbeat,
        doomed=[who] if how == "stop" else (),
    )  # fmt: skip
    reason = {
        "kill": "its connection closed",
        "stop": f"nothing was heard of it for {heartbeat} s",
        "raise": "it ended with ZeroDivisionError: a mistake of the user",
    }[how]
    assert ends[who].exit_code == {"kill": -9, "stop": -9, "raise": 1}[how]
    for actual in results([end for process, end in enumerate(ends) if process != who]):
        kind, text, seconds = actual["seen"]
        assert kind == "PeerFailureError", text
        check(
            text,
            f"process {who} of {count} failed",
            f"process {who}: {reason}",
            "initialize() anew",
        )
        assert seconds < 10
        if where != "shutdown":
            assert actual["again"][0] == "PeerFailureError"
        assert actual["alone"] == 6.0


def test_others_start_anew_at_the_same_address(tmp_path):
    ends = launch("start_anew", 3, address=free_address(), folder=str(tmp_path))
    assert ends[1].exit_code == -9
    assert results([ends[0], ends[2]]) == [4.0, 4.0]


@pytest.mark.parametrize("seconds", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_a_late_process_is_waited_for(seconds):
    """Also for longer than the half minute after which gloo gives up."""
    assert results(launch("comes_late", 2, seconds=seconds, limit=150)) == [4.0, 4.0]


def test_a_process_that_never_comes_is_named():
    """Also the second time, for which process 0 listens at the same address anew."""
    actual = results(launch("only_joins", 3, only=[0, 2], initialization=3, attempts=2))
    for process, (kind, text, seconds) in zip((0, 2), actual, strict=True):
        check(text, "process 1 of 3 did not come within 3 s", f"process {process} waited")
        assert kind == "DistributedTimeoutError"
        assert seconds < 8


@pytest.mark.rotates
def test_a_process_that_dies_while_all_join_is_named():
    ends = launch("dies_while_joining", 2)
    assert ends[1].exit_code == -9
    [(kind, text, seconds)] = results(ends[:1])
    assert kind == "PeerFailureError"
    check(text, "process 1 of 2 failed", "its connection closed")
    assert seconds < 15


def test_an_address_where_nobody_listens_is_named():
    address = free_address()
    [(kind, text, seconds)] = results(
        launch("only_joins", 2, only=[1], initialization=1, address=address)
    )
    assert kind == "DistributedTimeoutError"
    check(
        text, f"process 0 could not be reached at {address} within 1 s", "Check coordinator_address"
    )
    assert seconds < 5


def test_who_leaves_alone_is_told_and_so_are_the_others():
    alone, other = results(launch("leaves_alone", 2))
    assert alone[0] == "DistributedTimeoutError"
    check(alone[1], "distributed.shutdown: process 1 did not come within 1 s")
    assert other[0] == "PeerFailureError"
    check(other[1], "process 0: it was shut down without the others")


def test_joining_after_devices_were_used_is_an_error():
    [(kind, text, _)] = results(launch("joins_too_late", 1))
    assert kind == "DistributedError"
    check(
        text, "devices were already used", "started: cpu", "before anything that touches a device"
    )


@pytest.mark.rotates
def test_all_processes_stop_after_the_same_step_when_one_is_preempted():
    first, second = results(launch("is_preempted", 2))
    assert first == second
    assert first is not None


def test_all_hear_of_a_block_that_not_all_finish():
    ends = launch("in_blocks", 2)
    assert ends[1].exit_code == -9
    [(ids, raised, failed, again, empty)] = results(ends[:1])
    assert ids == [0, 0, 1, 1]
    assert raised[0] == "AgreementError"
    check(
        raised[1], "live_devices: the processes don't agree", "process 0: ends",
        "process 1: raised ArgumentValueError: a mistake of the user",
    )  # fmt: skip
    assert failed == [1, 1]
    assert again[0] == "ProcessFailureError"
    check(again[1], "process 1: its connection closed", "initialize() anew")
    check(empty[1], "none of the devices belongs to this process")


@pytest.mark.parametrize(
    "read",
    [
        "float",
        *[
            pytest.param(r, marks=pytest.mark.rotates)
            for r in ("array", "get", "shard", "item", "print")
        ],
    ],
)
def test_reading_what_a_step_gives_names_a_process_that_fails(read):
    ends = launch("one_fails_among_steps", 2, read=read)
    assert ends[1].exit_code == -9
    [(kind, text, seconds)] = results(ends[:1])
    assert kind == "PeerFailureError", text
    check(text, "process 1 of 2 failed", "its connection closed")
    assert seconds < 10
