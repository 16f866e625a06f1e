"""Processes that a notebook starts; notebooks/05_processes.ipynb drives them, and loses one."""

import json
import os
import pathlib
import signal
import sys
import threading
import time
import types
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from running_kernel import kernel, run

from pellucid_kernel import processes
from pellucid_kernel.magics import PellucidMagics
from pellucid_kernel.shell import ShellExtension


@pytest.fixture
def magics():
    shell = InteractiveShell()
    extension = ShellExtension(shell)
    yield PellucidMagics(shell, extension)
    extension.stop()


def test_the_words_of_the_line():
    assert processes.counts(["3"]) == (3, 2)
    assert processes.counts(["3", "4"]) == (3, 4)


def test_more_processes_than_the_machine_can_hold():
    with pytest.raises(UsageError, match=r"processes 10000: at most \d+ on this machine"):
        processes.counts(["10000"])


@pytest.mark.parametrize("words", [["0"], ["two"], ["1", "2", "3"], ["2", "-1"]])
def test_words_that_are_no_numbers(words):
    with pytest.raises(UsageError, match="%pellucid processes 2 4"):
        processes.counts(words)


def test_ipyparallel_is_asked_for_where_it_is_missing(magics, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyparallel", None)
    with pytest.raises(UsageError, match=r'pip install "pellucid\[processes\]"'):
        magics.pellucid("processes 2")


def test_processes_are_stopped_before_others_start(magics, monkeypatch):
    text = []

    def start(count, devices):
        text.append(("start", count, devices))
        return types.SimpleNamespace(stop=lambda: text.append(("stop", count)))

    monkeypatch.setattr(processes, "Processes", start)
    assert magics.pellucid("processes") is None
    first = magics.pellucid("processes 2")
    assert magics.pellucid("processes") is first
    with pytest.raises(UsageError):
        magics.pellucid("processes none")
    assert magics.pellucid("processes") is first
    magics.pellucid("processes 3 1")
    assert magics.pellucid("processes stop") is None
    assert text == [("start", 2, 2), ("stop", 2), ("start", 3, 1), ("stop", 3)]


SUM = """%%px
import os, signal, time
import numpy as np
import pellucid as pl

mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
ones = pl.make_array_from_process_local_data(pl.NamedSharding(mesh, pl.P("x")), np.ones(1, np.float32))
total = pl.jit(lambda x: x.sum())
print("sum", float(total(ones)))"""
LATE = """%%px
if pl.process_index() == 1:
    print("waiting")
    time.sleep(60)
total(ones).block_until_ready()"""
FAILING = """%%px
if pl.process_index() == 1:
    1 / 0
total(ones).block_until_ready()"""
KILLED = """%%px
if pl.process_index() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
total(ones).block_until_ready()"""
PIDS = """import json, subprocess
found = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
children = [tuple(map(int, line.split())) for line in found.splitlines()]
family = {os.getpid()}
for _ in range(4):
    family |= {pid for pid, parent in children if parent in family}
print(json.dumps(sorted(family - {os.getpid()})))"""


@pytest.mark.multi_process
def test_a_notebook_survives_its_processes_and_they_end_with_it():
    """A cell is interrupted, another fails in one process, one is killed, the kernel used on, and then killed too."""
    with kernel() as (manager, client):
        assert "error" not in run(client, "%pellucid processes 2 1")
        assert run(client, SUM)["shown"].count("sum 2.0") == 2

        pid = int(run(client, "import os; os.getpid()")["result"])
        threading.Timer(2.0, os.kill, (pid, signal.SIGINT)).start()
        assert "Sending signal SIGINT to engines" in run(client, LATE)["stderr"]
        assert goes_on(client)

        shown = run(client, FAILING)["shown"]
        assert "process 1: its cell ended with ZeroDivisionError: division by zero" in shown
        assert goes_on(client)

        assert "process 1 of 2 failed" in run(client, KILLED)["shown"]
        assert "1 of 2 processes ended" in run(client, "%pellucid processes")["result"]
        assert "2" in run(client, "%%px\n1 + 1")["shown"]

        pids = json.loads(run(client, PIDS)["stdout"])
        manager.signal_kernel(signal.SIGKILL)
        deadline = time.monotonic() + 30
        while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left


def goes_on(client: Any) -> bool:
    """Whether the job runs programs again once its engines have ended the last cell; cells that come before are dropped."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if run(client, SUM).get("shown", "").count("sum 2.0") == 2:
            return True
        time.sleep(1)
    return False


def is_running(pid: int) -> bool:
    """Whether there is a process, and one that has not ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
