"""JupyterLab's debugger for jitted functions: answers for the program that has stopped, and leaves the rest to debugpy.

Requests come on the control channel, in a thread of their own; a stopped program waits in the thread of its cell, where
questions about it are answered. This module is loaded with the kernel, and loads the core only after a cell has.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipykernel.compiler import get_tmp_directory
from ipykernel.debugger import ROUTING_ID, Debugger
from IPython.core.getipython import get_ipython

from pellucid_kernel.debug import python_thread
from pellucid_kernel.debug.breakpoints import BUDGET, Breakpoints, DebuggerSettings, Options
from pellucid_kernel.debug.values import References, is_array, summary

if TYPE_CHECKING:
    from pellucid_kernel.debug.debug_session import DebugSession
    from pellucid_kernel.debug.frames import View
    from pellucid_kernel.debug.stops import Stop, Stops

PROGRAM_THREAD = 1 << 20
"""Number of the thread of programs, beside those that debugpy counts from 1."""
_PACKAGES = ("pellucid", "pellucid_kernel", "pellucid_viz", "pellucid_profiler")
_STEPPED = frozenset(("continue", "next", "stepIn", "stepOut", "stepBack", "reverseContinue"))

Message = dict[str, Any]


class PellucidDebugger(Debugger):
    """ipykernel's debugger, with programs; its state is read and written by several threads, one value at a time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._breakpoints = Breakpoints()
        self._stops: Stops | None = None
        self._view: View | None = None
        self._inspected = References(reads=False)
        self._modules: tuple[int, Message] = 0, {}
        self._own: dict[str, Callable[[Message], Any]] = {
            "pellucid/breakpoint": self._set_options,
            "pellucid/breakpoints": self._list_breakpoints,
            "pellucid/watch": self._watch,
            "pellucid/settings": self._set_settings,
        }
        self._of_stop: dict[str, Callable[[View, Mapping[str, Any]], Any]] = {
            "stackTrace": _stack,
            "scopes": lambda view, a: {"scopes": view.scopes(a["frameId"])},
            "evaluate": _evaluate,
            "richInspectVariables": _rich,
            "copyToGlobals": _copy,
            "setVariable": _set,
            "setExpression": _set,
            "pellucid/program": _program,
            "pellucid/figure": _figure,
            "pellucid/grid": _grid,
        }

    # The kernel ---------------------------------------------------------------------------------------------

    def core_loaded(self) -> None:
        """Begin to watch for breakpoints in programs; called when a cell has loaded the core."""
        if self._stops is None:
            module = importlib.import_module("pellucid_kernel.debug.stops")
            self._stops = module.Stops(self._breakpoints, self._stopped, self._say, self._log)
        self._update()

    def stop_at_failure(self, number: int) -> str:
        """Stop at the operation of an error that is shown, by its number; gives why it can't, or an empty text.

        A front end asks for it in the thread of cells. An error of this would replace the one that is to be opened.
        """
        if self._stops is None or not self.is_started:
            return "The debugger is off: switch it on, and stop at the error then."
        return self._stops.stop_at_failure(number)

    def release(self) -> None:
        """Let a stopped program run on to its end: the kernel shuts down, or the front end leaves."""
        if self._stops is not None:
            self._stops.end()
        self._go("continue", lambda session: session)

    def _update(self) -> None:
        if self._stops is not None and self.is_started:
            self._stops.update()

    def _stopped(self, stop: Stop, reason: str | None) -> None:
        """Publishes that a program has stopped, or, without a reason, that it runs again."""
        if reason is None:
            self._view = None
            self.stopped_threads.discard(PROGRAM_THREAD)
            body = {"threadId": PROGRAM_THREAD, "allThreadsContinued": False}
            self._publish("continued", body)
            return
        module = importlib.import_module("pellucid_kernel.debug.frames")
        self._view = module.View(stop)
        self.stopped_threads.add(PROGRAM_THREAD)
        text = stop.session.reason
        body = {
            "reason": reason, "threadId": PROGRAM_THREAD, "allThreadsStopped": False,
            "description": text or f"stopped in {stop.name}", "text": text,
        }  # fmt: skip
        if text:
            self._say(text)
        self._publish("stopped", body)

    def _say(self, text: str) -> None:
        """Show a line in the debug console."""
        self._publish("output", {"category": "console", "output": f"{text}\n"})

    def _log(self, text: str) -> None:
        """Show a message of a breakpoint, under the cell too: JupyterLab shows no output of a debugger."""
        sys.stdout.write(f"{text}\n")
        self._say(text)

    def _publish(self, event: str, body: Message) -> None:
        self.event_callback({"seq": 0, "type": "event", "event": event, "body": body})

    def _go(self, command: str, move: Callable[[DebugSession], Any]) -> None:
        view = self._view
        if view is not None:
            self._view = None
            view.stop.go(command, move)

    # Requests -----------------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Starts debugpy within this process.

        Its adapter as a process of its own takes half a second to begin, and 40 ms for each answer.
        """
        if not self.debugpy_initialized:
            Path(get_tmp_directory()).mkdir(mode=0o700, parents=True, exist_ok=True)
            host, port = self.debugpy_client.get_host_port()
            code = (
                f"import debugpy; debugpy.listen(({host!r}, {port}), in_process_debug_adapter=True)"
            )
            identity = self.shell_socket.getsockopt(ROUTING_ID)
            content = {"code": code, "silent": True}
            self.session.send(self.shell_socket, "execute_request", content, None, identity)
            _, reply = self.session.recv(self.shell_socket, mode=0)
            self.debugpy_initialized = reply["content"]["status"] == "ok"
        return super().start()

    async def process_request(self, message: Message) -> Any:
        """The answer to a request of a front end."""
        command, arguments = message["command"], message.get("arguments") or {}
        view = self._view
        try:
            if command in self._own:
                return _answer(message, self._own[command](arguments))
            if view is not None and command in _STEPPED:
                return _answer(message, self._step(command))
            if view is not None and command in (
                "pellucid/goto",
                "pellucid/position",
                "pellucid/lane",
            ):
                return _answer(message, await self._goto(view, command, arguments))
            if view is not None and self._concerns(view, command, arguments):
                task = self._of_stop[command]
                body = await asyncio.wrap_future(view.stop.ask(lambda: task(view, arguments)))
                return _answer(message, body)
            if command.startswith("pellucid/"):
                return _failure(message, "no program is stopped")
        except Exception as error:  # an expression of the user, or a request out of date
            return _failure(message, f"{type(error).__name__}: {error}")
        if command == "disconnect":
            self.release()
            self._breakpoints.clear()
        if command in ("stepIn", "continue", "next", "stepOut"):
            self._prepare_entry(command)
        reply = await super().process_request(message)
        if command in ("scopes", "variables") and "body" not in reply:
            # JupyterLab asks a kernel for frames of the one that was in front before, and reads the body.
            return _answer(message, {command: []})
        if command == "initialize" and reply.get("success", True):
            reply.setdefault("body", {}).update(_CAPABILITIES)
            self._update()
        if command == "threads" and view is not None and reply.get("success"):
            reply["body"]["threads"].append({"id": PROGRAM_THREAD, "name": view.stop.name})
        return reply

    def _concerns(self, view: View, command: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a request is about the program that has stopped, and not about a thread of debugpy."""
        if command == "stackTrace":
            return arguments.get("threadId", PROGRAM_THREAD) in (PROGRAM_THREAD, 1)
        if command in ("setVariable", "setExpression"):
            return view.can_set(arguments.get("variablesReference"), arguments.get("frameId"))
        return command in self._of_stop

    def _step(self, command: str) -> Message:
        moves = importlib.import_module("pellucid_kernel.debug.stops").MOVES
        self._go(command, moves[command])
        return {"allThreadsContinued": False} if command == "continue" else {}

    async def _goto(self, view: View, command: str, arguments: Mapping[str, Any]) -> Message:
        """Go to an equation of the innermost program, to a run of its loop, where there is one, or to a program of a kernel.

        Or show the values at one position of a `shard_map`, or in one lane of each batch, or at all: front ends read them
        as those of another stop.
        """
        session = view.stop.session

        def move() -> None:
            if command == "pellucid/position":
                session.position = arguments.get("position")
            elif command == "pellucid/lane":
                session.in_lane(*arguments["lane"])
            elif "program" in arguments:
                session.jump(tuple([int(i) for i in arguments["program"]]))
            elif "position" in arguments:
                session.move(int(arguments["position"]))
            else:
                session.jump(int(arguments["iteration"]))

        await asyncio.wrap_future(view.stop.ask(move))
        self._go("goto", lambda session: session)
        return {}

    def _prepare_entry(self, command: str) -> None:
        """A step into, in Python, stops in the program that the line calls too; another command forgets that."""
        if self._stops is not None and self.stopped_threads:
            is_step = command == "stepIn"
            self._stops.enter_next(threading.main_thread().ident if is_step else None)

    # Breakpoints --------------------------------------------------------------------------------------------

    async def setBreakpoints(self, message: Message) -> Any:
        """Set the breakpoints of a file: debugpy's, and those in programs."""
        arguments = message["arguments"]
        self._breakpoints.set(arguments["source"]["path"], arguments.get("breakpoints") or [])
        self._update()
        return await super().setBreakpoints(message)

    def _set_options(self, arguments: Mapping[str, Any]) -> Message:
        self._breakpoints.set_options(
            arguments["path"], int(arguments["line"]), Options.of(arguments)
        )
        self._update()
        return {}

    def _list_breakpoints(self, _: Mapping[str, Any]) -> Message:
        listed = [] if self._stops is None else self._stops.resolved()
        if self._stops is None:
            unknown = {
                "verified": False,
                "actualLine": None,
                "message": "no cell has used pellucid yet",
            }
            listed = [
                {"path": path, "line": line, **options.to_dict(), **unknown}
                for path, line, options in self._breakpoints.all()
            ]
        settings = self._breakpoints.settings.to_dict()
        return {
            "breakpoints": listed,
            "watch": self._breakpoints.watched or None,
            "settings": settings,
        }

    def _set_settings(self, arguments: Mapping[str, Any]) -> Message:
        budget = int(arguments.get("budget", BUDGET))
        if budget < 1:
            raise ValueError(f"the budget of values is a number of bytes above 0, got {budget}")
        self._breakpoints.settings = DebuggerSettings(budget, bool(arguments.get("stopsInTrace")))
        self._update()
        return {}

    def _watch(self, arguments: Mapping[str, Any]) -> Message:
        text = str(arguments.get("condition") or "").strip()
        if text:
            compile(text, "<watch>", "eval")
        self._breakpoints.watched = text
        self._update()
        return {}

    # Variables, where no program is stopped -----------------------------------------------------------------

    async def attach(self, message: Message) -> Any:
        """Attach debugpy, once, which is to step over files of pellucid."""
        if not self.debugpy_client.wait_for_attach:
            return _failure(
                message, "the debugger is attached already: `debugInfo` gives its state"
            )
        folders = [
            folder for name in _PACKAGES if (spec := util.find_spec(name)) is not None
            for folder in spec.submodule_search_locations or ()
        ]  # fmt: skip
        self.kernel_modules = [*self.kernel_modules, *[f"{folder}/**" for folder in folders]]
        python_thread.answer_at_once()
        reply = await super().attach(message)
        return _answer(message, {}) if reply.get("success") else reply

    async def variables(self, message: Message) -> Any:
        """Variables of a scope, or parts of a value."""
        number = message["arguments"]["variablesReference"]
        view = self._view
        if view is not None and number in view.references:
            listed = await asyncio.wrap_future(
                view.stop.ask(lambda: view.references.variables(number))
            )
            return _answer(message, {"variables": listed})
        if number in self._inspected:
            return _answer(message, {"variables": self._inspected.variables(number)})
        if view is not None:
            return _answer(message, {"variables": []})  # of a stop that is over
        return await super().variables(message)

    async def inspectVariables(self, message: Message) -> Any:
        """The user's variables. Asked for after each output of a cell: it reads no array, and waits for none."""
        shell: Any = get_ipython()
        self._inspected = References(reads=False)
        listed = [
            self._inspected.variable(name, value)
            for name, value in list(shell.user_ns.items())
            if self.accept_variable(name) and name not in shell.user_ns_hidden
        ]
        return _answer(message, {"variables": listed})

    async def modules(self, message: Message) -> Any:
        """The modules that are loaded; the list is made again when their number changes."""
        count, reply = self._modules
        if count != len(sys.modules) or message.keys() & {"startModule", "moduleCount"}:
            reply = await super().modules(message)
            self._modules = len(sys.modules), reply
        return reply


_CAPABILITIES = {
    "supportsStepBack": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsSetVariable": True,
    "supportsSetExpression": True,
}


def _stack(view: View, _: Mapping[str, Any]) -> Message:
    frames = view.stack()
    return {"stackFrames": frames, "totalFrames": len(frames)}


def _evaluate(view: View, arguments: Mapping[str, Any]) -> Message:
    """The value of an expression; of an error its text, as JupyterLab shows no message of a failure."""
    try:
        value = view.evaluate(arguments["expression"], arguments.get("frameId"))
    except Exception:  # whatever an expression of the user raises
        return {"result": _error_text(), "type": "error", "variablesReference": 0}
    if value is None:
        return {"result": "", "type": "NoneType", "variablesReference": 0}
    variable = view.references.variable(arguments["expression"], value)
    return {
        "result": repr(value),
        "type": summary(value),
        "variablesReference": variable["variablesReference"],
    }


def _error_text() -> str:
    """The traceback of the error at hand, from the user's expression on."""
    lines = traceback.format_exc().splitlines()
    first = next((i for i, line in enumerate(lines) if "<debug console>" in line), 1)
    return "\n".join([lines[0], *lines[first:]])


def _rich(view: View, arguments: Mapping[str, Any]) -> Message:
    """How a notebook shows a variable; nothing for a name that isn't known here."""
    shell: Any = get_ipython()
    try:
        value = view.evaluate(arguments["variableName"], arguments.get("frameId"))
    except Exception:  # a name of another stop
        return {"data": {}, "metadata": {}}
    if is_array(value):
        # The figure of its values even where a cell shows a small array as text, or one over devices by its parts.
        figure = importlib.import_module("pellucid_viz").array(value)
        return {"data": figure.bundle() | {"text/plain": repr(value)}, "metadata": {}}
    data, metadata = shell.display_formatter.format(value)
    return {"data": data, "metadata": metadata}


def _set(view: View, arguments: Mapping[str, Any]) -> Message:
    """Give a variable of a program another value from here on."""
    name = arguments["name"] if "name" in arguments else arguments["expression"]
    scope, frame = arguments.get("variablesReference"), arguments.get("frameId")
    variable = view.references.variable(name, view.set(name, arguments["value"], scope, frame))
    return {key: variable[key] for key in ("value", "type", "variablesReference")}


def _copy(view: View, arguments: Mapping[str, Any]) -> Message:
    """Make a variable of a frame one of the notebook."""
    shell: Any = get_ipython()
    value = view.evaluate(arguments["srcVariableName"], arguments.get("srcFrameId"))
    shell.user_ns[arguments["dstVariableName"]] = value
    return {"value": repr(value)}


def _figure(view: View, arguments: Mapping[str, Any]) -> Message:
    return view.figure(arguments["name"], arguments.get("frameId"), arguments.get("index") or ())


def _grid(view: View, arguments: Mapping[str, Any]) -> Message:
    return {"record": view.grid(arguments.get("frameId"))}


def _program(view: View, arguments: Mapping[str, Any]) -> Message:
    return view.program(
        arguments.get("frameId"), arguments.get("version"), arguments.get("program")
    )


def _answer(message: Message, body: Any) -> Message:
    return {
        "seq": message["seq"], "type": "response", "request_seq": message["seq"], "success": True,
        "command": message["command"], "body": body,
    }  # fmt: skip


def _failure(message: Message, text: str) -> Message:
    return _answer(message, {}) | {"success": False, "message": text}
