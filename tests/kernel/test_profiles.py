"""Profiles in a kernel: their progress under the cell, interrupts, and a restart while one is being recorded."""

from collections.abc import Iterator

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.running_kernel import SECONDS, kernel, run

MANY_EVENTS = """
import pellucid as pl, pellucid.numpy as jnp
from pellucid_profiler import progress
progress.FIRST_SHOWN_SECONDS = 0.0
step = pl.jit(lambda x: jnp.sin(x) @ x)
step(jnp.ones((8, 8)))
with pl.profiler.profile() as session:
    for _ in range(300_000):
        with pl.profiler.TraceAnnotation("part"):
            pass
    step(jnp.ones((8, 8))).block_until_ready()
session.wait()
"""
PROFILE = """
import pellucid as pl, pellucid.numpy as jnp
with pl.profiler.profile() as session:
    jnp.sin(1.0)
len(session.calls)
"""


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    with kernel() as both:
        yield both


def test_progress_is_under_the_cell_and_an_interrupt_ends_it(started) -> None:
    manager, client = started
    identity = client.execute(MANY_EVENTS, stop_on_error=False)
    shown = ""
    while "Profile: XLA collects events" not in shown:
        message = client.get_iopub_msg(timeout=SECONDS)
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown += message["content"]["data"]["text/plain"]
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=SECONDS)
    while reply["parent_header"]["msg_id"] != identity:
        reply = client.get_shell_msg(timeout=SECONDS)
    assert reply["content"].get("ename") == "KeyboardInterrupt"
    result = run(client, "len(session.wait().calls), len(session.spans) > 300_000")["result"]
    assert result == "(2, True)"


@pytest.mark.parametrize("at_once", [False, True])
def test_a_kernel_restarts_while_a_session_is_recorded(started, at_once: bool) -> None:
    manager, client = started
    begin = (
        "import pellucid as pl, pellucid.numpy as jnp; begun = pl.profiler.start(); jnp.sin(1.0)"
    )
    assert "error" not in run(client, begin)
    manager.restart_kernel(now=at_once)
    client.wait_for_ready(timeout=SECONDS)
    assert run(client, "begun")["error"] == "NameError"
    assert run(client, PROFILE)["result"] == "1"
