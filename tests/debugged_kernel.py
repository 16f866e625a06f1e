"""A kernel with its debugger switched on, as JupyterLab drives it: requests on the control channel, events from the other."""

from __future__ import annotations

import queue
import time
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from running_kernel import SECONDS


class DebuggedKernel:
    """A client of a kernel that sends requests of the Debug Adapter Protocol."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.events: list[dict[str, Any]] = []
        self.cell = ""
        """The id of the request of the cell that runs, or ran last."""
        self.text = ""
        """Its outputs as text."""
        self._seq = 0

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a request."""
        self._seq += 1
        content = {
            "type": "request", "seq": self._seq, "command": command, "arguments": arguments,
        }  # fmt: skip
        message = self.client.session.msg("debug_request", content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=SECONDS)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]

    def body(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The body of the answer to a request that succeeds."""
        reply = self.request(command, **arguments)
        assert reply["success"], reply
        return reply.get("body", {})

    def start(self) -> dict[str, Any]:
        """Switch the debugger on; gives its capabilities."""
        capabilities = self.body("initialize", adapterID="", clientID="test", clientName="test")
        self.body("attach")
        return capabilities

    def path(self, code: str) -> str:
        """The file of a cell."""
        return self.body("dumpCell", code=code)["sourcePath"]

    def break_at(self, code: str, *lines: int, **options: Any) -> str:
        """Set the breakpoints of a cell; gives its file."""
        path = self.path(code)
        breakpoints = [{"line": line, **options} for line in lines]
        self.body("setBreakpoints", source={"path": path}, breakpoints=breakpoints)
        return path

    def run(self, code: str) -> None:
        """Start a cell."""
        self.cell, self.text = self.client.execute(code), ""

    def until(self, event: str) -> dict[str, Any]:
        """The body of the next debug event of a name, or, for `idle`, when the cell has ended."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            content, kind = message["content"], message["msg_type"]
            if kind == "debug_event":
                self.events.append(content)
                if content["event"] == event:
                    return content["body"]
                assert content["event"] != "stopped", content
            if message["parent_header"].get("msg_id") != self.cell:
                continue
            if kind == "stream":
                self.text += content["text"]
            elif kind == "error":
                self.text += f"{content['ename']}: {content['evalue']}"
            elif kind == "execute_result":
                self.text += content["data"]["text/plain"]
            elif event == "idle" and kind == "status" and content["execution_state"] == "idle":
                return {}
        raise TimeoutError(event)

    def through(self, code: str) -> str:
        """The status of a cell, run to its end from stop to stop; a watched one compiles more than others."""
        self.run(code)
        while True:
            message = self.client.get_iopub_msg(timeout=5 * SECONDS)
            content, kind = message["content"], message["msg_type"]
            if kind == "debug_event" and content["event"] == "stopped":
                self.body("continue", threadId=content["body"]["threadId"])
            elif message["parent_header"].get("msg_id") != self.cell:
                continue
            elif kind == "error":
                self.text += f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                break
        while True:
            reply = self.client.get_shell_msg(timeout=SECONDS)
            if reply["parent_header"].get("msg_id") == self.cell:
                return reply["content"]["status"]

    def stopped(self) -> list[dict[str, Any]]:
        """The frames of the next stop."""
        return self.frames(self.until("stopped")["threadId"])

    def frames(self, thread: int) -> list[dict[str, Any]]:
        """The frames of a thread that has stopped."""
        return self.body("stackTrace", threadId=thread)["stackFrames"]

    def go(self, command: str) -> list[dict[str, Any]]:
        """The frames of the stop that a command leads to."""
        self.body(command, threadId=1)
        return self.stopped()

    def variables(self, frame: dict[str, Any], scope: int = 0) -> dict[str, dict[str, Any]]:
        """The variables of a scope of a frame, by name."""
        scopes = self.body("scopes", frameId=frame["id"])["scopes"]
        return self.parts(scopes[scope]["variablesReference"])

    def parts(self, number: int) -> dict[str, dict[str, Any]]:
        """The parts of a value, by name."""
        listed = self.body("variables", variablesReference=number)["variables"]
        return {each["name"]: each for each in listed}

    def finish(self) -> str:
        """The outputs of the cell, run to its end."""
        self.body("continue", threadId=1)
        self.until("idle")
        return self.text
