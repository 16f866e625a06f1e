"""Memory, misses and events as records."""

import json
import sys

import numpy as np

import pellucid as pl
from pellucid import introspect, lax


def test_memory_names_the_variables_that_hold_an_array():
    x = lax.full((1000,), 1.0)
    line = sys._getframe().f_lineno - 1
    record = introspect.memory({"params": {"layer": [x]}, "alias": x, "_hidden": x, "Out": {3: x}})
    [array] = [each for each in record.arrays if each.id == id(x)]
    assert array.owners == ["params['layer'][0]", "alias"]
    assert array.holders == ["Out[3]"]
    assert (array.total_bytes, array.bytes_per_device, array.type) == (4000, 4000, "f32[1000]")
    assert (array.source.rpartition("/")[2], array.line) == ("test_events.py", line)
    [device] = [d for d in record.devices if d.device_id == array.device_ids[0]]
    assert device.in_use_bytes >= 4000
    assert json.dumps(record.to_dict())


def test_memory_says_what_the_last_error_holds():
    def failing():
        remaining = lax.full((77,), 1.0)
        assert remaining is None

    try:
        failing()
    except AssertionError as error:
        sys.last_value = error
    try:
        record = introspect.memory({})
        [array] = [each for each in record.arrays if each.type == "f32[77]"]
        assert array.holders == ["sys.last_value: remaining in failing"]
    finally:
        del sys.last_value


def test_deleted_arrays_are_no_memory():
    x = lax.full((123,), 1.0)
    x.delete()
    assert all(each.id != id(x) for each in introspect.memory({}).arrays)


def test_misses_say_which_part_of_the_call_is_new():
    @pl.jit
    def f(x):
        return lax.neg(x)

    f(np.ones(3, np.float32))
    f(np.ones(4, np.float32))
    f(np.ones(4, np.int32))
    first, second, third = introspect.misses(3)
    assert [m.causes[0].part for m in (first, second, third)] == ["first_call", "shape", "dtype"]
    cause = second.causes[0]
    assert (cause.path, cause.before, cause.after) == ("x", "f32[3]", "f32[4]")
    assert [m.entry_count for m in (first, second, third)] == [1, 2, 3]
    assert first.function == "f"
    assert (
        first.source.lines[first.line - first.source.first_line].strip()
        == "f(np.ones(3, np.float32))"
    )
    assert {phase.name for phase in first.phases} == {"trace", "lower", "compile"}
    assert introspect.misses(0) == []


def test_looking_at_a_program_is_no_miss():
    """Neither before a call nor after it; only the call's own miss is kept."""
    for looks_first in (True, False):
        f = pl.jit((lambda x: x * 2) if looks_first else (lambda x: x * 3))
        steps = [lambda f=f: pl.make_jaxpr(f)(1.0), lambda f=f: f(1.0)]
        for step in steps if looks_first else reversed(steps):
            step()
        *_, miss = introspect.misses(2)
        assert [cause.part for cause in miss.causes] == ["first_call"]
        assert miss.entry_count == 1


def test_events_become_records():
    seen = []
    function = pl.jit(lambda x: lax.sin(lax.add(x, 41.0)))
    with introspect.stream(seen.append, hits=True):
        function(1.0)
        function.trace(1.0)
    function(2.0)
    kinds = [record.event for record in seen]
    assert {"trace", "lookup", "pass", "compilation"} <= set(kinds)
    lookups = [record for record in seen if record.event == "lookup"]
    assert [record.cache for record in lookups] == ["miss", "hit"]
    assert lookups[0].miss.causes[0].part == "first_call"
    times = [record.time_us for record in seen]
    assert times == sorted(times)
    count = len(seen)
    pl.jit(lambda x: lax.cos(lax.add(x, 43.0)))(1.0)
    assert len(seen) == count


def test_a_file_gets_one_line_for_each_event(tmp_path):
    path = tmp_path / "events.jsonl"
    with introspect.stream_to_file(str(path)):
        pl.jit(lambda x: lax.tan(lax.add(x, 47.0)))(1.0)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(record["kind"] == "event" for record in records)
    assert "compilation" in {record["event"] for record in records}
