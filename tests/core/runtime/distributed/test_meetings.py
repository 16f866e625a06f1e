"""A process that is interrupted, or cut off, while it waits for others; the coordinator is simulated."""

import json
import types

import pytest

from pellucid._machine.base.errors import AgreementError, DistributedError
from pellucid._machine.runtime.distributed.meetings import Meetings
from pellucid._machine.runtime.peers import Proposal


class FakeConnection:
    """Gives `received` bit by bit, and raises what is an exception in it."""

    def __init__(self, received):
        self.received = received
        self.sent = []

    def sendall(self, data):
        message = json.loads(data)
        self.sent.append(message["event"])
        self.keys = message.get("keys")

    def recv(self, _):
        data = self.received.pop(0) if self.received else b""
        if isinstance(data, BaseException):
            raise data
        return data

    def shutdown(self, _):
        self.received.clear()


def meetings_with(*received):
    """Meetings of process 0 of two, and its connection."""
    membership = types.SimpleNamespace(
        process_id=0, num_processes=2, check=lambda seconds=0.0: None
    )
    result = Meetings(membership)
    result._connection = FakeConnection(list(received))
    return result


PROPOSAL = Proposal("a program", "f", [0, 1], "key")
AGREED = b'{"event": "agreed"}\n'
WITHDRAWN = b'{"event": "withdrawn"}\n'


@pytest.mark.parametrize("pieces", [[AGREED], [AGREED[:5], AGREED[5:]]])
def test_a_program_starts_when_all_have_agreed(pieces):
    started = []
    meetings = meetings_with(*pieces)
    meetings.launch(started.append, "the program", PROPOSAL)
    assert started == ["the program"]
    assert meetings._connection.sent == ["come"]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [([WITHDRAWN], []), ([AGREED + WITHDRAWN], ["it"]), ([AGREED, WITHDRAWN], ["it"])],
)
def test_who_is_interrupted_starts_only_what_the_others_start(pieces, expected):
    started = []
    meetings = meetings_with(KeyboardInterrupt(), *pieces)
    with pytest.raises(KeyboardInterrupt):
        meetings.launch(started.append, "it", PROPOSAL)
    assert started == expected
    assert meetings._connection.sent == ["come", "withdraw"]


def test_who_is_interrupted_twice_is_out_of_the_job():
    """Nobody knows then whether the others count on this process."""
    meetings = meetings_with(KeyboardInterrupt(), KeyboardInterrupt(), AGREED)
    with pytest.raises(KeyboardInterrupt):
        meetings.agree("a program", "f")
    with pytest.raises(DistributedError, match=r"connection to process 0 is closed[\s\S]*anew"):
        meetings.agree("a program", "f")


@pytest.mark.parametrize("lost", [b"", ConnectionResetError()])
def test_a_lost_connection_is_an_error(lost):
    with pytest.raises(DistributedError, match="connection to process 0 is closed"):
        meetings_with(lost).agree("a program", "f")


def test_long_texts_are_cut_but_still_differ():
    long = "f32[4], " * 1000
    first, second = meetings_with(AGREED), meetings_with(AGREED)
    messages = []
    for meetings, text in ((first, long), (second, long + "i32[]")):
        meetings._connection.sendall = lambda data: messages.append(json.loads(data)["text"])
        meetings.agree("a program", text)
    assert messages[0] != messages[1]
    assert all(len(text) < 500 for text in messages)


def test_only_new_successions_of_programs_wait():
    meetings = meetings_with(*[AGREED] * 5)
    started = []

    def launch(key, contents=""):
        proposal = Proposal("a program", key, (0, 1), key, contents)
        meetings.launch(started.append, key, proposal, is_order_enough=True)

    for key in "abab":
        launch(key)
    connection = meetings._connection
    assert connection.sent == ["come"] * 3  # a, ab, ba; then ab is known
    for key in "abab":
        launch(key)
    launch("a", "digest")
    assert connection.sent == ["come"] * 3
    launch("a")  # aa is new
    assert connection.sent == ["come"] * 3 + ["launched", "come"]
    launch("a")
    meetings.report()
    assert connection.keys == ["a"]
    assert started == [*"abababab", "a", "a", "a"]


def test_a_succession_is_unknown_after_a_failed_launch():
    disagreed = b'{"event": "error", "kind": "AgreementError", "what": "", "got": [], "do": ""}\n'
    meetings = meetings_with(AGREED, disagreed, AGREED)
    launch = lambda key: meetings.launch(
        str, key, Proposal("a program", key, (0, 1), key), is_order_enough=True
    )
    launch("a")
    with pytest.raises(AgreementError):
        launch("b")
    assert launch("a") == "a"
    assert meetings._connection.sent == ["come"] * 3
