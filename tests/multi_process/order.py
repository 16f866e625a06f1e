"""Programs of the processes of tests/multi_process/test_order.py: different, or in different order."""

import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from place import Place
from programs import error_of, join

import pellucid as pl
from pellucid._machine.runtime.distributed import job
from pellucid.experimental import multihost_utils


def largest(x: Any) -> Any:
    return x.max()


def total(x: Any) -> Any:
    return x.sum()


def rows(x: Any) -> Any:
    return x.sum(0)


class Work:
    """Programs that exchange data, each of which has run once."""

    def __init__(self) -> None:
        mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
        over_x = pl.NamedSharding(mesh, pl.P("x"))
        part = np.arange(1, 3, dtype=np.float32) + 2 * pl.process_index()
        self.x = pl.make_array_from_process_local_data(over_x, part)
        self.wide = pl.make_array_from_process_local_data(over_x, np.ones((2, 50_000), np.float32))
        self.total, self.largest, self.rows = pl.jit(total), pl.jit(largest), pl.jit(rows)
        self.scaled = pl.jit(lambda x, by: (x * by).sum())
        self.check()
        self.rows(self.wide).block_until_ready()

    def check(self) -> None:
        """All programs give what they should, so all processes are at the same point."""
        assert float(self.total(self.x)) == 10
        assert float(self.largest(self.x)) == 4
        assert float(self.scaled(self.x, 2.0)) == 20


def impatiently(seconds: float, work: Work) -> Any:
    """Run a program after `seconds`, and wait one second for the others."""
    time.sleep(seconds)
    with pl.config.option("peer_timeout_seconds")(1.0):
        return work.total(work.x)


def out_of_order(place: Place) -> dict[str, Any]:
    """Errors where processes do different things; after each of them they go on together."""
    join(place)
    work, mine = Work(), place.process
    programs = [work.total, work.largest]
    actual = {}

    def note(name: str, call: Any) -> None:
        actual[name] = error_of(call)
        work.check()

    note("swapped", lambda: programs[mine](work.x))
    note("sizes", lambda: work.total(work.x) if mine else work.rows(work.wide))
    note("one fewer", lambda: multihost_utils.assert_equal(1) if mine else work.total(work.x))
    note("host values", lambda: work.scaled(work.x, 2.0 + mine))
    # As one that has met an error between two programs, and handled it.
    note("late", lambda: impatiently(2.0 * mine, work))
    pl.distributed.barrier("interrupts follow")
    if mine == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            work.total(work.x)
        except KeyboardInterrupt:
            actual["interrupted"] = True
    pl.distributed.barrier("process 0 was interrupted")
    work.check()
    return actual


def ends_early(place: Place) -> Any:
    """Process 1 ends while process 0 runs a program more."""
    join(place)
    work = Work()
    return error_of(lambda: work.total(work.x)) if place.process == 0 else None


def in_a_circle(place: Place) -> Any:
    """Two groups of processes run two programs in another order, which is the same within each group."""
    join(place)
    both, all_three = (
        pl.sharding.Mesh(np.array([d for d in pl.devices() if d.process_index < n]), ("x",))
        for n in (2, 3)
    )
    arrays = [
        pl.make_array_from_callback(
            (mesh.size,), pl.NamedSharding(mesh, pl.P("x")), lambda _: np.ones(1, np.float32)
        )
        for mesh in (both, all_three)
        if place.process < 2 or mesh is all_three
    ]
    run = pl.jit(total)
    values = [float(run(x)) for x in arrays]
    seen = error_of(lambda: [run(x) for x in (arrays[::-1] if place.process else arrays)])
    return [values, seen]


def in_another_order(place: Place) -> Any:
    """Process 1 leaves a program out that has followed another one in both processes."""
    join(place)
    work = Work()
    for _ in range(2):
        work.check()

    def runs() -> None:
        work.total(work.x)
        if place.process == 0:
            work.largest(work.x)
        for _ in range(100):
            work.total(work.x).block_until_ready()
            time.sleep(0.05)

    actual = error_of(runs)
    pl.distributed.shutdown()
    return actual


def in_an_exchange_that_nothing_ends(place: Place) -> Any:
    """Process 0 waits for what process 1 computes, which runs another program and lives on."""
    job.Job._cut_gloo = lambda self: None  # as where a connection is cut that is being written to
    join(place)
    work = Work()
    for _ in range(2):
        work.check()
    if place.process == 0:
        return error_of(lambda: (work.total(work.x), work.largest(work.x).block_until_ready()))
    error_of(lambda: (work.total(work.x), work.total(work.x)))
    time.sleep(600)  # until the launcher ends it
    return None


def on_the_cpp_road(place: Place) -> Any:
    """Both run a loop without Python, then programs that differ; the calls of Python in the loop, and the errors."""
    join(place)
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    over_x = pl.NamedSharding(mesh, pl.P("x"))
    x = pl.make_array_from_process_local_data(over_x, np.ones(2, np.float32))
    halved, doubled = pl.jit(lambda x: x / x.sum()), pl.jit(lambda x: x * x.sum())
    for step in (halved, doubled, doubled, halved, halved):
        step(x).block_until_ready()
    calls = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    for _ in range(20):
        halved(x)
    sys.setprofile(None)
    reported = [calls.count(name) for name in ("LaunchPoint._to_xla_layout", "Executable.__call__")]
    third = pl.jit(lambda x: x - x.max())
    for step in (third, third):
        step(x).block_until_ready()
    # Neither program has followed `third` yet: both wait, and nothing was started.
    error = error_of(lambda: (halved, doubled)[place.process](x))
    values = np.asarray(halved(x).addressable_data(0)).tolist()
    return [reported, len(calls) / 20, error, values]
