"""A kernel as a front end meets it, for tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

SECONDS = 120


@contextmanager
def kernel(
    devices: str | None = None, cache_home: str | None = None
) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """A kernel started with `devices` asked for in its environment: its manager and a client.

    With `cache_home` it keeps executables as it does for users, below that folder.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PELLUCID_NUM_CPU_DEVICES"}
    if cache_home is not None:
        del environment["PELLUCID_COMPILATION_CACHE_DIR"]
        environment["XDG_CACHE_HOME"] = cache_home
    if devices is not None:
        environment["PELLUCID_NUM_CPU_DEVICES"] = devices
    manager, client = start_new_kernel(
        kernel_name="pellucid", startup_timeout=SECONDS, env=environment
    )
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str) -> dict[str, Any]:
    """The outputs of a cell, by message type; streams are joined."""
    outputs: dict[str, Any] = {}

    def collect(message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            outputs[content["name"]] = outputs.get(content["name"], "") + content["text"]
        elif kind == "execute_result":
            outputs["result"] = content["data"]["text/plain"]
        elif kind == "error":
            outputs["error"] = content["ename"]
        elif kind == "display_data":
            outputs["shown"] = outputs.get("shown", "") + content["data"].get("text/plain", "")

    client.execute_interactive(code, output_hook=collect, timeout=SECONDS)
    return outputs
