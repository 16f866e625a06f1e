"""Stops in programs of the user, in the thread that runs the cell: it waits there for commands."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import FrameType
from typing import Any, Protocol

import pellucid as pl
from pellucid.events import by_tool
from pellucid.introspect.eager_operation import computes, locate
from pellucid.introspect.errors import ExecutionError, PellucidError
from pellucid.introspect.interception import (
    Launch,
    Operation,
    Runner,
    is_called_by_program,
    is_user_file,
    run_programs_by,
    users_programs,
)
from pellucid.introspect.noting import watching
from pellucid.introspect.stepping import breakpoints_of, open_program, past_breakpoints
from pellucid.introspect.traps import apart, is_looking, own_settings, without_traps
from pellucid_kernel.debug import python_thread
from pellucid_kernel.debug.breakpoints import Breakpoints
from pellucid_kernel.debug.debug_session import Breakpoint, DebugSession
from pellucid_kernel.debug.differences import in_ulps
from pellucid_kernel.debug.equation_stacks import EquationStacks, equation_stacks
from pellucid_kernel.debug.failures import session_at
from pellucid_kernel.debug.watches import Watches

Move = Callable[[DebugSession], Any]
STEPS = frozenset(("next", "stepIn", "stepOut"))
"""Commands after which Python stops at the line that follows the program's call."""
MAX_COMPARED_EQUATIONS = 300
"""Maximum size of a program that is run again, equation by equation, to find where its results start to differ."""
CHANGED = (
    "the file has changed since it was traced: import the module again to stop in its new text"
)
MOVES: dict[str, Move] = {
    "continue": DebugSession.run,
    "next": DebugSession.next,
    "stepIn": DebugSession.step,
    "stepOut": DebugSession.out,
    "stepBack": DebugSession.back,
    "reverseContinue": DebugSession.run_back,
}


class Land(Protocol):
    """A function that stops this thread at the next line of a frame, or, if it can, of what that calls before."""

    def __call__(self, frame: FrameType, *, into: bool = False) -> None: ...


class Stop:
    """A stopped session that a front end inspects; its commands come from other threads."""

    def __init__(self, session: DebugSession, name: str, callers: list[FrameType]) -> None:
        self.session = session
        self.name = name
        self.callers = callers
        """Frames of the user's Python code that called the program, innermost first."""
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._command: tuple[str, Move] | None = None
        self._is_open = True

    def ask(self, task: Callable[[], Any]) -> Future[Any]:
        """Runs `task` in the waiting thread, where the user's settings apply and an interrupt can end it; returns its
        future.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._is_open:
                self._tasks.put((task, future))
            else:
                future.set_exception(RuntimeError("the program has gone on"))
        return future

    def go(self, command: str, move: Move) -> None:
        """Resumes the waiting thread with a move; `command` is the move's name."""

        def leave() -> None:
            self._command = command, move

        self.ask(leave)

    def wait(self) -> tuple[str, Move]:
        """Answers questions until a command resumes the program, and returns that command. An interrupt ends it."""
        self.session.compile_ahead()
        try:
            while self._command is None:
                task, future = self._tasks.get()
                try:
                    future.set_result(task())
                except Exception as error:  # raised by the user's expression
                    future.set_exception(error)
                except BaseException:
                    if not future.done():  # an interrupt may come right after the answer
                        future.set_exception(RuntimeError("interrupted"))
                    raise
            return self._command
        finally:
            self._close()

    def _close(self) -> None:
        with self._lock:
            self._is_open = False
            while not self._tasks.empty():
                _, future = self._tasks.get()
                future.set_exception(RuntimeError("the program has gone on"))


class Stops:
    """Runs the user's programs that have a breakpoint or are to be entered, and stops in them, one at a time.

    `publish(stop, reason)` is called when a stop begins, and when it ends (reason None); `say` shows lines to the user. `land` stops
    in Python, where a step leads there.
    """

    def __init__(
        self,
        breakpoints: Breakpoints,
        publish: Callable[[Stop, str | None], None],
        say: Callable[[str], None],
        log: Callable[[str], None],
        land: Land = python_thread.stop_after,
    ) -> None:
        self._land = land
        self._breakpoints = breakpoints
        self._publish, self._say, self._log = publish, say, log
        self._lock = threading.Lock()  # held by the thread that has a session
        self._thread: int | None = None  # the thread that has a session
        self._version = 0
        self._hits: dict[Breakpoint, int] = {}
        self._moved: set[tuple[str, int]] = set()
        self._said: set[str] = set()
        """Why programs run without the watch."""
        self._watched = ""
        """The condition for which `watches` has the values that were shown."""
        self.watches = Watches()
        self._entering: set[int] = set()
        """Identifiers of threads that stop in the next program they run."""
        self._is_ended = False
        self._runner: Runner | None = None

    # Requests -----------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Applies the current breakpoints, watch condition and programs to enter."""
        self._version += 1
        self._is_ended = False
        self._said.clear()
        if self._breakpoints.watched != self._watched:
            self._watched = self._breakpoints.watched
            self.watches.forget()
        stops_in_trace = self._breakpoints.settings.stops_in_trace
        tracing = contextlib.nullcontext if stops_in_trace else _watch_lines
        look = self.look if self._breakpoints.watched else None
        self._install(Runner(self.run, tracing, look))

    def begin_cell(self) -> None:
        """Makes values that stops have shown before stop again."""
        self.watches.forget()

    def enter_next(self, thread: int | None) -> None:
        """Stops at the first line of the next program that a thread runs; None cancels that."""
        if thread is not None:
            self._entering.add(thread)
            self.update()
        elif self._entering:
            self._entering.clear()
            self.update()

    def end(self) -> None:
        """Lets everything run to its end without stops."""
        self._is_ended = True
        self._entering.clear()
        self._install(None)

    def _install(self, runner: Runner | None) -> None:
        previous, self._runner = self._runner, runner
        run_programs_by(runner, previous)

    def resolve(self) -> list[dict[str, Any]]:
        """The breakpoints as the debug protocol's responses have them: the line where each stops, or why it doesn't."""
        programs = [*map(equation_stacks, users_programs())]
        return [
            {"path": file, "line": line, **options.to_dict(), **_verdict(programs, file, line)}
            for file, line, options in self._breakpoints.all()
        ]

    # Programs ---------------------------------------------------------------------------------------------

    def run(self, launch: Launch) -> Any:
        """Runs a program with possible stops and returns its results; None for a program without a place to stop."""
        thread = threading.get_ident()
        # The session itself, an expression or a tool runs it; the next call of it may be the user's own.
        if self._thread == thread or is_looking():
            launch.needs_python = True
            return None
        program = open_program(launch.program)[0]
        is_entered = thread in self._entering and not launch.is_operation
        # Others, of the library, are operations of the line that runs them.
        is_watched = bool(self._breakpoints.watched) and equation_stacks(program).is_of_user
        if not (is_entered or is_watched or self._stops_in(program) or breakpoints_of(program)):
            return None
        with self._session() as is_mine:
            if not is_mine:
                return None
            results, lands = self._debug(launch, is_entered, is_watched)
        if lands is not None:
            self._land(lands)
        return results

    @contextlib.contextmanager
    def _session(self) -> Iterator[bool]:
        """A context in which this thread may stop, once no other has stopped; False where it may not.

        That is after the end, and in Python that a running program calls: the thread that has stopped may have to wait for it.
        """
        if not self._lock.acquire(blocking=False):
            if is_called_by_program():
                self._say_once(
                    "Python that programs call runs on without stops while another program has stopped"
                )
                yield False
                return
            self._lock.acquire()
        self._thread = threading.get_ident()
        try:
            if self._is_ended:
                yield False
            else:
                with python_thread.left_alone(), without_traps():
                    yield True
        finally:
            self._thread = None
            self._lock.release()

    def look(self, operation: Operation) -> None:
        """Stops at an operation that has run eagerly if it gives the first value for which one stops.

        It changes nothing and raises nothing; an interrupt ends a stop. Operands and results stay as they are.
        """
        if self._thread == threading.get_ident() or is_looking() or self._is_ended:
            return
        try:
            command, callers = self._look(operation, self._breakpoints.watched)
        except Exception as error:  # of an expression of the user, or of a value that can't be read
            text = self._breakpoints.watched
            self._say_once(
                f"`{operation.name}` runs without the watch for `{text}`: {type(error).__name__}: {error}"
            )
            return
        if command == "stepIn":
            self._entering.add(threading.get_ident())
        if callers:
            self._land(callers[0], into=command == "stepIn")

    @by_tool
    def _look(self, operation: Operation, text: str) -> tuple[str, list[FrameType]]:
        """(last command of a stop, empty for none; the frames of Python in which to stop next, innermost first)."""
        results, watches = operation.results, self.watches
        comes_from_shown = watches.came_from_shown([*operation.operands, *results])
        if comes_from_shown:
            # A reference may hold the value from now on.
            watches.show([x for x in operation.operands if isinstance(x, pl.Ref)])
        if not text or not any(isinstance(x, pl.Array) for x in results):
            return "", []
        with apart(), own_settings():
            condition, words = watches.of(text, lambda: _names_of(_callers()))
            meeting = watches.meeting(condition, results)
        if not meeting:
            return "", []
        if not comes_from_shown and not computes(operation):
            return "", []
        watches.show(meeting)
        if comes_from_shown:
            return "", []
        located, callers = locate(operation), _callers()
        # The innermost line is the session's, unless that is one of a backward pass.
        others = callers if located.frame is None else callers[1:]
        with apart(), self._session() as is_mine:
            if not is_mine:
                return "", []
            with own_settings():
                watches.show(watches.meeting(condition, operation.operands))
                names = _names_of(callers)
                session = DebugSession.at_operation(located, names, condition, words)
            session.log = self._log
            command = self._looked_at(session, located.name, others, "data breakpoint", text)
        if command not in STEPS or self._is_ended:
            return "", []
        return command, others if command == "stepOut" else callers

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _stops_in(self, program: Any) -> list[Breakpoint]:
        """The breakpoints that have equations in a program; cached."""
        version, stops = program.memo.get("breakpoints", (None, []))
        if version != (id(self), self._version):
            places = equation_stacks(program)
            stops = [
                Breakpoint(file, actual, *options)
                for file, line, options in self._breakpoints.all()
                if (actual := places.resolve(file, line)) is not None
            ]
            program.memo["breakpoints"] = (id(self), self._version), stops
        return stops

    def _debug(
        self, launch: Launch, is_entered: bool, is_watched: bool
    ) -> tuple[Any, FrameType | None]:
        """The results, None for a program in which nothing stops, and the frame of Python that is to be stopped in after the call."""
        callers = _callers()
        launch.allow_calls()
        names = callers[0].f_globals if callers else {}
        budget = self._breakpoints.settings.budget
        session = DebugSession.of_program(launch.program, launch.placed_operands(), names, budget)
        has_effects = bool(launch.program.effects)
        command = ""
        try:
            # What gets a value that was shown isn't searched: its results are looked at, which come from that one.
            comes_from_shown = self.watches.came_from_shown(launch.operands)
            launch.is_searched = is_watched and not comes_from_shown
            watched = self._breakpoints.watched if comes_from_shown else ""
            watched = self._watch(session, launch.name, watched)
            if not (is_entered or session.may_stop() or self._stops_in(session.program)):
                return None, None
            command = self._step_through(session, launch.name, callers, is_entered, watched)
        except PellucidError as error:
            if has_effects:  # effects may have happened already
                raise
            self._say(f"{launch.name}: it runs on without stops, as the debugger failed: {error}")
        lands = callers[0] if callers and command in STEPS and not self._is_ended else None
        if session.edits:
            self._say(f"{launch.name} gives results of edited values: {'; '.join(session.edits)}")
        if has_effects or session.edits:
            results = launch.place_results(session.finish())
            self._show(session, results)
            return results, lands
        compiled = past_breakpoints(launch.run) if breakpoints_of(session.program) else launch.run()
        self._show(session, compiled)
        if command and session.is_done and not self._is_ended:
            self._compare(launch.name, session, compiled)
        return compiled, lands

    def _show(self, session: DebugSession, results: Any) -> None:
        """Notes the results that come from the value at which a program has stopped."""
        if session.watched is not None:
            with own_settings():
                self.watches.show(self.watches.meeting(session.watched, results))

    def _step_through(
        self,
        session: DebugSession,
        name: str,
        callers: list[FrameType],
        is_entered: bool,
        watched: str,
    ) -> str:
        """Go through a program, from command to command, and give the last one; empty if it never stopped."""
        session.hits, session.log = self._hits, self._log
        reason = "breakpoint"
        session.breakpoints = self._stops_in(session.program)
        if is_entered:
            self._entering.discard(threading.get_ident())
            reason = "step"
            session.to_first_line()
        else:
            session.run(first=True)
        return self._looked_at(session, name, callers, reason, watched)

    def _looked_at(
        self, session: DebugSession, name: str, callers: list[FrameType], reason: str, watched: str
    ) -> str:
        """Stop at a place of a program, and go on by commands to its end; gives the last command, empty if there was none."""
        command = ""
        while not session.is_done and not self._is_ended:
            stop = Stop(session, name, callers)
            is_value = bool(session.reason) and reason != "exception"
            self._publish(stop, "data breakpoint" if is_value else reason)
            try:
                command, move = stop.wait()
            finally:
                self._publish(stop, None)
            if command == "continue":
                python_thread.end_step()
            reason = "breakpoint" if command in ("continue", "reverseContinue") else "step"
            # Breakpoints may have been changed at the stop.
            session.breakpoints = self._stops_in(session.program)
            if not self._is_ended:
                watched = self._watch(session, name, watched)
                move(session)
        return command

    def stop_at_failure(self, number: int) -> str:
        """Stops, in this thread, at the place of a displayed error or figure, given by its number.

        Returns an empty string, or the reason why it can't, see `session_at`.
        """
        with self._lock:
            self._is_ended = False
            self._thread = threading.get_ident()
            try:
                with python_thread.left_alone(), without_traps():
                    name, session = session_at(number)
                    session.log = self._log
                    session.breakpoints = self._stops_in(session.program)
                    self._looked_at(session, name, [], "exception", "")
            except ExecutionError as error:  # the operation fails again when it is stepped over
                self._say(f"it fails again: {str(error).splitlines()[0]}")
            except PellucidError as error:
                return str(error)
            finally:
                self._thread = None
        return ""

    def _watch(self, session: DebugSession, name: str, previous: str) -> str:
        """Sets the session's watchpoint if the watch condition has changed, and returns the condition."""
        text = self._breakpoints.watched
        if text == previous:
            return text
        session.forget_watch()
        try:
            if text:
                session.watch(*self.watches.of(text, session.names))
        except Exception as error:  # whatever an expression of the user raises
            self._say_once(
                f"{name} runs without the watch for `{text}`: {type(error).__name__}: {error}"
            )
        return text

    def _compare(self, name: str, session: DebugSession, compiled: Any) -> None:
        different = [each for each in session.differences(compiled) if each.ulps]
        if different:
            worst = max(different, key=lambda each: each.ulps)
            first = session.first_difference(MAX_COMPARED_EQUATIONS)
            self._say(
                f"{name}: stepped, {len(different)} of {len(compiled)} results differ from those of the compiled program, "
                f"which it gives: result {worst.result} by {in_ulps(worst.ulps)}"
                + (f"; {first}" if first else "")
            )


@contextlib.contextmanager
def _watch_lines() -> Iterator[None]:
    """Records the lines of functions traced in this context, in which debugpy doesn't stop."""
    with python_thread.left_alone(), watching():
        yield


def _verdict(programs: list[EquationStacks], file: str, line: int) -> dict[str, Any]:
    """The line where a breakpoint stops in the programs, or why it doesn't stop."""
    traced = [places for places in programs if file in places.files()]
    lines = {p: n for p in traced if (n := p.resolve(file, line)) is not None}
    is_changed = all(places.is_changed(file) for places in lines or traced)
    if lines:
        moved = min(lines.values())
        message = (
            "" if moved == line else f"nothing is computed in line {line}; it stops in line {moved}"
        )
        if is_changed:
            message = "; ".join([message] * bool(message) + [CHANGED])
        return {"verified": True, "actualLine": moved, "message": message}
    if not traced:
        message = "no program of this text was traced: run its cell, or set it again if the text has changed"
    elif is_changed:
        message = f"nothing was computed from line {line} on in its function; {CHANGED}"
    else:
        message = f"nothing is computed from line {line} on in its function"
    return {"verified": False, "actualLine": None, "message": message}


def _names_of(callers: list[FrameType]) -> dict[str, Any]:
    """The names that an expression of the user's innermost line may use."""
    return {} if not callers else {**callers[0].f_globals, **callers[0].f_locals}


def _callers() -> list[FrameType]:
    """The user's frames of this thread, innermost first."""
    frame, frames = sys._getframe(1), []
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    return frames
