"""Releases of the members of a group, and their messages if they disagree; without connections."""

import asyncio

from pellucid._machine.runtime.distributed import agreements
from pellucid._machine.runtime.distributed.agreements import Agreements


class Job:
    """Agreements, with the messages to each process."""

    def __init__(self):
        self.told = []
        self.failed = {}
        self.different = []
        self.agreements = Agreements(self.tell, self.failed.__setitem__, self.different.extend)

    def tell(self, process, event, **fields):
        self.told.append((process, event, fields))

    def propose(self, process, group, text, seconds=60.0):
        self.agreements.propose(process, group, "a program", text, seconds)

    def report_launch(self, process, group, text, seconds=60.0):
        self.agreements.report_launch(
            process, group, [f"a program\0{key}" for key in text], seconds
        )

    async def wait(self):
        """Let time pass, and have the coordinator look at the clock."""
        await asyncio.sleep(0.1)
        self.agreements.check()

    def heard(self):
        """Messages since the last call, by process."""
        messages, self.told = self.told, []
        return {process: (event, fields) for process, event, fields in messages}


def disagreement(*lines):
    """The message to processes that proposed different programs."""
    return "error", {
        "kind": "AgreementError",
        "what": "a program: the processes don't agree.",
        "got": [*lines],
        "do": agreements._IN_ORDER,
    }


def test_all_go_on_when_the_last_has_said_the_same():
    async def run():
        job = Job()
        for text in ("f", "g"):
            job.propose(0, (0, 1, 2), text)
            job.propose(2, (0, 1, 2), text)
            assert job.heard() == {}
            job.propose(1, (0, 1, 2), text)
            assert job.heard() == dict.fromkeys(range(3), ("agreed", {}))

    asyncio.run(run())


def test_who_says_something_else_ends_it_for_all_also_for_those_who_come_later():
    async def run():
        job = Job()
        job.propose(0, (0, 1, 2), "f")
        job.propose(1, (0, 1, 2), "g")
        error = disagreement("process 0: f", "process 1: g")
        assert job.heard() == dict.fromkeys((0, 1), error)
        job.propose(0, (0, 1, 2), "f")
        job.propose(2, (0, 1, 2), "f")
        assert job.heard() == {2: error}
        job.propose(2, (0, 1, 2), "f")
        job.propose(1, (0, 1, 2), "f")
        assert set(job.heard()) == {0, 1, 2}

    asyncio.run(run())


def test_processes_that_wait_for_each_other_in_a_circle_are_told():
    """Each group alone would agree: 0 waits for 1, 1 for 2, and 2 for 0."""

    async def run():
        job = Job()
        job.propose(0, (0, 1), "f")
        job.propose(1, (1, 2), "g")
        job.propose(3, (2, 3), "unconcerned")
        assert job.heard() == {}
        job.propose(2, (0, 2), "h")
        error = disagreement("process 0: f", "process 1: g", "process 2: h")
        assert job.heard() == dict.fromkeys((0, 1, 2), error)
        job.propose(2, (2, 3), "unconcerned")
        assert set(job.heard()) == {2, 3}

    asyncio.run(run())


def test_who_does_not_come_in_time_is_named_with_what_it_did_last():
    async def run():
        job = Job()
        job.propose(0, (0, 1), "f")
        job.propose(1, (0, 1), "f")
        job.heard()
        job.propose(0, (0, 1), "g", seconds=0.05)
        await job.wait()
        [(event, error)] = job.heard().values()
        assert (event, error["kind"]) == ("error", "DistributedTimeoutError")
        assert error["what"] == "a program: process 1 did not come within 0.05 s."
        assert error["got"] == ["process 1: last agreed on a program: f"]
        job.propose(1, (0, 1), "g")
        [(event, error)] = job.heard().values()
        assert error["what"].startswith("a program: the others waited 0.05 s for this process")
        assert error["got"] == ["process 1 comes only now"]

    asyncio.run(run())


def test_who_withdraws_has_not_come():
    async def run():
        job = Job()
        job.propose(0, (0, 1), "f")
        job.agreements.withdraw(0)
        assert job.heard() == {0: ("withdrawn", {})}
        job.propose(1, (0, 1), "g")
        job.propose(0, (0, 1), "g")
        assert job.heard() == dict.fromkeys((0, 1), ("agreed", {}))
        job.agreements.withdraw(1)  # too late: it has been told
        assert job.heard() == {1: ("withdrawn", {})}

    asyncio.run(run())


def test_one_that_has_stopped_is_not_waited_for_longer_than_a_moment(monkeypatch):
    monkeypatch.setattr(agreements, "_STOPPED_PEER_GRACE_SECONDS", 0.05)
    stopped = {
        "kind": "DistributedError",
        "what": "a program: process 1 stopped before.",
        "got": ["process 1: an error"],
        "do": "Mend that, and run it again in all processes.",
    }

    async def run():
        job = Job()
        job.propose(0, (0, 1), "f")
        job.agreements.stop(1, "an error")
        assert job.heard() == {}
        await job.wait()
        assert job.heard() == {0: ("error", stopped)}
        job.propose(0, (0, 1), "f")
        await job.wait()
        assert job.heard() == {0: ("error", stopped)}
        job.propose(0, (0, 1), "f")
        job.agreements.stop(1, None)
        await job.wait()
        assert job.heard() == {}
        job.propose(1, (0, 1), "f")
        assert job.heard() == dict.fromkeys((0, 1), ("agreed", {}))

    asyncio.run(run())


def test_launches_are_compared_in_whatever_pieces_they_are_reported():
    async def run():
        job = Job()
        group = (0, 1, 2)
        for text in "fgh":
            for process in group:
                job.propose(process, group, text)
        job.heard()
        job.report_launch(0, group, "fgfg")
        job.report_launch(1, group, "fg")
        job.report_launch(2, group, "f")
        job.report_launch(2, group, "gf")
        job.propose(1, group, "f")
        assert job.heard() == {1: ("agreed", {})}  # as 0 and 2 have launched it
        job.report_launch(2, group, "gg")
        job.report_launch(1, group, "gg")
        assert (job.different, job.failed) == ([], {})
        job.report_launch(0, group, "h")
        assert job.different == ["process 0: h", "processes 1, 2: g"]

    asyncio.run(run())


def test_a_process_that_waits_where_another_has_launched_something_else_is_told():
    async def run():
        job = Job()
        job.report_launch(0, (0, 1), "f")
        job.propose(1, (0, 1), "g")
        [first, second] = job.different
        assert (first[:9], second[:9]) == ("process 0", "process 1")

    asyncio.run(run())


def test_a_launch_that_others_do_not_make_fails_them(monkeypatch):
    monkeypatch.setattr(agreements, "_STOPPED_PEER_GRACE_SECONDS", 0.05)

    async def run():
        job = Job()
        job.propose(0, (0, 1), "f")
        job.propose(1, (0, 1), "f")
        job.report_launch(0, (0, 1), "f", seconds=0.05)
        await job.wait()
        assert job.failed == {1: "it did not come to f within 0.05 s"}
        job = Job()
        job.agreements.stop(1, "an error")
        job.report_launch(0, (0, 1), "f")
        await job.wait()
        assert job.failed == {1: "an error"}

    asyncio.run(run())


def test_of_many_different_proposals_the_first_are_quoted():
    async def run():
        job = Job()
        groups = [(i, i + 1) for i in range(5)] + [(0, 5)]
        for process, group in enumerate(groups):
            job.propose(process, group, f"{process}")
        [lines] = {tuple(error["got"]) for _, error in job.heard().values()}
        assert lines == ("process 0: 0", "process 1: 1", "process 2: 2", "and others")

    asyncio.run(run())
