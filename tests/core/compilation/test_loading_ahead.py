"""Programs of a session, loaded from disk before they are asked for."""

import logging
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base import config
from pellucid._machine.base.caching import clear_caches
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid._machine.compilation import disk_cache, loading_ahead
from pellucid._machine.primitives.arithmetic import add
from pellucid._machine.primitives.transcendental import sin
from pellucid._machine.sharding.mesh import Mesh
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec

X = np.ones(8, np.float32)
NAME = "examples/first.ipynb"


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "cache"
    config.persistent_cache_min_compile_time_secs.set(0)
    config.compilation_cache_session.set(NAME)
    disk_cache.set_cache_dir(home)
    clear_caches()
    yield home
    config.compilation_cache_session.set(None)
    disk_cache.set_cache_dir(None)
    config.persistent_cache_min_compile_time_secs.set(1.0)


@pytest.fixture
def loads(monkeypatch):
    """The names of the threads that loaded an executable."""
    names = []
    deserialize = disk_cache.deserialize

    def noted(*args, **options):
        names.append(threading.current_thread().name)
        return deserialize(*args, **options)

    monkeypatch.setattr(disk_cache, "deserialize", noted)
    return names


def run(n, x=X):
    """Where the executable of n additions and sines came from."""

    def chain(x):
        for _ in range(n):
            x = sin(add(x, x))
        return x

    with counting(CompilationFinished) as seen:
        result = pl.jit(chain)(x)
    expected = np.asarray(x)
    for _ in range(n):
        expected = np.sin(2 * expected)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    return [event.cache for event in seen.events if isinstance(event, CompilationFinished)]


def restart(name: str | None = NAME):
    """As a new process of the session: nothing is known, and what its list has is being loaded."""
    disk_cache.reset_cache()
    clear_caches()
    config.compilation_cache_session.set(name)
    disk_cache.programs_of_session()


def wait():
    for thread in threading.enumerate():
        if thread.name == "pellucid-loading-ahead":
            thread.join()


def test_what_a_session_used_is_loaded_by_a_thread_and_used_once(folder, loads):
    assert run(1) + run(2) == ["miss", "miss"]
    restart()
    wait()
    assert loads == ["pellucid-loading-ahead"] * 2
    assert run(2) + run(1) == ["disk", "disk"]
    assert len(loads) == 2
    clear_caches()
    assert run(1) == ["disk"]
    assert loads[2:] == ["MainThread"]


def test_a_program_that_is_being_loaded_is_waited_for(folder, monkeypatch):
    run(1)
    deserialize, begun, request = disk_cache.deserialize, threading.Event(), threading.Event()

    def slow(*args, **options):
        begun.set()
        request.wait(20)
        return deserialize(*args, **options)

    monkeypatch.setattr(disk_cache, "deserialize", slow)
    restart()
    begun.wait(20)
    threading.Timer(0.1, request.set).start()
    assert run(1) == ["disk"]
    assert request.is_set()


def test_programs_whose_turn_has_not_come_are_loaded_where_they_are_asked_for(
    folder, loads, monkeypatch
):
    run(1)
    begun = threading.Event()
    monkeypatch.setattr(loading_ahead, "operation_classes", lambda _: begun.wait(20))
    restart()
    assert run(1) == ["disk"]
    begun.set()
    wait()
    assert loads == ["MainThread"]


def test_threads_that_compile_at_once_share_the_programs_of_a_session(folder, loads):
    run(1)
    disk_cache.reset_cache()
    clear_caches()
    threads = [threading.Thread(target=disk_cache.programs_of_session) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait()
    assert loads == ["pellucid-loading-ahead"]


def test_a_product_runs_after_the_programs_are_loaded(folder, loads, monkeypatch):
    run(1)
    compiled = []
    compile_module = loading_ahead.compile_module

    def noted(client, *args):
        compiled.append((len(loads), compile_module(client, *args)))
        return compiled[-1][1]

    monkeypatch.setattr(loading_ahead, "compile_module", noted)
    restart()
    wait()
    [(n_loaded, product)] = compiled
    assert n_loaded == 1
    [module] = product.hlo_modules()
    assert "fusion(" not in module.to_string().split("ROOT")[-1]  # Eigen's, not YNNPACK's
    [[result]] = product.execute_sharded([]).disassemble_into_single_device_arrays()
    np.testing.assert_array_equal(result, np.outer(range(8), [sum(range(8))] * 8))


def test_other_sessions_load_nothing(folder, loads):
    run(1)
    restart("another.ipynb")
    wait()
    assert not loads
    restart(None)
    wait()
    assert not loads
    assert run(1) == ["disk"]


def test_a_list_has_what_was_used_last_first_and_an_end(folder, monkeypatch):
    monkeypatch.setattr(loading_ahead, "MAX_PROGRAMS", 2)
    for n in (1, 2):
        run(n)
    [path] = folder.glob("*.session")
    first, second = disk_cache._keys_of(path)
    restart()
    run(2)
    assert disk_cache._keys_of(path) == [second, first]
    run(3)
    third = disk_cache._keys_of(path)
    assert third[0] == second
    assert len(third) == 2
    assert first not in third


def test_entries_for_other_devices_and_environments_wait_until_they_are_asked_for(
    folder, loads, monkeypatch
):
    run(1)
    monkeypatch.setattr(disk_cache, "environment_of", lambda client, devices: "another")
    restart()
    wait()
    assert not loads
    assert run(1) == ["miss"]  # its key is another, too


def test_programs_over_several_devices_are_loaded(folder, loads):
    mesh = Mesh(np.array(pl.devices()[1:5]), ("i",))
    x = pl.device_put(X, NamedSharding(mesh, PartitionSpec("i")))
    assert run(1, x) == ["miss"]
    restart()
    wait()
    assert loads == ["pellucid-loading-ahead"]
    assert run(1, x) == ["disk"]
    assert len(loads) == 1


def test_programs_that_call_the_host_are_not_loaded_ahead(folder, loads):
    def function(x):
        return pl.pure_callback(np.sin, x, x)

    pl.jit(function)(X)
    restart()
    wait()
    assert not loads
    np.testing.assert_allclose(pl.jit(function)(X), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("at", [0, 10, 30, -40, -1])
def test_damaged_lists_are_passed_over_with_a_warning(folder, loads, at, caplog):
    run(1)
    [path] = folder.glob("*.session")
    whole = bytearray(path.read_bytes())
    whole[at] ^= 1
    path.write_bytes(whole)
    with caplog.at_level(logging.WARNING, "pellucid"):
        restart()
        wait()
        assert run(1) == ["disk"]
    assert "no program of its session is loaded ahead" in caplog.text
    assert len(caplog.records) == 1
    assert loads == ["MainThread"]
    restart()
    wait()
    assert loads[1:] == ["pellucid-loading-ahead"]  # the list was written anew


def test_a_list_with_any_byte_changed_or_missing_is_passed_over(folder):
    run(1)
    [path] = folder.glob("*.session")
    data = path.read_bytes()
    assert disk_cache._keys_of(path)
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]):
            path.write_bytes(damaged)
            assert not disk_cache._keys_of(path)


def test_damaged_entries_are_compiled_anew(folder, caplog):
    run(1)
    [path] = folder.glob("*.executable")
    path.write_bytes(path.read_bytes()[:-8])
    with caplog.at_level(logging.WARNING, "pellucid"):
        restart()
        wait()
        assert run(1) == ["miss"]
    assert len(caplog.records) == 1
    assert "is damaged or foreign" in caplog.text


def test_clear_caches_lets_go_of_what_nobody_asked_for(folder, loads):
    run(1)
    restart()
    wait()
    clear_caches()
    assert run(1) == ["disk"]
    assert loads == ["pellucid-loading-ahead", "MainThread"]


def test_the_devices_start_begins_it_and_the_end_of_a_process_ends_it(tmp_path):
    code = textwrap.dedent("""
        import sys, threading, time
        import numpy as np
        import pellucid as pl
        from pellucid._machine.compilation import disk_cache
        names, deserialize = [], disk_cache.deserialize
        def noted(*args, **options):
            names.append(threading.current_thread().name)
            time.sleep(float(sys.argv[1]))
            return deserialize(*args, **options)
        disk_cache.deserialize = noted
        print(len([t for t in threading.enumerate() if "ahead" in t.name]))
        pl.devices()
        if sys.argv[2] == "run":
            for n in (1, 2, 3, 4):
                print(pl.jit(lambda x: x * n + 1)(np.ones(2, np.float32)), end=" ")
        else:
            time.sleep(0.5)
        print(names)
    """)
    options = {"PELLUCID_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "PELLUCID_COMPILATION_CACHE_SESSION": "a",
               "PELLUCID_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # fmt: skip

    def output(*arguments):
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, **options}, capture_output=True, text=True, check=True, timeout=120,
        ).stdout.splitlines()  # fmt: skip

    values = "[2. 2.] [3. 3.] [4. 4.] [5. 5.] "
    assert output("0", "run") == ["0", f"{values}[]"]
    before, names = output("0", "idle")
    assert before == "0"
    assert names == str(["pellucid-loading-ahead"] * 4)
    # The first load takes longer than the rest of the process; no other begins behind its end.
    assert output("1", "idle")[1] == "['pellucid-loading-ahead']"
