"""Recordings are read as XLA's own reader reads them; broken ones raise."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.introspect import recording
from pellucid_profiler.xspace import ABSENT, read_events


@pytest.fixture(scope="module")
def recorded() -> bytes:
    """A recording of a loop over several calls, with annotations of each type of detail."""
    f = pl.jit(lambda x: pl.lax.fori_loop(0, 4, lambda _, c: jnp.sin(c @ c), x))
    x = jnp.ones((32, 32))
    f(x).block_until_ready()
    options = recording.ProfileOptions()
    options.enable_hlo_proto = False
    session = recording.XlaRecording(options)
    for i in range(3):
        with recording.Annotation("step", number=i, text="größer", ratio=1.5):
            f(x).block_until_ready()
    return session.stop()


def test_events_are_those_of_xlas_reader(recorded: bytes) -> None:
    events = read_events(recorded)
    row = 0
    for plane in recording.ProfileData.from_serialized_xspace(recorded).planes:
        for line in plane.lines:
            for event in line.events:
                assert events.names[events.name[row]] == event.name
                assert events.threads[events.thread[row]] == line.name
                assert abs(events.start_ns[row] - event.start_ns) <= 1
                duration = events.end_ns[row] - events.start_ns[row]
                assert abs(duration - event.duration_ns) <= 1
                for name, column in events.stats.items():
                    # XLA repeats `_src`, so a name may have several values.
                    values = [value for key, value in event.stats if key == name]
                    is_text = any(isinstance(value, (str, float)) for value in values)
                    ours = events.names[column[row]] if is_text else column[row]
                    assert ours in ([*map(str, values)] if is_text else values or [ABSENT])
                row += 1
    assert row == len(events) > 50


def test_an_event_without_a_stat_has_none(recorded: bytes) -> None:
    events = read_events(recorded)
    steps = events.texts_are(events.name, "step")
    assert list(events.stat("number")[steps]) == [0, 1, 2]
    assert (events.stat("number")[~steps] == ABSENT).all()
    assert (events.stat("no such stat") == ABSENT).all()


@pytest.mark.parametrize("cut", [1, 100, 1001])
def test_truncated_recordings_raise(recorded: bytes, cut: int) -> None:
    with pytest.raises(ArgumentValueError, match="no whole recording"):
        read_events(recorded[:-cut])


def test_foreign_bytes_raise() -> None:
    with pytest.raises(ArgumentValueError, match="no whole recording"):
        read_events(b"\x89PNG\r\n" * 10)


def test_an_empty_recording_has_no_events() -> None:
    events = read_events(b"")
    assert len(events) == 0
    assert events.stat("hlo_op").dtype == np.int64
