"""JupyterLab's debugger for jitted functions: answers requests about a stopped program, and passes all others to
debugpy.

Requests arrive on the control channel, in their own thread. A stopped program waits in the thread of its cell, where
requests about it are answered. This module is loaded with the kernel, but loads the core only after a cell has.
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
"""Thread number under which programs are shown; debugpy's threads are numbered from 1. The cores of a simulated kernel follow it."""
_PACKAGES = ("pellucid", "pellucid_kernel", "pellucid_viz", "pellucid_profiler")
_STEPPED = frozenset(("continue", "next", "stepIn", "stepOut", "stepBack", "reverseContinue"))

Message = dict[str, Any]


class PellucidDebugger(Debugger):
    """ipykernel's debugger, extended to jitted programs. Several threads read and write its state, one attribute at a
    time.
    """

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
        """Enables breakpoints in programs. Called when a cell has loaded the core."""
        if self._stops is None:
            module = importlib.import_module("pellucid_kernel.debug.stops")
            stops = module.Stops(self._breakpoints, self._publish_stop, self._say, self._log)
            self._stops = stops
            importlib.import_module("pellucid.introspect.interception").keep_calls()
            shell: Any = get_ipython()
            shell.events.register("pre_run_cell", lambda _: stops.begin_cell())
        self._update()

    def stop_at_failure(self, number: int) -> str:
        """Stops at the place of a displayed error or figure, given by its number. Returns an empty string, or why it
        can't.

        Front ends call it in the thread of cells. It must not raise: another error would replace the one to be opened.
        """
        if self._stops is None or not self.is_started:
            return "The debugger is off: switch it on, and stop at the error then."
        return self._stops.stop_at_failure(number)

    def release(self) -> None:
        """Resumes a stopped program and lets it run to its end, because the kernel shuts down or the front end
        disconnects.
        """
        if self._stops is not None:
            self._stops.end()
        self._go("continue", lambda session: session)

    def _update(self) -> None:
        if self._stops is not None and self.is_started:
            self._stops.update()

    def _publish_stop(self, stop: Stop, reason: str | None) -> None:
        """Publishes that a program has stopped or, if `reason` is None, that it runs again."""
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
            "reason": reason, "threadId": PROGRAM_THREAD, "allThreadsStopped": stop.session.is_simulated,
            "description": text or f"stopped in {stop.name}", "text": text,
        }  # fmt: skip
        if text:
            self._say(text)
        self._publish("stopped", body)

    def _say(self, text: str) -> None:
        """Shows a line in the debug console."""
        self._publish("output", {"category": "console", "output": f"{text}\n"})

    def _log(self, text: str) -> None:
        """Prints a breakpoint's message below the cell and in the debug console, because JupyterLab shows no debugger
        output.
        """
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

        Its adapter in a separate process would take half a second to start, and 40 ms for each request.
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
        """The response to a request of a front end."""
        command, arguments = message["command"], message.get("arguments") or {}
        view = self._view
        try:
            if command in self._own:
                return _answer(message, self._own[command](arguments))
            if view is not None and command in _STEPPED:
                return _answer(message, self._step(view, command, arguments))
            if view is not None and command in (
                "pellucid/goto",
                "pellucid/position",
                "pellucid/lane",
                "pellucid/core",
            ):
                return _answer(message, await self._goto(view, command, arguments))
            if view is not None and self._concerns(view, command, arguments):
                task = self._of_stop[command]
                body = await asyncio.wrap_future(view.stop.ask(lambda: task(view, arguments)))
                return _answer(message, body)
            if command.startswith("pellucid/"):
                return _failure(message, "no program is stopped")
        # Raised by an expression of the user, or for a request that is out of date.
        except Exception as error:
            return _failure(message, f"{type(error).__name__}: {error}")
        if command == "disconnect":
            self.release()
            self._breakpoints.clear()
        if command in ("stepIn", "continue", "next", "stepOut"):
            self._prepare_entry(command)
        reply = await super().process_request(message)
        if command in ("scopes", "variables") and "body" not in reply:
            # JupyterLab may request frames of the previously active kernel, and reads the body of the response.
            return _answer(message, {command: []})
        if command == "initialize" and reply.get("success", True):
            reply.setdefault("body", {}).update(_CAPABILITIES)
            self._update()
        if command == "threads" and view is not None and reply.get("success"):
            reply["body"]["threads"] += view.threads(PROGRAM_THREAD)
        return reply

    def _concerns(self, view: View, command: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a request is about the stopped program, and not about a thread of debugpy."""
        if command == "stackTrace":
            thread = arguments.get("threadId", PROGRAM_THREAD)
            return thread == 1 or thread >= PROGRAM_THREAD
        if command in ("setVariable", "setExpression"):
            return view.can_set(arguments.get("variablesReference"), arguments.get("frameId"))
        return command in self._of_stop

    def _step(self, view: View, command: str, arguments: Mapping[str, Any]) -> Message:
        moves = importlib.import_module("pellucid_kernel.debug.stops").MOVES
        move, core = moves[command], _core_of(arguments)
        if core is not None and view.stop.session.is_simulated:
            self._go(command, lambda session: move(session.on_core(core)))
        else:
            self._go(command, move)
        return {"allThreadsContinued": False} if command == "continue" else {}

    async def _goto(self, view: View, command: str, arguments: Mapping[str, Any]) -> Message:
        """Go to an equation of the innermost program, to a run of its loop, where there is one, or to a program of a kernel.

        Also those that select the values to show: at one position of a `shard_map`, in one lane of each batch, or all, and on which device,
        core or thread of a simulated kernel.
        Front ends treat the result as another stop.
        """
        session = view.stop.session

        def move() -> None:
            if command == "pellucid/position":
                session.position = arguments.get("position")
            elif command == "pellucid/lane":
                session.in_lane(*arguments["lane"])
            elif command == "pellucid/core":
                session.on_core(int(arguments["core"]))
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
        """Makes a step-into in Python also stop in the program that the line calls. Other commands cancel that."""
        if self._stops is not None and self.stopped_threads:
            is_step = command == "stepIn"
            self._stops.enter_next(threading.main_thread().ident if is_step else None)

    # Breakpoints --------------------------------------------------------------------------------------------

    async def setBreakpoints(self, message: Message) -> Any:
        """Sets the breakpoints of a file, in debugpy and in programs."""
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
        listed = [] if self._stops is None else self._stops.resolve()
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
        """Attaches debugpy once, configured to step over pellucid's files."""
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
        """Lists the variables of a scope, or the elements of a value."""
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
            return _answer(message, {"variables": []})  # the scope belongs to an earlier stop
        return await super().variables(message)

    async def inspectVariables(self, message: Message) -> Any:
        """Lists the user's variables. JupyterLab requests it after every cell output, so it neither reads arrays nor
        waits for them.
        """
        shell: Any = get_ipython()
        self._inspected = References(reads=False)
        listed = [
            self._inspected.variable(name, value)
            for name, value in list(shell.user_ns.items())
            if self.accept_variable(name) and name not in shell.user_ns_hidden
        ]
        return _answer(message, {"variables": listed})

    async def modules(self, message: Message) -> Any:
        """Lists the loaded modules. The list is cached until their number changes."""
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


def _core_of(arguments: Mapping[str, Any]) -> int | None:
    """The row of the simulated core that a request is about; None for the one that is shown."""
    number = arguments.get("threadId", PROGRAM_THREAD) - PROGRAM_THREAD
    return number - 1 if number > 0 else None


def _stack(view: View, arguments: Mapping[str, Any]) -> Message:
    frames = view.stack(_core_of(arguments))
    return {"stackFrames": frames, "totalFrames": len(frames)}


def _evaluate(view: View, arguments: Mapping[str, Any]) -> Message:
    """The value of an expression. An error is returned as text, because JupyterLab shows no message for a failed
    request.
    """
    try:
        value = view.evaluate(arguments["expression"], arguments.get("frameId"))
    except Exception:  # raised by the user's expression
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
    """Traceback of the current exception, starting at the user's expression."""
    lines = traceback.format_exc().splitlines()
    first = next((i for i, line in enumerate(lines) if "<debug console>" in line), 1)
    return "\n".join([lines[0], *lines[first:]])


def _rich(view: View, arguments: Mapping[str, Any]) -> Message:
    """MIME bundle of a variable; empty for an unknown name."""
    shell: Any = get_ipython()
    try:
        value = view.evaluate(arguments["variableName"], arguments.get("frameId"))
    except Exception:  # the name belongs to an earlier stop
        return {"data": {}, "metadata": {}}
    if is_array(value):
        # Always the figure of values, even if a cell would show the array as text or by its shards.
        figure = importlib.import_module("pellucid_viz").array(value)
        return {"data": figure.bundle() | {"text/plain": repr(value)}, "metadata": {}}
    data, metadata = shell.display_formatter.format(value)
    return {"data": data, "metadata": metadata}


def _set(view: View, arguments: Mapping[str, Any]) -> Message:
    """Assigns another value to a variable of a program, from here on."""
    name = arguments["name"] if "name" in arguments else arguments["expression"]
    scope, frame = arguments.get("variablesReference"), arguments.get("frameId")
    variable = view.references.variable(name, view.set(name, arguments["value"], scope, frame))
    return {key: variable[key] for key in ("value", "type", "variablesReference")}


def _copy(view: View, arguments: Mapping[str, Any]) -> Message:
    """Copies a variable of a frame into the notebook's namespace."""
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
