"""A conversion that takes a while is shown, under the cell or as a line, and ends when its user interrupts it."""

import _thread
import io
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.profiler import Profile, profile
from pellucid_profiler import conversion, progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Handle:
    """A display of a stand-in for IPython, which keeps what is drawn."""

    def __init__(self, drawn: list[dict[str, str]], bundle: dict[str, str]) -> None:
        self.drawn = drawn
        self.update(bundle, raw=True)

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.drawn.append(bundle)


def when(condition: Callable[[], bool], action: Callable[[], object]) -> None:
    """Call `action` on a thread of its own as soon as `condition` holds."""

    def wait() -> None:
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)
        action()

    threading.Thread(target=wait, daemon=True).start()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Profile]]:
    """Makes a profile whose events stay at 45 % until the test sets `go`."""
    monkeypatch.setattr(progress, "FIRST_SHOWN_SECONDS", 0.01)
    monkeypatch.setattr(progress, "PERIOD_SECONDS", 0.01)
    read_events, go = conversion.read_events, threading.Event()

    def slowly(recorded: bytes, reading: Callable[[float], None]) -> Any:
        while not go.wait(0.01):
            reading(0.45)
        return read_events(recorded, reading)

    monkeypatch.setattr(conversion, "read_events", slowly)

    def record() -> Profile:
        with profile() as recorded:
            pl.jit(jnp.sin)(jnp.ones(4)).block_until_ready()
        return recorded

    record.go = go  # type: ignore[attr-defined]
    yield record
    go.set()


def test_a_terminal_has_a_line_which_goes_away(slow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    recorded = slow()
    when(lambda: "45 %" in terminal.getvalue(), slow.go.set)
    assert len(recorded.wait().calls) == 2
    assert "\r\x1b[KProfile: reading events, 45 %" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_notebook_has_a_bar_under_the_cell(slow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[dict[str, str]] = []
    display = types.SimpleNamespace(display=lambda bundle, **_: Handle(drawn, bundle))
    shell = types.SimpleNamespace(kernel=object())
    stand_in = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", stand_in)
    recorded = slow()
    assert repr(recorded).startswith("Profile(being converted: ")
    when(lambda: any("45 %" in each["text/html"] for each in drawn), slow.go.set)
    recorded.wait()
    bars = [each["text/html"] for each in drawn]
    assert any('<progress value="0.450"' in bar and "reading events, 45 %" in bar for bar in bars)
    assert "<progress" not in bars[-1]
    assert drawn[-1]["text/plain"].startswith("Profile: converted in ")


def test_a_file_has_no_lines_of_progress(slow: Any, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = slow()
    when(lambda: "45 %" in repr(recorded), slow.go.set)
    recorded.wait()
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_ends_the_conversion_which_begins_again(
    slow: Any, request: pytest.FixtureRequest
) -> None:
    # A process in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    recorded = slow()
    when(lambda: "45 %" in repr(recorded), _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        recorded.wait()
    [thread] = [each for each in threading.enumerate() if each.name == "pellucid profiler"]
    thread.join(60)
    assert not thread.is_alive()
    assert "45 %" in repr(recorded)
    slow.go.set()
    assert len(recorded.calls) == 2


def test_a_wait_has_its_time(slow: Any) -> None:
    recorded = slow()
    with pytest.raises(TimeoutError):
        recorded.wait(0.05)
    slow.go.set()
    assert len(recorded.wait(60).calls) == 2


def test_a_conversion_that_fails_raises_where_the_session_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "read_events", failing)
        with profile() as recorded:
            pass
        with pytest.raises(OSError, match="No space left"):
            recorded.wait()
    assert recorded.recorded()
    with profile():  # a session that failed is over
        pass
