"""The record of a session: parts of its tables add up to the totals, tiles to the operations, and HTML shows texts as texts."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.introspect.errors import ArgumentValueError
from pellucid.profiler import load, profile
from pellucid_profiler.record import session_timeline
from pellucid_profiler.timeline import timeline
from tests.introspect import sample_profiles


@pytest.fixture(scope="module")
def session():
    """A session with a derivative, an annotation and two compilations."""

    def loss(w, x):
        y = jnp.tanh(x @ w)
        return (y**2).mean()

    step = pl.jit(lambda w, x: w - 0.1 * pl.grad(loss)(w, x))
    x = jnp.ones((64, 32))
    w = step(jnp.ones((32, 32)), x)
    with profile() as recorded:
        for _ in range(5):
            w = step(w, x)
        step(w, x[:32]).block_until_ready()
    return recorded.wait()


@pytest.fixture(params=["recorded", "sample"])
def any_session(request, session):
    return session if request.param == "recorded" else sample_profiles.session()


def test_parts_add_up_to_totals(any_session) -> None:
    record = any_session.record()
    totals, ops, shares, lines = record.totals, record.operations, record.shares, record.lines
    assert totals.operation_count == len(any_session.operations) == sum(ops.count)
    assert totals.operation_seconds > 0
    assert sum(ops.seconds) == pytest.approx(totals.operation_seconds)
    assert sum(record.device_shares.seconds) == pytest.approx(totals.operation_seconds)
    assert sum(record.device_shares.count) == totals.operation_count
    assert sum(ops.share_counts) == len(shares.share)
    owner = np.repeat(np.arange(len(ops.seconds)), ops.share_counts)
    seconds = np.array(ops.seconds)[owner] * shares.share
    for line in range(len(lines.line)):
        of_line = np.array(shares.line) == line
        backward = of_line & np.array(shares.is_backward)
        assert seconds[backward].sum() == pytest.approx(lines.backward_seconds[line])
        assert seconds[of_line].sum() == pytest.approx(
            lines.forward_seconds[line] + lines.backward_seconds[line]
        )
    attributed = sum(lines.forward_seconds) + sum(lines.backward_seconds)
    assert attributed + totals.unattributed_seconds == pytest.approx(totals.operation_seconds)


def test_forward_and_backward_are_apart_on_the_line_that_caused_them(session) -> None:
    record = session.record()
    [source] = [each for each in record.sources if each.path == __file__]
    texts = dict(enumerate(source.lines, source.first_line))
    of_line = {texts[number].strip(): i for i, number in enumerate(record.lines.line)}
    product = of_line["y = jnp.tanh(x @ w)"]
    assert record.lines.forward_seconds[product] > 0
    assert record.lines.backward_seconds[product] > 0


@pytest.mark.parametrize("columns", [3, 40, 10_000])
def test_tiles_hold_every_operation_once(any_session, columns) -> None:
    shown = timeline(any_session, columns=columns)
    lane, tiles = np.array(shown.tiles.lane), shown.tiles
    is_device = np.array([each.kind == "device" for each in shown.lanes])[lane]
    ops = any_session.operations
    assert np.array(tiles.count)[is_device].sum() == len(ops)
    assert np.array(tiles.busy_ns)[is_device].sum() == ops.duration_ns.sum()
    for row in range(len(shown.lanes)):
        start, end = (np.array(each)[lane == row] for each in (tiles.start_ns, tiles.end_ns))
        assert (start[1:] >= end[:-1]).all()
        assert (end >= start).all()
    assert shown.is_whole == (max(tiles.count) == 1)


def test_a_closer_look_shows_what_ran_then() -> None:
    large = sample_profiles.session(200, 50, 2)
    record = large.record()
    assert not record.timeline.is_whole
    begin, end = 1_000_000, 1_060_000
    closer = session_timeline(record.session, begin, end, 500)
    assert closer.is_whole
    ops = large.operations
    overlaps = (ops.start_ns <= end) & (ops.end_ns >= begin)
    of_devices = [i for i, lane in enumerate(closer.lanes) if lane.kind == "device"]
    assert sum(lane in of_devices for lane in closer.tiles.lane) == overlaps.sum() > 10
    name = closer.names[closer.tiles.name[-1]]
    assert record.strings[record.operations.name[closer.tiles.operation[-1]]] == name


def test_a_session_that_is_gone_is_an_error() -> None:
    with pytest.raises(ArgumentValueError, match="no longer in the kernel"):
        session_timeline(10**6, 0, 1, 10)


def test_a_loaded_session_has_the_text_of_its_lines(session, tmp_path) -> None:
    session.save(tmp_path / "s.plprof")
    loaded = load(tmp_path / "s.plprof")
    assert loaded.sources == session.sources
    before, after = session.record().to_dict(), loaded.record().to_dict()
    assert before.pop("session") != after.pop("session")
    assert before == after
    assert "y = jnp.tanh(x @ w)" in loaded.report()


def test_html_has_findings_lines_and_operations_as_texts() -> None:
    html = sample_profiles.session().to_html()
    assert "measured by line" in html
    assert "In[3]" in html
    assert "y = jnp.tanh(x @ w)  # &lt;b&gt;no markup&lt;/b&gt;" in html
    assert "<b>no markup" not in html
    assert "<b>f</b>" not in html
    assert "op.9" in html
    assert "x: f32[8,4] -&gt; f32[9,4]" in html
    assert "<script" not in html
    assert sample_profiles.empty().to_html().startswith("<div><p>Nothing ran on devices")


def test_only_the_longest_operations_are_listed(monkeypatch) -> None:
    monkeypatch.setattr("pellucid_profiler.record.MAX_OPERATIONS", 5)
    session = sample_profiles.session()
    record = session.record()
    assert len(record.operations.name) == 5
    assert record.omitted_count == 7
    listed = sum(record.operations.seconds)
    assert listed + record.omitted_seconds == pytest.approx(record.totals.operation_seconds)
    assert min(record.operations.seconds) * 7 >= record.omitted_seconds
    closer = session_timeline(record.session, 0, 50_000, 1000)
    assert set(closer.tiles.operation) == {-1, 0, 1, 2, 3, 4}
    assert set(record.device_shares.operation) == {0, 1, 2, 3, 4}


def test_native_calls_are_shown_with_their_functions() -> None:
    f = pl.jit(lambda x: jnp.linalg.qr(pl.pure_callback(lambda x: x, x, x)))
    with profile() as recorded:
        pl.block_until_ready(f(np.eye(4, dtype=np.float32)))
    session = recorded.wait()
    labels = [info.label for info in session.infos if info.opcode == "custom-call"]
    assert any(label.endswith(": lapack_sgeqrf_ffi") for label in labels)
    assert any("callback" in label and ":" not in label for label in labels)
    record = session.record()
    shown = (record.strings, session.report(), session.to_html())
    assert all(label in text for label in labels for text in shown)
    assert session.by_operation[0].instruction in {info.name for info in session.infos}
