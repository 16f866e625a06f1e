"""A terminal prompt for debugging sessions, with the commands of pdb."""

from __future__ import annotations

import cmd
import contextlib
import functools
import os
import pdb  # noqa: T100 - opened where the user steps on
import pprint
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import IO, Any

from pellucid.introspect.errors import PellucidError
from pellucid.introspect.interception import prompt_streams
from pellucid.introspect.stepping import listing
from pellucid_kernel.debug.breakpoints import Breakpoints
from pellucid_kernel.debug.debug_session import DebugSession, StackFrame
from pellucid_kernel.debug.finders import range_text
from pellucid_kernel.debug.stopping_places import check_function
from pellucid_kernel.debug.stops import Stop, Stops

_ABBREVIATIONS = {
    "a": "args", "b": "break", "bt": "where", "c": "continue", "cl": "clear", "cont": "continue", "d": "down", "exit": "quit",
    "h": "help", "j": "jump", "l": "list", "n": "next", "q": "quit", "r": "return", "restart": "run", "s": "step", "u": "up",
    "unt": "until", "w": "where",
}  # fmt: skip
"""Those of pdb."""
LINES_AROUND = 5
"""Number of lines that `list` shows before and after that of a frame."""


class Prompt(cmd.Cmd):
    """Commands of a session, named and abbreviated as in pdb. Other input is evaluated as an expression."""

    prompt = "(pellucid) "

    def __init__(
        self, session: DebugSession, stdin: IO[str] | None = None, stdout: IO[str] | None = None
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.session = session
        self.intro = str(session)
        self._frame = -1
        """Index in the stack of the frame that is shown: the innermost, until `up` chooses another."""

    def do_next(self, _: str) -> None:
        """n: go to the next line."""
        self._show(self.session.next())

    def do_step(self, _: str) -> None:
        """s: go into what this line calls, a function or a program."""
        self._show(self.session.step())

    def do_return(self, _: str) -> None:
        """r: go on until this function, or this program with all its runs, has ended."""
        self._show(self.session.out())

    def do_up(self, argument: str) -> None:
        """u [N]: show the frame that called this one, or N further up; a step goes on from the innermost all the same."""
        self._go(-int(argument or 1))

    def do_down(self, argument: str) -> None:
        """d [N]: show the frame that this one called, or N further down."""
        self._go(int(argument or 1))

    def _go(self, steps: int) -> None:
        frames = self._frames()
        index = self._frame % len(frames) + steps
        if not 0 <= index < len(frames):
            which = "outermost" if steps < 0 else "innermost"
            self._print(f"the {which} frame is shown")
            return
        self._frame = index
        self.do_list("")

    def do_list(self, _: str) -> None:
        """l: the lines around the one of the frame."""
        frame = self._frames()[self._frame]
        self._print("\n".join([str(frame), *listing(frame.file, frame.line, LINES_AROUND)]))

    def _frames(self) -> list[StackFrame]:
        """The frames between which `up` and `down` go, outermost first."""
        return self.session.stack()

    def do_back(self, _: str) -> None:
        """back: go back to the line before."""
        self._show(self.session.back())

    def do_continue(self, _: str) -> None:
        """c: go on to the next breakpoint, or to the end."""
        self._show(self.session.run())

    def do_reverse(self, _: str) -> None:
        """reverse: go back to the last breakpoint, or to the start."""
        self._show(self.session.run_back())

    def do_jump(self, argument: str) -> None:
        """j N: go to the start of iteration N of the loop; j I,J: to the program at that position of a kernel's grid."""
        numbers = tuple([int(text) for text in argument.split(",") if text.strip()])
        is_position = "," in argument
        self._show(self.session.jump(numbers if is_position else int(argument)))

    def do_blocks(self, _: str) -> None:
        """blocks: in a kernel, where in the whole arrays the blocks of its references lie."""
        for name, place in self.session.blocks().items():
            self._print(f"{name} = {place}")

    def do_until(self, argument: str) -> None:
        """unt [[FILE:]LINE]: go on to a line, or without one to a later line of this function, as out of a loop."""
        if argument:
            file, line = _place(argument)
            self._show(self.session.run_to(line, file))
            return
        start = self.session.stack()[-1]
        while not self.session.next().is_done:
            here = self.session.stack()[-1]
            if (here.file, here.function) != (start.file, start.function) or here.line > start.line:
                break
        self._show(self.session)

    def do_break(self, argument: str) -> None:
        """b [[FILE:]LINE[, CONDITION]]: stop at a line, or list the breakpoints."""
        if argument:
            place, _, condition = argument.partition(",")
            file, line = _place(place)
            self.session.break_at(line, file, condition.strip())
        for each in self.session.breakpoints:
            self._print(f"{each.file}:{each.line}  {each.condition}".rstrip())

    def do_clear(self, argument: str) -> None:
        """cl [[FILE:]LINE]: remove the breakpoints of a line, or all."""
        file, line = _place(argument) if argument else (None, None)
        kept = [
            each for each in self.session.breakpoints
            if argument and (each.line != line or (file or each.file) not in (each.file, os.path.basename(each.file)))
        ]  # fmt: skip
        self._print(f"{len(self.session.breakpoints) - len(kept)} removed")
        self.session.breakpoints = kept

    def do_run(self, _: str) -> None:
        """run, restart: go back to the start."""
        self._show(self.session.restart())

    def do_where(self, _: str) -> None:
        """w, bt: the stack, with the lines around."""
        self._print(str(self.session))

    def do_args(self, _: str) -> None:
        """a: the variables of the frame, with their types and ranges."""
        for name, value in self._variables().items():
            text = range_text(value) if hasattr(value, "dtype") else repr(value)
            self._print(f"{name} = {text}")

    def do_p(self, argument: str) -> None:
        """p EXPRESSION: the value of an expression of the variables, `jnp`, `np` and `pl`."""
        self._print(repr(self._evaluate(argument)))

    def do_pp(self, argument: str) -> None:
        """pp EXPRESSION: the value, on several lines if it is long."""
        self._print(pprint.pformat(self._evaluate(argument)))

    def do_whatis(self, argument: str) -> None:
        """whatis EXPRESSION: the type of the value, and the range of an array."""
        value = self._evaluate(argument)
        self._print(range_text(value) if hasattr(value, "dtype") else str(type(value)))

    def _variables(self) -> dict[str, Any]:
        return self.session.variables(self._frame)

    def _evaluate(self, expression: str) -> Any:
        return self.session.evaluate(expression, self._frame)

    def do_set(self, argument: str) -> None:
        """set NAME = EXPRESSION: give a variable another value from here on; to go back before here takes it back."""
        name, _, expression = argument.partition("=")
        self._show(self.session.set(name.strip(), self.session.evaluate(expression.strip())))

    def do_shards(self, argument: str) -> None:
        """shards EXPRESSION: of an array the part on each device of this process: its index, type and range."""
        value = self.session.evaluate(argument)
        for shard in value.addressable_shards:
            index = ", ".join(
                f"{part.start or 0}:{size if part.stop is None else part.stop}"
                for part, size in zip(shard.index, value.shape, strict=True)
            )
            self._print(f"device {shard.device.id}  [{index}]  {range_text(shard.data)}")

    def do_position(self, argument: str) -> None:
        """position [AXIS=N, …]: show values at one position of a shard_map; without axes those at all."""
        pairs = [part.split("=") for part in argument.split(",") if part.strip()]
        self._show(self.session.at(**{axis.strip(): int(index) for axis, index in pairs}))

    def do_lane(self, argument: str) -> None:
        """lane [N, …]: show values in one lane of each batch, from the outermost on, `*` for all; without any in all lanes."""
        texts = [part.strip() for part in argument.split(",") if part.strip()]
        self._show(self.session.in_lane(*[None if text == "*" else int(text) for text in texts]))

    def do_cores(self, _: str) -> None:
        """cores: in a simulated kernel, where each device, core or thread is, and what it waits for."""
        self._print(self.session.cores_text())

    def do_core(self, argument: str) -> None:
        """core N: show and step another device, core or thread, by its row in `cores`."""
        text = argument.strip()
        if not text.isdecimal():
            self._print("core N: N is a row of this table.")
            self._print(self.session.cores_text())
            return
        self._show(self.session.on_core(int(text)))

    def do_quit(self, _: str) -> bool:
        """q: end."""
        return True

    do_EOF = do_quit  # noqa: N815 - the name that cmd looks for

    def default(self, line: str) -> None:
        """Evaluates an expression; `!` before it says that it isn't a command."""
        self.do_p(line.removeprefix("!"))

    def parseline(self, line: str) -> tuple[str | None, str | None, str]:
        """(command, its argument, the line), with the whole word of an abbreviation."""
        line = line.strip()
        word, *rest = line.split(maxsplit=1)[:2] or [""]
        if word in _ABBREVIATIONS and not (rest and rest[0].startswith(("=", "."))):
            line = " ".join([_ABBREVIATIONS[word], *rest])
        elif line.startswith("!"):
            return None, None, line
        return super().parseline(line)

    def onecmd(self, line: str) -> bool:
        """Runs a command. If it raises, the error is printed and the session stays where it is."""
        try:
            return bool(super().onecmd(line))
        except PellucidError as error:
            self._print(str(error))
        except Exception as error:  # raised by the user's expression or number
            self._print(f"{type(error).__name__}: {error}")
        return False

    def _show(self, session: DebugSession) -> None:
        self._frame = -1
        self._print(str(session))

    def _print(self, text: Any) -> None:
        print(text, file=self.stdout)


def prompt(
    function: Callable[..., Any], *, backend: str = "cli", **options: Any
) -> Callable[..., DebugSession]:
    """Returns a function that debugs a call at a prompt, and returns the session at the end.

    `backend` and its `options` are those of `debug.breakpoint`: "cli" uses the terminal, or `stdin=` and `stdout=`;
    "web" serves a page on `port=` of this machine, and prints its address.

    Raises: ArgumentValueError for an unknown `backend`.
    """
    streams = prompt_streams(backend)

    check_function(function, "prompt")

    def open_prompt(*args: Any, **kwargs: Any) -> DebugSession:
        session = DebugSession(function, args, kwargs)
        Prompt(session, *streams(**options)).cmdloop()
        return session

    return open_prompt


class StopPrompt(Prompt):
    """The prompt at a stop of what runs: it ends where the program that has stopped does."""

    def __init__(self, stop: Stop, stdin: IO[str] | None, stdout: IO[str] | None) -> None:
        self._callers = stop.callers[::-1]
        super().__init__(stop.session, stdin, stdout)
        self.command = "continue"
        """What is to be done behind the end of the program."""
        self.is_left = False
        self.intro = self._whole_stack()

    def do_where(self, _: str) -> None:
        """w, bt: the stack, with the lines around."""
        self._print(self._whole_stack())

    def _whole_stack(self) -> str:
        return "\n".join([*map(str, self._frames()[: len(self._callers)]), str(self.session)])

    def _frames(self) -> list[StackFrame]:
        callers = [
            StackFrame(f.f_code.co_qualname, f.f_code.co_filename, f.f_lineno, "", -1)
            for f in self._callers
        ]
        return [*callers, *super()._frames()]

    def _caller(self) -> FrameType | None:
        """The frame of Python that is shown; None for one of the program that has stopped."""
        index = self._frame % len(self._frames())
        return self._callers[index] if index < len(self._callers) else None

    def _variables(self) -> dict[str, Any]:
        caller = self._caller()
        if caller is None:
            index = self._frame % len(self._frames()) - len(self._callers)
            return self.session.variables(index)
        return {k: v for k, v in caller.f_locals.items() if not k.startswith("__")}

    def _evaluate(self, expression: str) -> Any:
        caller = self._caller()
        if caller is None:
            index = self._frame % len(self._frames()) - len(self._callers)
            return self.session.evaluate(expression, index)
        return eval(expression, caller.f_globals, caller.f_locals)  # noqa: S307 - the user asks for it

    def do_quit(self, _: str) -> bool:
        """q: run on, without further stops."""
        self.is_left = True
        return True

    def postcmd(self, stop: bool, line: str) -> bool:
        """Ends the prompt with the program, and notes how to go on."""
        command, _, _ = self.parseline(line)
        steps = {"next": "next", "step": "stepIn", "return": "stepOut"}
        self.command = steps.get(command or "", "continue")
        return stop or self.session.is_done

    do_EOF = do_quit  # noqa: N815 - the name that cmd looks for

    def _show(self, session: DebugSession) -> None:
        if not session.is_done:
            super()._show(session)


@contextlib.contextmanager
def watch(
    condition: str | Callable[[Any], Any] = "isnan", *, backend: str = "cli", **options: Any
) -> Iterator[None]:
    r"""A context manager in which whatever runs stops at the first value for which a condition holds, at a prompt.

    `condition` is `"isnan"`, `"isinf"`, an expression of an array `x` such as `"abs(x).max() > 1e4"`, or a function of an array
    that gives booleans, as for `find`. Jitted functions stop in their programs; operations of eager calls, of `grad`, `vmap` and
    the like, and of threads stop at the user's line, with the locals of its function; backward passes at the line of the
    forward pass. What is computed from a value that was shown stops no more. Results are those without a watch.

    The prompt has the commands of `prompt`; behind the end of what has stopped, steps go on in Python's own debugger, pdb. `backend` and
    `options` are those of `debug.breakpoint`. Each value is looked at, so programs run slower: watch what you search.

    Raises: ArgumentValueError for an unknown `backend`; SyntaxError for a text that is no expression.

    >>> import io
    >>> answers, shown = io.StringIO("p x\nc\n"), io.StringIO()
    >>> with watch("isinf", stdin=answers, stdout=shown):
    ...     x = 1 / pl.numpy.zeros(2)
    >>> text = shown.getvalue()
    >>> print(text[text.index("`divide`") :].splitlines()[0])
    `divide` gives a value with infinity: 2 of 2 elements, first at index (0,)
    """
    stdin, stdout = prompt_streams(backend)(**options)
    say = functools.partial(print, file=stdout)
    breakpoints = Breakpoints()

    def publish(stop: Stop, reason: str | None) -> None:
        if reason is None:
            return
        opened = StopPrompt(stop, stdin, stdout)
        opened.cmdloop()
        if opened.is_left:
            stops.end()
        stop.go(opened.command, lambda session: session)

    def land(frame: FrameType, *, into: bool = False) -> None:
        _open_pdb(frame, stdin, stdout, into=into)

    stops = Stops(breakpoints, publish, say, say, land)
    if isinstance(condition, str):
        compile(condition, "<watch>", "eval")
        breakpoints.watched = condition
    else:
        breakpoints.watched = stops.watches.name(condition)
    stops.update()
    try:
        yield
    finally:
        stops.end()


def _open_pdb(
    frame: FrameType, stdin: IO[str] | None, stdout: IO[str] | None, *, into: bool
) -> None:
    """Opens Python's debugger at the next line of a frame, or of what it calls before; not in this package."""
    debugger = pdb.Pdb(
        stdin=stdin, stdout=stdout, skip=["pellucid.*", "pellucid_kernel.*", "contextlib"]
    )
    debugger.reset()
    around: FrameType | None = frame
    while around is not None:
        around.f_trace = debugger.trace_dispatch
        debugger.botframe = around
        around = around.f_back
    if into:
        debugger.set_step()
    else:
        debugger.set_next(frame)
    sys.settrace(debugger.trace_dispatch)


def _place(text: str) -> tuple[str | None, int]:
    """Parses `FILE:LINE` or `LINE` into (file or None, line)."""
    match = re.fullmatch(r"\s*(?:(.*):)?(\d+)\s*", text)
    if match is None:
        raise ValueError(f"a place is LINE or FILE:LINE, got {text!r}")
    return match[1], int(match[2])
