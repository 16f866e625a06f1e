"""Admission to a job, and messages to members about each other; all sides are in this process."""

import asyncio
import gc
import logging
import socket

import pytest

from pellucid._machine.base.errors import AgreementError, DistributedError
from pellucid._machine.runtime.distributed import wire
from pellucid._machine.runtime.distributed.coordinator import Coordinator
from pellucid._machine.runtime.distributed.meetings import Meetings
from pellucid._machine.runtime.distributed.membership import Membership


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Meeting:
    """A coordinator for two processes, and members that come to it."""

    def __init__(self, heartbeat=10.0, secret=""):
        self.heartbeat = heartbeat
        self.secret = secret
        self.port = free_port()
        self.coordinator = Coordinator(2, heartbeat, service_port=1, secret=secret)
        self.told = []
        self.members = []

    def member(self, process, count=2, secret=None):
        secret = self.secret if secret is None else secret
        self.members.append(
            Membership(process, count, self.heartbeat, lambda: self.told.append(process), secret)
        )
        return self.members[-1]

    async def comes(self, member, seconds=5.0):
        await member.join("127.0.0.1", self.port, seconds)

    async def both(self):
        members = [self.member(0), self.member(1)]
        await asyncio.gather(*map(self.comes, members))
        return members


def during(meeting, what):
    """Run `what()` while the meeting's coordinator listens; nothing is left that asyncio would complain of."""
    complaints = []

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        await meeting.coordinator.start("127.0.0.1", meeting.port)
        try:
            return await what()
        finally:
            for member in meeting.members:
                await member.leave()
            await meeting.coordinator.stop(1.0)

    result = asyncio.run(run())
    del meeting.coordinator
    gc.collect()
    assert complaints == []
    return result


@pytest.mark.parametrize(
    ("process", "count", "reason"),
    [
        (1, 3, "process 1 was told num_processes=3, process 0 2"),
        (0, 2, "another process has come as process 0"),
        (5, 2, "there is no process 5 of 2"),
    ],
)
def test_who_does_not_fit_is_refused(process, count, reason):
    meeting = Meeting()

    async def run():
        first = asyncio.ensure_future(meeting.comes(meeting.member(0)))
        await asyncio.sleep(0.1)
        with pytest.raises(DistributedError, match=reason):
            await meeting.comes(meeting.member(process, count))
        await meeting.comes(meeting.member(1))
        await first

    during(meeting, run)


def test_another_version_is_refused(monkeypatch):
    meeting = Meeting()

    async def run():
        reader, writer = await asyncio.open_connection("127.0.0.1", meeting.port)
        wire.send(writer, "member", version=0, process_id=1, num_processes=2)
        answer = await wire.receive(reader)
        writer.close()
        return answer

    assert "another version" in during(meeting, run)["reason"]


SECRET = "what nobody else knows ä"


def test_processes_with_the_same_secret_come_together():
    meeting = Meeting(secret=SECRET)
    first, second = during(meeting, meeting.both)
    assert first.job == second.job != ""


@pytest.mark.parametrize(
    ("there", "here", "reason"),
    [
        (SECRET, "another", "it has another secret"),
        (SECRET, "", "it asks for a secret, and this process has none"),
        ("", SECRET, "process 1 was given a secret, process 0 none"),
    ],
)
def test_who_does_not_know_the_secret_is_refused_and_takes_no_place(there, here, reason):
    meeting = Meeting(secret=there)

    async def run():
        with pytest.raises(DistributedError, match="don't share a secret") as raised:
            await meeting.comes(meeting.member(1, secret=here))
        assert reason in str(raised.value)
        await meeting.both()

    during(meeting, run)


@pytest.mark.parametrize(
    "hello",
    [
        {"process_id": 1, "num_processes": 2},
        {"process_id": 1, "num_processes": 2, "nonce": "x", "proof": "y"},
        {"process_id": True, "num_processes": 2},
        {"process_id": 1.0, "num_processes": 2.0},
        {"process_id": [1], "num_processes": 2},
    ],
)
def test_a_line_alone_takes_no_place(hello):
    meeting = Meeting(secret=SECRET)

    async def run():
        reader, writer = await asyncio.open_connection("127.0.0.1", meeting.port)
        wire.send(writer, "member", version=wire.VERSION, **hello)
        wire.send(writer, "proof", proof="0" * 64)
        both = await meeting.both()
        answers = [await wire.receive(reader), await wire.receive(reader)]
        writer.close()
        return both, answers

    both, answers = during(meeting, run)
    assert both[0].job
    assert all("job" not in answer for answer in answers)
    assert "refused" in [answer["event"] for answer in answers]


def test_numbers_that_are_no_integers_take_no_place_without_a_secret_either():
    meeting = Meeting()

    async def run():
        reader, writer = await asyncio.open_connection("127.0.0.1", meeting.port)
        wire.send(writer, "member", version=wire.VERSION, process_id=True, num_processes=2)
        answer = await wire.receive(reader)
        writer.close()
        return answer

    assert during(meeting, run)["reason"] == "its numbers are no integers"


def test_who_pretends_to_be_process_0_is_found_out():
    async def run(answers):
        async def pretend(reader, writer):
            await wire.receive(reader)
            for event, fields in answers:
                wire.send(writer, event, **fields)
            await reader.read()

        server = await wire.serve(pretend, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        member = Membership(1, 2, 10.0, lambda: None, SECRET)
        try:
            with pytest.raises(DistributedError, match="don't share a secret"):
                await member.join("127.0.0.1", port, 5.0)
        finally:
            server.close()
        assert not member.job

    asyncio.run(run([("complete", {"job": "mine"})]))
    asyncio.run(run([("challenge", {"nonce": "n", "proof": "0" * 64})]))
    asyncio.run(run([("challenge", {"nonce": "n"})]))


def test_who_is_displaced_learns_by_whom(caplog):
    meeting = Meeting()

    async def run():
        intruder = meeting.member(1)
        coming = asyncio.ensure_future(meeting.comes(intruder))
        await asyncio.sleep(0.1)
        with pytest.raises(
            DistributedError, match=r"come as process 1; process 1 is at 127.0.0.1:\d+"
        ):
            await meeting.comes(meeting.member(1))
        await asyncio.gather(coming, meeting.comes(meeting.member(0)))
        with (
            caplog.at_level(logging.WARNING, "pellucid"),
            pytest.raises(DistributedError, match=r"process 1 is at 127\.0\.0\.1"),
        ):
            await meeting.comes(meeting.member(1), seconds=0.7)

    during(meeting, run)
    [record] = caplog.records
    assert "does not let process 1 in: the job there has begun" in record.getMessage()


@pytest.mark.parametrize(
    "text", [b"GET / HTTP/1.1\r\n\r\n", b"[" * 60000 + b"\n", b"{" * 10, b'{"event": []}\n']
)
def test_who_talks_another_language_is_left(text):
    meeting = Meeting()

    async def run():
        reader, writer = await asyncio.open_connection("127.0.0.1", meeting.port)
        writer.write(text)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    assert during(meeting, run) == b""


def test_a_goodbye_is_no_failure_and_a_reason_is_one():
    meeting = Meeting()

    async def run():
        first, second = await meeting.both()
        await second.leave("it had enough")
        for _ in range(50):
            if meeting.told:
                break
            await asyncio.sleep(0.05)
        return first

    first = during(meeting, run)
    assert meeting.told == [0]
    assert first.failures == {1: "it had enough"}
    error = first.failure()
    assert error is not None
    assert error.failed == (1,)

    meeting = Meeting()

    async def part():
        first, second = await meeting.both()
        await second.leave()
        await asyncio.sleep(0.2)
        return first.failure()

    assert during(meeting, part) is None


def test_who_is_silent_has_failed():
    meeting = Meeting(heartbeat=0.4)

    async def run():
        first, second = await meeting.both()
        for task in second._tasks:
            task.cancel()
        await asyncio.sleep(1.0)
        return first.failures

    assert during(meeting, run) == {1: "nothing was heard of it for 0.4 s"}


def test_what_processes_agree_on_goes_through_the_coordinator():
    meeting = Meeting()

    def say(member, message):
        meetings = Meetings(member)
        meetings.connect("127.0.0.1", meeting.port)
        try:
            for text in message:
                meetings.agree("a program", text)
        except AgreementError as error:
            return error.got
        finally:
            meetings.close()

    async def run():
        members = await meeting.both()
        texts = [["first", "f"], ["first", "g"]]
        return await asyncio.gather(
            *[asyncio.to_thread(say, *p) for p in zip(members, texts, strict=True)]
        )

    assert during(meeting, run) == [("process 0: f", "process 1: g")] * 2


def test_leaving_loses_no_cancellation():
    """The time to join may end while a connection closes: without that end, a process would try again for ever."""

    class Closing:
        """The writer of a connection, during whose closing the task is cancelled."""

        def is_closing(self):
            return True

        def close(self):
            pass

        async def wait_closed(self):
            task.cancel()

    async def leaves():
        member = Membership(0, 2, 10.0, lambda: None, "")
        member._writer = Closing()
        await member.leave()
        await asyncio.sleep(0)

    async def run():
        nonlocal task
        task = asyncio.create_task(leaves())
        with pytest.raises(asyncio.CancelledError):
            await task

    task = None
    asyncio.run(run())
