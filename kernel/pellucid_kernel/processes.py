"""Several processes on this machine, each with its own devices, driven by one notebook through ipyparallel.

`%pellucid processes 2` starts two engines of ipyparallel, which form one job. `%%px` then runs a cell in both, and
`pellucid.devices()` there lists the devices of both.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython

_START_TIMEOUT_SECONDS = 60
_EXIT_TIMEOUT_SECONDS = 10
_MAX_PER_CORE = 8


class Processes:
    """Engines of one job, until `stop`. `client` is ipyparallel's client, `view` its view of all engines.

    Raises: UsageError if ipyparallel is not installed; any exception of an engine while the job is formed.
    """

    def __init__(self, count: int, devices: int) -> None:
        parallel = _ipyparallel()
        self.count = count
        self.devices = devices
        self._cluster = parallel.Cluster(n=count, log_level=logging.ERROR)
        self._lifeline = socket.create_server(("127.0.0.1", 0), backlog=count)
        """Socket to which the engines stay connected: they end when it closes, however this process ends."""
        try:
            self._cluster.start_cluster_sync()
            self.client = self._cluster.connect_client_sync()
            self.client.wait_for_engines(count, timeout=_START_TIMEOUT_SECONDS, interactive=False)
            # "all" means the engines that are alive: if one has died, %%px continues with the others.
            self.view = self.client.direct_view("all")
            self.view.block = True
            address, lifeline = _free_address(), self._lifeline.getsockname()
            secret = secrets.token_hex(16)
            controller = self._cluster.controller.pid
            joining = []
            for process, engine in enumerate(self.client.ids):
                view = self.client[engine]
                joining += [
                    view.apply_async(_end_with, lifeline, controller),
                    view.apply_async(_join, address, count, process, devices, secret),
                ]
            for each in joining:
                each.get(_START_TIMEOUT_SECONDS)
        except BaseException:
            self._end()
            raise
        self.view.activate()

    def stop(self) -> None:
        """Ends the job and its processes."""
        try:
            self.view.apply_async(_leave).get(_EXIT_TIMEOUT_SECONDS)
        except Exception:
            # An engine may be dead or busy; stopping the cluster ends it anyway.
            self.client.abort()
        self._end()

    def _end(self) -> None:
        self._cluster.stop_cluster_sync()
        self._lifeline.close()

    def __repr__(self) -> str:
        alive = len(self.client.ids)
        if alive < self.count:
            return (
                f"{self.count - alive} of {self.count} processes ended, and with them the job; "
                f"%pellucid processes {self.count} {self.devices} starts another"
            )
        total = self.count * self.devices
        return f"{self.count} processes with {total} devices in one job; %%px runs a cell in all of them"


def _ipyparallel() -> Any:
    try:
        return importlib.import_module("ipyparallel")  # an optional package
    except ImportError:
        raise UsageError(
            'Several processes need ipyparallel: pip install "pellucid[processes]".'
        ) from None


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _end_with(lifeline: tuple[str, int], controller: int) -> None:
    """Runs in an engine: ends it and the engines' controller when the connection to the notebook's kernel closes."""
    connection = socket.create_connection(lifeline)

    def watch() -> None:
        with contextlib.suppress(OSError):
            connection.recv(1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(controller, signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="pellucid-lifeline", daemon=True).start()


def _join(address: str, count: int, process: int, devices: int, secret: str) -> None:
    """Runs in an engine: loads pellucid with `devices` devices, enables figures, and joins the job."""
    os.environ["PELLUCID_NUM_CPU_DEVICES"] = str(devices)
    shell: Any = get_ipython()
    shell.run_line_magic("load_ext", "pellucid_kernel")
    pellucid = importlib.import_module("pellucid")
    # A failing cell must not end the job. The round trip per run is too short to be noticed.
    pellucid.config.update("agreement_on_programs", "every_run")
    pellucid.distributed.initialize(
        address, count, process, shutdown_timeout_seconds=_EXIT_TIMEOUT_SECONDS, secret=secret
    )
    shell.events.register("pre_run_cell", lambda _: _report(None))
    shell.events.register("post_run_cell", lambda result: _report(result.error_in_exec))


def _report(error: BaseException | None) -> None:
    """Runs in an engine: reports to the other engines that the cell failed here, so that they don't wait for it; with
    None, that this engine continues.
    """
    distributed = importlib.import_module("pellucid").distributed
    if distributed.is_initialized():
        distributed.report_error(
            None if error is None else f"its cell ended with {type(error).__name__}: {error}"
        )


def _leave() -> None:
    importlib.import_module("pellucid").distributed.shutdown()


def counts(words: Sequence[str]) -> tuple[int, int]:
    """Parses the words of a magic's line: (number of processes, devices per process; 2 by default)."""
    numbers = [int(word) for word in words if word.isdecimal()]
    if len(numbers) != len(words) or not 1 <= len(numbers) <= 2 or min(numbers) < 1:
        raise UsageError(
            "%pellucid processes takes the number of processes and, if you like, of devices of each: "
            "%pellucid processes 2 4"
        )
    most = _MAX_PER_CORE * (os.cpu_count() or 1)
    if numbers[0] > most:
        raise UsageError(
            f"%pellucid processes {numbers[0]}: at most {most} on this machine, "
            f"{_MAX_PER_CORE} for each of its cores."
        )
    return numbers[0], numbers[1] if len(numbers) == 2 else 2
