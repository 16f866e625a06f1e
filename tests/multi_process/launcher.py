"""Starts processes that form one job on this machine, each with a hard limit to its time.

    ends = launch("training", count=2)          # programs.training in each of two processes
    ends[0].result                              # what it returned, as JSON carries it
    ends[1].exit_code, ends[1].errors           # -9 if it was killed; what it wrote to stderr

A program is a function of `programs.py`, or of another module beside it; it gets the address of the job, its own number and the number of processes.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WORKER = pathlib.Path(__file__).with_name("worker.py")
ROOT = pathlib.Path(__file__).parents[2]
SOURCES = [str(ROOT / name) for name in ("core", "kernel", "viz", "profiler")]


@dataclass(frozen=True)
class End:
    """How a process ended."""

    exit_code: int
    """Negative for a signal: -9 for a process that was killed, also by the limit."""
    result: Any
    """The program's result; None if it failed."""
    errors: str
    seconds: float


def free_address() -> str:
    """An address of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def launch(
    program: str,
    count: int,
    *,
    module: str = "programs",
    devices: int = 2,
    limit: float = 60.0,
    address: str | None = None,
    only: Sequence[int] | None = None,
    doomed: Sequence[int] = (),
    environment: dict[str, str] | None = None,
    **arguments: Any,
) -> list[End]:
    """Run `program` of `module` in processes 0 to `count - 1` (or `only` in some of them), and wait for all of them.

    Those that are `doomed` are killed when the others have ended.
    """
    address = address or free_address()
    variables = {
        **os.environ,
        "XLA_FLAGS": "",  # as users compile: quickly compiled, processes that exchange data sometimes hang
        **(environment or {}),
        "PYTHONPATH": os.pathsep.join([*SOURCES, os.environ.get("PYTHONPATH", "")]),
        "PELLUCID_NUM_CPU_DEVICES": str(devices),
        "PYTHONFAULTHANDLER": "1",
    }
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        started: dict[int, tuple[subprocess.Popen[bytes], pathlib.Path]] = {}
        for process in range(count) if only is None else only:
            place = pathlib.Path(folder, str(process))
            request = {
                "module": module, "program": program, "address": address, "process": process, "count": count,
                "arguments": arguments, "result": str(place.with_suffix(".json")),
            }  # fmt: skip
            with place.with_suffix(".out").open("wb") as out:
                child = subprocess.Popen(
                    [sys.executable, str(WORKER), json.dumps(request)],
                    env=variables, stdout=out, stderr=subprocess.STDOUT,
                )  # fmt: skip
            started[process] = child, place
        for process in sorted(started, key=lambda process: process in doomed):
            seconds = start + limit - time.monotonic() if process not in doomed else 0.0
            _wait(started[process][0], max(0.1, seconds))
        return [_end(child, place, start) for child, place in started.values()]


def _wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGUSR1)  # where it hangs, for who reads its errors
        time.sleep(0.2)
        child.kill()
        child.wait()


def _end(child: subprocess.Popen[bytes], place: pathlib.Path, start: float) -> End:
    result = place.with_suffix(".json")
    return End(
        child.returncode,
        json.loads(result.read_text()) if result.exists() else None,
        place.with_suffix(".out").read_text(errors="replace"),
        time.monotonic() - start,
    )


def results(ends: list[End]) -> list[Any]:
    """Results of all processes, which must have succeeded."""
    for process, end in enumerate(ends):
        assert end.exit_code == 0, f"process {process} ended with {end.exit_code}:\n{end.errors}"
    return [end.result for end in ends]


def check(text: str, *fragments: str) -> None:
    """All `fragments` must be in the message `text`."""
    missing = [fragment for fragment in fragments if fragment not in text]
    assert not missing, f"the message lacks {missing}:\n{text}"
