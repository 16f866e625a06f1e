"""Executables on disk."""

import logging
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import pellucid
from pellucid import introspect
from pellucid._machine.base import config
from pellucid._machine.base.caching import clear_caches
from pellucid._machine.base.errors import ConfigError
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid._machine.compilation import disk_cache, executable_cache, pipeline
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import while_loop
from pellucid._machine.primitives.arithmetic import add, mul
from pellucid._machine.primitives.movement import reduce_sum
from pellucid._machine.primitives.transcendental import sin
from pellucid._machine.xla import serialized
from pellucid._machine.xla.compile import JaxRuntimeError, deserialize
from pellucid.analysis.hlo import Module, module_of
from pellucid.experimental import serialize_executable
from pellucid.introspect import recording

X = np.ones(3, np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(executable_cache.executables, "get", lambda key: None)
    home = tmp_path / "cache"
    config.persistent_cache_min_compile_time_secs.set(0)
    disk_cache.set_cache_dir(home)
    yield home
    disk_cache.set_cache_dir(None)
    config.persistent_cache_min_compile_time_secs.set(1.0)
    config.compilation_cache_max_size.set(-1)


def program(n=1, **options):
    """A fresh jitted function that no in-process cache knows: what is asked of disk is asked each time."""

    def chain(x):
        for _ in range(n):
            x = sin(add(x, x))
        return x

    return jit(chain, **options)


def outcomes(function, *arguments):
    """Where the executables of a function's first call came from."""
    with counting(CompilationFinished) as seen:
        function.lower(*arguments).compile()
    return [event.cache for event in seen.events]


def entries(folder):
    return sorted(folder.glob("*.executable"))


def test_the_second_compilation_comes_from_disk(folder):
    assert outcomes(program(), X) == ["miss"]
    assert outcomes(program(), X) == ["disk"]
    assert np.allclose(program().lower(X).compile()(X), np.sin(2.0))
    assert len(entries(folder)) == 1


def test_misses_tell_what_came_from_disk(folder, capsys):
    for _ in range(2):
        clear_caches()
        program()(X)
    pellucid.explain_misses(2)
    compiled, loaded = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("`")
    ]
    assert "and compiled (" in compiled
    assert "and loaded from disk (" in loaded
    steps = [[phase.name for phase in miss.phases] for miss in introspect.misses(2)]
    assert steps == [["trace", "lower", "compile"], ["trace", "lower", "load"]]


def test_the_folder_belongs_to_the_user_alone(folder):
    outcomes(program(), X)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entries(folder)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        lambda: (program(2), X),
        lambda: (program(), np.ones(4, np.float32)),
        lambda: (program(), np.ones(3, np.float16)),
        lambda: (program(compiler_options={"xla_cpu_enable_fast_math": True}), X),
        lambda: (program(keep_unused=True, donate_argnums=0), X),
    ],
)
def test_other_programs_have_other_entries(other, folder):
    assert outcomes(program(), X) == ["miss"]
    assert outcomes(*other()) == ["miss"]
    assert len(entries(folder)) == 2


def test_the_place_in_the_source_does_not_matter(folder):
    def chain(x):
        return sin(add(x, x))

    first = jit(chain)
    assert outcomes(first, X) == ["miss"]

    def chain(x):  # the same again, some lines below
        y = add(x, x)
        return sin(y)

    assert outcomes(jit(chain), X) == ["disk"]


def test_equations_of_a_stored_program_are_found_again(folder):
    first = program(3).lower(X)
    first.compile()
    clear_caches()  # else the second function is the first one's program, with its equations
    second = program(3).lower(X)
    compiled = second.compile()
    stored = [e.id for e in first._lowered.jaxpr.equations]
    mine = [e.id for e in second._lowered.jaxpr.equations]
    origins = compiled._executable.precompiled.origins
    assert stored != mine
    assert [origins[i].id for i in stored] == mine


def test_tools_see_the_equations_and_lines_of_this_process(folder):
    def chain(x):
        return sin(add(x, x))

    outcomes(jit(chain), X)
    clear_caches()

    def chain(x):  # the same again, some lines below
        y = add(x, x)
        return sin(y)

    lowered = jit(chain).lower(X)
    compiled = lowered.compile()
    facts = compiled._executable.precompiled
    [module] = recording.loaded_modules(
        [compiled._executable.loaded], {facts.program_id: {"jit_chain"}}
    ).values()
    for hlo in (
        Module(module.text(), module.origins()),
        module_of(compiled._executable.loaded)[0],
    ):
        instructions = [i for c in hlo.computations for i in c.instructions if i.equation]
        ids = [e.id for e in lowered._lowered.jaxpr.equations]
        assert {i.equation for i in instructions} == {*ids}
        lines = {hlo.frames[i.frame].text for i in instructions}
        assert lines == {"y = add(x, x)", "return sin(y)"}


DAMAGES = {
    "truncated": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "empty": lambda data: b"",
    "foreign": lambda data: b"something else entirely\n" * 100,
    "other version": lambda data: data.replace(b"executable 7", b"executable 2", 1),
    "other key": lambda data: data.replace(b'"key": "', b'"key": "f', 1),
    "bad header": lambda data: data.replace(b"{", b"[[[", 1),
    "header without fields": lambda data: disk_cache._pack_entry(disk_cache._MAGIC, b"{}\n"),
    "header that is a list": lambda data: disk_cache._pack_entry(disk_cache._MAGIC, b"[]\n"),
    "name of a field": lambda data: data.replace(b"equation_ids", b"equatinn_ids", 1),
    "type of a field": lambda data: data.replace(b'"program_id": ', b'"program_id":"', 1),
    "ids of equations": lambda data: data.replace(b'"equation_ids": [', b'"equation_ids": [1', 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_foreign_entries_are_passed_over_with_one_warning(damage, folder, caplog):
    outcomes(program(), X)
    [entry] = entries(folder)
    data = entry.read_bytes()
    with caplog.at_level(logging.WARNING, "pellucid"):
        entry.write_bytes(DAMAGES[damage](data))
        assert outcomes(program(), X) == ["miss"]
        warned = [r.getMessage() for r in caplog.records]
        assert len(warned) == 1
        assert "is damaged or foreign" in warned[0]
        entry.write_bytes(DAMAGES[damage](data))
        assert outcomes(program(), X) == ["miss"]
        assert len(caplog.records) == 1
    assert outcomes(program(), X) == ["disk"]  # it was stored anew


def test_an_entry_with_any_byte_changed_or_missing_is_passed_over(folder):
    outcomes(program(), X)
    [entry] = entries(folder)
    data = entry.read_bytes()

    def content(damaged):
        entry.write_bytes(damaged)
        return disk_cache._load_entry(entry, lambda header: lambda payload: payload)

    assert content(data).header.key == entry.stem
    for at in range(len(data)):
        flipped = bytes([data[at] ^ 1 << at % 8])
        assert content(data[:at] + flipped + data[at + 1 :]) is None
        assert content(data[:at]) is None
    assert content(data + b"\0") is None


def test_a_folder_that_others_may_write_to_is_refused(tmp_path, caplog):
    home = tmp_path / "shared"
    home.mkdir()
    home.chmod(0o777)
    with caplog.at_level(logging.WARNING, "pellucid"):
        disk_cache.set_cache_dir(home)
        try:
            assert not disk_cache.is_initialized()
            assert outcomes(program(), X) == ["miss"]
        finally:
            disk_cache.set_cache_dir(None)
    assert "others may write to its folder" in caplog.text
    assert len(caplog.records) == 1
    assert not list(home.iterdir())


def test_a_folder_that_can_t_be_made_is_told(tmp_path, caplog):
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING, "pellucid"):
        disk_cache.set_cache_dir(tmp_path / "file" / "cache")
        try:
            assert not disk_cache.is_initialized()
        finally:
            disk_cache.set_cache_dir(None)
    assert "can't be used" in caplog.text


@pytest.mark.parametrize("option", ["jax_compilation_cache_dir", "jax_dump_ir_to"])
def test_options_of_folders_refuse_addresses(option):
    with pytest.raises(ConfigError, match="a folder of this machine"):
        pellucid.config.update(option, "gs://bucket/folder")


def test_addresses_are_no_folders():
    with pytest.raises(ConfigError, match="a folder of this machine"):
        disk_cache.set_cache_dir("gs://bucket/cache")
    with pytest.raises(ConfigError, match="a folder of this machine"):
        config.compilation_cache_dir.set("gs://bucket/cache")


def test_the_options_turn_it_off(folder):
    with config.enable_compilation_cache(False):
        assert not disk_cache.is_initialized()
        outcomes(program(), X)
    assert disk_cache.is_initialized()
    config.persistent_cache_min_compile_time_secs.set(1000)
    outcomes(program(), X)
    config.persistent_cache_min_compile_time_secs.set(0)
    with config.persistent_cache_min_entry_size_bytes(1 << 30):
        outcomes(program(), X)
    assert not entries(folder)


def test_the_least_recently_used_entries_make_room(folder):
    for n in (1, 2, 3):
        outcomes(program(n), X)
    sizes = {path: path.stat().st_size for path in entries(folder)}
    now = time.time()
    for path in sizes:
        os.utime(path, (now - 1000, now - 1000))
    assert outcomes(program(2), X) == ["disk"]  # makes it the one used last
    [used] = [path for path in sizes if path.stat().st_mtime > now - 500]
    config.compilation_cache_max_size.set(int(2.5 * max(sizes.values())))
    outcomes(program(4), X)
    left = entries(folder)
    assert used in left
    assert len(left) == 2
    assert sum(path.stat().st_size for path in left) <= config.compilation_cache_max_size.value


def test_what_is_larger_than_the_cache_is_not_stored(folder):
    outcomes(program(1), X)
    config.compilation_cache_max_size.set(100)
    outcomes(program(2), X)
    assert len(entries(folder)) == 1


def test_files_of_processes_that_died_are_removed(folder):
    outcomes(program(1), X)
    old, young = folder / "old.temporary", folder / "young.temporary"
    old.touch()
    young.touch()
    os.utime(old, (1, 1))
    config.compilation_cache_max_size.set(1 << 30)
    outcomes(program(2), X)
    assert not old.exists()
    assert young.exists()


def test_a_failing_disk_is_no_failing_compilation(folder, caplog, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(disk_cache, "_write", fail)
    with caplog.at_level(logging.WARNING, "pellucid"):
        assert outcomes(program(), X) == ["miss"]
    assert "can't be stored in the compilation cache (no space left)" in caplog.text


def test_a_half_written_file_is_never_seen(folder, monkeypatch):
    def replace(*_):
        raise KeyboardInterrupt

    assert disk_cache.folder() == folder
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        disk_cache._write(folder / "x.executable", b"data")
    assert not folder.exists() or not list(folder.iterdir())


def test_closed_over_arrays_are_not_part_of_the_entry(folder):
    for value in (2.0, 3.0):
        large = np.full(1000, value, np.float32)
        compiled = jit(lambda x: mul(x, large)).lower(np.ones(1000, np.float32)).compile()  # noqa: B023
        assert np.unique(np.asarray(compiled(np.ones(1000, np.float32)))) == value
    assert len(entries(folder)) == 1


def test_threads_may_store_and_load_at_once(folder):
    failures = []

    def work(n):
        try:
            for i in range(4):
                outcomes(program(1 + (n + i) % 3), X)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(entries(folder)) == 3


def test_processes_share_a_folder(tmp_path):
    code = textwrap.dedent("""
        import numpy as np
        import pellucid
        from pellucid._machine.base.events import CompilationFinished, counting
        from pellucid._machine.higher_order.jitted import jit
        from pellucid._machine.primitives.arithmetic import add
        from pellucid._machine.primitives.transcendental import sin
        with counting(CompilationFinished) as seen:
            print(jit(lambda x: sin(add(x, x)))(np.ones(3, np.float32)))
        print([event.cache for event in seen.events])
    """)
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    del environment["PELLUCID_COMPILATION_CACHE_DIR"]  # which goes before

    def start(**more):
        return subprocess.Popen(
            [sys.executable, "-c", code], env={**environment, **more},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def output(process):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return out.splitlines()

    values = "[0.9092974 0.9092974 0.9092974]"
    for process in [start(), start(), start()]:
        assert output(process)[0] == values
    assert output(start()) == [values, "['disk']"]
    assert output(start(XLA_FLAGS="--xla_cpu_enable_fast_math=true"))[1] == "['miss']"
    assert len(list(pathlib.Path(tmp_path / "cache").iterdir())) == 2


def test_programs_with_addresses_in_them_are_not_kept(folder):
    lowered = program().lower(X)._lowered
    holding = lowered._replace(module=lowered.module._replace(keep_alive=[object()]))
    pipeline.compile_lowered(holding)
    assert not folder.exists() or not list(folder.iterdir())
    pipeline.compile_lowered(lowered)
    assert list(folder.iterdir())


# The program beside the executable ------------------------------------------------------------------


def fused(x):
    return sum(sin(mul(add(x, x), x + i)) for i in range(3))


def stored(folder, function=fused, x=X):
    """The program compiled, and found on disk by another function."""
    first = jit(function).lower(x).compile()
    clear_caches()
    second = jit(function).lower(x).compile()
    assert second._executable.precompiled.program
    return first, second


def test_a_stored_executable_lacks_what_only_readers_need(folder):
    first, second = stored(folder)
    whole, slim = (c._executable.loaded.hlo_modules()[0].to_string() for c in (first, second))
    assert "fusion(" in whole
    assert "fusion(" not in slim
    assert "metadata" not in slim
    np.testing.assert_array_equal(first(X), second(X))
    assert str(second.memory_analysis()) == str(first.memory_analysis())


def test_programs_with_calls_and_loops_are_stored_without_fusions(folder):
    def layered(x):
        step = jit(lambda x: sin(mul(add(x, x), x)))
        for _ in range(3):
            x = step(x)
        return while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, sin(mul(v[1], v[1]))), (0, x))

    first, second = stored(folder, layered)
    for a, b in zip(first(X), second(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_executable_taken_apart_and_put_together_is_the_same(folder):
    payload = jit(fused).lower(X).compile()._executable.loaded.serialize()
    slim, program = serialized.without_fusions(payload)
    assert len(slim) < len(payload)
    assert serialized.with_program(slim, program) == payload


def test_fusions_that_a_library_runs_are_stored_with_their_bodies(folder):
    x = np.ones((64, 64), np.float32)
    first, second = stored(folder, lambda x: reduce_sum(x, (1,)), x)
    assert "kind=kCustom" in first.as_text()
    np.testing.assert_array_equal(second(x), first(x))


def test_readers_of_a_stored_executable_see_all_of_its_program(folder):
    first, second = stored(folder)
    opcodes = [
        sorted(
            i.opcode
            for c in module_of(x._executable.loaded)[0].computations
            for i in c.instructions
        )
        for x in (first, second)
    ]
    assert opcodes[0] == opcodes[1]
    assert "sine" in opcodes[1]
    assert second.as_text().count("sine(") == first.as_text().count("sine(")
    assert second.cost_analysis() == first.cost_analysis()


def test_a_stored_executable_is_written_whole(folder):
    _, second = stored(folder)
    again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(second))
    assert "sine(" in again.as_text()
    np.testing.assert_array_equal(again(X), second(X))


def test_an_executable_that_needs_its_whole_program_is_loaded_with_it(folder, monkeypatch):
    def load(client, payload, **options):
        if len(payload) < size:
            raise JaxRuntimeError("an instruction is missing")
        return deserialize(client, payload, **options)

    first = jit(fused).lower(X).compile()
    size = len(first._executable.loaded.serialize()) - 100
    clear_caches()
    monkeypatch.setattr(disk_cache, "deserialize", load)
    second = jit(fused).lower(X).compile()
    facts = second._executable.precompiled
    assert facts is not None
    assert not facts.program
    assert second.as_text().count("sine(") == first.as_text().count("sine(")


def test_an_executable_of_an_unknown_format_is_stored_whole(folder, monkeypatch):
    monkeypatch.setattr(serialized, "_TO_MODULE", (1, 1, 9))
    first = jit(fused).lower(X).compile()
    clear_caches()
    second = jit(fused).lower(X).compile()
    assert second._executable.precompiled.program == b""
    np.testing.assert_array_equal(first(X), second(X))
