"""Measurements that core records under the names of the reference."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import monitoring
from pellucid._machine.base import config
from pellucid._machine.base.caching import clear_caches
from pellucid._machine.compilation import disk_cache

X = np.ones(3, np.float32)
COMPILE = "/jax/core/compile/"
CACHE = "/jax/compilation_cache/"
STAGES = [
    ("jaxpr_trace_duration", "chain"),
    ("jaxpr_to_mlir_module_duration", "jit(chain)"),
    ("backend_compile_duration", "jit(chain)"),
]


@pytest.fixture
def recorded():
    """Lists of what listeners of each kind are called with."""
    kinds = {"event": [], "duration": [], "span": [], "scalar": []}
    monitoring.register_event_listener(lambda *x, **more: kinds["event"].append((*x, more)))
    monitoring.register_event_duration_secs_listener(
        lambda *x, **more: kinds["duration"].append((*x, more))
    )
    monitoring.register_event_time_span_listener(
        lambda *x, **more: kinds["span"].append((*x, more))
    )
    monitoring.register_scalar_listener(lambda *x, **more: kinds["scalar"].append((*x, more)))
    yield kinds
    monitoring.clear_event_listeners()


@pytest.fixture
def on_disk(tmp_path):
    config.persistent_cache_min_compile_time_secs.set(0)
    disk_cache.set_cache_dir(tmp_path / "cache")
    yield
    disk_cache.set_cache_dir(None)
    config.persistent_cache_min_compile_time_secs.set(1.0)


def run():
    """A call of a function that no cache in memory knows."""
    clear_caches()

    def chain(x):
        return pl.lax.sin(x) * 3

    return pl.jit(chain)(X)


def test_stages_are_recorded_with_their_durations(recorded):
    run()
    expected = [(COMPILE + stage, {"fun_name": name}) for stage, name in STAGES]
    assert [(event, more) for event, _, more in recorded["duration"]] == expected
    assert [(event, more) for event, _, _, more in recorded["span"]] == expected
    assert [(event, more) for event, _, more in recorded["scalar"]] == expected
    rows = zip(recorded["duration"], recorded["span"], recorded["scalar"], strict=True)
    for (_, seconds, _), (_, start, end, _), (_, begun, _) in rows:
        assert seconds > 0
        assert end - start == pytest.approx(seconds, abs=1e-6)
        assert begun == pytest.approx(start, abs=1e-6)
    assert [event for event, _ in recorded["event"]][-1] == CACHE + "compile_requests_use_cache"


def test_a_call_that_was_compiled_records_nothing(recorded):
    function = pl.jit(lambda x: x + 1)
    function(X)
    for each in recorded.values():
        each.clear()
    function(X)
    assert not any(recorded.values())


@pytest.mark.usefixtures("on_disk")
def test_misses_and_hits_of_the_cache_on_disk_are_recorded(recorded):
    run()
    assert [event for event, _ in recorded["event"]][-2:] == [
        CACHE + "compile_requests_use_cache",
        CACHE + "cache_misses",
    ]
    [compiled] = [s for event, s, _ in recorded["duration"] if "backend_compile" in event]
    for each in recorded.values():
        each.clear()
    run()
    assert [event for event, _ in recorded["event"]] == [
        CACHE + "compile_requests_use_cache",
        CACHE + "cache_hits",
    ]
    durations = {event: seconds for event, seconds, _ in recorded["duration"]}
    retrieved = durations[CACHE + "cache_retrieval_time_sec"]
    assert retrieved == pytest.approx(durations[COMPILE + "backend_compile_duration"], abs=1e-5)
    saved = durations[CACHE + "compile_time_saved_sec"]
    # Of the first duration, the compiler's part was stored.
    assert -retrieved < saved <= compiled - retrieved + 1e-3


def test_that_a_process_uses_the_cache_is_recorded_once_after_each_reset(recorded):
    for _ in range(2):
        disk_cache.reset_cache()
        recorded["event"].clear()
        run()
        run()
        names = [event for event, _ in recorded["event"]]
        assert names[:2] == [CACHE + "tasks_using_cache", CACHE + "compile_requests_use_cache"]
        assert names.count(CACHE + "tasks_using_cache") == 1


def test_a_cache_that_is_off_is_not_asked(recorded):
    disk_cache.reset_cache()
    with config.enable_compilation_cache(False):
        run()
        run()
    assert [event for event, _ in recorded["event"]] == [CACHE + "task_disabled_cache"]


def test_what_fails_to_trace_leaves_the_stages_in_order(recorded):
    def fails(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pl.jit(fails)(X)
    run()
    names = [more["fun_name"] for *_, more in recorded["span"]]
    assert names == ["fails", *[name for _, name in STAGES]]


def test_nobody_observes_when_the_last_listener_is_gone():
    def listener(event, seconds, **more):
        seen.append(event)

    seen = []
    monitoring.register_event_duration_secs_listener(listener)
    run()
    assert len(seen) == len(STAGES)
    monitoring.unregister_event_duration_listener(listener)
    run()
    assert len(seen) == len(STAGES)
